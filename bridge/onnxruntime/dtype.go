package onnxruntime

import (
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A number is an element type that DLPack and ONNX Runtime have in common.
type number struct {
	carried dlpack.DataType           // the type in DLPack
	held    ort.TensorElementDataType // the type in ONNX Runtime
	generic bool                      // the binding has a Tensor[T] of this type, not a CustomDataTensor
	value   func(shape ort.Shape, memory []byte) (ort.Value, error)
	memory  func(v ort.Value) ([]byte, bool) // the elements of a value, and false if v is not of the type that value makes
}

// numberOf returns a number for which the binding has a generic tensor.
func numberOf[T interface {
	ort.TensorData
	dlpack.Element
}](held ort.TensorElementDataType) number {
	var zero T
	size := int(unsafe.Sizeof(zero))
	return number{
		carried: dlpack.DataTypeOf[T](), held: held, generic: true,
		value: func(shape ort.Shape, memory []byte) (ort.Value, error) {
			v, err := ort.NewTensor(shape, unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/size))
			if err != nil {
				return nil, err // not an interface with a nil pointer
			}
			return v, nil
		},
		memory: func(v ort.Value) ([]byte, bool) {
			x, ok := v.(*ort.Tensor[T])
			if !ok || x == nil {
				return nil, false
			}
			data := x.GetData()
			return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*size), true
		},
	}
}

// custom returns a number that only a CustomDataTensor of the binding, a tensor of bytes, can have.
func custom(carried dlpack.DataType, held ort.TensorElementDataType) number {
	return number{
		carried: carried, held: held,
		value: func(shape ort.Shape, memory []byte) (ort.Value, error) {
			v, err := ort.NewCustomDataTensor(shape, memory, held)
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		memory: func(v ort.Value) ([]byte, bool) {
			x, ok := v.(*ort.CustomDataTensor)
			if !ok || x == nil {
				return nil, false
			}
			return x.GetData(), true
		},
	}
}

// numbers lists the types that DLPack and ONNX Runtime have in common. ONNX Runtime also has names for complex numbers,
// but refuses tensors of them.
var numbers = [...]number{
	numberOf[bool](ort.TensorElementDataTypeBool),
	numberOf[int8](ort.TensorElementDataTypeInt8),
	numberOf[int16](ort.TensorElementDataTypeInt16),
	numberOf[int32](ort.TensorElementDataTypeInt32),
	numberOf[int64](ort.TensorElementDataTypeInt64),
	numberOf[uint8](ort.TensorElementDataTypeUint8),
	numberOf[uint16](ort.TensorElementDataTypeUint16),
	numberOf[uint32](ort.TensorElementDataTypeUint32),
	numberOf[uint64](ort.TensorElementDataTypeUint64),
	numberOf[float32](ort.TensorElementDataTypeFloat),
	numberOf[float64](ort.TensorElementDataTypeDouble),
	custom(dlpack.Float16, ort.TensorElementDataTypeFloat16),
	custom(dlpack.BFloat16, ort.TensorElementDataTypeBFloat16),
	custom(dlpack.Float8E4M3FN, ort.TensorElementDataTypeFloat8E4M3FN),
	custom(dlpack.Float8E4M3FNUZ, ort.TensorElementDataTypeFloat8E4M3FNUZ),
	custom(dlpack.Float8E5M2, ort.TensorElementDataTypeFloat8E5M2),
	custom(dlpack.Float8E5M2FNUZ, ort.TensorElementDataTypeFloat8E5M2FNUZ),
	custom(dlpack.Float8E8M0FNU, ort.TensorElementDataTypeFloat8E8M0),
	custom(dlpack.Float4E2M1FN, ort.TensorElementDataTypeFloat4E2M1),
	custom(dlpack.Int4, ort.TensorElementDataTypeInt4),
	custom(dlpack.Uint4, ort.TensorElementDataTypeUint4),
	custom(dlpack.Int2, ort.TensorElementDataTypeInt2),
	custom(dlpack.Uint2, ort.TensorElementDataTypeUint2),
}

// carriedAs returns the number with the given DLPack type, or nil if there is none.
func carriedAs(dt dlpack.DataType) *number {
	for i := range numbers {
		if numbers[i].carried == dt {
			return &numbers[i]
		}
	}
	return nil
}

// heldAs returns the number with the given type of ONNX Runtime, or nil if there is none.
func heldAs(dt ort.TensorElementDataType) *number {
	for i := range numbers {
		if numbers[i].held == dt {
			return &numbers[i]
		}
	}
	return nil
}
