/* scalar.h: what conversions must give. */
#ifndef DLB_SCALAR_H_
#define DLB_SCALAR_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* Converts n numbers, each of which begins with a byte of its own and has one lane. Both types are types of numbers. */
void scalar_convert(DLDataType to, uint8_t *dst, DLDataType from, const uint8_t *src, size_t n);

/* Like scalar_convert, for real numbers. Each number x is first made a float, or a double if it has an integer type of more than 16 bits
 * or is a double, and becomes x * scale + shift, by its own scale and shift. */
void scalar_convert_scaled(DLDataType to, uint8_t *dst, DLDataType from, const uint8_t *src, const double *scale, const double *shift,
                           size_t n);

#endif
