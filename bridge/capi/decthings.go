package capi

/*
#include "capi.h"
*/
import "C"

import (
	"errors"
	"math"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

// C: dlb_decthings_decode
//
//export capiDecthingsDecode
func capiDecthingsDecode(in *C.capi_input, e *C.dlb_error) C.int32_t {
	return guard(e, C.DLB_ERROR_FORMAT, func() error {
		r := newReading(in)
		r.limit = limitOf(in.options, math.MaxInt64)
		v, err := decthings.DecodeViewTo(r, r.data, dialectOf(in))
		if err != nil {
			return err
		}
		return r.decthings(&v, len(r.data))
	})
}

// batchSize is the number of bytes of the frame after which a call of dlb_decthings_decode_batch begins no further
// tensor. It bounds the memory for copies of unaligned elements. A program that processes a stream needs these copies
// only one after another.
const batchSize = 1 << 16

// C: dlb_decthings_decode_batch
//
//export capiDecthingsDecodeBatch
func capiDecthingsDecodeBatch(in *C.capi_input, e *C.dlb_error) C.int32_t {
	return guard(e, C.DLB_ERROR_FORMAT, func() error {
		r := newReading(in)
		r.limit = limitOf(in.options, math.MaxInt64)
		var v decthings.View
		readings := unsafe.Slice(in.readings, int(in.count))
		start := int(in.offset)
		for i, at := 0, start; i < len(readings) && at < len(r.data) && at-start < batchSize; i++ {
			r.C = &readings[i]
			n, err := v.DecodeFirstTo(r, r.data[at:], dialectOf(in))
			if err != nil || len(v.Shape) > len(r.dims) {
				if i > 0 {
					return nil // the next call reports the error
				}
				if fault, ok := errors.AsType[*elements.Error](err); ok {
					fault.Offset += int64(at)
				}
				return err
			}
			at += n
			if err := r.decthings(&v, at); err != nil {
				r.C.end = 0
				if i > 0 {
					return nil
				}
				return err
			}
		}
		return nil
	})
}

func dialectOf(in *C.capi_input) decthings.Dialect {
	return decthings.Dialect(in.options & (limitUnit - 1))
}

// decthings sets the reading to a value that ends at the given offset of the frame.
func (r *reading) decthings(v *decthings.View, end int) error {
	r.C.end = C.size_t(end)
	if v.Elements != nil {
		return r.done()
	}
	return r.tensor(v.Type.DataType(), v.Shape, v.Data, true)
}

// C: dlb_decthings_encode
//
//export capiDecthingsEncode
func capiDecthingsEncode(out *C.size_t, data unsafe.Pointer, room C.size_t, taken *C.DLManagedTensorVersioned, elems *C.dlb_elements, how C.uint64_t, e *C.dlb_error) C.int32_t {
	return guard(e, C.DLB_ERROR_ARGUMENT, func() error {
		dialect := decthings.Dialect(how)
		return encodeValue(out, data, room, taken, elems, encoder{
			sizeElements: func(e *elements.Elements) (int, error) { return decthings.SizeElements(e, dialect) },
			appendElements: func(dst []byte, e *elements.Elements) ([]byte, error) {
				return decthings.AppendElements(dst, e, dialect)
			},
			sizeTensor:   decthings.SizeTensor,
			appendTensor: decthings.AppendTensor,
		})
	})
}

// C: dlb_decthings_check
//
//export capiDecthingsCheck
func capiDecthingsCheck(rules C.dlb_bytes, taken *C.DLManagedTensorVersioned, elems *C.dlb_elements, e *C.dlb_error) C.int32_t {
	return guard(e, C.DLB_ERROR_ARGUMENT, func() error {
		if err := dlpack.RequireMemory(perByte * int64(rules.size)); err != nil {
			return err
		}
		r, err := decthings.DecodeRules(viewText(rules))
		if err != nil {
			return err
		}
		if elems != nil {
			e := elementsOf(elems)
			t, err := decthings.ParseType(e.Type)
			if err != nil {
				return err
			}
			return r.Check(t, e.Shape)
		}
		return borrow(taken, func(t *dlpack.Tensor) error {
			what, err := decthings.TypeOf(t.DType())
			if err != nil {
				return err
			}
			return r.Check(what, t.Shape())
		})
	})
}
