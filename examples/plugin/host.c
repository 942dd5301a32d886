/* host PLUGIN: opens a plugin in Go and calls its functions on tensors. */
#include <dlbridge.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* A function of the plugin: it takes the tensor over, also on error, and returns one that the caller owns, or NULL. */
typedef DLManagedTensorVersioned *function(DLManagedTensorVersioned *, dlb_error *);

static dlb_error error;

static void fail(const char *why) {
  fprintf(stderr, "host: %s\n", why);
  exit(1);
}

static void try(int32_t code) {
  if (code != DLB_OK) fail(error.message);
}

static function *find(void *plugin, const char *name) {
  function *found;
  *(void **)&found = dlsym(plugin, name);
  if (found == NULL) fail(dlerror());
  return found;
}

static void print(const char *name, const DLManagedTensorVersioned *tensor) {
  char text[1024];
  size_t size;
  try(dlb_tensor_format(&size, text, sizeof text, tensor, &error));
  printf("%s: %s\n", name, text);
}

/* Gives the memory of the program back. Its tensors may be released on any thread, so this may run on any. */
static void give_back(void *numbers) { printf("the numbers %g … are the program's again\n", *(float *)numbers); }

int main(int argc, char **argv) {
  if (argc != 2) fail("usage: host PLUGIN");
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL); /* starts the Go runtime */
  if (plugin == NULL) fail(dlerror());
  function *cumulate = find(plugin, "cumulate"), *twice = find(plugin, "twice");

  /* The plugin works on the memory of the program, and returns the tensor that it got. */
  float numbers[] = {1, 2, 3, 4};
  int64_t shape[] = {4};
  const DLTensor view = {.data = numbers, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  DLManagedTensorVersioned *lent, *doubled, *sums, *own, *last;
  try(dlb_tensor_lend(&lent, &view, 0, give_back, numbers, &error));
  doubled = twice(lent, &error); /* lent is the plugin's now, whatever happens */
  if (doubled == NULL) fail(error.message);
  print("doubled", doubled);

  /* A tensor of the plugin, in memory of Go, is foreign. It can be read, copied and passed on, but views need a tensor of this
   * program's library. */
  sums = cumulate(doubled, &error);
  if (sums == NULL) fail(error.message);
  print("sums", sums);
  const dlb_index part[] = {DLB_FROM(-2)};
  if (dlb_tensor_slice(&last, sums, 1, part, &error) != DLB_OK) puts(error.message);
  try(dlb_tensor_import(&own, sums, &error)); /* takes sums over */
  try(dlb_tensor_slice(&last, own, 1, part, &error));
  dlb_tensor_release(own);

  /* An error has a code for the program, and a text for its user. The tensor is released. */
  DLManagedTensorVersioned *integers, *none;
  try(dlb_tensor_alloc(&integers, (DLDataType){kDLInt, 64, 1}, 1, shape, &error));
  if (cumulate(integers, &error) == NULL) printf("%s: %s\n", dlb_error_name(error.code), error.message);
  try(dlb_tensor_alloc(&none, view.dtype, 1, (int64_t[]){0}, &error));
  if (cumulate(none, &error) == NULL) printf("%s: %s\n", dlb_error_name(error.code), error.message);

  /* The plugin stays loaded, because Go cannot be unloaded: its tensors stay valid. */
  dlclose(plugin);
  print("last two", last);
  dlb_tensor_release(last);
  return 0;
}
