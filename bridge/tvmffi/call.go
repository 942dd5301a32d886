//go:build cgo

package tvmffi

// #include <stdlib.h>
// #include "tvmffi.h"
import "C"

import (
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// As returns the result of a call as a T, which must be one of the types that [Function.Call] lists for its result. The
// parameters of As are the two results of the call.
//
// On error: the error of the call, or [ErrArgument] if the result has another type; the result is then closed.
func As[T any](result any, err error) (T, error) {
	value, ok := result.(T)
	if err == nil && !ok {
		dispose(result)
		err = newError(ErrArgument, "result: got %T, want %v", result, reflect.TypeFor[T]())
	}
	return value, err
}

// dispose closes a value that has a Close method.
func dispose(value any) {
	if c, ok := value.(interface{ Close() error }); ok && !isNil(value) {
		c.Close()
	}
}

// isNil reports whether a value is a nil pointer with a type.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Call calls the function. The arguments may be
//
//	nil, bool, string                          passed as they are
//	int, uint8, float32 and the like           passed as they are; convert your own types and uintptr
//	[]T of a [dlpack.Element], [Shape]         a tensor over the slice; it ends with the call
//	*[dlpack.Tensor]                           the tensor, held during the call; see also [Keep]
//	[dlpack.DataType], [dlpack.Device]         passed as they are
//	[Bytes]                                    a byte string
//	*[Function], *[Module], *[Object]          passed as they are
//
// The result is nil, a bool, int64, float64, string, []byte, uintptr (a pointer without a type), [dlpack.DataType],
// [dlpack.Device], *[dlpack.Tensor], *[Function], *[Module], *[Object], or an *[Error] if the function returned an
// error instead of raising it. [As] requests a type.
//
// The data of tensors on the host must be aligned to [DefaultAlignment] bytes, or to the number that [Alignment] sets.
// TVM's kernels do not check the alignment, and end the process if it is wrong. Slices of less than a page are aligned
// only by chance. [dlpack.New] allocates aligned memory, and [dlpack.Tensor.Align] copies a tensor if necessary. The
// function must check all other properties of a tensor, and tensors inside an [Object].
//
// Read-only tensors are refused, because a function cannot find out that a tensor is read-only; see [UnsafeConstant].
// For a tensor that was imported in the form from before DLPack 1.0, writability is unknown. Call accepts this tensor,
// as [dlpack.Tensor.ExportLegacy] does.
//
// Slices are not copied. A call with up to 8 slices does not allocate; further slices are pinned until the call
// returns. Use [Shape] to pass a slice of your own type, or with elements of your own type.
//
// Ownership: the arguments stay the caller's, and the caller must close the result. Lifetime: a tensor of borrowed
// memory must stay valid until the call returns; other tensors are held. Threads: any, also several at the same time.
// On error: *[Error] if the function raised one. Before the call of the function, Call may return
// [dlpack.ErrUnaligned], [dlpack.ErrReadOnly], [dlpack.ErrClosed], [ErrArgument], [dlpack.ErrNull] for a nil pointer,
// [dlpack.ErrOverflow] for a number above 2^63-1, and [dlpack.ErrLayout] for a [Shape] that does not fit. After the
// call it may return [dlpack.ErrMemory] if there is no memory for a string, and the errors of [dlpack.Import] for a
// tensor. Nothing is kept.
func (f *Function) Call(args ...any) (any, error) {
	if f == nil || !f.acquire() {
		return nil, errClosed(f.Name())
	}
	c := calls.Get().(*call)
	defer f.leave(c) // deferred, because a called Go function may end the goroutine
	err := c.describe(f, args)
	var r C.ffi_result
	if err == nil {
		d := &c.direct
		r = C.ffi_invoke(C.uintptr_t(f.handle), c.first(), C.int32_t(len(c.args)), c.firstDim(), (*C.char)(d[0]), (*C.char)(d[1]),
			(*C.char)(d[2]), (*C.char)(d[3]), (*C.char)(d[4]), (*C.char)(d[5]), (*C.char)(d[6]), (*C.char)(d[7]))
	}
	if err != nil {
		return nil, err
	}
	if r.status == C.FFI_NO_MEMORY {
		return nil, newError(dlpack.ErrMemory, "%s: no memory for %d arguments", f.name, len(args))
	}
	if r.status != 0 {
		return nil, raised(f.name, r)
	}
	return resultOf(r)
}

// leave ends a call.
func (f *Function) leave(c *call) {
	c.end()
	f.release()
}

// direct is the number of addresses of Go memory that the C function takes as its own arguments.
const direct = C.FFI_DIRECT

// A call holds the arguments of a call, in a form without pointers, and the resources to release after it.
type call struct {
	args    []C.ffi_argument
	dims    []int64 // shape and strides of each tensor that is described by value
	direct  [direct]unsafe.Pointer
	used    int            // the number of addresses of Go memory: the first are in direct, the others are pinned
	pinned  runtime.Pinner // the pinned addresses
	pins    bool           // pin all addresses, because the call is made later
	exports []unsafe.Pointer
	objects []uintptr // objects of which the call holds one reference each
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) first() *C.ffi_argument { return unsafe.SliceData(c.args) }
func (c *call) firstDim() *C.int64_t   { return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(c.dims))) }

// end releases the resources of the call. Unless pins is set, it also returns c to the pool, and c must not be used afterwards.
func (c *call) end() {
	for _, m := range c.exports {
		dlpack.Release(m)
	}
	for _, o := range c.objects {
		giveBack(o)
	}
	c.exports, c.objects = c.exports[:0], c.objects[:0]
	if c.pins || c.used > direct {
		c.pinned.Unpin()
	}
	clear(c.direct[:min(c.used, direct)])
	c.args, c.dims, c.used = c.args[:0], c.dims[:0], 0
	if !c.pins {
		calls.Put(c)
	}
}

// describe appends the descriptions of all arguments.
func (c *call) describe(f *Function, args []any) error {
	if len(args) > C.FFI_ARGUMENTS {
		return newError(ErrArgument, "%s: got %d arguments, but at most %d are allowed", f.name, len(args), C.FFI_ARGUMENTS)
	}
	for i, arg := range args {
		if err := c.add(f, arg); err != nil {
			return at(f.name+": argument "+strconv.Itoa(i), err)
		}
	}
	return nil
}
