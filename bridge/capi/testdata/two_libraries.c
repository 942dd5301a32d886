/* A process that loads libdlbridge_tensor.so and libdlbridge.so has one copy of the C code, whichever is loaded first, and whether their
 * symbols are local or global. The arguments are the two libraries in the order in which to load them, and how. Compiled
 * with LINKED, the program is linked to libdlbridge_tensor.so, and loads libdlbridge.so as a plugin does. */
#include "check.h"

#include <dlfcn.h>

static void *loaded[2];

static void *find_in(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(symbol != NULL);
  return symbol;
}

/* The functions of one library, found by its handle. */
typedef struct {
  int32_t (*lend)(DLManagedTensorVersioned **, const DLTensor *, uint64_t, void (*)(void *), void *, dlb_error *);
  int32_t (*validate)(const DLManagedTensorVersioned *, dlb_error *);
  void (*release)(DLManagedTensorVersioned *);
  void (*read)(dlb_counters *, size_t);
} library;

static library functions_of(void *handle) {
  library found;
  *(void **)&found.lend = find_in(handle, "dlb_tensor_lend");
  *(void **)&found.validate = find_in(handle, "dlb_tensor_validate");
  *(void **)&found.release = find_in(handle, "dlb_tensor_release");
  *(void **)&found.read = find_in(handle, "dlb_counters_read");
  return found;
}

static library peers[2];

/* Both libraries read the same counters. */
static dlb_counters read_both(void) {
  dlb_counters now[2];
  for (int i = 0; i < 2; i++) peers[i].read(&now[i], sizeof now[i]);
  CHECK(memcmp(&now[0], &now[1], sizeof now[0]) == 0);
  return now[0];
}

static float elements[6] = {1, 2, 3, 4, 5, 6};
static int released;

static void release(void *ctx) { ++*(int *)ctx; }

static DLManagedTensorVersioned *lend(const library *from) {
  int64_t shape[] = {2, 3};
  DLTensor view = {.data = elements, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  DLManagedTensorVersioned *made;
  CHECK_INT(DLB_OK, from->lend(&made, &view, 0, release, &released, NULL));
  return made;
}

int main(int argc, char **argv) {
  CHECK_INT(4, argc);
  int mode = strcmp(argv[3], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  void *go = NULL;
  for (int i = 0; i < 2; i++) {
    loaded[i] = dlopen(argv[1 + i], RTLD_NOW | mode);
    if (loaded[i] == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(loaded[i] != NULL);
    peers[i] = functions_of(loaded[i]);
    if (strstr(argv[1 + i], "libdlbridge.so") != NULL) go = loaded[i];
  }
#ifdef LINKED
  CHECK(peers[0].lend == dlb_tensor_lend);
#endif
  int32_t (*encode)(dlb_message **, const dlb_message_fields *, const dlb_message_tensor *, size_t, dlb_error *);
  int32_t (*tensor_at)(DLManagedTensorVersioned **, const dlb_message *, size_t, dlb_error *);
  void (*free_message)(dlb_message *);
  *(void **)&encode = find_in(go, "dlb_message_encode");
  *(void **)&tensor_at = find_in(go, "dlb_message_tensor_at");
  *(void **)&free_message = find_in(go, "dlb_message_free");

  for (int i = 0; i < 2; i++) {
    const library *mine = &peers[i], *others = &peers[1 - i];
    released = 0;
    uint64_t before = read_both().double_deletes;

    /* A tensor of one library that Go takes over, and that Go gives back on the same memory. */
    DLManagedTensorVersioned *made = lend(mine), *back;
    CHECK_INT(1, read_both().exports);
    CHECK_INT(DLB_OK, others->validate(made, NULL));
    dlb_message_tensor in = {.tensor = made};
    dlb_message *message;
    dlb_error error;
    CHECK_INT(DLB_OK, encode(&message, NULL, &in, 1, &error));
    CHECK_INT(DLB_ERROR_ARGUMENT, mine->validate(made, &error));
    CHECK(strstr(error.message, "taken over") != NULL);
    CHECK_INT(DLB_OK, tensor_at(&back, message, 0, &error));
    CHECK(back->dl_tensor.data == elements);
    CHECK_INT(1, read_both().messages);
    free_message(message);
    CHECK_INT(0, released);

    /* It is released by the other library, and again by the first, which both notice. */
    others->release(back);
    CHECK_INT(1, released);
    CHECK_INT(DLB_ERROR_ARGUMENT, mine->validate(back, &error));
    CHECK(strstr(error.message, "was released") != NULL);
    CHECK_INT(before, read_both().double_deletes);
    mine->release(back);
    dlb_counters now = read_both();
    CHECK_INT(before + 1, now.double_deletes);
    CHECK_INT(0, now.exports);
    CHECK_INT(0, now.imports);
    CHECK_INT(0, now.messages);
  }
  return 0;
}
