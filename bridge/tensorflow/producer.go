//go:build cgo

package tensorflow

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// AppendTensor appends a tensor in any layout as a TensorProto. Without options it appends the same bytes as TensorFlow
// writes. If dst has too little capacity, AppendTensor allocates memory in which the elements are aligned to 64 bytes.
// So a tensor that was appended to nil can be decoded without a copy. If dst overlaps the memory of t, the result has
// new memory of any alignment.
//
// Ownership: t stays the caller's, and the result is Go memory. Lifetime: unlimited. Threads: any, while nobody writes to the
// tensor. On error: [elements.ErrDType], [ErrRank], [dlpack.ErrValue] for a bool that is
// neither 0 nor 1, [dlpack.ErrOverflow] for a TensorProto of more than [MaxSize] bytes, [dlpack.ErrDevice], [dlpack.ErrClosed]
// or [dlpack.ErrMemory]; dst is then returned unchanged.
func AppendTensor(dst []byte, t *dlpack.Tensor, options ...EncodeOption) ([]byte, error) {
	e, err := encodingOf(options)
	if err != nil {
		return dst, err
	}
	if e.gathers(t) {
		m, free, err := gather(t, &e)
		if err != nil {
			return dst, err
		}
		defer free()
		return m.append(dst)
	}
	var few [8]int64
	h, err := tensorHeader(t, few[:0], &e)
	if err != nil {
		return dst, err
	}
	if _, err := h.sizeContent(len(dst), &e); err != nil {
		return dst, err
	}
	size := int(h.bytes)
	head := h.size(len(dst), contentField, size, e.pad)
	index, align := placement(len(dst)+head, e.pad)
	out, err := payload.AppendTensor("tensorflow", dst, t, head, index, align)
	if err != nil {
		return dst, err
	}
	h.append(out[:len(dst)], contentField, size, e.pad) // after the elements, because the header may overlap their source
	return out, nil
}

// WriteTensor writes to w the bytes that [AppendTensor] appends to an empty slice. It writes row-major elements of
// whole bytes directly from the memory of t, unless an option changes their form. It copies other elements first;
// strided elements are copied in pieces of at most 1 MiB. [SizeTensor] returns the number of bytes beforehand, for the
// header Content-Length.
//
// Ownership: t stays the caller's. Lifetime: w must not keep the bytes. Threads: any, while nobody writes to the
// tensor. On error: WriteTensor returns the errors of [AppendTensor] before it writes, the errors of w, and
// [elements.ErrNil] if w is nil.
func WriteTensor(w io.Writer, t *dlpack.Tensor, options ...EncodeOption) error {
	e, err := encodingOf(options)
	if err != nil {
		return err
	}
	if e.gathers(t) {
		message, err := AppendTensor(nil, t, options...)
		if err != nil {
			return err
		}
		return payload.Write("tensorflow", w, message)
	}
	h, err := tensorHeader(t, nil, &e)
	if err != nil {
		return err
	}
	if _, err := h.sizeContent(0, &e); err != nil {
		return err
	}
	return payload.WriteTensor("tensorflow", w, t, h.append(nil, contentField, int(h.bytes), e.pad))
}

// SizeTensor returns how many bytes [AppendTensor] appends to an empty slice. It reads the elements unless all of them
// are written to tensor_content.
//
// Ownership: t stays the caller's. Lifetime: none. Threads: any, while nobody writes to the tensor. On
// error: as [AppendTensor].
func SizeTensor(t *dlpack.Tensor, options ...EncodeOption) (int, error) {
	e, err := encodingOf(options)
	if err != nil {
		return 0, err
	}
	if e.gathers(t) {
		m, free, err := gather(t, &e)
		if err != nil {
			return 0, err
		}
		defer free()
		return m.size(0)
	}
	h, err := tensorHeader(t, nil, &e)
	if err != nil {
		return 0, err
	}
	return h.sizeContent(0, &e)
}

// gathers reports whether the elements are first copied to scratch memory. They are not copied if all of them are
// written in their form in memory.
func (e *encoding) gathers(t *dlpack.Tensor) bool { return e.fields || e.compress || packed(t) }

// packed reports whether elements of less than a byte share bytes; TensorFlow has a byte for each.
func packed(t *dlpack.Tensor) bool {
	return t.DType().IsSubByte() && t.Flags()&dlpack.SubbytePadded == 0
}

// tensorHeader returns the header for a tensor. It appends the shape of the tensor to dims.
func tensorHeader(t *dlpack.Tensor, dims []int64, e *encoding) (header, error) {
	if err := t.RequireOpen(); err != nil {
		return header{}, payload.WithFormat("tensorflow", err)
	}
	dtype, err := DTypeOf(t.DType())
	if err != nil {
		return header{}, err
	}
	if dtype, err = e.as(dtype); err != nil {
		return header{}, err
	}
	for d := range t.Rank() {
		dims = append(dims, t.Dim(d))
	}
	return headerOf(dtype, dims)
}

// gather returns the message of a tensor whose elements it has copied to scratch memory. Unless there is an error, the
// caller calls free once and does not use the message afterwards.
func gather(t *dlpack.Tensor, e *encoding) (m message, free func(), err error) {
	h, err := tensorHeader(t, nil, e)
	if err != nil {
		return m, nil, err
	}
	if !t.Device().HostReadable() {
		return m, nil, fmt.Errorf("tensorflow: the host cannot read memory on %v; copy the tensor to the host first: %w", t.Device(), dlpack.ErrDevice)
	}
	if err := e.checkLeast(h.dtype, h.count); err != nil {
		return m, nil, err
	}
	size, unpacked := t.NumBytes(), int64(0)
	if packed(t) {
		unpacked = h.count
	}
	scratch, free, err := payload.Scratch(size + unpacked)
	if err != nil {
		return m, nil, payload.WithFormat("tensorflow", err)
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	data, err := t.AppendBytes(scratch[:0:size])
	if err != nil {
		return m, free, err
	}
	if packed(t) {
		unpack(scratch[size:], data, int(t.DType().Bits()))
		data = scratch[size:]
	}
	m, err = numbersOf(h.dtype, h.shape, data, e)
	return m, free, err
}

// unpack writes the first len(data) elements of packed to a byte each. In packed the first element has the lowest bits.
func unpack(data, packed []byte, bits int) {
	for i := range data {
		at := i * bits // bits is 2 or 4, so no element lies in two bytes
		data[i] = packed[at/8] >> (at % 8) & (1<<bits - 1)
	}
}

// Export exports a tensor as the `DLManagedTensor *` of a capsule named "dltensor". This is the only form that
// tf.experimental.dlpack.from_dlpack accepts. TensorFlow then shares the memory. TensorFlow does not check the tensor,
// so Export returns an error if TensorFlow would misread it or end the process. [dlpack.Tensor.Copy] copies any host
// tensor to memory that TensorFlow can use. For the other direction, [dlpack.ImportLegacy] accepts a capsule of
// TensorFlow's to_dlpack. Its memory must not be written to, because tensors of TensorFlow never change.
//
// Ownership: the result is the consumer's, who calls its deleter once. Lifetime: the memory lives at least until then.
// Threads: the deleter may run on any thread. On error: [ErrExport] for a type that TensorFlow's DLPack does not have,
// a device other than the CPU, strides that are not row-major without gaps, memory that is not aligned to 64 bytes, or
// more than [layout.MaxPartialRank] dimensions; and those of [dlpack.Tensor.ExportLegacy].
func Export(t *dlpack.Tensor) (unsafe.Pointer, error) {
	refuse := func(format string, args ...any) (unsafe.Pointer, error) {
		return nil, fmt.Errorf("tensorflow: export: %s: %w", fmt.Sprintf(format, args...), ErrExport)
	}
	if err := t.RequireOpen(); err != nil {
		return nil, payload.WithFormat("tensorflow: export", err)
	}
	dtype, err := DTypeOf(t.DType())
	switch {
	case err != nil || kinds[dtype].dlpack != taken:
		return refuse("TensorFlow's from_dlpack does not accept %v; Convert makes a tensor of another type", t.DType())
	case t.Device().Type != dlpack.CPU:
		return refuse("the memory is on %v, but must be on the CPU; copy the tensor to the host first", t.Device())
	case t.Rank() > layout.MaxPartialRank:
		return refuse("rank %d is more than %d", t.Rank(), layout.MaxPartialRank)
	case !t.IsContiguous():
		return refuse("strides %v of shape %v are not row-major without gaps; Copy makes them so", t.Strides(), t.Shape())
	case t.RequireAlign(alignment) != nil:
		return refuse("data at %#x is not aligned to %d bytes; Copy aligns it", t.Data(), alignment)
	}
	return t.ExportLegacy()
}
