package capi

/*
#include "message.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// reading fills a dlbcapi_reading. It is the [elements.Sink] of a decoder. It stores only addresses of C memory.
type reading struct {
	C               *C.dlbcapi_reading
	data            []byte // the frame
	dims            []C.int64_t
	values, formats []C.dlb_bytes // the entries that Take has not set yet
	shape           []int64       // memory for the shape of the next value
	limit           int64         // the bytes of memory that copies and elements may still take
}

// batchSize bounds the memory for copies of unaligned elements: after this many bytes of the frame, a call that decodes
// several values begins no further value. A program that processes a stream needs these copies only one after another.
const batchSize = 1 << 16

// C: dlb_NAME_decode, and if in.several is set, dlb_NAME_decode_batch
//
//export capiValueDecode
func capiValueDecode(op *C.dlbcapi_name, in *C.dlbcapi_input, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_FORMAT, func() error {
		r := &reading{data: view(in.frame.data, in.frame.size), dims: unsafe.Slice(in.dims, int(in.room)), limit: math.MaxInt64}
		f, several := &formats[in.format], in.several != 0
		if f.counted {
			r.limit = limitOf(in.options, math.MaxInt64)
		}
		readings := unsafe.Slice(in.readings, int(in.count))
		start := int(in.offset)
		for i, at := 0, start; i < len(readings) && (!several || at < len(r.data) && at-start < batchSize); i++ {
			r.C = &readings[i]
			size, err := f.decode(r, r.data[at:], in.options, several)
			if err != nil {
				if i > 0 {
					return nil // the next call reports the error, or has room for the dimensions
				}
				if fault, ok := errors.AsType[*elements.Error](err); ok {
					fault.Offset += int64(start)
				}
				return err
			}
			at += size
			r.C.end = C.size_t(at)
			if injectFault != nil {
				injectFault(2)
			}
		}
		return nil
	})
}

// spend subtracts memory that a value takes from the limit. It fails if less is left.
func (r *reading) spend(bytes int64) error {
	if bytes > r.limit {
		return fmt.Errorf("dlbridge: a value needs %d bytes besides the frame, but the limit leaves %d; Limit allows more", bytes, r.limit)
	}
	r.limit -= bytes
	return nil
}

// Memory allocates memory for elements whose forms in the frame and in memory differ.
func (r *reading) Memory(size int) ([]byte, error) {
	r.C.own = C.dlbcore_share_alloc(C.size_t(size), 1)
	if r.C.own == nil {
		return nil, errMemory
	}
	return view(r.C.own.data, C.size_t(size)), nil
}

// Begin allocates elements. Take sets their values.
func (r *reading) Begin(dtype string, shape []int64, count int, formats bool) error {
	withFormats := 0
	if formats {
		withFormats = count
	}
	if err := r.spend(int64(count+withFormats)*C.sizeof_dlb_bytes + int64(len(shape))*8); err != nil {
		return err
	}
	own := C.dlbcapi_elements_new(C.size_t(count), C.size_t(withFormats), C.size_t(len(shape)), C.size_t(len(dtype)))
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

// Take sets the next values and their formats. All of them lie in the frame.
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

// numbers sets the reading to consecutive elements of size bytes each in data, which is a part of the frame or memory
// of the reading.
func (r *reading) numbers(dtype string, shape []int64, data []byte, size int) error {
	if err := r.Begin(dtype, shape, len(data)/size, false); err != nil {
		return err
	}
	for i := range r.values {
		r.values[i] = text(data[i*size : (i+1)*size])
	}
	return nil
}

// errDims reports that there is no room for the dimensions of another value.
var errDims = errors.New("dlbridge: no room for the dimensions")

// tensor sets the reading to a tensor, whose elements are in the frame or in memory of the reading.
func (r *reading) tensor(dt dlpack.DataType, shape []int64, elems []byte, inFrame bool) error {
	if len(shape) > len(r.dims) {
		return errDims
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
		if payload.IsMisaligned(elems, payload.Alignment(dt)) {
			if err := r.spend(int64(len(elems))); err != nil {
				return err
			}
			r.C.copied = 1
		}
	}
	return nil
}

// offset returns the offset of b, a part of the frame, in the frame.
func (r *reading) offset(b []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.data))))
}

// C: dlb_NAME_encode. It encodes the elements, or the tensor if they are nil, into the room bytes at data.
//
//export capiValueEncode
func capiValueEncode(op *C.dlbcapi_name, format C.size_t, out *C.size_t, data unsafe.Pointer, room C.size_t, taken *C.DLManagedTensorVersioned, elems *C.dlb_elements, options C.uint64_t, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_ARGUMENT, func() error {
		f := &formats[format]
		if elems != nil {
			return withElements(elems, func(e *elements.Elements) error { return f.encode(out, data, room, e, nil, options) })
		}
		return borrow(taken, func(t *dlpack.Tensor) error { return f.encode(out, data, room, nil, t, options) })
	})
}

// C: dlb_NAME_check. It checks the elements, or the tensor if they are nil.
//
//export capiValueCheck
func capiValueCheck(op *C.dlbcapi_name, format C.size_t, rules C.dlb_bytes, taken *C.DLManagedTensorVersioned, elems *C.dlb_elements, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_ARGUMENT, func() error {
		if err := dlpack.RequireMemory(perByte * int64(rules.size)); err != nil {
			return err
		}
		check, err := formats[format].rules(viewText(rules))
		if err != nil {
			return err
		}
		if elems != nil {
			return check(elementsOf(elems), nil)
		}
		return borrow(taken, func(t *dlpack.Tensor) error { return check(nil, t) })
	})
}

// encode encodes elements, or a tensor, into C's buffer of room bytes if the encoding fits. Unless there is an error,
// it sets *out to the size of the encoding, even if the encoding does not fit.
func (f *format) encode(out *C.size_t, data unsafe.Pointer, room C.size_t, e *elements.Elements, t *dlpack.Tensor, options C.uint64_t) error {
	n, err := f.size(e, t, options)
	if err != nil {
		return err
	}
	if n > int(room) {
		*out = C.size_t(n)
		return nil
	}
	place := view(data, C.size_t(n)) // not the rest of the buffer, in which the tensor may lie
	written, err := f.appendTo(place[:0], e, t, options)
	if err != nil {
		return err
	}
	copy(place, written) // a tensor that overlaps place was encoded into other memory
	*out = C.size_t(len(written))
	return nil
}

// borrow calls use with a tensor on the memory that taken describes.
func borrow(taken *C.DLManagedTensorVersioned, use func(t *dlpack.Tensor) error) error {
	t, err := dlpack.Import(unsafe.Pointer(taken), dlpack.WithoutGuard)
	if err != nil {
		return err
	}
	defer t.Close()
	return use(t)
}

// elementsOf returns a view of C's elements without their values. It is valid during the call.
func elementsOf(c *C.dlb_elements) *elements.Elements {
	e := &elements.Elements{
		Type:  viewString(c._type),
		Shape: []int64{},
	}
	if c.ndim > 0 { // otherwise shape may have any value, see dlbcapi_check_bytes
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
	values, free, err := viewList(unsafe.Slice(c.values, int(c.count)), viewText)
	if err != nil {
		return err
	}
	defer free()
	e.Values = values
	if c.formats != nil {
		formats, free, err := viewList(unsafe.Slice(c.formats, int(c.count)), viewString)
		if err != nil {
			return err
		}
		defer free()
		e.Formats = formats
	}
	return use(e)
}
