/* Calls a Go function of the library that the argument names, in this process and in a forked child. In the child, the
 * function refuses the call, but takes the arguments over. */
#include "check.h"

#include <dlfcn.h>
#include <signal.h>
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

typedef DLManagedTensorVersioned *function(DLManagedTensorVersioned *, DLManagedTensorVersioned *, dlb_error *);

static void call_in_child(function *second, DLManagedTensorVersioned *inherited) {
  dlb_error error;
  released = 0;
  CHECK(second(lend(), lend(), &error) == NULL);
  CHECK_INT(DLB_ERROR_FORKED, error.code);
  CHECK(strcmp(error.message, "second: needs Go, which does not run in a forked child: call exec after fork") == 0);
  CHECK_INT(2, released);
  CHECK(second(inherited, NULL, NULL) == NULL);
  CHECK_INT(3, released);
  check_nothing_is_left("a forked child");
  _exit(0);
}

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  function *second = NULL;
  *(void **)&second = dlsym(library, "second");
  CHECK(second != NULL);
  dlb_error error;
  DLManagedTensorVersioned *result = second(lend(), lend(), &error), *inherited = second(lend(), lend(), &error);
  CHECK(result != NULL && inherited != NULL);
  CHECK_INT(DLB_OK, error.code);
  CHECK_INT(2, released);
  dlb_tensor_release(result);
  CHECK_INT(3, released);
  CHECK(second(NULL, NULL, &error) == NULL);
  CHECK_INT(DLB_ERROR_NULL, error.code);
  CHECK(strcmp(error.message, "second: tensor argument 1: tensor is NULL") == 0);
  /* A child waits forever if a thread of Go held a lock of its runtime, or Go's processors were in use, when it was forked. Such a
   * child is ended, and another one forked. */
  int status = 0, waits = 1;
  for (int tries = 0; tries < 6 && waits; tries++) {
    pid_t child = fork();
    if (child == 0) {
      signal(SIGALRM, SIG_DFL);
      alarm(10);
      call_in_child(second, inherited);
    }
    CHECK(waitpid(child, &status, 0) == child);
    waits = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  dlb_tensor_release(inherited);
  check_nothing_is_left("the parent");
  return 0;
}
