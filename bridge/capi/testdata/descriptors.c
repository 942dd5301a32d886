/* The library works in a process that cannot open files. The argument is the number of file descriptors that are left. */
#include "formats.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static struct rlimit limit;

static void leave_descriptors(int count) {
  int next = open("/dev/null", O_RDONLY);
  CHECK(next >= 0);
  CHECK_INT(0, close(next));
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &limit));
  struct rlimit few = {(rlim_t)(next + count), limit.rlim_max};
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &few));
}

int main(int argc, char **argv) {
  static float data[] = {0, 1, 2, 3, 4, 5};
  static int64_t shape[] = {2, 3}, turned[] = {3, 1}, broadcast[] = {0, 1};
  CHECK_INT(2, argc);
  check_nothing_is_left("the start of Go"); /* Go opens files when it starts */
  leave_descriptors(atoi(argv[1]));
  for (int i = 0; i < 100; i++) {
    int deletes = 0;
    DLManagedTensorVersioned made[] = {made_by_producer(data, shape, &deletes), made_by_producer(data, shape, &deletes)};
    made[0].dl_tensor.strides = turned;
    made[1].dl_tensor.strides = broadcast; /* so that it is copied */
    dlb_message_tensor in[] = {{&made[0], {NULL, 0}}, {&made[1], {NULL, 0}}};
    dlb_message *m;
    dlb_frame packed;
    DLManagedTensorVersioned *out;
    CHECK_OK(dlb_message_encode(&m, NULL, in, 2, &error));
    CHECK_OK(dlb_message_encode_packed(&packed, m, &error));
    dlb_message_free(m);
    CHECK_INT(2, deletes);
    CHECK_OK(dlb_message_decode_packed(&m, &packed, 0, &error));
    CHECK_OK(dlb_message_tensor_at(&out, m, 1, &error));
    dlb_message_free(m);
    char room[128];
    size_t size;
    dlb_value value = {out, NULL, 0, 0};
    EACH_FORMAT(f) CHECK_OK(f->encode(&size, room, sizeof room, &value, 0, &error));
    dlb_tensor_release(out);
    check_nothing_is_left("a message");
  }
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &limit)); /* sanitizers open files when the process ends */
  return 0;
}
