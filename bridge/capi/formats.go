package capi

/*
#include "message.h"
*/
import "C"

import (
	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

// format has the Go functions behind the C functions of one format.
type format struct {
	// decode sets the reading to the value at the beginning of data: to a tensor, or as the sink of its elements. It
	// returns the size of the value in bytes: all of data, unless several is set.
	decode func(r *reading, data []byte, options C.uint64_t, several bool) (size int, err error)
	// counted says that DLB_LIMIT counts all copies and elements of a call. Otherwise decode passes the limit to a
	// decoder that counts by itself.
	counted bool
	// size returns the size of the encoding of elements or, if they are nil, of a tensor, which appendTo appends.
	size     func(e *elements.Elements, t *dlpack.Tensor, options C.uint64_t) (int, error)
	appendTo func(dst []byte, e *elements.Elements, t *dlpack.Tensor, options C.uint64_t) ([]byte, error)
	// rules reads the rules of a text, and returns the check of elements or, if they are nil, of a tensor. It is nil for a
	// format that is not in RULES.
	rules func(text []byte) (check func(e *elements.Elements, t *dlpack.Tensor) error, err error)
}

// formats has the rows of formats.h, by their index.
var formats = [C.FORMAT_COUNT]format{
	C.FORMAT_decthings: {
		counted: true,
		decode: func(r *reading, data []byte, options C.uint64_t, several bool) (size int, err error) {
			dialect, v := decthings.Dialect(options&(limitUnit-1)), decthings.View{Shape: r.shape}
			if size = len(data); several {
				size, err = v.DecodeFirstTo(r, data, dialect)
			} else {
				v, err = decthings.DecodeViewTo(r, data, dialect)
			}
			if r.shape = v.Shape; err != nil || v.Elements != nil {
				return size, err
			}
			return size, r.tensor(v.Type.DataType(), v.Shape, v.Data, true)
		},
		size: func(e *elements.Elements, t *dlpack.Tensor, options C.uint64_t) (int, error) {
			if e != nil {
				return decthings.SizeElements(e, decthings.Dialect(options))
			}
			return decthings.SizeTensor(t)
		},
		appendTo: func(dst []byte, e *elements.Elements, t *dlpack.Tensor, options C.uint64_t) ([]byte, error) {
			if e != nil {
				return decthings.AppendElements(dst, e, decthings.Dialect(options))
			}
			return decthings.AppendTensor(dst, t)
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
		decode: func(r *reading, data []byte, options C.uint64_t, _ bool) (int, error) {
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
			if err != nil || r.C.elements != nil {
				return len(data), err
			}
			dt := v.DType.DataType()
			if options&C.DLB_TENSORFLOW_INTEGERS != 0 {
				dt = v.DType.Storage()
			}
			if dt == 0 { // numbers for which DLPack has no type
				return len(data), r.numbers(v.DType.String(), v.Shape, v.Data, v.DType.Storage().ItemSize())
			}
			return len(data), r.tensor(dt, v.Shape, v.Data, v.Aliases)
		},
		size: func(e *elements.Elements, t *dlpack.Tensor, options C.uint64_t) (int, error) {
			how := tensorflowEncode(options)
			if e != nil {
				return tensorflow.SizeElements(e, how...)
			}
			return tensorflow.SizeTensor(t, how...)
		},
		appendTo: func(dst []byte, e *elements.Elements, t *dlpack.Tensor, options C.uint64_t) ([]byte, error) {
			how := tensorflowEncode(options)
			if e != nil {
				return tensorflow.AppendElements(dst, e, how...)
			}
			return tensorflow.AppendTensor(dst, t, how...)
		},
	},
}

func tensorflowEncode(options C.uint64_t) (how []tensorflow.EncodeOption) {
	if options&C.DLB_TENSORFLOW_FIELDS != 0 {
		how = append(how, tensorflow.Fields())
	}
	if options&C.DLB_TENSORFLOW_CONTENT != 0 {
		how = append(how, tensorflow.Content())
	}
	if options&C.DLB_TENSORFLOW_PAD != 0 {
		how = append(how, tensorflow.Pad(64))
	}
	return how
}
