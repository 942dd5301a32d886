//go:build cgo

// Package scalar converts one number at a time. It is slow and simple. Tests compare the results of the fast conversions with it, bit by
// bit.
package scalar

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../../include
#include "scalar.h"
*/
import "C"

// A Type is a DLDataType of one lane.
type Type struct{ Code, Bits uint8 }

func (t Type) size() int { return int(t.Bits+7) / 8 }

func (t Type) inC() C.DLDataType {
	return C.DLDataType{code: C.uint8_t(t.Code), bits: C.uint8_t(t.Bits), lanes: 1}
}

// Convert converts numbers, each of which begins at a new byte.
func Convert(to, from Type, src []byte) (dst []byte) {
	n := len(src) / from.size()
	dst = make([]byte, n*to.size())
	if n > 0 {
		C.scalar_convert(to.inC(), (*C.uint8_t)(&dst[0]), from.inC(), (*C.uint8_t)(&src[0]), C.size_t(n))
	}
	return dst
}

// ConvertScaled converts real numbers, each with its own scale and shift.
func ConvertScaled(to, from Type, src []byte, scale, shift []float64) (dst []byte) {
	n := len(src) / from.size()
	dst = make([]byte, n*to.size())
	if n > 0 {
		C.scalar_convert_scaled(to.inC(), (*C.uint8_t)(&dst[0]), from.inC(), (*C.uint8_t)(&src[0]), (*C.double)(&scale[0]), (*C.double)(&shift[0]),
			C.size_t(n))
	}
	return dst
}
