/* dense.h: the kinds of numbers, and conversions of consecutive numbers between them. */
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

enum { DENSE_GROUP = 32 };  /* numbers: every loop converts whole vectors, and has no code for less */
enum { DENSE_THREES = 24 }; /* numbers: whole vectors too, after which factors of 3 channels repeat */

/* Scales and shifts: floats or doubles, as the way computes. They repeat after `period` numbers, at least DENSE_GROUP.
 * The first DENSE_GROUP follow once more at the end. Factors with a period of 2 * DENSE_THREES also repeat after
 * DENSE_THREES. `at` is the factor of the next number. */
typedef struct dlbcore_factors {
  char *scale, *shift;
  size_t period, at;
  bool finite; /* none is infinite or NaN as a float */
} dlbcore_factors;

/* Converts groups of DENSE_GROUP numbers. The two sides may be unaligned, and do not overlap. A loop that scales
 * multiplies each number by its scale, and then adds its shift. Other loops have no factors. */
typedef void dlbcore_loop(void *restrict dst, const void *restrict src, size_t groups, dlbcore_factors *f);

/* A way from one kind to another: a series of loops. Between loops, numbers have at most `between` bytes. Numbers of
 * fewer than 8 bits take a byte each: INTEGER is read as an int8_t and NATURAL as a uint8_t; only the low bits count
 * when they are written. */
typedef struct dlbcore_dense {
  dlbcore_loop *loops[4];
  int32_t n;                 /* how many loops */
  int32_t from, between, to; /* bytes of a number */
  dlbcore_factors *factors;  /* NULL unless numbers are scaled */
} dlbcore_dense;

/* Sets the way from one kind to another. A complex kind can become only a bool; for other kinds, convert its parts.
 * With `by_double` floats go through double, which makes every NaN quiet. With `plain` the loops do not use AVX2. */
CORE_API void dlbcore_dense_of(dlbcore_dense *way, dlbcore_number to, dlbcore_number from, bool by_double, bool plain);

/* Sets a way that scales, by factors of `between` bytes, which may be set later. Neither kind may be complex. */
CORE_API void dlbcore_dense_scaled(dlbcore_dense *way, dlbcore_number to, dlbcore_number from, bool plain, dlbcore_factors *factors);

/* Converts n numbers. With `stream` the results bypass the caches. */
CORE_API void dlbcore_dense_convert(const dlbcore_dense *way, void *dst, const void *src, size_t n, bool stream);

#endif
