package capi

/*
#include "capi.h"
*/
import "C"

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

// C: dlb_tensorflow_decode
//
//export capiTensorflowDecode
func capiTensorflowDecode(in *C.capi_input, e *C.dlb_error) C.int32_t {
	return guard(e, C.DLB_ERROR_FORMAT, func() error {
		r := newReading(in)
		var options []tensorflow.DecodeOption
		if in.options&C.DLB_TENSORFLOW_LENIENT != 0 {
			options = append(options, tensorflow.Lenient())
		}
		if in.options&C.DLB_TENSORFLOW_INTEGERS != 0 {
			options = append(options, tensorflow.Integers())
		}
		if limit := limitOf(in.options, 0); limit > 0 {
			options = append(options, tensorflow.Limit(limit))
		}
		v, err := tensorflow.DecodeViewTo(r, r.data, options...)
		if err != nil {
			return err
		}
		dt := v.DType.DataType()
		if in.options&C.DLB_TENSORFLOW_INTEGERS != 0 {
			dt = v.DType.Storage()
		}
		r.C.end = C.size_t(len(r.data))
		switch {
		case r.C.elements != nil:
			return r.done()
		case dt == 0:
			return r.numbers(&v)
		}
		return r.tensor(dt, v.Shape, v.Data, v.Aliases)
	})
}

// numbers sets the reading to elements of a fixed size for which DLPack has no type. They are consecutive in v.Data,
// which is a part of the frame or memory of the reading.
func (r *reading) numbers(v *tensorflow.View) error {
	size := v.DType.Storage().ItemSize()
	if err := r.Begin(v.DType.String(), v.Shape, len(v.Data)/size, false); err != nil {
		return err
	}
	for i := range r.values {
		r.values[i] = text(v.Data[i*size : (i+1)*size])
	}
	return r.done()
}

// C: dlb_tensorflow_encode
//
//export capiTensorflowEncode
func capiTensorflowEncode(out *C.size_t, data unsafe.Pointer, room C.size_t, taken *C.DLManagedTensorVersioned, elems *C.dlb_elements, how C.uint64_t, e *C.dlb_error) C.int32_t {
	return guard(e, C.DLB_ERROR_ARGUMENT, func() error {
		var options []tensorflow.EncodeOption
		if how&C.DLB_TENSORFLOW_FIELDS != 0 {
			options = append(options, tensorflow.Fields())
		}
		if how&C.DLB_TENSORFLOW_CONTENT != 0 {
			options = append(options, tensorflow.Content())
		}
		if how&C.DLB_TENSORFLOW_PAD != 0 {
			options = append(options, tensorflow.Pad(64))
		}
		return encodeValue(out, data, room, taken, elems, encoder{
			sizeElements: func(e *elements.Elements) (int, error) { return tensorflow.SizeElements(e, options...) },
			appendElements: func(dst []byte, e *elements.Elements) ([]byte, error) {
				return tensorflow.AppendElements(dst, e, options...)
			},
			sizeTensor:   func(t *dlpack.Tensor) (int, error) { return tensorflow.SizeTensor(t, options...) },
			appendTensor: func(dst []byte, t *dlpack.Tensor) ([]byte, error) { return tensorflow.AppendTensor(dst, t, options...) },
		})
	})
}
