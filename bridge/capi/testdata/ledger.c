/* The ledger. "ledger leave" leaves an object of each kind behind for the report at exit. "ledger request" checks the report
 * that a program asks for: what it counts, on threads, in a forked child and after it was switched off. */
#include "formats.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

void make_tensor(DLManagedTensorVersioned **out);
void make_legacy(DLManagedTensor **out);
void make_message(dlb_message **out);
void make_frame(dlb_frame *out, const dlb_message *message);
void make_elements(dlb_elements **out);

/* The functions return after their last call, so that each is in the backtrace. */
static int returned;

void make_tensor(DLManagedTensorVersioned **out) {
  const int64_t shape[] = {2, 3};
  CHECK_OK(dlb_tensor_alloc(out, FLOAT32, 2, shape, &error));
  __atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
}

void make_legacy(DLManagedTensor **out) {
  DLManagedTensorVersioned *t;
  make_tensor(&t);
  CHECK_OK(dlb_tensor_to_legacy(out, t, &error));
  __atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
}

void make_message(dlb_message **out) {
  static const char prefix[] = "ZIO3TENS{\"TENS\":{\"metadata\":{},\"tensors\":[{\"shape\":[2],\"word\":4,\"dtype\":\"f\"}]}}";
  static const char header[24] = "\1", payload[8];
  const dlb_frame frames[] = {{prefix, sizeof prefix - 1, NULL, NULL, 0}, {header, 24, NULL, NULL, 0}, {payload, 8, NULL, NULL, 0}};
  CHECK_OK(dlb_message_decode(out, frames, 3, 0, &error));
  __atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
}

void make_frame(dlb_frame *out, const dlb_message *message) {
  CHECK_OK(dlb_message_frame(out, message, 2, &error));
  __atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
}

void make_elements(dlb_elements **out) {
  const dlb_frame frame = {all_formats->strings.data, all_formats->strings.size, NULL, NULL, 0};
  dlb_value value;
  CHECK_OK(all_formats->decode(&value, &frame, 0, &error));
  *out = value.elements;
  __atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
}

/* ---- leave ----------------------------------------------------------------------------------- */

static DLManagedTensorVersioned *until_exit, *until_destructor;

static void release_at_exit(void) { dlb_tensor_release(until_exit); }

__attribute__((destructor)) static void release_in_destructor(void) { dlb_tensor_release(until_destructor); }

static void leave(void) {
  DLManagedTensorVersioned *t, *released;
  DLManagedTensor *legacy;
  dlb_message *message;
  dlb_frame frame;
  dlb_elements *elements;
  make_tensor(&released);
  make_tensor(&t);
  make_legacy(&legacy);
  make_message(&message);
  make_frame(&frame, message);
  make_elements(&elements);
  dlb_tensor_release(released);
  make_tensor(&until_exit);
  make_tensor(&until_destructor);
  CHECK_INT(0, atexit(release_at_exit));
}

/* ---- request --------------------------------------------------------------------------------- */

static size_t written(int fd) {
  size_t count;
  CHECK_OK(dlb_ledger_write(&count, fd, &error));
  return count;
}

static int nowhere;

static void *make_and_release(void *count) {
  DLManagedTensorVersioned *kept;
  for (int i = 0; i < *(int *)count; i++) {
    DLManagedTensorVersioned *t;
    make_tensor(&t);
    dlb_tensor_release(t);
    if (i % 64 == 0) CHECK(written(nowhere) <= 8);
  }
  make_tensor(&kept);
  return kept;
}

static void on_threads(void) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  void *kept[THREADS];
  int count = 2000;
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, make_and_release, &count));
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_join(threads[i], &kept[i]));
  CHECK_INT(THREADS, written(nowhere));
  for (int i = 0; i < THREADS; i++) dlb_tensor_release(kept[i]);
  CHECK_INT(0, written(nowhere));
}

static void in_a_child(void) {
  DLManagedTensorVersioned *t, *u;
  make_tensor(&t);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    CHECK_INT(1, written(nowhere));
    make_tensor(&u);
    CHECK_INT(2, written(nowhere));
    dlb_tensor_release(t);
    dlb_tensor_release(u);
    CHECK_INT(0, written(nowhere));
    _exit(0);
  }
  int status = -1;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_INT(1, written(nowhere));
  dlb_tensor_release(t);
}

/* Objects of each kind come and go, more of them than the first table has records. */
static void each_kind(void) {
  enum { TIMES = 300 };
  DLManagedTensorVersioned *t[TIMES], *part;
  DLManagedTensor *legacy;
  dlb_message *message;
  dlb_frame frame;
  dlb_elements *elements;
  for (int i = 0; i < TIMES; i++) make_tensor(&t[i]);
  CHECK_INT(TIMES, written(nowhere));
  for (int i = 0; i < TIMES; i++) dlb_tensor_release(t[i]);
  CHECK_INT(0, written(nowhere));
  make_legacy(&legacy);
  CHECK_INT(2, written(nowhere)); /* and the tensor that it has taken over */
  legacy->deleter(legacy);
  CHECK_INT(0, written(nowhere));
  make_message(&message);
  CHECK_INT(1, written(nowhere));
  make_frame(&frame, message);
  CHECK_OK(dlb_message_tensor_at(&part, message, 0, &error));
  CHECK_INT(3, written(nowhere));
  frame.release(frame.ctx);
  dlb_message_free(message);
  CHECK_INT(1, written(nowhere));
  dlb_tensor_release(part);
  make_elements(&elements);
  CHECK_INT(1, written(nowhere));
  dlb_elements_free(elements);
  CHECK_INT(0, written(nowhere));
}

static void request(void) {
  DLManagedTensorVersioned *before, *after;
  size_t count = 7;
  nowhere = open("/dev/null", O_WRONLY);
  CHECK(nowhere >= 0);
  make_tensor(&before);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_ledger_write(&count, nowhere, &error));
  CHECK_INT(0, count);
  CHECK_INT(0, dlb_ledger_set(1));
  CHECK_INT(1, dlb_ledger_set(1));
  CHECK_INT(0, written(nowhere)); /* made before it was on */
  make_tensor(&after);
  CHECK_INT(1, written(STDERR_FILENO));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_ledger_write(&count, -1, &error));
  CHECK_INT(0, count);
  CHECK_CODE(DLB_ERROR_NULL, dlb_ledger_write(NULL, nowhere, &error));
  dlb_counters counters;
  dlb_counters_read(&counters, sizeof counters);
  CHECK_INT(2, counters.exports);
  CHECK_INT(1, dlb_ledger_set(0));
  CHECK_INT(0, dlb_ledger_set(1));
  CHECK_INT(0, written(nowhere)); /* its records were dropped */
  dlb_tensor_release(before);
  dlb_tensor_release(after);
  each_kind();
  on_threads();
  in_a_child();
  CHECK_INT(1, dlb_ledger_set(0));
  check_nothing_is_left("the ledger");
}

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
  if (strcmp(argv[1], "leave") == 0) leave();
  else request();
  return 0;
}
