/* Calls a Go function of the library that the argument names, in this process and in a forked child, which refuses the call and
 * takes the arguments over all the same. */
#include "check.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static int released;

static void count(void *ctx) {
  (void)ctx;
  released++;
}

static DLManagedTensorVersioned *lend(void) {
  static float memory[2];
  int64_t shape[] = {2};
  DLTensor view = {memory, {kDLCPU, 0}, 1, FLOAT32, shape, NULL, 0};
  DLManagedTensorVersioned *tensor;
  CHECK_OK(dlb_tensor_lend(&tensor, &view, 0, count, NULL, &error));
  return tensor;
}

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  DLManagedTensorVersioned *(*second)(DLManagedTensorVersioned *, DLManagedTensorVersioned *, dlb_error *) = NULL;
  *(void **)&second = dlsym(library, "second");
  CHECK(second != NULL);
  dlb_error error;
  DLManagedTensorVersioned *result = second(lend(), lend(), &error), *inherited = second(lend(), lend(), &error);
  CHECK(result != NULL && inherited != NULL);
  CHECK_INT(DLB_OK, error.code);
  CHECK_INT(2, released);
  dlb_tensor_release(result);
  CHECK_INT(3, released);
  pid_t child = fork();
  if (child == 0) {
    alarm(60); /* a call that waits is no refusal */
    released = 0;
    CHECK(second(lend(), lend(), &error) == NULL);
    CHECK_INT(DLB_ERROR_FORKED, error.code);
    CHECK(strcmp(error.message, "dlbridge: the function: needs Go, which does not run in a forked child: use spawn, forkserver or exec") == 0);
    CHECK_INT(2, released);
    CHECK(second(inherited, NULL, NULL) == NULL);
    CHECK_INT(3, released);
    check_nothing_is_left("a forked child");
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  dlb_tensor_release(inherited);
  check_nothing_is_left("the parent");
  return 0;
}
