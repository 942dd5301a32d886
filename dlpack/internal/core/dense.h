/* dense.h: the kinds of numbers, and conversions between them of numbers that lie one after another. */
#ifndef DLB_DENSE_H_
#define DLB_DENSE_H_

#include "copy.h"

/* The kinds of numbers. INTEGER and NATURAL are signed and unsigned integers of fewer than 8 bits. The small floats, from E3M4 on,
 * have the order of dlpack.h. */
typedef enum dlbcore_number {
  KIND_NONE, KIND_BOOL,
  KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_UINT8, KIND_UINT16, KIND_UINT32, KIND_UINT64, KIND_INTEGER, KIND_NATURAL,
  KIND_HALF, KIND_BRAIN, KIND_SINGLE, KIND_DOUBLE,
  KIND_E3M4, KIND_E4M3, KIND_E4M3B11FNUZ, KIND_E4M3FN, KIND_E4M3FNUZ, KIND_E5M2, KIND_E5M2FNUZ, KIND_E8M0FNU,
  KIND_E2M3FN, KIND_E3M2FN, KIND_E2M1FN,
  KIND_COMPLEX32, KIND_COMPLEX64, KIND_COMPLEX128,
  KIND_COUNT
} dlbcore_number;

/* Converts groups of 32 numbers. Neither side need be aligned; they do not overlap. */
typedef void dlbcore_loop(void *restrict dst, const void *restrict src, size_t groups);

/* A way from one kind to another: one loop, or two with numbers of `between` bytes between them. Numbers of fewer than 8 bits take a
 * byte each: INTEGER is read as an int8_t and NATURAL as a uint8_t, of which only the low bits count when they are written. */
typedef struct dlbcore_dense {
  dlbcore_loop *first, *second;
  int32_t from, between, to; /* bytes of a number */
} dlbcore_dense;

/* Returns the way from one kind to another. A complex kind can become a bool only; else its parts are to be converted. With
 * `by_double` floats go by way of double, which makes every NaN quiet; with `plain` no AVX2 is used. */
CORE_API dlbcore_dense dlbcore_dense_of(dlbcore_number to, dlbcore_number from, bool by_double, bool plain);

/* Converts n numbers. With `stream` the results bypass the caches. */
CORE_API void dlbcore_dense_convert(const dlbcore_dense *way, void *dst, const void *src, size_t n, bool stream);

#endif
