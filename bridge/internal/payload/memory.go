package payload

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// Addressable is a number of bytes that is larger than any slice, because a process cannot address so many.
const Addressable = 1 << 47

// Address returns the address of the first byte of a slice.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Alignment returns the alignment in bytes that elements of a type need: their size, or half of it for complex numbers.
func Alignment(dt dlpack.DataType) int {
	if dt.Code() == dlpack.CodeComplex {
		return dt.ItemSize() / 2
	}
	return dt.ItemSize()
}

// FileAlignment returns the largest power of two, up to 4096, that divides the offset of elements in a file. The
// elements have this alignment in memory if the file begins at a multiple of 4096, like a mapping.
func FileAlignment(offset int64) int { return 1 << min(bits.TrailingZeros64(uint64(offset)), 12) }

// Aligned returns an empty slice of new zeroed memory with capacity for size bytes. The address of the byte with the
// given index is a multiple of align, a power of two.
func Aligned(index, size, align int) []byte {
	all := make([]byte, size+align-1)
	skip := int(-(Address(all) + uintptr(index)) & uintptr(align-1))
	return all[skip : skip : skip+size]
}

// AlignedCopy returns a copy of data in Go memory whose address is a multiple of align. It tries an ordinary allocation
// first, which saves zeroing the memory: small memory is nearly always aligned to 8 bytes, and large memory to a page.
func AlignedCopy(data []byte, align int) []byte {
	if align <= 8 || len(data) >= 1<<15 {
		if c := append([]byte(nil), data...); Address(c)%uintptr(align) == 0 {
			return c
		}
	}
	return append(Aligned(0, len(data), align), data...)
}

// WithFormat returns err with a text that begins with the name of a format. err is an error of package dlpack, or an
// error without a prefix.
func WithFormat(format string, err error) error {
	var e *dlpack.Error
	if errors.As(err, &e) {
		return WithText(format+": "+e.Where, err)
	}
	return fmt.Errorf("%s: %w", format, err)
}

// WithText returns err as an error with another text.
func WithText(text string, err error) error { return &textError{text, err} }

type textError struct {
	text  string
	cause error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.cause }

// Room returns dst with capacity for more additional bytes; more is at most [Addressable]. If Room allocates memory,
// the address of the byte with the given index is a multiple of align.
//
// Errors: [dlpack.ErrMemory] after the name of the format; dst is then returned unchanged.
func Room(format string, dst []byte, more, index, align int) ([]byte, error) {
	n := len(dst)
	if cap(dst)-n >= more {
		return dst, nil
	}
	size := n + more
	if dlpack.RequireMemory(int64(size+n+align)) == nil {
		size += n // doubles the capacity, so that each byte is copied only a few times if a caller appends in many small steps
	} else if err := dlpack.RequireMemory(int64(size + align)); err != nil {
		return dst, WithFormat(format, err)
	}
	return append(Aligned(index, size, align), dst...), nil
}
