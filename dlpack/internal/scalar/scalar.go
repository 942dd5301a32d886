//go:build cgo

// Package scalar converts one number at a time. It is slow and plain, and says for the tests what the fast conversions must give, bit by
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

// Convert converts numbers that begin with a byte of their own each.
func Convert(to, from Type, src []byte) (dst []byte) {
	n := len(src) / from.size()
	dst = make([]byte, n*to.size())
	if n > 0 {
		C.scalar_convert(to.inC(), (*C.uint8_t)(&dst[0]), from.inC(), (*C.uint8_t)(&src[0]), C.size_t(n))
	}
	return dst
}

// ConvertScaled converts real numbers, each by its own scale and shift.
func ConvertScaled(to, from Type, src []byte, scale, shift []float64) (dst []byte) {
	n := len(src) / from.size()
	dst = make([]byte, n*to.size())
	if n > 0 {
		C.scalar_convert_scaled(to.inC(), (*C.uint8_t)(&dst[0]), from.inC(), (*C.uint8_t)(&src[0]), (*C.double)(&scale[0]), (*C.double)(&shift[0]),
			C.size_t(n))
	}
	return dst
}
