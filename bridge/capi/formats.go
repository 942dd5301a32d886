package capi

/*
#include "capi.h"
*/
import "C"

import (
	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

// format is what the C functions of a format do in Go.
type format struct {
	// decode sets r.value to the value at the beginning of data, with r as the sink. Unless several is set, it must be all of data.
	decode func(r *reading, data []byte, options C.uint64_t, several bool) error
	// counted says that DLB_LIMIT counts all copies and elements of a call. Otherwise decode passes it to a decoder with a limit of
	// its own.
	counted bool
	encode  func(options C.uint64_t) encoder
	// rules reads the rules of a text, and returns the check of elements or, if they are nil, of a tensor. It is nil for a
	// format that is not in RULES.
	rules func(text []byte) (check func(e *elements.Elements, t *dlpack.Tensor) error, err error)
}

// decoded is a value that was decoded: a tensor, or elements, which went to the sink.
type decoded struct {
	size    int             // of its encoding
	dtype   dlpack.DataType // 0 for elements
	shape   []int64
	data    []byte // the elements of a tensor
	inFrame bool   // whether they lie in the frame; otherwise they are in memory of the sink
}

// encoder is a format's functions that encode values.
type encoder struct {
	sizeElements   func(e *elements.Elements) (int, error)
	appendElements func(dst []byte, e *elements.Elements) ([]byte, error)
	sizeTensor     func(t *dlpack.Tensor) (int, error)
	appendTensor   func(dst []byte, t *dlpack.Tensor) ([]byte, error)
}

// formats has the rows of formats.h, by their index.
var formats = [C.FORMAT_COUNT]format{
	C.FORMAT_decthings: {
		counted: true,
		decode: func(r *reading, data []byte, options C.uint64_t, several bool) (err error) {
			d, dialect := &r.value, decthings.Dialect(options&(limitUnit-1))
			v := decthings.View{Shape: d.shape}
			if d.size = len(data); several {
				d.size, err = v.DecodeFirstTo(r, data, dialect)
			} else {
				v, err = decthings.DecodeViewTo(r, data, dialect)
			}
			if d.dtype = 0; v.Elements == nil {
				d.dtype = v.Type.DataType()
			}
			d.shape, d.data, d.inFrame = v.Shape, v.Data, true
			return err
		},
		encode: func(options C.uint64_t) encoder {
			dialect := decthings.Dialect(options)
			return encoder{
				sizeElements: func(e *elements.Elements) (int, error) { return decthings.SizeElements(e, dialect) },
				appendElements: func(dst []byte, e *elements.Elements) ([]byte, error) {
					return decthings.AppendElements(dst, e, dialect)
				},
				sizeTensor:   decthings.SizeTensor,
				appendTensor: decthings.AppendTensor,
			}
		},
		rules: func(text []byte) (func(e *elements.Elements, t *dlpack.Tensor) error, error) {
			rules, err := decthings.DecodeRules(text)
			return func(e *elements.Elements, t *dlpack.Tensor) (err error) {
				var what decthings.Type
				var shape []int64
				if e != nil {
					what, err = decthings.ParseType(e.Type)
					shape = e.Shape
				} else {
					what, err = decthings.TypeOf(t.DType())
					shape = t.Shape()
				}
				if err != nil {
					return err
				}
				return rules.Check(what, shape)
			}, err
		},
	},
	C.FORMAT_tensorflow: {
		decode: func(r *reading, data []byte, options C.uint64_t, _ bool) error {
			var how []tensorflow.DecodeOption
			if options&C.DLB_TENSORFLOW_LENIENT != 0 {
				how = append(how, tensorflow.Lenient())
			}
			if options&C.DLB_TENSORFLOW_INTEGERS != 0 {
				how = append(how, tensorflow.Integers())
			}
			if limit := limitOf(options, 0); limit > 0 {
				how = append(how, tensorflow.Limit(limit))
			}
			v, err := tensorflow.DecodeViewTo(r, data, how...)
			r.value = decoded{size: len(data), shape: v.Shape, data: v.Data, inFrame: v.Aliases}
			if err != nil || r.C.elements != nil {
				return err
			}
			if r.value.dtype = v.DType.DataType(); options&C.DLB_TENSORFLOW_INTEGERS != 0 {
				r.value.dtype = v.DType.Storage()
			}
			if r.value.dtype == 0 { // numbers for which DLPack has no type
				return r.numbers(v.DType.String(), v.Shape, v.Data, v.DType.Storage().ItemSize())
			}
			return nil
		},
		encode: func(options C.uint64_t) encoder {
			var how []tensorflow.EncodeOption
			if options&C.DLB_TENSORFLOW_FIELDS != 0 {
				how = append(how, tensorflow.Fields())
			}
			if options&C.DLB_TENSORFLOW_CONTENT != 0 {
				how = append(how, tensorflow.Content())
			}
			if options&C.DLB_TENSORFLOW_PAD != 0 {
				how = append(how, tensorflow.Pad(64))
			}
			return encoder{
				sizeElements: func(e *elements.Elements) (int, error) { return tensorflow.SizeElements(e, how...) },
				appendElements: func(dst []byte, e *elements.Elements) ([]byte, error) {
					return tensorflow.AppendElements(dst, e, how...)
				},
				sizeTensor:   func(t *dlpack.Tensor) (int, error) { return tensorflow.SizeTensor(t, how...) },
				appendTensor: func(dst []byte, t *dlpack.Tensor) ([]byte, error) { return tensorflow.AppendTensor(dst, t, how...) },
			}
		},
	},
}
