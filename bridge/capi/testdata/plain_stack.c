/* The functions of libdlbridge_tensor on a thread with as little stack as dlbridge.h says. The program writes how much each of them
 * has used. */
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ENOUGH = 32 << 10, GUARD = 4096, BELOW = 64 << 10, RANK = 256, MOST = 253 };

static DLManagedTensorVersioned *wide, *small, *flat, *shared[MOST], *got[MOST];
static int64_t ones[RANK];
static dlb_shm_handle handle;
static int ends[2];
static char text[1 << 16];

static void end(DLManagedTensorVersioned *t) { dlb_tensor_release(t); }

static void convert(void) {
  DLManagedTensorVersioned *x;
  CHECK_OK(dlb_tensor_convert(&x, wide, (DLDataType){kDLInt, 16, 1}, &error));
  end(x);
  CHECK_OK(dlb_tensor_convert(&x, small, (DLDataType){kDLFloat, 64, 1}, &error));
  end(x);
  CHECK_OK(dlb_tensor_convert(&x, small, FLOAT32, &error));
  end(x);
}

static void copy(void) {
  DLManagedTensorVersioned *x;
  CHECK_OK(dlb_tensor_copy(&x, wide, &error));
  end(x);
  CHECK_OK(dlb_tensor_copy(&x, small, &error)); /* transposed */
  end(x);
  CHECK_OK(dlb_tensor_contiguous(&x, small, &error));
  end(x);
}

static void format(void) {
  size_t size;
  CHECK_OK(dlb_tensor_format(&size, text, sizeof text, wide, &error));
  CHECK_OK(dlb_tensor_format(&size, text, sizeof text, small, &error));
  CHECK_OK(dlb_dtype_format(&size, text, sizeof text, FLOAT32, &error));
}

static void views(void) {
  DLManagedTensorVersioned *x;
  const dlb_index whole[] = {DLB_ELLIPSIS};
  CHECK_OK(dlb_tensor_transpose(&x, wide, 0, NULL, &error));
  end(x);
  CHECK_OK(dlb_tensor_slice(&x, wide, 1, whole, &error));
  end(x);
  CHECK_OK(dlb_tensor_reshape(&x, flat, RANK, ones, &error));
  end(x);
  CHECK_OK(dlb_tensor_broadcast_to(&x, flat, RANK, ones, &error));
  end(x);
  CHECK_OK(dlb_tensor_flip(&x, wide, 0, NULL, &error));
  end(x);
  CHECK_OK(dlb_tensor_squeeze(&x, wide, 0, NULL, &error));
  end(x);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_transpose(&x, wide, 3, (int32_t[]){0, 0, 0}, &error));
}

static void send_and_recv(void) {
  size_t count;
  CHECK_OK(dlb_shm_send(ends[0], shared, MOST, 60000, 0, &error));
  CHECK_OK(dlb_shm_recv(&count, got, MOST, ends[1], 0, 60000, &error));
  CHECK_INT(MOST, count);
  for (size_t i = 0; i < count; i++) end(got[i]);
}

static void hand_over(void) {
  DLManagedTensorVersioned *x;
  CHECK_OK(dlb_shm_readonly(&x, shared[0], &error));
  end(x);
  CHECK_OK(dlb_shm_copy(&x, wide, &error));
  CHECK_OK(dlb_shm_offer(&handle, x, 60000, 0, &error));
  end(x);
  CHECK_OK(dlb_shm_fetch(&x, &handle, &wide->dl_tensor, 0, 0, 60000, &error));
  end(x);
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_shm_attach(&x, "/dev/shm", "dlbridge-nothing", &wide->dl_tensor, 0, 0, &error));
}

static void *call(void *function) {
  (*(void (**)(void))function)();
  return NULL;
}

/* Runs a function on a stack of `size` bytes, below which there is a guard page and other memory. Returns the number of bytes that it
 * has used of the stack, with the thread's own. */
static int used(void (*function)(void), int size) {
  char *memory = mmap(NULL, BELOW + GUARD + (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *stack = memory + BELOW + GUARD;
  pthread_attr_t attributes;
  pthread_t thread;
  int lowest = 0;
  CHECK(memory != MAP_FAILED);
  memset(memory, 0x5a, BELOW);
  memset(stack, 0x5a, (size_t)size);
  CHECK_INT(0, mprotect(memory + BELOW, GUARD, PROT_NONE));
  CHECK_INT(0, pthread_attr_init(&attributes));
  CHECK_INT(0, pthread_attr_setstack(&attributes, stack, (size_t)size));
  CHECK_INT(0, pthread_create(&thread, &attributes, call, &function));
  CHECK_INT(0, pthread_join(thread, NULL));
  for (int i = 0; i < BELOW; i++) CHECK_INT(0x5a, memory[i]);
  while (lowest < size && stack[lowest] == 0x5a) lowest++;
  munmap(memory, BELOW + GUARD + (size_t)size);
  return size - lowest;
}

static void nothing(void) {}

int main(void) {
  static const struct {
    const char *name;
    void (*function)(void);
  } all[] = {{"nothing", nothing}, {"convert", convert}, {"copy", copy}, {"format", format},
             {"views", views}, {"send and recv", send_and_recv}, {"hand over", hand_over}};
  static int64_t shape[RANK];
  for (int i = 0; i < RANK; i++) shape[i] = ones[i] = 1;
  for (int i = 0; i < RANK; i += 60) shape[i] = 2;
  DLManagedTensorVersioned *x;
  CHECK_OK(dlb_tensor_alloc(&x, FLOAT32, RANK, shape, &error));
  CHECK_OK(dlb_tensor_transpose(&wide, x, 0, NULL, &error));
  dlb_tensor_release(x);
  CHECK_OK(dlb_tensor_alloc(&x, UINT8, 2, (const int64_t[]){300, 300}, &error));
  CHECK_OK(dlb_tensor_transpose(&small, x, 0, NULL, &error));
  dlb_tensor_release(x);
  CHECK_OK(dlb_tensor_alloc(&flat, FLOAT32, 1, ones, &error));
  for (int i = 0; i < MOST; i++) CHECK_OK(dlb_shm_alloc(&shared[i], FLOAT32, 1, ones, &error));
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) printf("%s: %d bytes\n", all[i].name, used(all[i].function, ENOUGH));
  for (int i = 0; i < MOST; i++) dlb_tensor_release(shared[i]);
  dlb_tensor_release(flat);
  dlb_tensor_release(wide);
  dlb_tensor_release(small);
  close(ends[0]);
  close(ends[1]);
  check_nothing_is_left("small stacks");
  return 0;
}
