/* Calls a Go function that panics, in the library that the argument names. The error names the frames. If there is a
 * hook, it is called. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

typedef DLManagedTensorVersioned *function(DLManagedTensorVersioned *, dlb_error *);

static function *fail;

static void *find(void *library, const char *name) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  return found;
}

/* Checks that a text is the expected text, in which each # stands for a number. */
static void expect(const char *text, const char *expected) {
  for (; *expected != '\0'; expected++) {
    if (*expected == '#') {
      CHECK(*text >= '1' && *text <= '9');
      while (*text >= '0' && *text <= '9') text++;
    } else {
      CHECK(*text++ == *expected);
    }
  }
  CHECK(*text == '\0');
}

static void *fails(void *unused) {
  int64_t shape[] = {2};
  DLManagedTensorVersioned *x;
  dlb_error error;
  CHECK_OK(dlb_tensor_alloc(&x, FLOAT32, 1, shape, &error));
  CHECK(fail(x, &error) == NULL);
  CHECK_INT(DLB_ERROR_INTERNAL, error.code);
  expect(error.message, "fail: panic: as asked for\n  in main.inner (served/main.go:#)\n  in main.outer (served/main.go:#)"
                        "\n  in main.fail.func1 (served/main.go:#)");
  return unused;
}

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  void (*tell)(uint8_t) = NULL;
  int64_t (*tellings)(void) = NULL;
  *(void **)&fail = find(library, "fail");
  *(void **)&tell = find(library, "tell");
  *(void **)&tellings = find(library, "tellings");
  fails(NULL);
  CHECK_INT(0, tellings());
  tell(1);
  fails(NULL);
  CHECK_INT(1, tellings());
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, fails, NULL));
  for (int i = 0; i < 8; i++) CHECK_INT(0, pthread_join(threads[i], NULL));
  CHECK_INT(9, tellings());
  tell(0);
  fails(NULL);
  CHECK_INT(9, tellings());
  check_nothing_is_left("panics");
  return 0;
}
