//go:build cgo

// Package core owns, counts, pins, validates and copies memory, in Go and in C. It defines the structs in C memory on
// which package dlpack builds its Tensor. DESIGN.md of package dlpack explains it. The Python extension also contains
// the C files.
package core

/*
#cgo CFLAGS: -std=gnu11 -O2 -fno-omit-frame-pointer -I${SRCDIR}/../../../include
#cgo LDFLAGS: -lpthread
#include "slot.h"
#include <stdbool.h>

typedef char uintptr_is_wide[sizeof(uintptr_t) == 8 ? 1 : -1];

// Addresses are passed as integers, which neither cgo nor the collector examines.

static void end_share(uintptr_t share) { dlbcore_share_end((dlbcore_share *)share); }

static void run_deleter(bool versioned, uintptr_t address) {
  DLManagedTensorVersioned *managed = (DLManagedTensorVersioned *)address;
  DLManagedTensor *legacy = (DLManagedTensor *)address;
  if (versioned && managed->deleter != NULL) managed->deleter(managed);
  if (!versioned && legacy->deleter != NULL) legacy->deleter(legacy);
}

static void end_block(uintptr_t address) { dlbcore_block_end((dlbcore_block *)address); }

static uintptr_t allocate_memory(size_t size, bool zeroed) {
  void *data;
  return (uintptr_t)dlbcore_allocate_memory(0, size, zeroed, &data);
}

static void free_memory(uintptr_t memory) { dlbcore_free_memory((void *)memory); }

static uintptr_t allocate_lasting(size_t size) { return (uintptr_t)dlbcore_allocate_lasting(size); }

static uintptr_t map_pages(size_t size) { return (uintptr_t)dlbcore_map_pages(size); }

static void clear_pages(uintptr_t pages, size_t size) { dlbcore_clear_pages((void *)pages, size); }

// The functions below return the addresses of C functions to Go.

static uintptr_t delete_versioned(void) { return (uintptr_t)dlbcore_delete_versioned; }

static uintptr_t delete_legacy(void) { return (uintptr_t)dlbcore_delete_legacy; }

static uintptr_t release_slot(void) { return (uintptr_t)dlbcore_release_slot; }

static dlbcore_waking_state *waking_state(void) { return &dlbcore_waking; }
*/
import "C"

import (
	"unsafe"

	_ "github.com/dlbridge/dlbridge/include/dlpack" // keeps the header in vendor folders and in the build's inputs
)

// The structs below have the layout of those in dlpack.h and core.h. Fields that hold addresses are uintptr. Go stores
// to C memory through these structs, and for a pointer field Go's write barrier would examine the old value, which may
// be an invalid pointer.

// DataType is the data type of elements. Its lowest byte is the code, the next byte the bits, and the two highest bytes
// are the lanes. C: DLDataType
type DataType uint32

// Device is the device of memory. C: DLDevice
type Device struct {
	Type, ID int32
}

// DLTensor describes elements in memory. C: DLTensor
type DLTensor struct {
	Data       uintptr
	Device     Device
	NDim       int32
	DType      DataType
	Shape      uintptr
	Strides    uintptr
	ByteOffset uint64
}

// Version is a version of the DLPack ABI. C: DLPackVersion
type Version struct {
	Major, Minor uint32
}

// Current is the version of the DLPack ABI in exports: the version of the header.
var Current = Version{Major: C.DLPACK_MAJOR_VERSION, Minor: C.DLPACK_MINOR_VERSION}

// Managed is a managed tensor. C: DLManagedTensorVersioned
type Managed struct {
	Version Version
	Ctx     uintptr
	Deleter uintptr
	Flags   uint64
	Tensor  DLTensor
}

// ManagedLegacy is a managed tensor from before DLPack 1.0. C: DLManagedTensor
type ManagedLegacy struct {
	Tensor  DLTensor
	Ctx     uintptr
	Deleter uintptr
}

// Block is a control block. C: dlbcore_block, which explains the private fields
type Block struct {
	Managed Managed // or ManagedLegacy
	state   uint64
	share   uintptr
	returns uintptr
	next    uintptr
	since   uint64
	_       uint64
	Dims    [2 * rankSmall]int64 // shape, then strides; blocks for higher ranks have more
}

// C: dlbcore_return_queue
type returnQueue struct {
	top uintptr
	_   [56]byte
}

// C: dlbcore_slot, which begins with a dlbcore_share
type slot struct {
	count   uint64
	release uintptr
	lender  uintptr
	ctx     uintptr
	link    uintptr // C: data
	returns uintptr
	bytes   uint64
	index   uint32
	kind    uint32
}

const (
	rankSmall  = C.CORE_RANK_SMALL
	quarantine = C.CORE_QUARANTINE

	// MaxRank is the largest number of dimensions of a tensor.
	MaxRank = C.CORE_RANK_MAX
	// Alignment is the alignment, in bytes, of the C memory that this package allocates.
	Alignment = C.CORE_ALIGNMENT

	// Lowest is the lowest possible address of memory, and Highest is one past the highest. C: CORE_LOWEST, which says
	// why, and CORE_HIGHEST
	Lowest  = C.CORE_LOWEST
	Highest = 1 << 63

	stateLive  = C.CORE_LIVE
	stateTaken = C.CORE_TAKEN
	stateDead  = C.CORE_DEAD
)

// The compiler compares the offsets and sizes of the fields with those in C: a difference is an index out of bounds or
// an overflowing constant.
var (
	ct  C.DLTensor
	gt  DLTensor
	_   = [1]int{}[unsafe.Sizeof(gt)-C.sizeof_DLTensor]
	_   = [1]int{}[unsafe.Offsetof(gt.Data)-unsafe.Offsetof(ct.data)]
	_   = [1]int{}[unsafe.Offsetof(gt.Device)-unsafe.Offsetof(ct.device)]
	_   = [1]int{}[unsafe.Offsetof(gt.NDim)-unsafe.Offsetof(ct.ndim)]
	_   = [1]int{}[unsafe.Offsetof(gt.DType)-unsafe.Offsetof(ct.dtype)]
	_   = [1]int{}[unsafe.Offsetof(gt.Shape)-unsafe.Offsetof(ct.shape)]
	_   = [1]int{}[unsafe.Offsetof(gt.Strides)-unsafe.Offsetof(ct.strides)]
	_   = [1]int{}[unsafe.Offsetof(gt.ByteOffset)-unsafe.Offsetof(ct.byte_offset)]
	_   = [1]int{}[unsafe.Sizeof(gt.Data)-unsafe.Sizeof(ct.data)]
	_   = [1]int{}[unsafe.Sizeof(gt.Device)-unsafe.Sizeof(ct.device)]
	_   = [1]int{}[unsafe.Offsetof(gt.Device.ID)-unsafe.Offsetof(ct.device.device_id)]
	_   = [1]int{}[unsafe.Sizeof(gt.NDim)-unsafe.Sizeof(ct.ndim)]
	_   = [1]int{}[unsafe.Sizeof(gt.DType)-unsafe.Sizeof(ct.dtype)]
	_   = [1]int{}[unsafe.Sizeof(gt.ByteOffset)-unsafe.Sizeof(ct.byte_offset)]
	cmv C.DLManagedTensorVersioned
	gmv Managed
	_   = [1]int{}[unsafe.Sizeof(gmv)-C.sizeof_DLManagedTensorVersioned]
	_   = [1]int{}[unsafe.Sizeof(gmv.Version)-unsafe.Sizeof(cmv.version)]
	_   = [1]int{}[unsafe.Offsetof(gmv.Ctx)-unsafe.Offsetof(cmv.manager_ctx)]
	_   = [1]int{}[unsafe.Offsetof(gmv.Deleter)-unsafe.Offsetof(cmv.deleter)]
	_   = [1]int{}[unsafe.Offsetof(gmv.Flags)-unsafe.Offsetof(cmv.flags)]
	_   = [1]int{}[unsafe.Sizeof(gmv.Flags)-unsafe.Sizeof(cmv.flags)]
	_   = [1]int{}[unsafe.Offsetof(gmv.Tensor)-unsafe.Offsetof(cmv.dl_tensor)]
	cml C.DLManagedTensor
	gml ManagedLegacy
	_   = [1]int{}[unsafe.Sizeof(gml)-C.sizeof_DLManagedTensor]
	_   = [1]int{}[unsafe.Offsetof(gml.Tensor)-unsafe.Offsetof(cml.dl_tensor)]
	_   = [1]int{}[unsafe.Offsetof(gml.Ctx)-unsafe.Offsetof(cml.manager_ctx)]
	_   = [1]int{}[unsafe.Offsetof(gml.Deleter)-unsafe.Offsetof(cml.deleter)]
	cb  C.dlbcore_block
	gb  Block
	_   = [1]int{}[unsafe.Sizeof(gb)-C.sizeof_dlbcore_block]
	_   = [1]int{}[unsafe.Offsetof(gb.Managed)-unsafe.Offsetof(cb.managed)]
	_   = [1]int{}[unsafe.Offsetof(gb.state)-unsafe.Offsetof(cb.state)]
	_   = [1]int{}[unsafe.Sizeof(gb.state)-unsafe.Sizeof(cb.state)]
	_   = [1]int{}[unsafe.Offsetof(gb.share)-unsafe.Offsetof(cb.share)]
	_   = [1]int{}[unsafe.Offsetof(gb.returns)-unsafe.Offsetof(cb.returns)]
	_   = [1]int{}[unsafe.Offsetof(gb.next)-unsafe.Offsetof(cb.next)]
	_   = [1]int{}[unsafe.Offsetof(gb.since)-unsafe.Offsetof(cb.since)]
	_   = [1]int{}[unsafe.Sizeof(gb.since)-unsafe.Sizeof(cb.since)]
	_   = [1]int{}[unsafe.Offsetof(gb.Dims)-unsafe.Offsetof(cb.dims)]
	_   = [1]int{}[unsafe.Sizeof(gb.Dims)-unsafe.Sizeof(cb.dims)]
	ch  C.dlbcore_return_queue
	gh  returnQueue
	_   = [1]int{}[unsafe.Sizeof(gh)-C.sizeof_dlbcore_return_queue]
	_   = [1]int{}[unsafe.Offsetof(gh.top)-unsafe.Offsetof(ch.top)]
	cs  C.dlbcore_slot
	gs  slot
	_   = [1]int{}[unsafe.Sizeof(gs)-C.sizeof_dlbcore_slot]
	_   = [1]int{}[unsafe.Offsetof(gs.count)-unsafe.Offsetof(cs.share)-unsafe.Offsetof(cs.share.count)]
	_   = [1]int{}[unsafe.Sizeof(gs.count)-unsafe.Sizeof(cs.share.count)]
	_   = [1]int{}[unsafe.Offsetof(gs.lender)-unsafe.Offsetof(cs.share)-unsafe.Offsetof(cs.share.lender)]
	_   = [1]int{}[unsafe.Offsetof(gs.ctx)-unsafe.Offsetof(cs.share)-unsafe.Offsetof(cs.share.ctx)]
	_   = [1]int{}[unsafe.Offsetof(gs.link)-unsafe.Offsetof(cs.share)-unsafe.Offsetof(cs.share.data)]
	_   = [1]int{}[unsafe.Offsetof(gs.returns)-unsafe.Offsetof(cs.returns)]
	_   = [1]int{}[unsafe.Offsetof(gs.bytes)-unsafe.Offsetof(cs.bytes)]
	_   = [1]int{}[unsafe.Sizeof(gs.bytes)-unsafe.Sizeof(cs.bytes)]
	_   = [1]int{}[unsafe.Offsetof(gs.index)-unsafe.Offsetof(cs.index)]
	_   = [1]int{}[unsafe.Sizeof(gs.index)-unsafe.Sizeof(cs.index)]
	_   = [1]int{}[unsafe.Offsetof(gs.kind)-unsafe.Offsetof(cs.kind)]
	_   = [1]int{}[unsafe.Sizeof(gs.kind)-unsafe.Sizeof(cs.kind)]
)

// Every export of this library has one of these deleters.
var (
	DeleteVersioned = uintptr(C.delete_versioned())
	DeleteLegacy    = uintptr(C.delete_legacy())
)

// releaseSlot is the release of every slot.
var releaseSlot = uintptr(C.release_slot())

// The words of C.dlbcore_waking, which are read and written atomically.
var (
	waking        = C.waking_state()
	wakeBy        = (*int64)(&waking.fd)
	wakeThreshold = (*int64)(&waking.threshold)
	deadBytes     = (*int64)(&waking.dead_bytes)
	wokenNow      = (*int64)(&waking.now)
)

// Pointer returns an address as a pointer. The address must be outside Go's heap, or inside a Go object that the caller
// keeps reachable.
func Pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func blockAt(address uintptr) *Block { return (*Block)(Pointer(address)) }

// Address returns the address of the block.
func (b *Block) Address() uintptr { return uintptr(unsafe.Pointer(b)) }

func slotAt(address uintptr) *slot { return (*slot)(Pointer(address)) }
func (s *slot) address() uintptr   { return uintptr(unsafe.Pointer(s)) }

// runDeleter calls the deleter of a managed tensor, if it has one.
func runDeleter(versioned bool, managed uintptr) {
	C.run_deleter(C.bool(versioned), C.uintptr_t(managed))
}

// endBlock ends a block that was taken over.
func endBlock(block uintptr) { C.end_block(C.uintptr_t(block)) }

// endShare ends the memory of a share. The caller has given up the last share.
func endShare(share uintptr) { C.end_share(C.uintptr_t(share)) }

// allocateMemory returns the address for freeMemory, or 0 if there is no memory. The bytes begin at the first multiple
// of [Alignment] after that address.
func allocateMemory(size uintptr, zeroed bool) uintptr {
	return uintptr(C.allocate_memory(C.size_t(size), C.bool(zeroed)))
}

func freeMemory(memory uintptr) { C.free_memory(C.uintptr_t(memory)) }

// The functions below call C functions that core.h explains. allocateLasting and mapPages return 0 if there is no
// memory.
func allocateLasting(size uintptr) uintptr { return uintptr(C.allocate_lasting(C.size_t(size))) }
func mapPages(size uintptr) uintptr        { return uintptr(C.map_pages(C.size_t(size))) }
func clearPages(pages, size uintptr)       { C.clear_pages(C.uintptr_t(pages), C.size_t(size)) }
func blockSize(rank int) uintptr           { return uintptr(C.dlbcore_block_size(C.int32_t(rank))) }
func exportsOfC() int64                    { return int64(C.dlbcore_live_exports()) }
func doubleDeletesOfC() uint64             { return uint64(C.dlbcore_double_deletes()) }
func reportRepeat(b *Block, state uint64) {
	C.dlbcore_report_repeat(unsafe.Pointer(b), C.uint64_t(state))
}
