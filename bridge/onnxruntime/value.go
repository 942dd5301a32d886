package onnxruntime

import (
	"fmt"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/dlpack"
)

// An Option changes which tensors [Value] accepts.
type Option uint8

// AsInput also accepts read-only memory, such as a mapped file. Then nobody may write through the value: it must not be
// an output of a run, and ZeroContents must not be called. ONNX Runtime does not write to inputs.
const AsInput Option = 1 << iota

// value is a value of the binding with a share of its memory.
type value struct {
	ort.Value
	managed unsafe.Pointer // the share: an export, which also pins Go's memory; nil after Destroy
	spare   *dlpack.Tensor // keeps the memory if [Tensor] could not renew the share
}

// managedTensor is a DLManagedTensorVersioned as Export returns it; on the host its byte offset is 0.
type managedTensor struct {
	_     [4]uint64 // version, context, deleter and flags
	data  unsafe.Pointer
	_     uint64 // device
	rank  int32
	_     uint32 // data type
	shape *int64
}

// Destroy ends the value, and then releases its share of the memory. Calls after the first have no effect.
func (v *value) Destroy() error {
	err := v.Value.Destroy()
	managed := v.managed
	v.managed = nil
	if managed != nil {
		dlpack.Release(managed)
	}
	v.spare.Close()
	return err
}

// Value returns a value of the binding on the memory of t, with the same type, shape and elements. The value can be an
// input or an output of every session, and an element of a sequence or map. Its dynamic type belongs to this package;
// its Destroy releases the memory.
//
// t must be on the host, row-major without gaps, aligned to its elements and, without [AsInput], writable. Elements of
// fewer than 8 bits must be packed. Value checks the elements of a bool tensor, and does not read other elements.
//
// Ownership: the value shares the memory until its Destroy; t stays the caller's and may be closed before. Lifetime: until Destroy.
// Threads: any, one at a time. On error: nothing is shared. [dlpack.ErrNull], [dlpack.ErrClosed], [dlpack.ErrDevice],
// [dlpack.ErrDType], [dlpack.ErrLayout], [dlpack.ErrUnaligned], [dlpack.ErrReadOnly], [dlpack.ErrBorrowed], [dlpack.ErrMemory],
// [dlpack.ErrValue] for an invalid bool, or an error of the binding; the error names the call that makes t acceptable.
func Value(t *dlpack.Tensor, options ...Option) (ort.Value, error) {
	v, err := newValue(t, options)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: value: %w", err)
	}
	return v, nil
}

// newValue is [Value] with errors that have no prefix.
func newValue(t *dlpack.Tensor, options []Option) (*value, error) {
	var allowed Option
	for _, o := range options {
		allowed |= o
	}
	n, err := admit(t, allowed)
	if err != nil {
		return nil, err
	}
	managed, err := t.Export()
	if err != nil {
		return nil, err
	}
	m := (*managedTensor)(managed)
	memory := unsafe.Slice((*byte)(m.data), t.NumBytes())
	if n.carried == dlpack.Bool {
		err = checkBools(memory)
	}
	var v ort.Value
	if err == nil {
		v, err = n.value(unsafe.Slice(m.shape, m.rank), memory) // copies the shape
	}
	if err != nil {
		dlpack.Release(managed)
		return nil, err
	}
	return &value{Value: v, managed: managed}, nil
}

// admit returns the type with which the binding holds the elements of t. It returns an error for a tensor that [Value] refuses.
func admit(t *dlpack.Tensor, allowed Option) (*number, error) {
	switch {
	case t == nil:
		return nil, fmt.Errorf("the tensor is nil: %w", dlpack.ErrNull)
	case t.RequireOpen() != nil:
		return nil, fmt.Errorf("the tensor is closed: %w", dlpack.ErrClosed)
	case !t.Device().HostReadable():
		return nil, fmt.Errorf("memory on %v cannot be read; its producer can copy it to the CPU: %w", t.Device(), dlpack.ErrDevice)
	}
	n := carriedAs(t.DType())
	switch {
	case n == nil:
		return nil, fmt.Errorf("ONNX Runtime has no tensors of %v%s: %w", t.DType(), remedy(t.DType()), dlpack.ErrDType)
	case t.Rank() == 0:
		return nil, fmt.Errorf("the tensor has no dimensions, but the binding needs at least one; use Reshape(1) to add it: %w", dlpack.ErrLayout)
	case !n.generic && t.NumElements() == 0:
		return nil, fmt.Errorf("the shape %v has no elements, but the binding accepts no empty tensor of %v; use Convert to get an empty tensor of float32, which it accepts: %w", t.Shape(), n.carried, dlpack.ErrLayout)
	case t.Flags()&dlpack.SubbytePadded != 0 && n.carried.BitSize() < 8:
		return nil, fmt.Errorf("each %v is stored in a byte of its own, but ONNX Runtime packs them; use CopyTo into a tensor of New to pack them: %w", n.carried, dlpack.ErrLayout)
	case !t.IsContiguous():
		return nil, fmt.Errorf("strides %v of shape %v are not row-major without gaps; Contiguous(RowMajor) makes them so: %w", t.Strides(), t.Shape(), dlpack.ErrLayout)
	case t.RequireAlign(n.carried.ItemSize()) != nil:
		return nil, fmt.Errorf("data at %#x is not aligned to %d bytes; Align copies it: %w", t.Data(), n.carried.ItemSize(), dlpack.ErrUnaligned)
	case t.ReadOnly() && allowed&AsInput == 0:
		how := "is read-only; use Copy for a writable copy, or AsInput if the tensor is an input"
		if t.Flags()&dlpack.ReadOnly == 0 {
			how = "is not known to be writable; import it with AssumeWritable, Copy it, or use AsInput if the tensor is an input"
		}
		return nil, fmt.Errorf("the memory %s: %w", how, dlpack.ErrReadOnly)
	}
	return n, nil
}

// remedy returns the end of an error text. It names the call that converts numbers of type dt to a type that ONNX
// Runtime has, and is "" if there is none.
func remedy(dt dlpack.DataType) string {
	switch {
	case dt.Code() == dlpack.CodeOpaqueHandle:
		return ""
	case dt.Lanes() > 1:
		return fmt.Sprintf("; View makes its lanes a dimension of %v", dlpack.MakeDataType(dt.Code(), dt.Bits(), 1))
	case dt.Code() == dlpack.CodeComplex:
		return fmt.Sprintf("; View makes it a dimension of two %v", dlpack.MakeDataType(dlpack.CodeFloat, dt.Bits()/2, 1))
	}
	return fmt.Sprintf("; Convert makes it %v", dlpack.Float32)
}

// checkBools returns an error for a byte other than 0 and 1, which is not a bool in Go.
func checkBools(memory []byte) error {
	for i, b := range memory {
		if b > 1 {
			return fmt.Errorf("byte %d of a bool tensor is %d, but must be 0 or 1; Bitcast to uint8, then Convert to bool, turns it into true: %w", i, b, dlpack.ErrValue)
		}
	}
	return nil
}

// Tensor returns a tensor on the memory of a value of the binding: a Tensor[T], a CustomDataTensor, or a result of
// [Value]. All of these have their elements in a slice; if the binding has allocated the value, it is a slice of Go
// memory. The tensor keeps that slice alive or, for a result of Value, the memory of its tensor. So the value and the
// tensor can be released in any order. If a program made the value on a slice of other memory, it must keep that memory
// until the tensor is closed and its exports are released.
//
// Ownership: v stays the caller's, and the tensor shares its memory. Lifetime: until its Close. Threads: any, while nobody else calls a
// method of v. On error: [dlpack.ErrNull], [dlpack.ErrClosed] for a value after Destroy, [dlpack.ErrDType] for scalars, strings,
// sequences, maps and tensors of a type that a program has defined, [dlpack.ErrLayout] or [dlpack.ErrMemory].
func Tensor(v ort.Value) (*dlpack.Tensor, error) {
	t, err := newTensor(v, false)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: tensor: %w", err)
	}
	return t, nil
}

// newTensor is [Tensor] with errors that have no prefix. copied reports that the memory is a copy made for the tensor.
func newTensor(v ort.Value, copied bool) (*dlpack.Tensor, error) {
	switch v := v.(type) {
	case nil:
		return nil, fmt.Errorf("the value is nil: %w", dlpack.ErrNull)
	case *value:
		return v.share()
	}
	for i := range numbers {
		n := &numbers[i]
		memory, ok := n.memory(v)
		if !ok || ort.TensorElementDataType(v.DataType()) != n.held {
			continue
		}
		shape := v.GetShape()
		if len(shape) == 0 {
			return nil, fmt.Errorf("the value was destroyed: %w", dlpack.ErrClosed)
		}
		return dlpack.FromBytes(memory, dlpack.Spec{DType: n.carried, Shape: shape, Copied: copied})
	}
	return nil, fmt.Errorf("%T is not a tensor of numbers of the binding; GetData and GetContents return what it holds: %w", v, dlpack.ErrDType)
}

// share returns another tensor of the memory. The share of v becomes that tensor, and v gets a new one.
func (v *value) share() (*dlpack.Tensor, error) {
	if v.managed == nil {
		return nil, fmt.Errorf("the value was destroyed: %w", dlpack.ErrClosed)
	}
	t, err := dlpack.Import(v.managed)
	if err != nil {
		return nil, err
	}
	managed, err := t.Export()
	if err != nil {
		v.managed, v.spare = nil, t
		return nil, err
	}
	v.managed = managed
	return t, nil
}
