//go:build cgo

package dlpack

import (
	"sync/atomic"
	"unsafe"
)

// An ImportOption changes how [Import], [ImportLegacy] and [Borrow] take a tensor over.
type ImportOption uint8

const (
	// NoSafetyNet takes the tensor over without a net for a forgotten Close: import and Close are a
	// quarter cheaper, and a Tensor that is dropped without Close never calls its deleter.
	NoSafetyNet ImportOption = 1 << iota
	// AssumeWritable allows writing to what came in the form of before DLPack 1.0, or as a bare
	// DLTensor: neither can say whether its memory may be written.
	AssumeWritable
)

func union(options []ImportOption) (all ImportOption) {
	for _, o := range options {
		all |= o
	}
	return all
}

// Import takes over a managed tensor that a producer handed out: managed is a
// `DLManagedTensorVersioned *` of any 1.x version (DLPack C API, "DLManagedTensorVersioned"). The
// description is checked before anything is made of it, and nobody may change it meanwhile; memory that the host
// cannot address is carried and never touched. Unknown flags are kept in [Tensor.Flags] and not passed on.
//
// A managed tensor must be imported once: a second Import, before the first one is closed, cannot be told from it, and
// its Tensor must not be used once the memory was given back. An export of this library that was released is [ErrClosed],
// as long as its block is not in use again, and so is a copy of its struct.
//
// Ownership: moves to the Tensor, whose last Close calls the deleter, which must return, as the release of [Lend]
// must. Lifetime: until then. Threads: any. On error: nothing moved, the caller still owns managed; but [ErrVersion], a
// major version that is not 1: the deleter has been called, as the standard asks, and nothing behind flags was read.
func Import(managed unsafe.Pointer, options ...ImportOption) (*Tensor, error) {
	const op = "import"
	if err := checkAddress(op, managed); err != nil {
		return nil, err
	}
	m := (*managedVersioned)(managed)
	if m.deleter == deleteVersioned {
		if err := checkOwn(op, managed, m.ctx); err != nil {
			return nil, err
		}
	}
	if m.version.Major != Current.Major {
		v := m.version
		Release(managed)
		return nil, refuse(op, ErrVersion, "version %d.%d, know %d.x", v.Major, v.Minor, Current.Major)
	}
	return take(op, managed, importedVersioned, &m.tensor, m.flags, union(options))
}

// checkOwn refuses an export of this library that was released, or that C has taken over, and a copy of its struct. A
// block that is free may have another version.
func checkOwn(op string, managed unsafe.Pointer, ctx uintptr) error {
	if ctx != uintptr(managed) {
		return refuse(op, ErrClosed, "the tensor at %p is a copy of the struct of another one", managed)
	}
	if atomic.LoadUint64(&(*block)(managed).state)&states != stateLive {
		return refuse(op, ErrClosed, "the tensor at %p was released or taken over", managed)
	}
	return nil
}

// ImportLegacy takes over a `DLManagedTensor *`, the form of before DLPack 1.0, which has no version
// and no flags: whether the memory may be written is not stated, and only [AssumeWritable] allows it.
//
// Ownership: moves to the Tensor, whose last Close calls the deleter. Lifetime: until then. Threads:
// any. On error: nothing moved, the caller still owns managed.
func ImportLegacy(managed unsafe.Pointer, options ...ImportOption) (*Tensor, error) {
	const op = "import legacy"
	if err := checkAddress(op, managed); err != nil {
		return nil, err
	}
	m := (*managedLegacy)(managed)
	if m.deleter == deleteLegacy {
		if err := checkOwn(op, managed, m.ctx); err != nil {
			return nil, err
		}
	}
	return take(op, managed, importedLegacy, &m.tensor, 0, union(options))
}

// Borrow views a `DLTensor *` that stays its owner's, such as an argument of a call from C. It cannot
// be exported, since nothing would keep the memory; [Tensor.Copy] can.
//
// Ownership: none. Lifetime: the memory must stay valid until Close; shape and strides are copied.
// Threads: any. On error: see [Import].
func Borrow(tensor unsafe.Pointer, options ...ImportOption) (*Tensor, error) {
	const op = "borrow"
	if err := checkAddress(op, tensor); err != nil {
		return nil, err
	}
	return take(op, tensor, borrowed, (*dlTensor)(tensor), 0, union(options)|NoSafetyNet)
}

func checkAddress(op string, p unsafe.Pointer) error {
	at := uintptr(p) // Go ends the process where it finds such an address in a pointer: only the number goes on
	if at == 0 {
		return refuse(op, ErrNull, "tensor is NULL")
	}
	if at%8 != 0 {
		return refuse(op, ErrUnaligned, "tensor at %#x is not aligned", at)
	}
	if at < lowest {
		return refuse(op, ErrNull, "tensor at %#x lies below address %d", at, lowest)
	}
	return nil
}

func take(op string, managed unsafe.Pointer, from origin, d *dlTensor, flags Flags, options ImportOption) (*Tensor, error) {
	var e extent
	shape, strides, err := checkTensor(op, d, flags, &e)
	if err != nil {
		return nil, err
	}
	t := newRoot(d.device.words(len(shape)))
	m := t.mem
	if options&NoSafetyNet == 0 {
		m.catch(from, e.high-e.low)
	}
	m.origin = from
	m.end().managed = uintptr(managed)
	t.device = d.device
	start := uintptr(d.byteOffset)
	if e.count > 0 {
		t.data = d.data
		if d.device.HostReadable() {
			start += d.data
			t.data = start
		}
		m.low, m.high = start-uintptr(-e.low), start+uintptr(e.high)
	}
	t.unstated = from != importedVersioned && options&AssumeWritable == 0
	t.describe(d.dtype, flags, e.rowMajor, shape, strides)
	if !d.device.HostReadable() {
		*t.away() = int64(start)
	}
	if from != borrowed {
		liveImports.Add(1)
		t.record(key{KindImport, uintptr(managed)})
	}
	return t, nil
}

// Release calls the deleter of a `DLManagedTensorVersioned *`, if it has one: it ends a share that was
// not handed on. For an export of this library it does so without leaving Go.
//
// Ownership: ends the caller's. Lifetime: managed must not be used again. Threads: any. On error:
// cannot fail; nil is ignored, and so is a copy of the struct of an export of this library.
func Release(managed unsafe.Pointer) {
	if managed == nil {
		return
	}
	if m := (*managedVersioned)(managed); m.deleter == deleteVersioned && (m.ctx != uintptr(managed) || deleteBlock((*block)(managed))) {
		return
	}
	coreDeleteVersioned(uintptr(managed))
}

// ReleaseLegacy is [Release] for a `DLManagedTensor *`.
func ReleaseLegacy(managed unsafe.Pointer) {
	if managed == nil {
		return
	}
	if m := (*managedLegacy)(managed); m.deleter == deleteLegacy && (m.ctx != uintptr(managed) || deleteBlock((*block)(managed))) {
		return
	}
	coreDeleteLegacy(uintptr(managed))
}
