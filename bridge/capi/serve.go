package capi

/*
#include "capi.h"

#include <stdio.h>

static const int *fork_mark(void) { return dlbcore_fork_mark(); }

// Refuses a call in a forked child, and releases its arguments. It is written in C, because Go's collector does not run
// there.
static void refuse_forked(const char *name, size_t size, DLManagedTensorVersioned **in, size_t count, dlb_error *error) {
  char op[128];
  for (size_t i = 0; i < count; i++) dlb_tensor_release(in[i]);
  snprintf(op, sizeof op, "%.*s", (int)size, name);
  dlbcapi_check_forked(op, error);
}
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// forked points to 1 in a forked child, and to 0 elsewhere.
var forked = C.fork_mark()

// Arguments are the tensors that an exported function gets from C or Python, in order. [Tensors] makes them. The type
// has no nil. So a call of [Serve] in which a tensor and the dlb_error are swapped does not compile.
type Arguments struct{ managed []unsafe.Pointer }

// Tensors makes the arguments of [Serve] from any number of `DLManagedTensorVersioned *`. Serve reports arguments that
// are not tensors.
//
// Ownership: Serve takes over the tensors, Tensors does not. Lifetime: Serve may be called once with the arguments. Threads: any. On
// error: cannot fail.
func Tensors(managed ...unsafe.Pointer) Arguments { return Arguments{managed} }

// Serve calls f, a Go function on tensors, for a caller in C or Python. It is the body of an exported function of a Go library
// that is built with -buildmode=c-shared:
//
//	//export scale
//	func scale(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(scaled, capi.Tensors(x), e) }
//
// C calls it as `DLManagedTensorVersioned *scale(DLManagedTensorVersioned *x, dlb_error *e)`: first come the tensors,
// and last e. Serve takes them in the same order. in has the tensors, each a `DLManagedTensorVersioned *`; a function
// without tensors passes capi.Tensors(). e is a `dlb_error *` of dlbridge.h, which may be NULL. The result is a
// `DLManagedTensorVersioned *`. In Python, dlbridge.wrap(library.scale, args=["tensor", "error"], returns="tensor")
// makes a function of it.
//
// f gets a tensor for each entry of in. It returns nil or a tensor, which may be an argument or a view of an argument.
// Serve exports the result, and closes it and the arguments; f must not close them. To keep an argument, f calls
// [dlpack.Tensor.Share], and must close the share: no cleanup guard does so (see [dlpack.WithoutGuard]). To pass scalar
// arguments of an exported function to f, make f a closure.
//
// If f returns an error or panics, the result is NULL, and *e has the code and the text of the error, which begins with
// the name of the exported function: "scale: no such model". If package dlpack returned the error for an entry of in,
// the text has the number of this tensor, counting only tensors: "scale: tensor argument 1: the tensor has int64, want
// float32; dlb_tensor_convert makes a copy of that type". Where such a text names a function that avoids the error, it
// is a function of C. The code depends on the cause. For example, an error that wraps [dlpack.ErrValue] has
// DLB_ERROR_ARGUMENT, and an error that wraps [dlpack.ErrDType] has DLB_ERROR_DTYPE. An error without a cause of
// dlbridge has DLB_ERROR_FUNCTION. A panic has DLB_ERROR_INTERNAL. Without an error the code is DLB_OK. dlbridge.wrap
// raises the exception that fits the code, with the name in a note. Its text names functions of Python.
//
// The text of a panic has a line " in FUNCTION (FILE:LINE)" for each call from the panic outwards to f, without the
// calls of the Go runtime. There are at most 16 lines, or as many as fit into the dlb_error. FILE includes only its
// folder. dlbridge.wrap makes notes of these lines. [OnPanic] gets the value of the panic and the whole stack. An
// access of f to missing memory, such as the memory behind the end of a truncated mapped file, is also a panic, with
// DLB_ERROR_ARGUMENT. A panic in another goroutine that f has started ends the process, as in every Go program.
//
// If f calls [runtime.Goexit], as testing.T.FailNow does, Go ends the process.
//
// Ownership: Serve takes over all of in, even on error; the caller owns the result and calls its deleter once.
// Lifetime: the arguments of f are valid until f returns, the result until its deleter is called. Threads: any. On
// error: returns nil and sets *e.
//
// The exported function must not be called in a forked child, where Go does not run. If the call reaches Serve, Serve
// refuses it with DLB_ERROR_FORKED. If all of Go's processors were in use at the fork, or the thread has never called
// Go, the call may wait forever instead. dlbridge.wrap does not make the call: for functions of a library that
// dlbridge.load has loaded, it raises RuntimeError.
func Serve(f func(in ...*dlpack.Tensor) (*dlpack.Tensor, error), in Arguments, e unsafe.Pointer) (out unsafe.Pointer) {
	if *forked != 0 {
		name := cmp.Or(exported(), "the function")
		arguments := (**C.DLManagedTensorVersioned)(unsafe.Pointer(unsafe.SliceData(in.managed)))
		C.refuse_forked((*C.char)(unsafe.Pointer(unsafe.StringData(name))), C.size_t(len(name)), arguments, C.size_t(len(in.managed)), (*C.dlb_error)(e))
		return nil
	}
	status := guard(exported, (*C.dlb_error)(e), C.DLB_ERROR_FUNCTION, func() error {
		tensors, err := importAll(in.managed)
		defer closeAll(tensors)
		if err != nil {
			return err
		}
		result, err := f(tensors...)
		err = aboutArgument(err, tensors)
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

// exported returns the name of the exported function that C has called, or "" if Go has called Serve. It allocates next
// to nothing, because a forked child calls it too, where Go's collector does not run.
func exported() string {
	var callers [64]uintptr
	for _, pc := range callers[:runtime.Callers(1, callers[:])] {
		if called, ok := strings.CutPrefix(runtime.FuncForPC(pc-1).Name(), "_cgoexp_"); ok { // of cgo: _cgoexp_HASH_NAME
			_, name, _ := strings.Cut(called, "_")
			return name
		}
	}
	return ""
}

// importAll imports managed tensors. It takes over all of them, even on error. It releases those that cannot be
// imported, and returns the others together with the error, for the caller to close.
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
			failed = payload.WithFormat(fmt.Sprintf("dlbridge: tensor argument %d", i+1), err)
		}
	}
	return tensors, failed
}

// aboutArgument returns the error of a function that was called with these tensors. If package dlpack says which tensor
// is wrong, the text has the number of this tensor argument instead of the operation of package dlpack.
func aboutArgument(err error, in []*dlpack.Tensor) error {
	e, ok := errors.AsType[*dlpack.Error](err)
	if !ok {
		return err
	}
	i := slices.IndexFunc(in, e.IsAbout)
	if i < 0 {
		return err
	}
	return payload.WithText(strings.Replace(err.Error(), e.Error(), fmt.Sprintf("tensor argument %d: %s", i+1, e.Where), 1), err)
}

func closeAll(tensors []*dlpack.Tensor) {
	for _, t := range tensors {
		t.Close()
	}
}
