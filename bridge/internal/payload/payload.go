// Package payload is what package bridge and the codecs below it know alike of the bytes of a payload: where
// they lie, in which order, and whose they are.
package payload

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// LittleEndian says whether this machine's numbers are those of the formats. Tests set it.
var LittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Addressable is more bytes than any slice can have.
const Addressable = 1 << 47

// Address is where a slice begins.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Aligned is new memory for size bytes, in which the one at an index lies at a multiple of align, a power
// of two.
func Aligned(index, size, align int) []byte {
	all := make([]byte, size+align-1)
	skip := int(-(Address(all) + uintptr(index)) & uintptr(align-1))
	return all[skip : skip : skip+size]
}

// AlignedCopy copies into memory of Go's that is aligned. An ordinary allocation need not be cleared before,
// and is nearly always aligned enough for numbers, or, where it is large, to a page.
func AlignedCopy(data []byte, align int) []byte {
	if align <= 8 || len(data) >= 1<<15 {
		if c := append([]byte(nil), data...); Address(c)%uintptr(align) == 0 {
			return c
		}
	}
	return append(Aligned(0, len(data), align), data...)
}

// Room makes room for more bytes behind dst, at most [Addressable]. Where that takes new memory, what is at an index
// there is aligned.
//
// Errors: [dlpack.ErrMemory]; dst is then as it was.
func Room(dst []byte, more, index, align int) ([]byte, error) {
	n := len(dst)
	if cap(dst)-n >= more {
		return dst, nil
	}
	size := n + more
	if dlpack.RequireMemory(int64(size+n+align)) == nil {
		size += n // so that appending one by one copies each byte a few times at most
	} else if err := dlpack.RequireMemory(int64(size + align)); err != nil {
		return dst, err
	}
	return append(Aligned(index, size, align), dst...), nil
}

// Shape describes a shape in an error: the sizes of the first dimensions, however many there are. It formats a copy, so
// that callers which only mention a shape in an error can keep it on their stack.
func Shape(shape []int64) string {
	const most = 16
	if len(shape) <= most {
		return fmt.Sprint(slices.Clone(shape))
	}
	return strings.TrimSuffix(fmt.Sprint(slices.Clone(shape[:most])), "]") + fmt.Sprintf(" ... of %d dimensions]", len(shape))
}

// NotBool is the index of the first byte that is neither 0 nor 1, or -1.
func NotBool(data []byte) int {
	i := 0
	for ; len(data)-i >= 8; i += 8 {
		if binary.NativeEndian.Uint64(data[i:])&0xfefefefefefefefe != 0 {
			break
		}
	}
	for ; i < len(data); i++ {
		if data[i] > 1 {
			return i
		}
	}
	return -1
}

// A Sink takes what a codec reads into memory that is not Go's. So package capi keeps elements in C memory, and no
// slice of Go's is made for each of them, or for a copy of all of them.
type Sink interface {
	// Memory returns zeroed memory for the elements of a tensor that do not lie in the input as they lie in memory.
	Memory(size int) ([]byte, error)
	// Begin is called before the first Take, when the number of elements of variable size has been checked against
	// the input.
	Begin(dtype string, shape []int64, count int, formats bool) error
	// Take gets elements in their order, a few at a time. It must not keep the lists: they are used again. Their
	// bytes, and those of the formats, are the input's.
	Take(values [][]byte, formats []string)
}

// Discard is a Sink of elements that nobody is to have.
var Discard Sink = discard{}

type discard struct{}

func (discard) Memory(size int) ([]byte, error)        { return make([]byte, size), nil }
func (discard) Begin(string, []int64, int, bool) error { return nil }
func (discard) Take([][]byte, []string)                {}

// Few is how many elements of n a Sink takes at a time.
func Few(n int64) int64 { return min(n, 128) }
