/* scalar.h: what conversions must give. */
#ifndef DLB_SCALAR_H_
#define DLB_SCALAR_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* Converts n numbers, each of which begins with a byte of its own and has one lane. Both types are types of numbers. */
void scalar_convert(DLDataType to, uint8_t *dst, DLDataType from, const uint8_t *src, size_t n);

#endif
