//go:build cgo

package dlpack

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../include -I${SRCDIR}/internal/core
#cgo LDFLAGS: -lpthread
#include "core.h"
#include <stdlib.h>

typedef char uintptr_is_wide[sizeof(uintptr_t) == 8 ? 1 : -1];

static void end_share(uintptr_t share) { core_share_end((core_share *)share); }

static void delete_versioned(uintptr_t address) {
  DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)address;
  if (m->deleter != NULL) m->deleter(m);
}

static void delete_legacy(uintptr_t address) {
  DLManagedTensor *m = (DLManagedTensor *)address;
  if (m->deleter != NULL) m->deleter(m);
}

static uintptr_t share_alloc(size_t size) { return (uintptr_t)core_share_alloc(size, 1); }

static uintptr_t share_lend(void *lender, void *ctx) {
  return (uintptr_t)core_share_lend((void (*)(void *))lender, ctx);
}

static uintptr_t share_versioned(uintptr_t m) {
  return (uintptr_t)core_share_versioned((DLManagedTensorVersioned *)m);
}

static uintptr_t share_legacy(uintptr_t m) {
  return (uintptr_t)core_share_legacy((DLManagedTensor *)m);
}

static uintptr_t slab(core_home *home, uint32_t count, uint32_t first_slot) {
  return (uintptr_t)core_slab(home, count, first_slot);
}
*/
import "C"

import (
	"unsafe"

	_ "github.com/dlbridge/dlbridge/dlpack/internal/core" // has the C functions
)

// The structs below lie over those of dlpack.h and core.h. Fields that hold addresses are uintptr:
// Go stores to C memory through them, and the write barrier must not look at what stood there.

// C: DLTensor
type dlTensor struct {
	data       uintptr
	device     Device
	ndim       int32
	dtype      DataType
	shape      uintptr
	strides    uintptr
	byteOffset uint64
}

// C: DLManagedTensorVersioned
type managedVersioned struct {
	version Version
	ctx     uintptr
	deleter uintptr
	flags   Flags
	tensor  dlTensor
}

// C: DLManagedTensor
type managedLegacy struct {
	tensor  dlTensor
	ctx     uintptr
	deleter uintptr
}

// C: core_block
type block struct {
	managed managedVersioned // or managedLegacy
	next    uintptr
	state   uint64
	share   uintptr
	home    uintptr
	payload uint64
	slot    uint64
	dims    [2 * rankSmall]int64
}

// C: core_home
type home struct {
	dead uintptr
	pool int32
	rank int32
	_    [48]byte
}

// C: core_share
type share struct {
	count   int64
	release uintptr
	lender  uintptr
	ctx     uintptr
	data    uintptr
}

const (
	rankSmall  = C.CORE_RANK_SMALL
	quarantine = C.CORE_QUARANTINE

	// MaxRank is the most dimensions a tensor can have here.
	MaxRank = C.CORE_RANK_MAX

	// NewAlignment is the alignment, in bytes, of the memory that [New] allocates.
	NewAlignment = C.CORE_ALIGNMENT

	// lowest is the first address that memory can have, and highest is behind the last. C: CORE_LOWEST, which says why.
	lowest  = C.CORE_LOWEST
	highest = 1 << 63

	stateFree = C.CORE_FREE
	stateLive = C.CORE_LIVE
	stateDead = C.CORE_DEAD
	stateIdle = C.CORE_IDLE
	states    = C.CORE_STATES // stateTaken, which C alone sets, is one of them
)

// Every field's place and width, at compile time: a difference is an index out of bounds or an
// overflowing constant.
var (
	ct  C.DLTensor
	gt  dlTensor
	_   = [1]int{}[unsafe.Sizeof(gt)-C.sizeof_DLTensor]
	_   = [1]int{}[unsafe.Offsetof(gt.data)-unsafe.Offsetof(ct.data)]
	_   = [1]int{}[unsafe.Offsetof(gt.device)-unsafe.Offsetof(ct.device)]
	_   = [1]int{}[unsafe.Offsetof(gt.ndim)-unsafe.Offsetof(ct.ndim)]
	_   = [1]int{}[unsafe.Offsetof(gt.dtype)-unsafe.Offsetof(ct.dtype)]
	_   = [1]int{}[unsafe.Offsetof(gt.shape)-unsafe.Offsetof(ct.shape)]
	_   = [1]int{}[unsafe.Offsetof(gt.strides)-unsafe.Offsetof(ct.strides)]
	_   = [1]int{}[unsafe.Offsetof(gt.byteOffset)-unsafe.Offsetof(ct.byte_offset)]
	_   = [1]int{}[unsafe.Sizeof(gt.data)-unsafe.Sizeof(ct.data)]
	_   = [1]int{}[unsafe.Sizeof(gt.device)-unsafe.Sizeof(ct.device)]
	_   = [1]int{}[unsafe.Offsetof(gt.device.ID)-unsafe.Offsetof(ct.device.device_id)]
	_   = [1]int{}[unsafe.Sizeof(gt.ndim)-unsafe.Sizeof(ct.ndim)]
	_   = [1]int{}[unsafe.Sizeof(gt.dtype)-unsafe.Sizeof(ct.dtype)]
	_   = [1]int{}[unsafe.Sizeof(gt.byteOffset)-unsafe.Sizeof(ct.byte_offset)]
	cmv C.DLManagedTensorVersioned
	gmv managedVersioned
	_   = [1]int{}[unsafe.Sizeof(gmv)-C.sizeof_DLManagedTensorVersioned]
	_   = [1]int{}[unsafe.Sizeof(gmv.version)-unsafe.Sizeof(cmv.version)]
	_   = [1]int{}[unsafe.Offsetof(gmv.ctx)-unsafe.Offsetof(cmv.manager_ctx)]
	_   = [1]int{}[unsafe.Offsetof(gmv.deleter)-unsafe.Offsetof(cmv.deleter)]
	_   = [1]int{}[unsafe.Offsetof(gmv.flags)-unsafe.Offsetof(cmv.flags)]
	_   = [1]int{}[unsafe.Sizeof(gmv.flags)-unsafe.Sizeof(cmv.flags)]
	_   = [1]int{}[unsafe.Offsetof(gmv.tensor)-unsafe.Offsetof(cmv.dl_tensor)]
	cml C.DLManagedTensor
	gml managedLegacy
	_   = [1]int{}[unsafe.Sizeof(gml)-C.sizeof_DLManagedTensor]
	_   = [1]int{}[unsafe.Offsetof(gml.tensor)-unsafe.Offsetof(cml.dl_tensor)]
	_   = [1]int{}[unsafe.Offsetof(gml.ctx)-unsafe.Offsetof(cml.manager_ctx)]
	_   = [1]int{}[unsafe.Offsetof(gml.deleter)-unsafe.Offsetof(cml.deleter)]
	cb  C.core_block
	gb  block
	_   = [1]int{}[unsafe.Sizeof(gb)-C.sizeof_core_block]
	_   = [1]int{}[unsafe.Offsetof(gb.managed)-unsafe.Offsetof(cb.managed)]
	_   = [1]int{}[unsafe.Offsetof(gb.next)-unsafe.Offsetof(cb.next)]
	_   = [1]int{}[unsafe.Offsetof(gb.state)-unsafe.Offsetof(cb.state)]
	_   = [1]int{}[unsafe.Sizeof(gb.state)-unsafe.Sizeof(cb.state)]
	_   = [1]int{}[unsafe.Offsetof(gb.slot)-unsafe.Offsetof(cb.slot)]
	_   = [1]int{}[unsafe.Sizeof(gb.slot)-unsafe.Sizeof(cb.slot)]
	_   = [1]int{}[unsafe.Offsetof(gb.share)-unsafe.Offsetof(cb.share)]
	_   = [1]int{}[unsafe.Offsetof(gb.home)-unsafe.Offsetof(cb.home)]
	_   = [1]int{}[unsafe.Offsetof(gb.payload)-unsafe.Offsetof(cb.payload)]
	_   = [1]int{}[unsafe.Sizeof(gb.payload)-unsafe.Sizeof(cb.payload)]
	_   = [1]int{}[unsafe.Offsetof(gb.dims)-unsafe.Offsetof(cb.dims)]
	_   = [1]int{}[unsafe.Sizeof(gb.dims)-unsafe.Sizeof(cb.dims)]
	ch  C.core_home
	gh  home
	_   = [1]int{}[unsafe.Sizeof(gh)-C.sizeof_core_home]
	_   = [1]int{}[unsafe.Offsetof(gh.dead)-unsafe.Offsetof(ch.dead)]
	_   = [1]int{}[unsafe.Offsetof(gh.pool)-unsafe.Offsetof(ch.drainer)]
	_   = [1]int{}[unsafe.Sizeof(gh.pool)-unsafe.Sizeof(ch.drainer)]
	_   = [1]int{}[unsafe.Offsetof(gh.rank)-unsafe.Offsetof(ch.rank)]
	cs  C.core_share
	gs  share
	_   = [1]int{}[unsafe.Sizeof(gs)-C.sizeof_core_share]
	_   = [1]int{}[unsafe.Offsetof(gs.count)-unsafe.Offsetof(cs.count)]
	_   = [1]int{}[unsafe.Sizeof(gs.count)-unsafe.Sizeof(cs.count)]
	_   = [1]int{}[unsafe.Offsetof(gs.data)-unsafe.Offsetof(cs.data)]
)

// The deleters that every export of this library carries.
var (
	deleteVersioned = uintptr(unsafe.Pointer(C.core_delete_versioned))
	deleteLegacy    = uintptr(unsafe.Pointer(C.core_delete_legacy))
)

// pointer makes a pointer of an address outside Go's heap, or inside an object of Go's that the
// caller keeps reachable.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func address(b *block) uintptr { return uintptr(unsafe.Pointer(b)) }

func coreShareAlloc(size uintptr) uintptr { return uintptr(C.share_alloc(C.size_t(size))) }
func coreShareLend(release, ctx unsafe.Pointer) uintptr {
	return uintptr(C.share_lend(release, ctx))
}
func coreShareVersioned(managed uintptr) uintptr {
	return uintptr(C.share_versioned(C.uintptr_t(managed)))
}
func coreShareLegacy(managed uintptr) uintptr {
	return uintptr(C.share_legacy(C.uintptr_t(managed)))
}

// coreEndShare releases a share whose count has reached zero.
func coreEndShare(share uintptr) { C.end_share(C.uintptr_t(share)) }

// coreDelete… call the deleter of a managed tensor, if it has one.
func coreDeleteVersioned(managed uintptr) { C.delete_versioned(C.uintptr_t(managed)) }
func coreDeleteLegacy(managed uintptr)    { C.delete_legacy(C.uintptr_t(managed)) }

func coreHomes(count int) uintptr { return uintptr(unsafe.Pointer(C.core_homes(C.int32_t(count)))) }
func coreSlab(h *home, count, firstSlot int) uintptr {
	return uintptr(C.slab((*C.core_home)(unsafe.Pointer(h)), C.uint32_t(count), C.uint32_t(firstSlot)))
}
func coreWakeBy(fd int)                { C.core_wake_by(C.int(fd)) }
func coreWakeAt(threshold int64) int64 { return int64(C.core_wake_at(C.int64_t(threshold))) }
func coreDeadBytes() *int64            { return (*int64)(unsafe.Pointer(C.core_wake_bytes())) }
func coreDoubleDeletes() uint64        { return uint64(C.core_double_deletes()) }
func coreLiveExports() int64           { return int64(C.core_live_exports()) }

// coreValidate is the C core's verdict on a DLTensor: its status and message. The tests hold it
// against [checkTensor].
func coreValidate(tensor unsafe.Pointer, flags Flags) (status int, message string, e extent) {
	var c C.core_extent
	buffer := (*C.char)(C.calloc(1, 256))
	defer C.free(unsafe.Pointer(buffer))
	status = int(C.core_validate((*C.DLTensor)(tensor), C.uint64_t(flags), &c, buffer, 256))
	e = extent{count: int64(c.count), nbytes: int64(c.nbytes), low: int64(c.low), high: int64(c.high), rowMajor: c.row_major != 0}
	return status, C.GoString(buffer), e
}
