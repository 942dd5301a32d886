//go:build cgo

package core

import (
	"sync/atomic"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack/internal/extent"
)

// ourBlock returns the block of a managed tensor that this core has exported, or nil. ours is also true for a copy of
// the struct of an export, for which the block is nil.
func ourBlock(versioned bool, managed uintptr) (b *Block, ours bool) {
	var ctx uintptr
	if versioned {
		m := (*Managed)(Pointer(managed))
		ctx, ours = m.Ctx, m.Deleter == DeleteVersioned
	} else {
		m := (*ManagedLegacy)(Pointer(managed))
		ctx, ours = m.Ctx, m.Deleter == DeleteLegacy
	}
	if !ours || ctx != managed {
		return nil, ours
	}
	return blockAt(managed), true
}

// Claim takes a managed tensor over from its holder. If it is called several times for an export of this core, one call
// succeeds. It refuses the other calls, exports that were released before, and copies of their structs. It does not
// check tensors of other libraries.
func Claim(versioned bool, managed uintptr) *Fault {
	b, ours := ourBlock(versioned, managed)
	switch {
	case !ours || b != nil && atomic.CompareAndSwapUint64(&b.state, stateLive, stateTaken):
		return nil
	case b == nil:
		return newFault(Closed, "tensor at %#x is a copy of an exported tensor; import the exported tensor itself", managed)
	case atomic.LoadUint64(&b.state) == stateTaken:
		return newFault(Closed, "tensor at %#x was taken over before", managed)
	}
	return newFault(Closed, "tensor at %#x was released", managed)
}

// Unclaim returns a claimed managed tensor to its holder.
func Unclaim(versioned bool, managed uintptr) {
	if b, _ := ourBlock(versioned, managed); b != nil {
		atomic.StoreUint64(&b.state, stateLive)
	}
}

// ReleaseManaged calls the deleter of a managed tensor, if it has one. It ends an export made by Go without calling C,
// unless C must end the memory. It ignores a copy of an export's struct.
func ReleaseManaged(versioned bool, managed uintptr) {
	if b, ours := ourBlock(versioned, managed); !ours || b != nil && !b.end(stateLive) {
		runDeleter(versioned, managed)
	}
}

// ReleaseClaimed is ReleaseManaged for a claimed managed tensor.
func ReleaseClaimed(versioned bool, managed uintptr) {
	b, _ := ourBlock(versioned, managed)
	if b == nil {
		runDeleter(versioned, managed)
	} else if !b.end(stateTaken) {
		endBlock(managed)
	}
}

// Describe writes the description of a tensor, without Data, Device, DType and ByteOffset, to the block and returns it.
// The caller must set these four, even to 0, because blocks are reused, and an earlier consumer may have written to any
// field. dims points to the shape, followed by the strides.
func (b *Block) Describe(versioned bool, flags uint64, rank int, dims *int64) *DLTensor {
	n := 16 * uintptr(rank)
	from, to := unsafe.Pointer(dims), unsafe.Pointer(&b.Dims[0])
	for i := uintptr(0); i < n; i += 8 {
		*(*int64)(unsafe.Add(to, i)) = *(*int64)(unsafe.Add(from, i))
	}
	return b.describe(versioned, flags, rank)
}

// DescribeRowMajor is Describe for a row-major tensor in the versioned form, without flags.
func (b *Block) DescribeRowMajor(shape []int64) *DLTensor {
	dims := unsafe.Slice(&b.Dims[0], 2*len(shape))
	copy(dims, shape)
	extent.SetRowMajor(dims[len(shape):], shape)
	return b.describe(true, 0, len(shape))
}

// describe sets the fields that depend only on the form, the flags and the rank.
func (b *Block) describe(versioned bool, flags uint64, rank int) *DLTensor {
	d := &b.Managed.Tensor
	if versioned {
		m := &b.Managed
		m.Version, m.Flags = Current, flags
		m.Ctx, m.Deleter = b.Address(), DeleteVersioned
	} else {
		m := (*ManagedLegacy)(unsafe.Pointer(b))
		m.Ctx, m.Deleter = b.Address(), DeleteLegacy
		d = &m.Tensor
	}
	d.NDim = int32(rank)
	d.Shape = uintptr(unsafe.Pointer(&b.Dims[0]))
	d.Strides = d.Shape + 8*uintptr(rank)
	return d
}
