package capi

/*
#include "capi.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// littleEndian says whether this machine's numbers are those of the formats.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// A reading is a capi_reading that is being filled: the [elements.Sink] of a codec. What is stored in it are addresses
// of C memory.
type reading struct {
	C               *C.capi_reading
	data            []byte // the frame
	dims            []C.int64_t
	values, formats []C.dlb_bytes // of elements that are still to come
}

func newReading(in *C.capi_input) *reading {
	return &reading{C: in.readings, data: view(in.frame.data, in.frame.size), dims: unsafe.Slice(in.dims, int(in.room))}
}

// Memory makes memory for elements that do not lie in the frame as they lie in memory.
func (r *reading) Memory(size int) ([]byte, error) {
	r.C.own = C.core_share_alloc(C.size_t(size), 1)
	if r.C.own == nil {
		return nil, errMemory
	}
	return view(r.C.own.data, C.size_t(size)), nil
}

// Begin makes elements, whose values are still to come.
func (r *reading) Begin(dtype string, shape []int64, count int, formats bool) error {
	withFormats := 0
	if formats {
		withFormats = count
	}
	own := C.capi_elements_new(C.size_t(count), C.size_t(withFormats), C.size_t(len(shape)), C.size_t(len(dtype)))
	if own == nil {
		return errMemory
	}
	r.C.elements = own
	room := view(unsafe.Pointer(own.text), C.size_t(len(dtype)))
	copy(room, dtype)
	own.seen._type = text(room)
	copy(unsafe.Slice((*int64)(unsafe.Pointer(own.seen.shape)), len(shape)), shape)
	r.values = unsafe.Slice(own.seen.values, count)
	r.formats = unsafe.Slice(own.seen.formats, withFormats)
	return nil
}

// Take sets the next values, which lie in the frame as their formats do.
func (r *reading) Take(values [][]byte, formats []string) {
	for i, value := range values {
		r.values[i] = text(value)
	}
	r.values = r.values[len(values):]
	for i, format := range formats {
		r.formats[i] = text(unsafe.Slice(unsafe.StringData(format), len(format)))
	}
	r.formats = r.formats[len(formats):]
}

// tensor sets the reading to elements that lie in the frame, or in memory of the reading's own.
func (r *reading) tensor(dt dlpack.DataType, shape []int64, elems []byte, inFrame bool) error {
	if !littleEndian && dt.ItemSize() > 1 {
		return fmt.Errorf("dlbridge: %v: %w", dt, elements.ErrByteOrder)
	}
	r.C.dtype = C.DLDataType{code: C.uint8_t(dt.Code()), bits: C.uint8_t(dt.Bits()), lanes: C.uint16_t(dt.Lanes())}
	if dt.IsSubByte() {
		r.C.flags = C.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
	}
	r.C.ndim = C.int32_t(len(shape))
	for i, n := range shape {
		r.dims[i] = C.int64_t(n)
	}
	if len(shape) > 0 {
		r.C.shape = &r.dims[0]
		r.dims = r.dims[len(shape):]
	}
	if inFrame {
		r.C.start = C.size_t(r.offset(elems))
	}
	return r.done()
}

// done is the end of a reading.
func (r *reading) done() error {
	if fault != nil {
		fault(2)
	}
	return nil
}

// offset is where bytes begin that lie in the frame.
func (r *reading) offset(b []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.data))))
}

// write appends to C's room if that is large enough. Either way out is the number of bytes that are needed.
func write(out *C.size_t, data unsafe.Pointer, room C.size_t, size func() (int, error), write func(dst []byte) ([]byte, error)) error {
	n, err := size()
	if err != nil {
		return err
	}
	if n > int(room) {
		*out = C.size_t(n)
		return nil
	}
	place := view(data, C.size_t(n)) // and not the rest of the room, in which the tensor may lie
	written, err := write(place[:0])
	if err != nil {
		return err
	}
	copy(place, written) // which lies elsewhere if it was made of what lay here
	*out = C.size_t(len(written))
	return nil
}

// borrow calls use with the tensor of a description of C's.
func borrow(taken *C.DLManagedTensorVersioned, use func(t *dlpack.Tensor) error) error {
	t, err := dlpack.Import(unsafe.Pointer(taken), dlpack.WithoutGuard)
	if err != nil {
		return err
	}
	defer t.Close()
	return use(t)
}

// elementsOf is a view of C's elements, for the time of a call, without the values.
func elementsOf(c *C.dlb_elements) *elements.Elements {
	e := &elements.Elements{
		Type:  viewString(c._type),
		Shape: []int64{},
	}
	if c.ndim > 0 { // else shape may be no address, as the data of any list without elements
		e.Shape = unsafe.Slice((*int64)(unsafe.Pointer(c.shape)), int(c.ndim))
	}
	return e
}

// withElements calls use with a view of C's elements.
func withElements(c *C.dlb_elements, use func(e *elements.Elements) error) error {
	e := elementsOf(c)
	if c.count == 0 {
		return use(e)
	}
	values, free, err := newList[[]byte](int(c.count))
	if err != nil {
		return err
	}
	defer free()
	for i, value := range unsafe.Slice(c.values, len(values)) {
		values[i] = viewText(value)
	}
	e.Values = values
	if c.formats != nil {
		formats, free, err := newList[string](len(values))
		if err != nil {
			return err
		}
		defer free()
		for i, format := range unsafe.Slice(c.formats, len(values)) {
			formats[i] = viewString(format)
		}
		e.Formats = formats
	}
	return use(e)
}
