package main

import "C" // for the strings and the export comment below
import (
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack"
)

//export weight
func weight(path, name *C.char, e unsafe.Pointer) unsafe.Pointer {
	return capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) {
		f, err := files.Open(C.GoString(path))
		if err != nil {
			return nil, err
		}
		defer f.Close() // the mapping stays as long as the tensor
		return f.Tensor(C.GoString(name))
	}, capi.Tensors(), e)
}

func main() {}
