//go:build cgo

package safetensors

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// AppendTensors appends a file with the given tensors, which may have any layout. It returns the descriptions of the
// tensors in the order of the file, without Data. A tensor of float4_e2m1fnx2, PyTorch's form, is written as F4, so its
// last dimension becomes twice as large. Header, metadata and options are as for [AppendHeader]. If AppendTensors
// allocates memory, the elements of the first tensor are aligned to 64 bytes in it. dst must not overlap the memory of
// the tensors.
//
// Ownership: the tensors stay the caller's, and the result is Go memory. Lifetime: unlimited. Threads: any, while nobody writes to the
// tensors. On error: those of [AppendHeader], and [dlpack.ErrValue] for a bool that is neither 0 nor 1, [elements.ErrDType],
// [dlpack.ErrDevice], [dlpack.ErrClosed], or [dlpack.ErrMemory]; dst is then returned unchanged.
func AppendTensors(dst []byte, tensors map[string]*dlpack.Tensor, metadata map[string]string, options ...Option) ([]byte, []View, error) {
	head, views, err := headerOf(tensors, metadata, options)
	if err != nil {
		return dst, nil, err
	}
	size := int64(len(head))
	for _, v := range views {
		size += tensors[v.Name].NumBytes()
	}
	out, err := payload.Room("safetensors", dst, int(min(size, payload.Addressable)), len(dst)+len(head), 64)
	if err != nil {
		return dst, nil, err
	}
	out = append(out, head...)
	for _, v := range views {
		if out, err = payload.AppendTensor(title(v.Name), out, tensors[v.Name], 0, 0, 1); err != nil {
			return dst, nil, err
		}
	}
	return out, views, nil
}

// WriteTensors writes to w the file that [AppendTensors] appends to an empty slice. It writes a row-major tensor
// directly from its memory. It copies the elements of other tensors first, in pieces of at most 1 MiB, or as a whole if
// several elements share a byte.
//
// Ownership: the tensors stay the caller's. Lifetime: w must not keep the bytes. Threads: any, while nobody writes to
// the tensors. On error: the errors of [AppendTensors] and of w, and [elements.ErrNil] if w is nil. The errors of
// AppendTensors, except [dlpack.ErrValue] and [dlpack.ErrMemory], come before anything is written.
func WriteTensors(w io.Writer, tensors map[string]*dlpack.Tensor, metadata map[string]string, options ...Option) ([]View, error) {
	head, views, err := headerOf(tensors, metadata, options)
	if err != nil {
		return nil, err
	}
	if err := payload.Write("safetensors", w, head); err != nil {
		return nil, err
	}
	for _, v := range views {
		if err := payload.WriteTensor(title(v.Name), w, tensors[v.Name], nil); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// title returns the beginning of an error text about a tensor.
func title(name string) string { return "safetensors: tensor " + errtext.Quote(name) }

// headerOf returns the header of a file, and its tensors in the order of the file. It checks that the host can read
// their memory.
func headerOf(tensors map[string]*dlpack.Tensor, metadata map[string]string, options []Option) ([]byte, []View, error) {
	views := make([]View, 0, len(tensors))
	for _, name := range slices.Sorted(maps.Keys(tensors)) { // so that the same tensors give the same error
		v, err := viewOf(name, tensors[name])
		if err != nil {
			return nil, nil, payload.WithFormat(title(name), err)
		}
		views = append(views, v)
	}
	return AppendHeader(nil, views, metadata, options...)
}

// viewOf describes a tensor before it is written. The errors have no prefix.
func viewOf(name string, t *dlpack.Tensor) (View, error) {
	if err := t.RequireOpen(); err != nil {
		return View{}, err
	}
	dt, shape := t.DType(), t.Shape()
	if dt == dlpack.Float4E2M1FNx2 && len(shape) > 0 {
		dt = dlpack.Float4E2M1FN
		shape[len(shape)-1] *= 2
	}
	dtype, err := DTypeOf(dt)
	switch {
	case err != nil:
		return View{}, fmt.Errorf("%v%v is not a type of safetensors; Convert makes a tensor of another type: %w", t.DType(), shape, elements.ErrDType)
	case !t.Device().HostReadable():
		return View{}, fmt.Errorf("the host cannot read memory on %v; copy the tensor to the host first: %w", t.Device(), dlpack.ErrDevice)
	case dt.IsSubByte() && t.DType() == dt && t.Flags()&dlpack.SubbytePadded != 0:
		return View{}, fmt.Errorf("%v has a byte for each element, but safetensors needs packed elements; Convert makes them packed: %w", dt, elements.ErrDType)
	}
	return View{Name: name, DType: dtype, Shape: shape}, nil
}
