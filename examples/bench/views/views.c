/* views.c: loops that make and release tensors, views, copies and conversions with dlbridge.h, in a library without Go. */
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

/* Declares a function that times n calls, each of which makes a tensor of `base`. */
#define LOOP(name, of, call)                     \
  EXPORTED int64_t name(int64_t n);              \
  int64_t name(int64_t n) {                      \
    DLManagedTensorVersioned *base = of(), *out; \
    dlb_error error;                             \
    int64_t start = now();                       \
    for (int64_t i = 0; i < n; i++) {            \
      if (call != DLB_OK) abort();               \
      dlb_tensor_release(out);                   \
    }                                            \
    return now() - start;                        \
  }

static const int32_t order[] = {2, 0, 1};
static const dlb_index part[] = {DLB_RANGE(1, 3), DLB_AT(2)};
static const int64_t first[] = {1}, flat[] = {-1};

LOOP(c_alloc, tensor, dlb_tensor_alloc(&out, base->dl_tensor.dtype, base->dl_tensor.ndim, base->dl_tensor.shape, &error))
LOOP(c_view_transpose, tensor, dlb_tensor_transpose(&out, base, 3, order, &error))
LOOP(c_view_slice, tensor, dlb_tensor_slice(&out, base, 2, part, &error))
LOOP(c_view_index, tensor, dlb_tensor_index(&out, base, 1, first, &error))
LOOP(c_view_reshape, tensor, dlb_tensor_reshape(&out, base, 1, flat, &error))

enum { SIDE = 512 };

/* A matrix of 512 rows with the values 0 to 999. */
static DLManagedTensorVersioned *matrix(void) {
  static const int64_t shape[] = {SIDE, SIDE};
  static DLManagedTensorVersioned *made;
  if (made != NULL) return made;
  if (dlb_tensor_alloc(&made, (DLDataType){kDLFloat, 32, 1}, 2, shape, NULL) != DLB_OK) abort();
  for (int64_t i = 0; i < SIDE * SIDE; i++) ((float *)made->dl_tensor.data)[i] = (float)(i % 1000);
  return made;
}

static DLManagedTensorVersioned *transposed(void) {
  static const int32_t axes[] = {1, 0};
  static DLManagedTensorVersioned *made;
  if (made == NULL && dlb_tensor_transpose(&made, matrix(), 2, axes, NULL) != DLB_OK) abort();
  return made;
}

LOOP(c_copy, matrix, dlb_tensor_copy(&out, base, &error))
LOOP(c_copy_transposed, transposed, dlb_tensor_copy(&out, base, &error))
LOOP(c_convert_float64, matrix, dlb_tensor_convert(&out, base, (DLDataType){kDLFloat, 64, 1}, &error))
LOOP(c_convert_float16, matrix, dlb_tensor_convert(&out, base, (DLDataType){kDLFloat, 16, 1}, &error))
LOOP(c_convert_int32, matrix, dlb_tensor_convert(&out, base, (DLDataType){kDLInt, 32, 1}, &error))

/* Declares a function that times n copies of `from` into a matrix of floats of `width` bits. */
#define INTO(name, from, width)                                                                                    \
  EXPORTED int64_t name(int64_t n);                                                                                \
  int64_t name(int64_t n) {                                                                                        \
    static DLManagedTensorVersioned *into;                                                                         \
    DLManagedTensorVersioned *src = from();                                                                        \
    if (into == NULL && dlb_tensor_convert(&into, src, (DLDataType){kDLFloat, width, 1}, NULL) != DLB_OK) abort(); \
    dlb_error error;                                                                                               \
    int64_t start = now();                                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                                              \
      if (dlb_tensor_copy_into(into, src, &error) != DLB_OK) abort();                                              \
    }                                                                                                              \
    return now() - start;                                                                                          \
  }

INTO(c_copy_into, matrix, 32)
INTO(c_copy_into_transposed, transposed, 32)
INTO(c_copy_into_float64, matrix, 64)

/* What a control block costs at least: 256 bytes, as dlbcore_block has for tensors of up to 8 dimensions. */
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
