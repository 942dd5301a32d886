/* Tensors in memory that processes share. Without arguments: all of it within this program and its children. Arguments:
 *
 *   handle            makes two offers, and fetches one
 *   leave             makes an offer of 50 milliseconds, and ends its only thread
 *   refuse            may not send, and then may not map any more memory
 *   offer             writes the fields of a handle of the numbers 0 to 3, and ends with its standard input
 *   fetch FIELD...    doubles two rows of two float32 in the segment of a handle
 *   DESCRIPTOR        receives tensors of float32 there, doubles them in place, and sends them back, until the connection is closed */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];

/* The number of open descriptors, except the one with which the library asks the kernel for mappings. */
static int descriptors(void) {
  DIR *dir = opendir("/proc/self/fd");
  int count = 0;
  CHECK(dir != NULL);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL; count++) {
    char target[64] = "";
    const ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
    if (n > 5 && strcmp(target + n - 5, "/maps") == 0) count--;
  }
  closedir(dir);
  return count;
}

/* Waits until no more descriptors are open than `files`: the thread that answers those who fetch ends a little after the last offer. */
static void await_descriptors(int files) {
  for (int i = 0; i < 10000 && descriptors() > files; i++) usleep(1000);
  CHECK(descriptors() <= files);
}

/* The number of mappings of segments. */
static int mappings(void) {
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "re");
  int count = 0;
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) count += strstr(line, "memfd:dlbridge") != NULL;
  fclose(maps);
  return count;
}

/* A tensor of the numbers 0, 1, 2 and so on. */
static DLManagedTensorVersioned *numbers(int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  DLManagedTensorVersioned *x;
  CHECK_OK(dlb_shm_alloc(&x, FLOAT32, 2, shape, &error));
  for (int64_t i = 0; i < rows * columns; i++) ((float *)x->dl_tensor.data)[i] = (float)i;
  return x;
}

static float at(const DLManagedTensorVersioned *x, int64_t row, int64_t column) {
  const DLTensor *t = &x->dl_tensor;
  return ((const float *)((const char *)t->data + t->byte_offset))[row * (t->strides ? t->strides[0] : t->shape[1]) + column * (t->strides ? t->strides[1] : 1)];
}

static DLManagedTensorVersioned *receive(void) {
  DLManagedTensorVersioned *x = NULL;
  size_t count;
  CHECK_OK(dlb_shm_recv(&count, &x, 1, ends[1], 0, 60000, &error));
  CHECK_INT(1, count);
  return x;
}

static void a_received_tensor_is_the_same_memory(void) {
  DLManagedTensorVersioned *x = numbers(3, 4), *turned, *got[4], *none;
  const int64_t shape[] = {0, 3};
  int32_t shared;
  size_t count;
  CHECK_OK(dlb_tensor_transpose(&turned, x, 0, NULL, &error));
  CHECK_OK(dlb_tensor_alloc(&none, UINT8, 2, shape, &error));
  DLManagedTensorVersioned *sent[] = {x, turned, none};
  CHECK_OK(dlb_shm_send(ends[0], sent, 3, 60000, 0, &error));
  CHECK_OK(dlb_shm_recv(&count, got, 4, ends[1], 0, 60000, &error));
  CHECK_INT(3, count);
  CHECK(got[3] == NULL && got[2]->dl_tensor.shape[1] == 3);
  CHECK_INT(2, mappings()); /* one for both */
  CHECK(got[0]->dl_tensor.data != x->dl_tensor.data && got[0]->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  ((float *)x->dl_tensor.data)[1] = 99;
  CHECK(at(got[0], 0, 1) == 99 && at(got[1], 1, 0) == 99 && at(got[1], 3, 2) == 11);
  for (int i = 0; i < 2; i++) {
    CHECK_OK(dlb_shm_is_shared(&shared, got[i], &error));
    CHECK_INT(1, shared);
  }
  CHECK_OK(dlb_shm_send(ends[0], got, 1, 60000, 0, &error)); /* what was received can be sent on */
  for (int i = 0; i < 3; i++) dlb_tensor_release(got[i]);
  got[0] = receive();
  CHECK(at(got[0], 0, 1) == 99);
  CHECK_CODE(DLB_ERROR_READONLY, dlb_shm_send(ends[0], got, 1, 60000, DLB_SHM_WRITABLE, &error));
  for (int i = 0; i < 3; i++) dlb_tensor_release(sent[i]);
  dlb_tensor_release(got[0]);
}

/* The first hand-over of a segment decides, and a refused message decides nothing for its other tensors. */
static void the_first_hand_over_decides(uint64_t flags) {
  DLManagedTensorVersioned *x = numbers(2, 2), *sent[2] = {numbers(2, 2), x};
  dlb_shm_handle h;
  CHECK_OK(dlb_shm_send(ends[0], &x, 1, 60000, flags, &error));
  CHECK_CODE(DLB_ERROR_READONLY, dlb_shm_send(ends[0], sent, 2, 60000, flags ^ DLB_SHM_WRITABLE, &error));
  CHECK_CODE(DLB_ERROR_READONLY, dlb_shm_offer(&h, x, 60000, flags ^ DLB_SHM_WRITABLE, &error));
  CHECK_OK(dlb_shm_send(ends[0], sent, 2, 60000, flags, &error));
  DLManagedTensorVersioned *y = receive(), *got[2];
  size_t count;
  CHECK_OK(dlb_shm_recv(&count, got, 2, ends[1], 0, 60000, &error));
  for (int i = 0; i < 2; i++) {
    CHECK_INT(flags == 0, (got[i]->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
    if (flags != 0) CHECK_CODE(DLB_ERROR_READONLY, dlb_shm_send(ends[0], got, 1, 60000, 0, &error)); /* the receiver cannot change it */
    dlb_tensor_release(sent[i]);
  }
  for (int i = 0; i < 2; i++) dlb_tensor_release(got[i]);
  dlb_tensor_release(y);
}

static void two_processes_write_to_one_memory(int64_t rows) {
  DLManagedTensorVersioned *x = numbers(rows, 256);
  pid_t child = fork();
  if (child == 0) {
    DLManagedTensorVersioned *y = receive();
    CHECK(at(y, rows - 1, 255) == (float)(rows * 256 - 1));
    ((float *)y->dl_tensor.data)[0] = 7;
    dlb_tensor_release(y);
    y = numbers(2, 2); /* made in the forked child */
    CHECK_OK(dlb_shm_send(ends[1], &y, 1, 60000, 0, &error));
    _exit(0);
  }
  CHECK_OK(dlb_shm_send(ends[0], &x, 1, 60000, DLB_SHM_WRITABLE, &error));
  int status, end = ends[1];
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK_INT(0, status);
  CHECK(at(x, 0, 0) == 7);
  dlb_tensor_release(x);
  ends[1] = ends[0];
  x = receive();
  ends[1] = end;
  CHECK(at(x, 1, 1) == 3);
  dlb_tensor_release(x);
}

/* Returns the signal that ends a child which writes to a tensor. */
static int signal_of_writer(DLManagedTensorVersioned *x) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); /* of a sanitizer */
    *(volatile float *)x->dl_tensor.data = 1;
    _exit(0);
  }
  CHECK_INT(child, waitpid(child, &status, 0));
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void writing_to_read_only_memory_ends_the_writer_alone(void) {
  DLManagedTensorVersioned *x = numbers(2, 2), *second, *received;
  CHECK_INT(0, signal_of_writer(x));
  ((float *)x->dl_tensor.data)[0] = 0;
  CHECK_OK(dlb_shm_readonly(&second, x, &error));
  CHECK_OK(dlb_shm_send(ends[0], &x, 1, 60000, 0, &error));
  received = receive();
  dlb_tensor_release(x); /* the others keep the memory */
  CHECK_INT(SIGSEGV, signal_of_writer(second));
  CHECK_INT(SIGSEGV, signal_of_writer(received));
  CHECK(at(second, 0, 0) == 0 && at(received, 1, 1) == 3);
  dlb_tensor_release(second);
  dlb_tensor_release(received);
}

static void what_is_not_in_a_segment_is_refused(void) {
  const int64_t shape[] = {2};
  DLManagedTensorVersioned *x, *y;
  CHECK_OK(dlb_tensor_alloc(&x, UINT8, 1, shape, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_send(ends[0], &x, 1, 60000, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_readonly(&y, x, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_send(ends[0], &x, 1, 60000, 2, &error));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_send(-1, NULL, 0, 60000, 0, &error));
  CHECK_OK(dlb_shm_copy(&y, x, &error));
  CHECK_OK(dlb_shm_send(ends[0], &y, 1, 60000, 0, &error));
  size_t count;
  CHECK_CODE(DLB_ERROR_ROOM, dlb_shm_recv(&count, NULL, 0, ends[1], 0, 60000, &error));
  CHECK_INT(1, count);
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_recv(&count, NULL, 0, 1 << 20, 0, 60000, &error));
  struct rlimit before, few;
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &before));
  few = before;
  few.rlim_cur = 3;
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &few));
  dlb_shm_handle h;
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_send(ends[0], &y, 1, 60000, 0, &error));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_offer(&h, y, 1000, 0, &error));
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &before));
  dlb_tensor_release(x);
  dlb_tensor_release(y);
}

static void a_segment_that_the_machine_cannot_have_is_refused(void) {
  const int64_t huge = INT64_C(64) << 40, large = 4097;
  DLManagedTensorVersioned *x, *y;
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_shm_alloc(&x, UINT8, 1, &huge, &error));
  CHECK_OK(dlb_tensor_alloc(&y, UINT8, 1, &large, &error));
  struct rlimit before, small;
  CHECK_INT(0, getrlimit(RLIMIT_FSIZE, &before));
  small = before;
  small.rlim_cur = 4096;
  CHECK_INT(0, setrlimit(RLIMIT_FSIZE, &small));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_alloc(&x, UINT8, 1, &large, &error));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_copy(&x, y, &error));
  CHECK_INT(0, setrlimit(RLIMIT_FSIZE, &before));
  dlb_tensor_release(y);
}

/* Sends bytes and at most one descriptor, and closes the connection. Returns the code of the receiver. */
static int32_t code_for(const char *bytes, size_t size, int file, uint64_t copied) {
  int pair[2];
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct iovec part = {(void *)bytes, size};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (file >= 0) {
    message.msg_control = control.room;
    message.msg_controllen = sizeof control.room;
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
  }
  if (size > 0) CHECK_INT(size, sendmsg(pair[0], &message, 0));
  close(pair[0]);
  DLManagedTensorVersioned *got[8];
  size_t count;
  dlb_error error;
  int files = descriptors(), mapped = mappings();
  int32_t code = dlb_shm_recv(&count, got, 8, pair[1], copied, 60000, &error);
  for (size_t i = 0; code == DLB_OK && i < count; i++) dlb_tensor_release(got[i]);
  await_descriptors(files);
  CHECK_INT(mapped, mappings());
  close(pair[1]);
  return code;
}

static void hostile_messages_are_refused(void) {
  DLManagedTensorVersioned *x = numbers(1, 4);
  char sent[512];
  CHECK_OK(dlb_shm_send(ends[0], &x, 1, 60000, 0, &error));
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {sent, sizeof sent};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  CHECK_INT(sizeof sent, recvmsg(ends[1], &message, 0));
  int file;
  memcpy(&file, CMSG_DATA(&control.header), sizeof file);
  CHECK_INT(DLB_OK, code_for(sent, sizeof sent, file, 0));
  for (size_t size = 0; size < sizeof sent; size++) CHECK_INT(DLB_ERROR_CLOSED, code_for(sent, size, file, 0));
  CHECK(code_for(sent, sizeof sent, -1, 0) != DLB_OK);
  int pipes[2], others[4];
  CHECK_INT(0, pipe(pipes));
  char name[] = "/tmp/dlbridge-shm-XXXXXX";
  others[0] = pipes[0];
  others[1] = open("/", O_RDONLY);
  others[2] = open("/dev/zero", O_RDWR);
  others[3] = mkstemp(name);
  for (int i = 0; i < 4; i++) CHECK(code_for(sent, sizeof sent, others[i], 0) != DLB_OK);
  CHECK(code_for(sent, sizeof sent, others[3], 1 << 20) != DLB_OK); /* it is empty */
  CHECK_INT(0, ftruncate(others[3], 16));
  CHECK(code_for(sent, sizeof sent, others[3], 0) != DLB_OK); /* it may become smaller */
  CHECK_INT(DLB_OK, code_for(sent, sizeof sent, others[3], 1 << 20));
  unlink(name);
  for (uint32_t i = 0; i < 20000; i++) { /* an error, or a tensor that lies in the segment */
    char changed[512];
    memcpy(changed, sent, sizeof sent);
    changed[(i * 2654435761u >> 7) % 64] ^= (char)(1u << (i * 40503u >> 5) % 8);
    if (i % 3 == 0) changed[i % 64] = (char)(i >> 6);
    code_for(changed, sizeof changed, file, 0);
  }
  close(file);
  close(pipes[1]);
  for (int i = 0; i < 4; i++) close(others[i]);
  dlb_tensor_release(x);
}

/* Sends bytes through a connection that stays open. Returns the code of the receiver. */
static int32_t code_for_beginning(const char *bytes, size_t size) {
  int pair[2];
  DLManagedTensorVersioned *got;
  size_t count;
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  CHECK_INT(size, write(pair[0], bytes, size));
  dlb_error error;
  int32_t code = dlb_shm_recv(&count, &got, 1, pair[1], 0, 60000, &error);
  close(pair[0]);
  close(pair[1]);
  return code;
}

static void the_first_wrong_byte_is_an_error(void) {
  CHECK_INT(DLB_ERROR_FORMAT, code_for_beginning("x", 1));
  CHECK_INT(DLB_ERROR_FORMAT, code_for_beginning("dlb-shM", 7));
  CHECK_INT(DLB_ERROR_FORMAT, code_for_beginning("dlb-shm\2", 8));
  CHECK_INT(DLB_ERROR_FORMAT, code_for_beginning("dlb-shm\1\377\377\377\377\0\0\0\0\0\0\0\0", 20));
}

static void only_streams_are_accepted(void) {
  static const int types[] = {SOCK_SEQPACKET, SOCK_DGRAM};
  DLManagedTensorVersioned *x = numbers(1, 1), *got;
  size_t count;
  for (int i = 0; i < 2; i++) {
    int pair[2];
    CHECK_INT(0, socketpair(AF_UNIX, types[i], 0, pair));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_send(pair[0], &x, 1, 60000, 0, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_recv(&count, &got, 1, pair[1], 0, 60000, &error));
    close(pair[0]);
    close(pair[1]);
  }
  int internet = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_send(internet, &x, 1, 60000, 0, &error));
  close(internet);
  dlb_tensor_release(x);
}

/* In blocking mode and without it. */
static void send_and_recv_end_in_time(int flags) {
  int pair[2];
  DLManagedTensorVersioned *x = numbers(1, 1), *got;
  size_t count;
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM | flags, 0, pair));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_recv(&count, &got, 1, pair[1], 0, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_send(pair[0], &x, 1, -1, 0, &error));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_recv(&count, &got, 1, pair[1], 0, 20, &error));
  CHECK_INT(3, write(pair[0], "dlb", 3));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_recv(&count, &got, 1, pair[1], 0, 20, &error));
  close(pair[0]);
  close(pair[1]);
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM | flags, 0, pair));
  int32_t code, sent = 0;
  dlb_error error;
  while ((code = dlb_shm_send(pair[0], &x, 1, 20, 0, &error)) == DLB_OK) sent++;
  CHECK_INT(DLB_ERROR_SYSTEM, code); /* the other side does not read */
  for (int i = 0; i < sent; i++) { /* and these have not suffered */
    CHECK_OK(dlb_shm_recv(&count, &got, 1, pair[1], 0, INT64_MAX, &error));
    dlb_tensor_release(got);
  }
  close(pair[0]);
  close(pair[1]);
  dlb_tensor_release(x);
}

/* Options of the receiver's socket ask for further control data. They take up room, and one of them is a descriptor. */
static void options_of_the_socket_change_nothing(void) {
  enum { MOST = 253 };
  static const int options[] = {16, 34, 76, 84}; /* SO_PASSCRED, SO_PASSSEC, SO_PASSPIDFD, SO_INQ: an older kernel lacks some */
  DLManagedTensorVersioned *sent[MOST], *got[MOST];
  int pair[2];
  size_t count;
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  for (int i = 0; i < MOST; i++) sent[i] = numbers(1, 1);
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    setsockopt(pair[1], SOL_SOCKET, options[i], &(int){1}, sizeof(int));
    int files = descriptors();
    CHECK_OK(dlb_shm_send(pair[0], sent, MOST, 60000, 0, &error));
    CHECK_OK(dlb_shm_recv(&count, got, MOST, pair[1], 0, 60000, &error));
    CHECK_INT(MOST, count);
    for (int k = 0; k < MOST; k++) dlb_tensor_release(got[k]);
    CHECK_INT(files, descriptors());
  }
  for (int i = 0; i < MOST; i++) dlb_tensor_release(sent[i]);
  close(pair[0]);
  close(pair[1]);
}

static void answer(void) {
  DLManagedTensorVersioned *got[16];
  dlb_error error;
  size_t count;
  while (dlb_shm_recv(&count, got, 16, ends[0], 0, 60000, &error) == DLB_OK) {
    for (size_t i = 0; i < count; i++) {
      int64_t size;
      CHECK_OK(dlb_tensor_nbytes(&size, got[i], &error));
      for (int64_t k = 0; k < size / 4; k++) ((float *)got[i]->dl_tensor.data)[k] *= 2;
    }
    CHECK_OK(dlb_shm_send(ends[0], got, count, 60000, DLB_SHM_WRITABLE, &error));
    for (size_t i = 0; i < count; i++) dlb_tensor_release(got[i]);
  }
  CHECK_INT(DLB_ERROR_CLOSED, error.code);
}

/* ---- handles ---- */

static const DLTensor two_by_two = {.device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = (int64_t[]){2, 2}};
static const DLTensor pair_of_last = {.device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = (int64_t[]){2}, .strides = (int64_t[]){-2}};

static dlb_shm_handle offered(DLManagedTensorVersioned *x, int64_t timeout_ms, uint64_t flags) {
  dlb_shm_handle h;
  CHECK_OK(dlb_shm_offer(&h, x, timeout_ms, flags, &error));
  return h;
}

static void a_handle_is_fetched_by_another_process(uint64_t flags) {
  DLManagedTensorVersioned *x = numbers(2, 2), *y;
  dlb_shm_handle h = offered(x, 60000, flags);
  CHECK(strlen(h.socket) == 45 && strlen(h.token) == 32 && h.offset == 0 && h.size == 16 && h.readonly == (flags == 0));
  pid_t child = fork();
  if (child == 0) {
    CHECK_OK(dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
    CHECK(at(y, 1, 1) == 3 && (y->flags & DLPACK_FLAG_BITMASK_READ_ONLY) == (flags ? 0 : DLPACK_FLAG_BITMASK_READ_ONLY));
    if (flags) ((float *)y->dl_tensor.data)[0] = 7;
    dlb_tensor_release(y);
    CHECK_CODE(DLB_ERROR_CLOSED, dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
    _exit(0);
  }
  int status;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK_INT(0, status);
  CHECK(at(x, 0, 0) == (flags ? 7 : 0));
  CHECK_CODE(DLB_ERROR_CLOSED, dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
  CHECK_CODE(DLB_ERROR_READONLY, dlb_shm_offer(&h, x, 60000, flags ^ DLB_SHM_WRITABLE, &error)); /* the first hand-over has decided */
  h = offered(x, 60000, flags); /* the offer holds the segment when the tensor is gone */
  DLManagedTensorVersioned *last;
  CHECK_OK(dlb_tensor_slice(&last, x, 2, (dlb_index[]){DLB_AT(1), DLB_AT(0)}, &error));
  dlb_shm_handle of_last = offered(last, 60000, flags);
  CHECK_INT(8, of_last.offset);
  dlb_tensor_release(x);
  dlb_tensor_release(last);
  CHECK_OK(dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
  CHECK(at(y, 1, 1) == 3);
  dlb_tensor_release(y);
  CHECK_OK(dlb_shm_fetch(&y, &of_last, &pair_of_last, 0, 0, 60000, &error)); /* backwards from there */
  CHECK(((float *)y->dl_tensor.data)[0] == 2 && ((float *)y->dl_tensor.data)[-2] == (flags ? 7 : 0));
  dlb_tensor_release(y);
}

/* In a program without standard descriptors, output to stderr must not land in a segment. */
static void no_segment_gets_a_standard_descriptor(void) {
  DLManagedTensorVersioned *x, *y;
  int kept[3], taken = 0;
  for (int i = 0; i < 3; i++) {
    kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
    CHECK(kept[i] >= 0);
  }
  for (int i = 0; i < 3; i++) close(i);
  x = numbers(2, 2);
  CHECK_OK(dlb_shm_send(ends[0], &x, 1, 60000, 0, &error));
  for (int i = 0; i < 3; i++) taken += fcntl(i, F_GETFD) >= 0;
  dlb_tensor_release(x);
  x = receive(); /* now the one descriptor of it is the one that came */
  for (int i = 0; i < 3; i++) taken += fcntl(i, F_GETFD) >= 0;
  dlb_shm_handle h = offered(x, 60000, 0);
  for (int i = 0; i < 3; i++) taken += fcntl(i, F_GETFD) >= 0;
  CHECK_OK(dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
  for (int i = 0; i < 3; i++) {
    CHECK(dup2(kept[i], i) == i);
    close(kept[i]);
  }
  CHECK_INT(0, taken);
  CHECK(at(y, 1, 1) == 3);
  dlb_tensor_release(x);
  dlb_tensor_release(y);
}

static void an_offer_ends(void) {
  DLManagedTensorVersioned *x = numbers(2, 2), *y;
  dlb_shm_handle later = offered(x, INT64_MAX, 0);
  int files = descriptors();
  y = numbers(2, 2);
  dlb_shm_handle soon = offered(y, 50, 0);
  dlb_tensor_release(y); /* only the offer has its segment */
  await_descriptors(files);
  CHECK_CODE(DLB_ERROR_CLOSED, dlb_shm_fetch(&y, &soon, &two_by_two, 0, 0, 60000, &error));
  pid_t child = fork();
  if (child == 0) { /* it has none of these offers, and can make its own */
    DLManagedTensorVersioned *own = numbers(2, 2);
    dlb_shm_handle h = offered(own, 60000, 0);
    CHECK(strcmp(h.socket, later.socket) != 0);
    CHECK_OK(dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
    _exit(0);
  }
  int status;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK_INT(0, status);
  CHECK_OK(dlb_shm_fetch(&y, &later, &two_by_two, 0, 0, INT64_MAX, &error));
  dlb_tensor_release(y);
  dlb_tensor_release(x);
}

/* Sets the address of the socket of a handle, and returns its size. */
static socklen_t set_address(struct sockaddr_un *address, const dlb_shm_handle *h) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  strcpy(address->sun_path + 1, h->socket);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(h->socket));
}

/* Sets *h to a handle whose socket is not the library's, and returns that socket, which listens. */
static int listen_as_another(dlb_shm_handle *h, int backlog) {
  struct sockaddr_un address;
  *h = (dlb_shm_handle){.size = 16, .readonly = 1};
  snprintf(h->socket, sizeof h->socket, "dlbridge-shm-%032x", (unsigned)getpid());
  snprintf(h->token, sizeof h->token, "%032d", 0);
  const socklen_t size = set_address(&address, h);
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK_INT(0, bind(listener, (struct sockaddr *)&address, size));
  CHECK_INT(0, listen(listener, backlog));
  return listener;
}

/* A process that leaves without its answer does not use the handle up, and many that say nothing do not keep others waiting. */
static void strangers_at_the_socket_disturb_nobody(void) {
  DLManagedTensorVersioned *x = numbers(2, 2), *y;
  dlb_shm_handle h = offered(x, 60000, 0);
  struct sockaddr_un address;
  const socklen_t size = set_address(&address, &h);
  int silent[200];
  for (int i = 0; i < 200; i++) {
    silent[i] = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_INT(0, connect(silent[i], (struct sockaddr *)&address, size));
  }
  CHECK(send(silent[0], "half", 4, MSG_NOSIGNAL) == 4 || errno == EPIPE);
  CHECK_OK(dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
  for (int i = 0; i < 200; i++) close(silent[i]);
  dlb_tensor_release(y);
  dlb_tensor_release(x);
}

static void *make_and_ask(void *stop) {
  while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
    DLManagedTensorVersioned *x = numbers(1, 4);
    int32_t shared;
    CHECK_OK(dlb_shm_is_shared(&shared, x, &error));
    offered(x, 1, 0);
    dlb_tensor_release(x);
  }
  return NULL;
}

static void a_child_forked_beside_threads_works(void) {
  pthread_t threads[2];
  int stop = 0;
  for (int i = 0; i < 2; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, make_and_ask, &stop));
  for (int i = 0; i < 200; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      DLManagedTensorVersioned *x = numbers(1, 4);
      dlb_tensor_release(x);
      _exit(0);
    }
    int status;
    CHECK_INT(child, waitpid(child, &status, 0));
    CHECK_INT(0, status);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void what_cannot_be_offered_or_fetched_is_refused(void) {
  DLManagedTensorVersioned *x = numbers(2, 2), *y;
  dlb_shm_handle h, bad;
  const int64_t shape[] = {2};
  CHECK_OK(dlb_tensor_alloc(&y, UINT8, 1, shape, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_offer(&h, y, 1, 0, &error)); /* private memory */
  dlb_tensor_release(y);
  y = numbers(0, 2);
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_shm_offer(&h, y, 1, 0, &error));
  dlb_tensor_release(y);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_offer(&h, x, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_offer(&h, x, 1, 2, &error));
  CHECK(h.socket[0] == 0 && h.size == 0);
  h = offered(x, 60000, 0);
  CHECK_CODE(DLB_ERROR_READONLY, dlb_shm_offer(&bad, x, 60000, DLB_SHM_WRITABLE, &error)); /* it is sealed now */
  bad = h;
  memset(bad.socket, '0', sizeof bad.socket); /* not ended by a NUL either */
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_fetch(&y, &bad, &two_by_two, 0, 0, 60000, &error));
  bad = h;
  memset(bad.token, 'f', sizeof bad.token);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_fetch(&y, &bad, &two_by_two, 0, 0, 60000, &error));
  bad.token[32] = 0;
  CHECK_CODE(DLB_ERROR_CLOSED, dlb_shm_fetch(&y, &bad, &two_by_two, 0, 0, 60000, &error));
  bad = h;
  memset(bad.socket + 13, '0', 32);
  CHECK_CODE(DLB_ERROR_CLOSED, dlb_shm_fetch(&y, &bad, &two_by_two, 0, 0, 60000, &error)); /* nobody */
  DLTensor wrong = two_by_two;
  wrong.ndim = 300;
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_shm_fetch(&y, &h, &wrong, 0, 0, 60000, &error));
  wrong.ndim = 2;
  wrong.device.device_type = kDLCUDA;
  CHECK_CODE(DLB_ERROR_DEVICE, dlb_shm_fetch(&y, &h, &wrong, 0, 0, 60000, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_fetch(&y, &h, &two_by_two, 1 << 9, 0, 60000, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, -1, &error));
  wrong = two_by_two;
  wrong.shape = (int64_t[]){2, 3};
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_shm_fetch(&y, &h, &wrong, 0, 0, 60000, &error));
  bad = h;
  bad.offset = 4;
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_shm_fetch(&y, &bad, &two_by_two, 0, 0, 60000, &error));
  CHECK_OK(dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error)); /* none of these has used it */
  dlb_tensor_release(y);
  bad = offered(x, 60000, 0);
  bad.size = 1000; /* more than the size of the file, which the kernel reports */
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_shm_fetch(&y, &bad, &wrong, 0, 0, 60000, &error));
  h = offered(x, 60000, 0);
  h.readonly = 0;
  CHECK_CODE(DLB_ERROR_READONLY, dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
  dlb_tensor_release(x);
}

/* Runs in a child, which gives up its user: RLIMIT_NPROC does not bind root. */
static void without_a_thread_nothing_is_offered(void) {
  pid_t child = fork();
  if (child == 0) {
    DLManagedTensorVersioned *x = numbers(2, 2);
    dlb_shm_handle h;
    struct rlimit before, none;
    CHECK_INT(0, getrlimit(RLIMIT_NPROC, &before));
    none = (struct rlimit){0, before.rlim_max};
    if (geteuid() == 0) CHECK_INT(0, setuid(65534));
    CHECK_INT(0, setrlimit(RLIMIT_NPROC, &none));
    CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_offer(&h, x, 1000, 0, &error));
    CHECK_INT(0, setrlimit(RLIMIT_NPROC, &before));
    CHECK_OK(dlb_shm_offer(&h, x, 1000, DLB_SHM_WRITABLE, &error)); /* the offer that failed has decided nothing */
    _exit(0);
  }
  int status;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK_INT(0, status);
}

/* Fetches from a socket that answers with `count` times a descriptor, or not at all if it is negative. */
static int32_t code_for_socket_of(int file, int count) {
  dlb_shm_handle h;
  DLManagedTensorVersioned *y;
  dlb_error error;
  int listener = listen_as_another(&h, 1);
  pid_t child = fork();
  if (child == 0) {
    int conn = accept(listener, NULL, NULL);
    char token[16], room[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8))) = {0}, byte = 1;
    CHECK_INT(16, recv(conn, token, 16, MSG_WAITALL));
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count < 0) pause();
    if (count > 0) {
      struct cmsghdr *c = (struct cmsghdr *)room;
      message.msg_control = room;
      message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
      *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN((size_t)count * sizeof(int))};
      for (int i = 0; i < count; i++) memcpy(CMSG_DATA(c) + (size_t)i * sizeof file, &file, sizeof file);
    }
    CHECK_INT(1, sendmsg(conn, &message, 0));
    _exit(0);
  }
  close(listener);
  int files = descriptors(), mapped = mappings();
  int32_t code = dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, count < 0 ? 50 : 60000, &error);
  CHECK(y == NULL);
  await_descriptors(files);
  CHECK_INT(mapped, mappings());
  kill(child, SIGKILL);
  CHECK_INT(child, waitpid(child, NULL, 0));
  return code;
}

static void sockets_of_others_give_an_error(void) {
  int zero = open("/dev/zero", O_RDWR), folder = open("/", O_RDONLY);
  CHECK_INT(DLB_ERROR_ARGUMENT, code_for_socket_of(zero, 1));
  CHECK_INT(DLB_ERROR_ARGUMENT, code_for_socket_of(folder, 1));
  CHECK_INT(DLB_ERROR_CLOSED, code_for_socket_of(folder, 2));
  CHECK_INT(DLB_ERROR_CLOSED, code_for_socket_of(-1, 0));
  CHECK_INT(DLB_ERROR_SYSTEM, code_for_socket_of(-1, -1));
  close(zero);
  close(folder);
}

static void named_objects_are_copied_or_trusted(void) {
  static const float values[] = {9, 0, 1, 2, 3};
  char folder[] = "/tmp/dlbridge-shm-XXXXXX", path[64], link[64];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/object", folder);
  snprintf(link, sizeof link, "%s/link", folder);
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(file >= 0 && write(file, values, sizeof values) == sizeof values && symlink(path, link) == 0);
  DLTensor view = two_by_two;
  view.byte_offset = 4;
  DLManagedTensorVersioned *copy, *trusted, *y;
  CHECK_OK(dlb_shm_attach(&copy, folder, "object", &view, 0, 0, &error));
  CHECK_OK(dlb_shm_attach(&trusted, folder, "object", &view, 0, DLB_SHM_TRUST_PEER, &error));
  CHECK(copy->flags & DLPACK_FLAG_BITMASK_IS_COPIED && !(trusted->flags & DLPACK_FLAG_BITMASK_READ_ONLY));
  ((float *)trusted->dl_tensor.data)[3] = 5;
  CHECK(at(copy, 1, 1) == 3 && at(trusted, 1, 1) == 5);
  float last;
  CHECK(pread(file, &last, sizeof last, 16) == sizeof last && last == 5);
  int32_t shared;
  CHECK_OK(dlb_shm_is_shared(&shared, trusted, &error));
  CHECK_INT(0, shared); /* another process could not trust it */
  dlb_tensor_release(copy);
  dlb_tensor_release(trusted);
  CHECK_OK(dlb_shm_attach(&y, folder, "object", &view, DLPACK_FLAG_BITMASK_READ_ONLY, DLB_SHM_TRUST_PEER, &error));
  CHECK_INT(SIGSEGV, signal_of_writer(y));
  dlb_tensor_release(y);
  view.byte_offset = 8;
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_shm_attach(&y, folder, "object", &view, 0, 0, &error));
  static const char *const names[] = {"", ".", "..", "../object", "/object"};
  for (int i = 0; i < 5; i++) {
    CHECK_TEXT(DLB_ERROR_ARGUMENT, "is not the name of a file in ",
               dlb_shm_attach(&y, folder, names[i], &two_by_two, 0, 0, &error));
  }
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_attach(&y, folder, "link", &two_by_two, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_attach(&y, folder, "nothing", &two_by_two, 0, 0, &error));
  CHECK_TEXT(DLB_ERROR_SYSTEM, "dlb_shm_attach: \"object\" in /nowhere cannot be opened: No such file or directory",
             dlb_shm_attach(&y, "/nowhere", "object", &two_by_two, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_attach(&y, "/dev", "zero", &two_by_two, 0, DLB_SHM_TRUST_PEER, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_shm_attach(&y, folder, "object", &two_by_two, 0, 2, &error));
  close(file);
  unlink(path);
  unlink(link);
  rmdir(folder);
}

/* What a thread does that is cancelled, sooner or later. */
typedef struct {
  int fd;
  DLManagedTensorVersioned *x;
  dlb_shm_handle handle;
} task;

static void *receive_one(void *arg) {
  const task *t = arg;
  DLManagedTensorVersioned *got = NULL;
  size_t count;
  dlb_error failed;
  if (dlb_shm_recv(&count, &got, 1, t->fd, 0, 60000, &failed) != DLB_OK) return NULL;
  dlb_tensor_release(got); /* not a place to be cancelled either */
  return NULL;
}

static void *send_until_full(void *arg) {
  task *t = arg;
  dlb_error failed;
  while (dlb_shm_send(t->fd, &t->x, 1, 60000, DLB_SHM_WRITABLE, &failed) == DLB_OK) continue;
  return NULL;
}

/* Runs a function in a thread, and cancels it after so many microseconds. */
static void cancelled(void *(*function)(void *), task *t, unsigned after) {
  pthread_t thread;
  CHECK_INT(0, pthread_create(&thread, NULL, function, t));
  usleep(after);
  pthread_cancel(thread);
  CHECK_INT(0, pthread_join(thread, NULL));
}

/* Fetches from a socket of the same program that accepts connections and says nothing. */
static void *fetch_one(void *arg) {
  const task *t = arg;
  DLManagedTensorVersioned *y = NULL;
  dlb_error failed;
  if (dlb_shm_fetch(&y, &t->handle, &two_by_two, 0, 0, 60000, &failed) == DLB_OK) dlb_tensor_release(y);
  return NULL;
}

static void a_cancelled_thread_leaves_nothing(void) {
  DLManagedTensorVersioned *x = numbers(2, 2);
  char part[600];
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(4 * sizeof(int))];
  } control;
  dlb_shm_handle silent;
  int listener = listen_as_another(&silent, 1000);
  for (unsigned i = 0; i < 200; i++) {
    int pair[2];
    CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    task t = {pair[1], x, silent};
    cancelled(fetch_one, &t, 20 * (i % 16));
    if (i % 4 == 0) cancelled(receive_one, &t, 100 * (i % 16)); /* nothing comes */
    if (i % 4 == 1) { /* the descriptor comes, and half of the bytes */
      CHECK_OK(dlb_shm_send(pair[0], &x, 1, 60000, DLB_SHM_WRITABLE, &error));
      struct iovec bytes = {part, sizeof part};
      struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
      ssize_t size = recvmsg(pair[1], &message, 0);
      CHECK(size > 0 && CMSG_FIRSTHDR(&message) != NULL);
      bytes.iov_len = (size_t)size / 2;
      message.msg_flags = 0;
      CHECK(sendmsg(pair[0], &message, 0) > 0);
      int file;
      memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
      close(file);
      cancelled(receive_one, &t, 50 * (i % 16));
    }
    if (i % 4 == 2) { /* all of it comes */
      CHECK_OK(dlb_shm_send(pair[0], &x, 1, 60000, DLB_SHM_WRITABLE, &error));
      cancelled(receive_one, &t, i % 64);
    }
    if (i % 4 == 3) cancelled(send_until_full, &t, 500); /* the other side does not read */
    close(pair[0]);
    close(pair[1]);
  }
  close(listener);
  dlb_tensor_release(x);
}

/* A call that the system refuses, for lack of a permission for example, is an error of the system and not of the tensors. */
static void the_system_refuses(void) {
  const int64_t large = 8 << 20;
  DLManagedTensorVersioned *x = numbers(1, 4), *y, *sent;
  size_t count;
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  CHECK_OK(dlb_shm_alloc(&sent, UINT8, 1, &large, &error));
  CHECK_OK(dlb_shm_send(ends[0], &sent, 1, 60000, 0, &error));
  struct sock_filter no_sendmsg[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {4, no_sendmsg};
  CHECK_INT(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  CHECK_INT(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_send(ends[0], &x, 1, 60000, 0, &error)); /* EPERM */
  if (geteuid() == 0) CHECK_INT(0, setuid(65534)); /* these limits do not bind root */
  CHECK_INT(0, setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){1 << 20, 1 << 20}));
  CHECK_INT(0, mlockall(MCL_FUTURE));
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_shm_alloc(&y, UINT8, 1, &large, &error)); /* EAGAIN */
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_shm_readonly(&y, sent, &error));
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_shm_recv(&count, &y, 1, ends[1], 0, 60000, &error));
  CHECK_INT(0, munlockall());
  dlb_tensor_release(x);
  dlb_tensor_release(sent);
}

static void offer_and_fetch(void) {
  DLManagedTensorVersioned *x = numbers(2, 2), *y;
  dlb_shm_handle h = offered(x, 60000, 0);
  dlb_tensor_release(x);
  CHECK_OK(dlb_shm_fetch(&y, &h, &two_by_two, 0, 0, 60000, &error));
  CHECK(at(y, 1, 1) == 3);
  dlb_tensor_release(y);
}

static void offer_to_nobody(void) {
  DLManagedTensorVersioned *x = numbers(2, 2);
  offered(x, 60000, 0);
  dlb_tensor_release(x);
}

static void write_handle(void) {
  DLManagedTensorVersioned *x = numbers(2, 2);
  dlb_shm_handle h = offered(x, 60000, DLB_SHM_WRITABLE);
  printf("%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", h.socket, h.token, h.offset, h.size, h.readonly);
  fflush(stdout);
  while (getchar() != EOF) continue;
  CHECK(at(x, 1, 1) == 6); /* doubled by the reader of the handle */
  dlb_tensor_release(x);
}

static void double_elements_of(char **fields) {
  dlb_shm_handle h = {.offset = strtoull(fields[2], NULL, 10), .size = strtoull(fields[3], NULL, 10), .readonly = strtoull(fields[4], NULL, 10)};
  DLManagedTensorVersioned *x;
  snprintf(h.socket, sizeof h.socket, "%s", fields[0]);
  snprintf(h.token, sizeof h.token, "%s", fields[1]);
  CHECK_OK(dlb_shm_fetch(&x, &h, &two_by_two, 0, 0, 60000, &error));
  for (int i = 0; i < 4; i++) ((float *)x->dl_tensor.data)[i] *= 2;
  dlb_tensor_release(x);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    if (strcmp(argv[1], "handle") == 0) {
      offer_and_fetch();
      offer_to_nobody();
    } else if (strcmp(argv[1], "leave") == 0) {
      offered(numbers(2, 2), 50, 0);
      pthread_exit(NULL);
    } else if (strcmp(argv[1], "refuse") == 0) {
      the_system_refuses();
    } else if (strcmp(argv[1], "offer") == 0) {
      write_handle();
    } else if (strcmp(argv[1], "fetch") == 0) {
      CHECK_INT(7, argc);
      double_elements_of(argv + 2);
    } else {
      ends[0] = atoi(argv[1]);
      answer();
    }
    check_nothing_is_left(argv[1]);
    return 0;
  }
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  const int before = descriptors();
  offer_and_fetch();
  await_descriptors(before);
  a_received_tensor_is_the_same_memory();
  two_processes_write_to_one_memory(1);
  two_processes_write_to_one_memory(1 << 16); /* 64 MiB */
  writing_to_read_only_memory_ends_the_writer_alone();
  what_is_not_in_a_segment_is_refused();
  a_segment_that_the_machine_cannot_have_is_refused();
  hostile_messages_are_refused();
  the_first_wrong_byte_is_an_error();
  only_streams_are_accepted();
  send_and_recv_end_in_time(0);
  send_and_recv_end_in_time(SOCK_NONBLOCK);
  options_of_the_socket_change_nothing();
  a_handle_is_fetched_by_another_process(0);
  the_first_hand_over_decides(0);
  the_first_hand_over_decides(DLB_SHM_WRITABLE);
  a_handle_is_fetched_by_another_process(DLB_SHM_WRITABLE);
  no_segment_gets_a_standard_descriptor();
  an_offer_ends();
  strangers_at_the_socket_disturb_nobody();
  a_child_forked_beside_threads_works();
  what_cannot_be_offered_or_fetched_is_refused();
  without_a_thread_nothing_is_offered();
  sockets_of_others_give_an_error();
  named_objects_are_copied_or_trusted();
  a_cancelled_thread_leaves_nothing();
  await_descriptors(before);
  CHECK_INT(0, mappings());
  check_nothing_is_left("shared memory");
  return 0;
}
