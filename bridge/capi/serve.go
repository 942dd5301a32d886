package capi

/*
#include "capi.h"

static const int *fork_mark(void) { return dlbcore_fork_mark(); }

// Refuses a call in a forked child, and releases its arguments. It is C, because Go's collector does not run there.
static void refuse_forked(DLManagedTensorVersioned **in, size_t count, dlb_error *error) {
  for (size_t i = 0; i < count; i++) dlb_tensor_release(in[i]);
  dlbcapi_check_forked("dlbridge: the function", error);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// forked points to 1 in a forked child, and to 0 elsewhere.
var forked = C.fork_mark()

// Serve calls f, a Go function on tensors, for a caller in C or Python. It is the body of an exported function of a Go library
// that is built with -buildmode=c-shared:
//
//	//export scale
//	func scale(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(scaled, e, x) }
//
// in and the result are `DLManagedTensorVersioned *`, and e is a `dlb_error *` of dlbridge.h, which may be NULL. e is the last
// parameter of an exported function by convention, and comes before the tensors here. In Python,
// dlbridge.wrap(library.scale, args=["tensor", "error"], returns="tensor") makes a function of it.
//
// f gets a tensor for each of in. It returns nil or a tensor, which may be one of its arguments or a view of one. Serve
// exports the result, and closes it and the arguments; f must not close them. To keep an argument, f calls
// [dlpack.Tensor.Share], and must close the share: no cleanup guard does so (see [dlpack.WithoutGuard]). Scalar
// arguments of an exported function reach f as variables of a closure.
//
// If f returns an error or panics, the result is NULL and *e has the text and the code of the error. The code depends
// on the cause: an error that wraps [dlpack.ErrValue] has DLB_ERROR_ARGUMENT, for example, one that wraps
// [dlpack.ErrDType] has DLB_ERROR_DTYPE, and one without a cause of dlbridge has DLB_ERROR_FUNCTION. A panic has
// DLB_ERROR_INTERNAL. dlbridge.wrap raises the exception that fits the code. Without an error the code is DLB_OK.
//
// If f calls [runtime.Goexit], as testing.T.FailNow does, Go ends the process.
//
// Ownership: Serve takes over all of in, also on error; the caller owns the result and calls its deleter once. Lifetime: the
// arguments of f are valid until f returns, the result until its deleter is called. Threads: any. On error: returns nil and sets *e.
//
// In a forked child, where Go does not run, the exported function must not be called. Serve refuses the call with
// DLB_ERROR_FORKED, if Go gets as far as Serve: if all of Go's processors were in use when the process was forked, or the thread
// has never called Go, the call may wait forever instead. dlbridge.wrap does not make the call: for the functions of the library
// that dlbridge.load has loaded, it raises RuntimeError.
func Serve(f func(in ...*dlpack.Tensor) (*dlpack.Tensor, error), e unsafe.Pointer, in ...unsafe.Pointer) (out unsafe.Pointer) {
	if *forked != 0 {
		C.refuse_forked((**C.DLManagedTensorVersioned)(unsafe.Pointer(unsafe.SliceData(in))), C.size_t(len(in)), (*C.dlb_error)(e))
		return nil
	}
	status := guard((*C.dlb_error)(e), C.DLB_ERROR_FUNCTION, func() error {
		tensors, err := importAll(in)
		defer closeAll(tensors)
		if err != nil {
			return err
		}
		result, err := f(tensors...)
		if result == nil {
			return err
		}
		defer result.Close()
		if err == nil {
			out, err = result.Export()
		}
		return err
	})
	if status != C.DLB_OK {
		return nil
	}
	return out
}

// importAll imports managed tensors. It takes over all of them, even on error: those that cannot be imported are released, and
// the others are returned beside the error, for the caller to close.
func importAll(in []unsafe.Pointer) ([]*dlpack.Tensor, error) {
	tensors := make([]*dlpack.Tensor, 0, len(in))
	var failed error
	for i, managed := range in {
		t, err := dlpack.Import(managed, dlpack.WithoutGuard)
		switch {
		case err == nil:
			tensors = append(tensors, t)
			continue
		case !errors.Is(err, dlpack.ErrVersion) && !errors.Is(err, dlpack.ErrClosed): // these are released already
			dlpack.Release(managed)
		}
		if failed == nil {
			failed = payload.WithFormat(fmt.Sprintf("dlbridge: argument %d", i+1), err)
		}
	}
	return tensors, failed
}

func closeAll(tensors []*dlpack.Tensor) {
	for _, t := range tensors {
		t.Close()
	}
}
