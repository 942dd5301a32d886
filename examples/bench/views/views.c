/* views.c: loops that make and release views with dlbridge.h, in a library without Go. */
#include <dlbridge.h>

#include <stdlib.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default")))

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static DLManagedTensorVersioned *tensor(void) {
  static const int64_t shape[] = {3, 4, 5};
  static DLManagedTensorVersioned *made;
  if (made == NULL && dlb_tensor_alloc(&made, (DLDataType){kDLFloat, 32, 1}, 3, shape, NULL) != DLB_OK) abort();
  return made;
}

/* Declares a function that times n views. */
#define LOOP(name, call)                              \
  EXPORTED int64_t name(int64_t n);                   \
  int64_t name(int64_t n) {                           \
    DLManagedTensorVersioned *base = tensor(), *view; \
    dlb_error error;                                  \
    int64_t start = now();                            \
    for (int64_t i = 0; i < n; i++) {                 \
      if (call != DLB_OK) abort();                    \
      dlb_tensor_release(view);                       \
    }                                                 \
    return now() - start;                             \
  }

static const int32_t order[] = {2, 0, 1};
static const dlb_index part[] = {DLB_RANGE(1, 3), DLB_AT(2)};
static const int64_t first[] = {1}, flat[] = {-1};

LOOP(c_view_transpose, dlb_tensor_transpose(&view, base, 3, order, &error))
LOOP(c_view_slice, dlb_tensor_slice(&view, base, 2, part, &error))
LOOP(c_view_index, dlb_tensor_index(&view, base, 1, first, &error))
LOOP(c_view_reshape, dlb_tensor_reshape(&view, base, 1, flat, &error))

/* What a control block costs at least: 256 bytes, as core_block has for tensors of up to 8 dimensions. */
EXPORTED int64_t c_block(int64_t n);
int64_t c_block(int64_t n) {
  int64_t start = now();
  for (int64_t i = 0; i < n; i++) {
    void *block = malloc(256);
    if (block == NULL) abort();
    __asm__ volatile("" : "+r"(block) : : "memory"); /* keeps the compiler from removing the malloc and free */
    free(block);
  }
  return now() - start;
}
