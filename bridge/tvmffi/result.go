//go:build cgo

package tvmffi

// #include "tvmffi.h"
import "C"

import (
	"math"
	"reflect"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// store writes the value returned by a handler to the result of the call.
func store(result *C.ffi_any, v any) error {
	if isNil(v) {
		return at("result", errNil)
	}
	switch v := v.(type) {
	case bool:
		put(result, C.FFI_BOOL, 0, boolBits(v))
	case dlpack.DataType:
		put(result, C.FFI_DTYPE, 0, uint64(v))
	case dlpack.Device:
		put(result, C.FFI_DEVICE, 0, deviceBits(v))
	case string:
		return storeText(result, unsafe.StringData(v), len(v), 0)
	case Bytes:
		return storeText(result, unsafe.SliceData(v), len(v), 1)
	case []byte:
		return storeText(result, unsafe.SliceData(v), len(v), 1)
	case *dlpack.Tensor:
		if v.Flags()&dlpack.ReadOnly != 0 {
			return newError(dlpack.ErrReadOnly, "result: the tensor is read-only, which TVM-FFI cannot express; Copy makes a writable one")
		}
		if !attached() {
			return errNotLoaded("result")
		}
		object, err := tensorObject(v)
		if err != nil {
			return at("result", err)
		}
		put(result, C.FFI_TENSOR, 0, uint64(object))
	case shareable:
		kind, handle := v.share()
		if handle == 0 {
			return errClosed("result")
		}
		put(result, C.int32_t(kind), 0, handle)
	default:
		return storeNumber(result, reflect.ValueOf(v))
	}
	return nil
}

func storeNumber(result *C.ffi_any, n reflect.Value) error {
	switch {
	case n.CanInt():
		put(result, C.FFI_INT, 0, uint64(n.Int()))
	case n.CanUint() && n.Uint() > math.MaxInt64:
		return newError(dlpack.ErrOverflow, "result: %d is more than 2^63-1", n.Uint())
	case n.CanUint():
		put(result, C.FFI_INT, 0, n.Uint())
	case n.CanFloat():
		put(result, C.FFI_FLOAT, 0, math.Float64bits(n.Float()))
	default:
		return newError(ErrArgument, "result: TVM-FFI cannot represent %v", n.Type())
	}
	return nil
}

func put(result *C.ffi_any, kind C.int32_t, size C.uint32_t, bits uint64) {
	result._type, result.size = kind, size
	*(*uint64)(unsafe.Pointer(&result.value)) = bits
}

func storeText(result *C.ffi_any, data *byte, size int, bytes C.int) error {
	if !attached() {
		return errNotLoaded("result")
	}
	r := C.ffi_string((*C.char)(unsafe.Pointer(data)), C.size_t(size), bytes)
	if r.status != 0 {
		return raised("", r)
	}
	put(result, r._type, r.size, uint64(r.value))
	return nil
}
