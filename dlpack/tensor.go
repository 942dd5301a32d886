//go:build cgo

package dlpack

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A Tensor is Go's reference to memory that a producer owns. It describes the elements (data type, shape, strides,
// device) and keeps the memory alive. Several tensors can share one memory; the last [Tensor.Close] gives the memory back to its
// producer.
//
// Methods may be called from any goroutine. While another goroutine closes the tensor, they either work or return
// [ErrClosed]. The description does not change and can be read after Close. A nil *Tensor and the zero Tensor are closed
// and describe nothing; methods without an error result, except String, return a zero value for them.
//
// Methods that return views, such as [Tensor.Slice] and [Tensor.Transpose], copy no elements. Ownership: each view shares the memory
// and is closed separately. Lifetime: until its Close. Threads: any. On error: as [Tensor.Apply], unless the method says otherwise.
//
// Do not copy a Tensor, as in u := *t: the copy stays open when t is closed, and closing both gives the memory back
// twice. go vet reports these copies. [Tensor.Share] and [Tensor.View] make another Tensor of the same memory.
type Tensor struct {
	mem    *core.Memory
	status atomic.Uint32
	dtype  DataType
	device Device
	flags  Flags
	data   uintptr // the data field of the description, on the host with byte_offset added; 0 without elements
	dims   *int64  // shape, strides and, for memory that the host cannot address, byte_offset
	rank   uint16
	// rowMajor is true if the elements lie without gaps, the last index fastest.
	rowMajor bool
	// writabilityUnknown is true for a tensor imported in a form that cannot state whether the memory may be written.
	writabilityUnknown bool
}

// The bits of a tensor's status.
const (
	closed       uint32 = 1 << iota
	boolsChecked        // checkBools has found only 0 and 1
)

// With the structs below a tensor is one allocation. viewN is a tensor of existing memory. rootN is the first tensor of a
// memory, together with its core.Memory. An allocation is most of the cost of an import and costs more for larger structs,
// so there are several sizes.
type (
	view1 struct {
		Tensor
		dims [2]int64
	}
	view4 struct {
		Tensor
		dims [8]int64
	}
	view9 struct { // of rank 8, with a byte_offset
		Tensor
		dims [18]int64
	}
	root1 struct {
		Tensor
		core.Memory
		dims [2]int64
	}
	root4 struct {
		Tensor
		core.Memory
		dims [8]int64
	}
)

// newView allocates a tensor of existing memory, with room for the given number of pairs of int64 (see [Device.dimsPairs]).
func newView(pairs int, m *core.Memory) *Tensor {
	if pairs <= 1 {
		v := new(view1)
		v.mem, v.Tensor.dims = m, &v.dims[0]
		return &v.Tensor
	}
	if pairs <= 4 {
		v := new(view4)
		v.mem, v.Tensor.dims = m, &v.dims[0]
		return &v.Tensor
	}
	v := new(view9)
	v.mem, v.Tensor.dims = m, &v.dims[0]
	if pairs > 9 {
		v.Tensor.dims = &make([]int64, 2*pairs)[0]
	}
	return &v.Tensor
}

// newRoot allocates the first tensor of a memory together with its core.Memory, which the caller initializes. pairs is as for
// [newView].
func newRoot(pairs int) *Tensor {
	if pairs <= 1 {
		r := new(root1)
		r.mem, r.Tensor.dims = &r.Memory, &r.dims[0]
		return &r.Tensor
	}
	r := new(root4)
	r.mem, r.Tensor.dims = &r.Memory, &r.dims[0]
	if pairs > 4 {
		r.Tensor.dims = &make([]int64, 2*pairs)[0]
	}
	return &r.Tensor
}

// A Spec describes a tensor for [FromBytes] and [Tensor.View].
type Spec struct {
	DType   DataType
	Shape   []int64
	Strides []int64 // in elements; nil: row-major without gaps
	// ByteOffset is the position of element (0, ..., 0), in bytes. It counts from the start of the memory or, for View,
	// from element (0, ..., 0) of the viewed tensor.
	ByteOffset int64
	// ReadOnly forbids writing. A view of read-only memory is read-only even if this is false.
	ReadOnly bool
	// Padded gives each sub-byte element bytes of its own (see [DataType.IsSubByte]); otherwise these elements are packed.
	Padded bool
	// Copied sets the flag [IsCopied]: the memory is a copy made for this tensor.
	Copied bool
}

func (s *Spec) flags() (f Flags) {
	if s.ReadOnly {
		f |= ReadOnly
	}
	if s.Padded {
		f |= SubbytePadded
	}
	if s.Copied {
		f |= IsCopied
	}
	return f
}

// describe sets the description of a tensor and copies shape and strides; nil strides are row-major. The tensor must be
// allocated for their rank.
func (t *Tensor) describe(dt DataType, flags Flags, rowMajor bool, shape, strides []int64) {
	t.dtype, t.flags, t.rowMajor = dt, flags, rowMajor
	n := len(shape)
	t.rank = uint16(n)
	dims := unsafe.Slice(t.dims, 2*n)
	if strides != nil {
		for d, size := range shape {
			dims[d], dims[n+d] = size, strides[d]
		}
		return
	}
	copy(dims, shape)
	extent.SetRowMajor(dims[n:], shape)
}

// shape and strides return t's own slices, which must not be written to.
func (t *Tensor) shape() []int64   { return unsafe.Slice(t.dims, t.rank) }
func (t *Tensor) strides() []int64 { return unsafe.Slice(t.dims, 2*int(t.rank))[t.rank:] }

// span returns the range of bytes that the tensor touches, counted from element (0, ..., 0): the lowest (<= 0), and one
// past the highest.
func (t *Tensor) span() (low, high int64) {
	if t.rowMajor || t.data == 0 {
		return 0, t.NumBytes()
	}
	low, high, _ = layout.Span(t.shape(), t.strides())
	item := int64(t.dtype.ItemSize())
	return low * item, high * item
}

// Close gives up this tensor's reference to its memory. Calls after the first have no effect. The last reference gives
// the memory back to its producer: the deleter runs on this thread before Close returns. If eight releases are already
// running inside each other on this thread, the deleter runs after the innermost has returned. Exports keep the memory
// alive.
//
// Ownership: ends this reference. Lifetime: slices from [Values] must not be used after the last
// Close. Threads: any goroutine. On error: never fails; the result makes Tensor an io.Closer.
func (t *Tensor) Close() error {
	if t.isNone() {
		return nil
	}
	for {
		status := t.status.Load()
		if status&closed != 0 {
			return nil
		}
		if t.status.CompareAndSwap(status, status|closed) {
			break
		}
	}
	if core.Recording() {
		t.mem.LeaveTensor(weak.Make(t))
	}
	t.mem.Close()
	return nil
}

// isNone reports whether t is nil or the zero Tensor, which have no memory.
func (t *Tensor) isNone() bool { return t == nil || t.mem == nil }

func (t *Tensor) isClosed() bool { return t.isNone() || t.status.Load()&closed != 0 }

// zero stands for nil tensors; see orZero.
var zero Tensor

// orZero returns t, or the zero Tensor if t is nil.
func (t *Tensor) orZero() *Tensor {
	if t == nil {
		return &zero
	}
	return t
}

// acquire keeps the memory alive until done is called, even if another goroutine closes the tensor. acquire must take
// its reference before it checks that the tensor is open: [core.Memory.Close] relies on this order.
func (t *Tensor) acquire(op string) error { return t.acquireAs(op, "the tensor") }

// acquireAs is acquire for an operation on several tensors. Errors call this tensor name.
func (t *Tensor) acquireAs(op, name string) error {
	if t.isNone() {
		return t.errClosedAs(op, name)
	}
	if status := t.mem.Acquire(); status != core.OK {
		if status == core.Overflow && !t.isClosed() {
			return newError(op, ErrOverflow, "the memory of %s has %d tensors that were not closed", name, math.MaxInt32)
		}
		return t.errClosedAs(op, name)
	}
	if t.status.Load()&closed != 0 {
		t.mem.Release()
		return t.errClosedAs(op, name)
	}
	return nil
}

func (t *Tensor) errClosed(op string) error { return t.errClosedAs(op, "the tensor") }

// errClosedAs is errClosed for an operation on several tensors. The error calls the closed tensor name.
func (t *Tensor) errClosedAs(op, name string) error {
	state := "closed"
	switch {
	case t == nil:
		state = "nil"
	case t.mem == nil:
		state = "the zero Tensor"
	}
	return t.newError(op, ErrClosed, "%s is %s", name, state)
}

// errDevice returns the error for an operation on memory that the host cannot read.
func (t *Tensor) errDevice(op string) error {
	return t.newError(op, ErrDevice, "memory on %v cannot be read; its producer can copy it to the CPU", t.device)
}

// RequireOpen returns [ErrClosed] unless the tensor is open. Packages that encode tensors, such as those of bridge, call it before
// they begin. Another goroutine may still close the tensor at any time.
func (t *Tensor) RequireOpen() error {
	if t.isClosed() {
		return t.errClosed("open")
	}
	return nil
}

func (t *Tensor) done() {
	t.mem.Release()
	runtime.KeepAlive(t)
}

// DType returns the data type of the elements.
func (t *Tensor) DType() DataType { return t.orZero().dtype }

// Device returns the device of the memory.
func (t *Tensor) Device() Device { return t.orZero().device }

// Collected reports whether the memory is Go's own, as for [FromSlice]. The garbage collector keeps this memory as long as
// a pointer refers to it, even after the last Close. Collected is for packages that hand memory on, such as those of
// bridge.
func (t *Tensor) Collected() bool { return !t.isNone() && t.mem.IsGos() }

// Flags returns the flags with which the tensor was made or imported, including unknown ones.
func (t *Tensor) Flags() Flags { return t.orZero().flags }

// ReadOnly reports whether the memory must not be written through this tensor. It is also true if the writability is
// unknown, as for imports in the legacy form (see [AssumeWritable]).
func (t *Tensor) ReadOnly() bool {
	t = t.orZero()
	return t.flags&ReadOnly != 0 || t.writabilityUnknown
}

// errReadOnly returns an error for a tensor that must not be written. If the memory is known to be read-only, the text ends with
// remedy.
func (t *Tensor) errReadOnly(op, remedy string) error {
	if t.flags&ReadOnly == 0 {
		return t.newError(op, ErrReadOnly, "the tensor was imported in a form that cannot state whether it may be written; "+
			"AssumeWritable imports it as writable")
	}
	return t.newError(op, ErrReadOnly, "the tensor is read-only%s", remedy)
}

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return int(t.orZero().rank) }

// Shape returns a copy of the sizes of the dimensions.
func (t *Tensor) Shape() []int64 {
	if t.isNone() {
		return nil
	}
	return append([]int64{}, t.shape()...)
}

// Strides returns a copy of the strides, in elements.
func (t *Tensor) Strides() []int64 {
	if t.isNone() {
		return nil
	}
	return append([]int64{}, t.strides()...)
}

// Dim returns the size of dimension d; -1 is the last dimension. It returns 0 if there is no dimension d.
func (t *Tensor) Dim(d int) int64 { return numberOf(t.orZero().shape(), d) }

// Stride returns the stride of dimension d, in elements; -1 is the last dimension. It returns 0 if there is no
// dimension d.
func (t *Tensor) Stride(d int) int64 { return numberOf(t.orZero().strides(), d) }

// numberOf returns the entry of dimension d in a shape or in strides, or 0 if there is no dimension d.
func numberOf(numbers []int64, d int) int64 {
	if d < 0 {
		d += len(numbers)
	}
	if uint(d) >= uint(len(numbers)) {
		return 0
	}
	return numbers[d]
}

// NumElements returns the product of the shape.
func (t *Tensor) NumElements() int64 {
	if t.isNone() {
		return 0
	}
	count := int64(1)
	for _, n := range t.shape() {
		count *= n // overflows only if another factor is 0
	}
	return count
}

// NumBytes returns the number of bytes of the elements without gaps. Packed elements are counted as packed.
func (t *Tensor) NumBytes() int64 {
	if t.isNone() {
		return 0
	}
	width := int64(t.dtype.BitSize())
	if width%8 == 0 || t.flags&SubbytePadded != 0 {
		return t.NumElements() * ((width + 7) / 8)
	}
	return (t.NumElements()*width + 7) / 8
}

// IsContiguous reports whether the elements lie row-major without gaps. The strides of dimensions of size 1 do not
// matter, and a tensor without elements is contiguous.
func (t *Tensor) IsContiguous() bool { return t.orZero().rowMajor }

// Data returns the data field of the description. On the host it is the address of element (0, ..., 0). On other
// devices it is the value that the device uses as an address. It is 0 if there are no elements.
func (t *Tensor) Data() uintptr { return t.orZero().data }

// ByteOffset returns the byte_offset of the description if the memory is not [Device.HostReadable]. Otherwise it returns 0,
// because Data includes the offset.
func (t *Tensor) ByteOffset() uint64 {
	if t.isNone() || t.device.HostReadable() {
		return 0
	}
	return uint64(*t.addressWord())
}

// addressWord returns the address of the byte_offset of a tensor whose memory the host cannot address.
func (t *Tensor) addressWord() *int64 { return &unsafe.Slice(t.dims, 2*int(t.rank)+1)[2*int(t.rank)] }

// dimsPairs returns how many pairs of int64 a tensor on d needs from [newView] or [newRoot]: one pair for each dimension, its
// size and its stride, and one more for the byte_offset if the memory is not [Device.HostReadable].
func (d Device) dimsPairs(rank int) int {
	if d.HostReadable() {
		return rank
	}
	return rank + 1
}

// first returns the address of element (0, ..., 0), or 0 without elements.
func (t *Tensor) first() uintptr {
	if t.data == 0 {
		return 0
	}
	return t.data + uintptr(t.ByteOffset())
}

// Alignment returns the largest power of two, up to 4096, that divides the address of element (0, ..., 0). This address
// is the sum of [Tensor.Data] and [Tensor.ByteOffset]. Without elements it returns 4096.
func (t *Tensor) Alignment() int {
	if t.isNone() {
		return 0
	}
	at := t.first() | 4096
	return int(at & -at)
}

// String describes the tensor in one line, as in `float32[3 4] on cpu`. Strides are included if they are not row-major.
func (t *Tensor) String() string {
	return t.describedBy(func(sizes []int64) string { return fmt.Sprint(sizes) })
}

// describedBy is [Tensor.String]; list returns the text of the shape and of the strides.
func (t *Tensor) describedBy(list func([]int64) string) string {
	switch {
	case t == nil:
		return "<nil>"
	case t.mem == nil:
		return "zero Tensor"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v%s", t.dtype, list(t.shape()))
	if !t.rowMajor {
		fmt.Fprintf(&b, " strides %s", list(t.strides()))
	}
	fmt.Fprintf(&b, " on %v", t.device)
	if t.ReadOnly() {
		b.WriteString(", read-only")
	}
	if t.isClosed() {
		b.WriteString(", closed")
	}
	return b.String()
}

// place sets the description of t from s and checks that the elements lie inside the memory; s.ByteOffset counts from
// start, an address or a byte_offset. t must be allocated for the rank of s.
func (t *Tensor) place(op string, start uintptr, flags Flags, s *Spec) error {
	if err := s.DType.Validate(); err != nil {
		return newError(op, ErrDType, "%v", err)
	}
	if s.Strides != nil && len(s.Strides) != len(s.Shape) {
		return newError(op, ErrLayout, "%s for %s", extent.Number(len(s.Strides), "stride", "strides"), extent.Dimensions(len(s.Shape)))
	}
	var e core.Extent
	if err := checkLayout(op, s.DType, flags, s.Shape, s.Strides, &e); err != nil {
		return err
	}
	t.describe(s.DType, flags, e.RowMajor, s.Shape, s.Strides)
	return t.setStart(op, start, s.ByteOffset, &e)
}

// setStart puts element (0, ..., 0) at start+offset, which is an address on the host and a byte_offset elsewhere. It returns
// an error if the extent reaches outside the memory.
func (t *Tensor) setStart(op string, start uintptr, offset int64, e *core.Extent) error {
	if e.Count > 0 {
		// start lies within the memory, which has less than 2^63 bytes, so neither difference overflows.
		room, before := int64(t.mem.High-start), int64(start-t.mem.Low)
		low, ok := extent.Add(offset, e.Low)
		high, ok2 := extent.Add(offset, e.High)
		if !ok || !ok2 || low < -before || high > room {
			return newError(op, ErrLayout, "bytes %d to %d are outside the memory, which has bytes %d to %d", low, high, -before, room)
		}
		start += uintptr(offset)
	}
	switch {
	case !t.device.HostReadable():
		if e.Count == 0 {
			t.data = 0
		} else if t.data == 0 || int64(start) < 0 {
			return newError(op, ErrLayout, "data at %#x with byte_offset = %d: data must not be NULL, and byte_offset must not be negative", t.data, int64(start))
		}
		*t.addressWord() = int64(start)
	case e.Count > 0:
		t.data = start
	}
	return nil
}

// New allocates zeroed C memory on the CPU for a row-major tensor, aligned to [AllocAlignment] bytes. JAX and TVM share
// memory with this alignment, and copy or refuse other memory.
//
// Ownership: the caller's, shared with exports. Lifetime: the memory is freed at the last Close or the last consumer's
// release, whichever comes later, without waiting for the garbage collector. Threads: any. On error: [ErrDType],
// [ErrLayout], [ErrOverflow] or [ErrMemory].
func New(dtype DataType, shape ...int64) (*Tensor, error) { return newZeroed("new", dtype, shape) }

// newZeroed is [New] for the operation op, which errors name.
func newZeroed(op string, dtype DataType, shape []int64) (*Tensor, error) {
	if err := dtype.Validate(); err != nil {
		return nil, newError(op, ErrDType, "%v", err)
	}
	var e core.Extent
	if err := checkLayout(op, dtype, 0, shape, nil, &e); err != nil {
		return nil, err
	}
	t := newRoot(len(shape))
	if err := t.allocate(op, e.NumBytes, true); err != nil {
		return nil, err
	}
	t.own(dtype, 0, shape)
	return t, nil
}

// allocate gives a new tensor C memory of its own.
func (t *Tensor) allocate(op string, size int64, zeroed bool) error {
	if t.mem.Allocate(size, zeroed) != core.OK {
		return newError(op, ErrMemory, "no memory for %d bytes", size)
	}
	return nil
}

// own makes t describe all of its memory as row-major elements. The memory was allocated or lent.
func (t *Tensor) own(dt DataType, flags Flags, shape []int64) {
	t.device = Device{Type: CPU}
	if t.mem.High > t.mem.Low {
		t.data = t.mem.Low
	}
	t.describe(dt, flags, true, shape, nil)
	if core.Recording() {
		t.record(core.KindAllocation, t.mem.ID())
	}
}

// FromSlice makes a row-major tensor of a Go slice. Without a shape the tensor is one-dimensional; Reshape() without
// arguments turns a tensor of one element into a scalar. The slice is pinned while it has exports; [WakeAt] says when
// it is unpinned. [ExportSlice] exports a slice once, without a Tensor.
//
// Ownership: shared with the collector. Lifetime: the tensor and its exports keep the slice.
// Threads: any. On error: [ErrLayout] if the shape is invalid or does not have as many elements as the slice;
// [ErrOverflow].
func FromSlice[T Element](data []T, shape ...int64) (*Tensor, error) {
	return fromSlice(data, false, shape)
}

// FromReadOnly is [FromSlice] for memory that no consumer may write to.
func FromReadOnly[T Element](data []T, shape ...int64) (*Tensor, error) {
	return fromSlice(data, true, shape)
}

func fromSlice[T Element](data []T, readOnly bool, shape []int64) (*Tensor, error) {
	const op = "from slice"
	var zero T
	n := int64(len(data))
	size := n * int64(unsafe.Sizeof(zero))
	one := [1]int64{n}
	if len(shape) == 0 {
		shape = one[:]
	}
	t, err := fromMemory(op, unsafe.Pointer(unsafe.SliceData(data)), size, &Spec{DType: DataTypeOf[T](), Shape: shape, ReadOnly: readOnly})
	if err == nil && t.NumElements() == n {
		return t, nil
	}
	if count, countErr := layout.Count(shape); countErr == nil && count != n && len(shape) <= MaxRank {
		err = newError(op, ErrLayout, "the shape %v has %s, but the slice has %d", slices.Clone(shape), extent.Elements(count), n)
	}
	return nil, err
}

// FromBytes makes a tensor of any data type and layout inside a slice of bytes. The slice need not be aligned.
//
// Ownership: shared with the collector. Lifetime: the tensor and its exports keep the slice.
// Threads: any. On error: [ErrDType], [ErrLayout] or [ErrOverflow].
func FromBytes(data []byte, s Spec) (*Tensor, error) {
	return fromMemory("from bytes", unsafe.Pointer(unsafe.SliceData(data)), int64(len(data)), &s)
}

func fromMemory(op string, start unsafe.Pointer, size int64, s *Spec) (*Tensor, error) {
	t := newRoot(min(len(s.Shape), MaxRank)) // place refuses more
	t.mem.Collect(start, size)
	t.device = Device{Type: CPU}
	if err := t.place(op, uintptr(start), s.flags(), s); err != nil {
		return nil, err
	}
	return t, nil
}

// Lend makes a one-dimensional uint8 tensor of C memory that somebody else owns. release is nil or a C function `void
// (*)(void *ctx)` that gives the memory back. It is called once with ctx, on the thread of the last Close or release.
//
// Ownership: data is lent until release is called. Lifetime: data must stay valid until then. If release is nil, data must
// stay valid until the last Close and the release of the last export. Threads: release may run on any thread. It must return.
// If it calls Go, that code must recover from panics and must not call [runtime.Goexit]; otherwise the rest of release does
// not run. On error: release is not called; [ErrLayout] for a negative size, [ErrNull], [ErrOverflow] or [ErrMemory].
func Lend(data unsafe.Pointer, size int64, readOnly bool, release, ctx unsafe.Pointer) (*Tensor, error) {
	const op = "lend"
	if size < 0 {
		return nil, newError(op, ErrLayout, "size is %d, must not be negative", size)
	}
	if size > 0 && data == nil {
		return nil, newError(op, ErrNull, "data is NULL, but size is %d bytes", size)
	}
	if size > 0 && !core.InAddressSpace(uint64(uintptr(data)), 0, size) {
		return nil, newError(op, ErrOverflow, "%d bytes at %#x lead outside the address space", size, uintptr(data))
	}
	t := newRoot(1)
	if t.mem.Lend(uintptr(data), size, release, ctx) != core.OK {
		return nil, newError(op, ErrMemory, "no memory for a share")
	}
	flags := Flags(0)
	if readOnly {
		flags = ReadOnly
	}
	t.own(Uint8, flags, []int64{size})
	return t, nil
}
