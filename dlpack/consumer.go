//go:build cgo

package dlpack

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/core"
)

// An ImportOption changes how [Import], [ImportLegacy] and [Borrow] work.
type ImportOption uint8

const (
	// WithoutGuard imports the tensor without a cleanup guard. Import and Close are then a quarter cheaper, but if the
	// Tensor is dropped without Close, its deleter is never called.
	WithoutGuard ImportOption = 1 << iota
	// AssumeWritable allows writing to imports in the legacy form and to borrowed tensors. Neither form can state
	// whether its memory may be written.
	AssumeWritable
)

func union(options []ImportOption) (all ImportOption) {
	for _, o := range options {
		all |= o
	}
	return all
}

// Import takes over a managed tensor from a producer. managed is a `DLManagedTensorVersioned *` of any 1.x version (DLPack C
// API, "DLManagedTensorVersioned"). Import checks the description, which nobody may change meanwhile. Memory that the host
// cannot address is never touched. [Tensor.Flags] returns unknown flags, and exports do not pass them on.
//
// Ownership: moves to the Tensor. The deleter is called at the last Close or the release of the last export, whichever
// comes later. It must return, like the release function of [Lend]. Lifetime: until then. Threads: any. On error
// ([ErrNull], [ErrUnaligned], [ErrDType], [ErrLayout], [ErrOverflow]): the caller still owns managed, with two exceptions.
// [ErrClosed] reports an export of this library that was released or taken over before, or a copy of the struct of an
// export: nobody owns these. [ErrVersion] reports a major version other than 1: Import has called the deleter, as the
// standard requires, and has read nothing after the flags. (ErrVersion may also report a released export: after the system
// has taken the memory of its struct back, its version reads as 0.0 and its deleter as NULL.)
func Import(managed unsafe.Pointer, options ...ImportOption) (*Tensor, error) {
	return importManaged("import", true, managed, options)
}

// ImportLegacy takes over a `DLManagedTensor *`, the form from before DLPack 1.0. This form has no version and no flags, and
// cannot state whether the memory may be written. The Tensor is read-only without [AssumeWritable].
//
// Ownership, Lifetime, Threads, On error: as [Import], without [ErrVersion].
func ImportLegacy(managed unsafe.Pointer, options ...ImportOption) (*Tensor, error) {
	return importManaged("import legacy", false, managed, options)
}

// importManaged takes over a managed tensor in either form.
func importManaged(op string, versioned bool, managed unsafe.Pointer, options []ImportOption) (*Tensor, error) {
	// Go ends the process if it finds a bad address in a pointer, so only the number is passed on.
	if f := core.CheckAddress(uintptr(managed)); f != nil {
		return nil, newFaultError(op, f)
	}
	if f := core.Claim(versioned, uintptr(managed)); f != nil {
		return nil, newFaultError(op, f)
	}
	kind, d, flags := core.ImportedLegacy, &(*core.ManagedLegacy)(managed).Tensor, Flags(0)
	if versioned {
		m := (*core.Managed)(managed)
		if v := m.Version; v.Major != Current.Major {
			core.ReleaseClaimed(true, uintptr(managed))
			return nil, newError(op, ErrVersion, "DLPack version %d.%d is not supported, only %d.x is", v.Major, v.Minor, Current.Major)
		}
		kind, d, flags = core.ImportedVersioned, &m.Tensor, Flags(m.Flags)
	}
	t, err := adopt(op, managed, kind, d, flags, union(options))
	if err != nil {
		core.Unclaim(versioned, uintptr(managed))
	}
	return t, err
}

// Borrow makes a Tensor of a `DLTensor *` without taking it over. A Go function that C calls can borrow its arguments in
// this way. The Tensor cannot be exported, because nothing would keep the memory alive; [Tensor.ExportCopy] exports a
// copy. It is read-only without [AssumeWritable].
//
// Ownership: none. Lifetime: the memory must stay valid until the last Close; shape and strides are copied.
// Threads: any. On error: [ErrNull], [ErrUnaligned], [ErrDType], [ErrLayout] or [ErrOverflow].
func Borrow(tensor unsafe.Pointer, options ...ImportOption) (*Tensor, error) {
	const op = "borrow"
	if f := core.CheckAddress(uintptr(tensor)); f != nil { // see importManaged
		return nil, newFaultError(op, f)
	}
	return adopt(op, tensor, core.BorrowedKind, (*core.DLTensor)(tensor), 0, union(options)|WithoutGuard)
}

// adopt makes a Tensor of a foreign description: of a managed tensor that has been claimed, or of a borrowed one.
func adopt(op string, managed unsafe.Pointer, from core.Kind, d *core.DLTensor, flags Flags, options ImportOption) (*Tensor, error) {
	var e core.Extent
	shape, strides, err := checkTensor(op, d, flags, &e)
	if err != nil {
		return nil, err
	}
	device := deviceOf(d)
	t := newRoot(device.dimsPairs(len(shape)))
	t.device = device
	var low, high uintptr
	start := uintptr(d.ByteOffset)
	if e.Count > 0 {
		t.data = d.Data
		if device.HostReadable() {
			start += d.Data
			t.data = start
		}
		low, high = start-uintptr(-e.Low), start+uintptr(e.High)
	}
	t.writabilityUnknown = from != core.ImportedVersioned && options&AssumeWritable == 0
	t.describe(DataType(d.DType), flags, e.RowMajor, shape, strides)
	if !device.HostReadable() {
		*t.addressWord() = int64(start)
	}
	if from == core.BorrowedKind {
		t.mem.Borrow(low, high)
		return t, nil
	}
	t.mem.Import(from, uintptr(managed), low, high, options&WithoutGuard == 0)
	if core.Recording() {
		t.record(core.KindImport, uintptr(managed))
	}
	return t, nil
}

// Release calls the deleter of a `DLManagedTensorVersioned *`, if it has one. Call it if you own a managed tensor and
// do not pass it on.
//
// Ownership: the caller's ownership ends. Lifetime: managed must not be used again. Threads: any. On error: cannot
// fail. Release ignores nil, and a copy of the struct of an export of this library.
func Release(managed unsafe.Pointer) {
	if managed != nil {
		core.ReleaseManaged(true, uintptr(managed))
	}
}

// ReleaseLegacy is [Release] for a `DLManagedTensor *`.
func ReleaseLegacy(managed unsafe.Pointer) {
	if managed != nil {
		core.ReleaseManaged(false, uintptr(managed))
	}
}
