//go:build cgo

package dlpacktest

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/../internal/core
#cgo LDFLAGS: -lpthread
#include <stdlib.h>
#include <string.h>
#include "core.h"
#include "fixture.h"
*/
import "C"

import (
	"runtime/cgo"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	_ "github.com/dlbridge/dlbridge/include/dlpack" // the header
)

// A Config describes the managed tensor that [Produce] makes. The zero Config is a valid float32 scalar on the CPU. Other values
// may describe invalid tensors.
type Config struct {
	Legacy       bool   // a DLManagedTensor, the form from before DLPack 1.0
	Major, Minor uint32 // the current version if Major is 0
	Flags        uint64
	Code, Bits   uint8 // the data type; float32 if Code, Bits and Lanes are all 0
	Lanes        uint16
	DeviceType   int32 // 0 means the CPU
	DeviceID     int32
	NDim         *int32 // the field ndim; nil means len(Shape)
	Shape        []int64
	Strides      []int64
	ByteOffset   uint64
	Shift        int // distance of the data from a multiple of 256, in bytes
	NullShape    bool
	NullStrides  bool // the field strides is NULL; it is also NULL if Strides is nil
	NullData     bool
	DataAt       uintptr // if not 0, the value of the field data, which may be an invalid address
	ShapeAt      uintptr // the same for the field shape
	StridesAt    uintptr // the same for the field strides
	NullDeleter  bool
	Bytes        int // size of the data; 0 means 4 KiB
}

// A Producer owns a managed tensor in C, and counts the calls of its deleter.
type Producer struct {
	f     *C.fixture
	bytes int
}

// Produce makes a managed tensor in C. The memory stays valid until the test ends, even after the deleter was called.
func Produce(t testing.TB, c Config) *Producer {
	if c.Bytes == 0 {
		c.Bytes = 4096
	}
	if c.Code == 0 && c.Bits == 0 && c.Lanes == 0 {
		c.Code, c.Bits, c.Lanes = C.kDLFloat, 32, 1
	}
	if c.Major == 0 {
		c.Major, c.Minor = C.DLPACK_MAJOR_VERSION, C.DLPACK_MINOR_VERSION
	}
	if c.DeviceType == 0 {
		c.DeviceType = C.kDLCPU
	}
	room := max(len(c.Shape), len(c.Strides))
	p := &Producer{C.fixture_new(C.int32_t(room), C.size_t(c.Bytes)), c.Bytes}
	t.Cleanup(func() { C.fixture_free(p.f) })

	d := (*C.DLTensor)(p.DLTensor(c.Legacy))
	if c.Legacy {
		m := (*C.DLManagedTensor)(p.f.managed)
		m.manager_ctx = unsafe.Pointer(p.f)
		if !c.NullDeleter {
			m.deleter = (*[0]byte)(C.fixture_delete_legacy)
		}
	} else {
		m := (*C.DLManagedTensorVersioned)(p.f.managed)
		m.version.major, m.version.minor = C.uint32_t(c.Major), C.uint32_t(c.Minor)
		m.flags, m.manager_ctx = C.uint64_t(c.Flags), unsafe.Pointer(p.f)
		if !c.NullDeleter {
			m.deleter = (*[0]byte)(C.fixture_delete_versioned)
		}
	}
	dims := unsafe.Slice((*int64)(unsafe.Add(unsafe.Pointer(p.f), C.sizeof_fixture)), 2*room)
	copy(dims, c.Shape)
	copy(dims[room:], c.Strides)
	if !c.NullData {
		d.data = unsafe.Add(p.f.data, c.Shift)
	}
	d.device.device_type, d.device.device_id = C.DLDeviceType(c.DeviceType), C.int32_t(c.DeviceID)
	d.ndim = C.int32_t(len(c.Shape))
	if c.NDim != nil {
		d.ndim = C.int32_t(*c.NDim)
	}
	d.dtype = C.DLDataType{code: C.uint8_t(c.Code), bits: C.uint8_t(c.Bits), lanes: C.uint16_t(c.Lanes)}
	if room > 0 && !c.NullShape {
		d.shape = (*C.int64_t)(unsafe.Pointer(&dims[0]))
	}
	if room > 0 && c.Strides != nil && !c.NullStrides {
		d.strides = (*C.int64_t)(unsafe.Pointer(&dims[room]))
	}
	for field, at := range map[unsafe.Pointer]uintptr{unsafe.Pointer(&d.data): c.DataAt, unsafe.Pointer(&d.shape): c.ShapeAt, unsafe.Pointer(&d.strides): c.StridesAt} {
		if at != 0 { // stored as a number, because Go ends the process if it finds an invalid address in a pointer
			*(*uintptr)(field) = at
		}
	}
	d.byte_offset = C.uint64_t(c.ByteOffset)
	return p
}

// Allocate returns a `DLManagedTensorVersioned *` of count float32 elements, all 0. As with most producers, its deleter frees
// the memory.
func Allocate(count int64) (managed unsafe.Pointer) {
	return unsafe.Pointer(C.fixture_allocate(C.int64_t(count)))
}

// ProduceGuarded makes a versioned managed tensor with the given major version. Its memory ends after the field flags, so a
// consumer that reads later fields crashes.
func ProduceGuarded(t testing.TB, major uint32) *Producer {
	p := &Producer{f: C.fixture_guarded(C.uint32_t(major))}
	t.Cleanup(func() { C.fixture_free(p.f) })
	return p
}

// Managed returns the `DLManagedTensorVersioned *`, or the `DLManagedTensor *` if the Config is Legacy, for a consumer.
func (p *Producer) Managed() unsafe.Pointer { return p.f.managed }

// DLTensor returns the `DLTensor *` inside the managed tensor. legacy must be as in the Config.
func (p *Producer) DLTensor(legacy bool) unsafe.Pointer {
	if legacy {
		return unsafe.Pointer(&(*C.DLManagedTensor)(p.f.managed).dl_tensor)
	}
	return unsafe.Pointer(&(*C.DLManagedTensorVersioned)(p.f.managed).dl_tensor)
}

// Data returns all of the producer's memory; it ignores Shift.
func (p *Producer) Data() []byte { return unsafe.Slice((*byte)(p.f.data), p.bytes) }

// Deletes returns the number of calls of the deleter.
func (p *Producer) Deletes() int { return int(atomic.LoadInt64((*int64)(&p.f.deletes))) }

// A View holds the fields of a managed tensor, as [Read] and [ReadLegacy] find them.
type View struct {
	Major, Minor         uint32
	Flags                uint64
	Data                 uintptr
	DeviceType, DeviceID int32
	Code, Bits           uint8
	Lanes                uint16
	Shape, Strides       []int64
	NullStrides          bool
	ByteOffset           uint64
	NullDeleter          bool
}

// Read returns the fields of a `DLManagedTensorVersioned *`.
func Read(managed unsafe.Pointer) View {
	m := (*C.DLManagedTensorVersioned)(managed)
	v := readTensor(&m.dl_tensor)
	v.Major, v.Minor, v.Flags = uint32(m.version.major), uint32(m.version.minor), uint64(m.flags)
	v.NullDeleter = m.deleter == nil
	return v
}

// ReadLegacy returns the fields of a `DLManagedTensor *`.
func ReadLegacy(managed unsafe.Pointer) View {
	m := (*C.DLManagedTensor)(managed)
	v := readTensor(&m.dl_tensor)
	v.NullDeleter = m.deleter == nil
	return v
}

func readTensor(t *C.DLTensor) View {
	v := View{
		Data:       uintptr(t.data),
		DeviceType: int32(t.device.device_type), DeviceID: int32(t.device.device_id),
		Code: uint8(t.dtype.code), Bits: uint8(t.dtype.bits), Lanes: uint16(t.dtype.lanes),
		NullStrides: t.strides == nil,
		ByteOffset:  uint64(t.byte_offset),
	}
	v.Shape = slices.Clone(unsafe.Slice((*int64)(t.shape), t.ndim))
	if t.strides != nil {
		v.Strides = slices.Clone(unsafe.Slice((*int64)(t.strides), t.ndim))
	}
	return v
}

// Scribble overwrites all public fields of a `DLManagedTensorVersioned *` except the deleter, as some consumers do before they
// call it.
func Scribble(managed unsafe.Pointer) {
	m := (*C.DLManagedTensorVersioned)(managed)
	deleter := m.deleter
	C.memset(managed, 0xff, C.sizeof_DLManagedTensorVersioned)
	m.deleter = deleter
}

// Sum returns the sum of the float32 elements of a `DLManagedTensorVersioned *`. It is C code.
func Sum(managed unsafe.Pointer) float64 {
	return float64(C.fixture_sum(&(*C.DLManagedTensorVersioned)(managed).dl_tensor))
}

// Fill sets all float32 elements of a `DLManagedTensorVersioned *` to a value. It is C code.
func Fill(managed unsafe.Pointer, value float32) {
	C.fixture_fill(&(*C.DLManagedTensorVersioned)(managed).dl_tensor, C.float(value))
}

// DeleteOnThreads calls the deleters of `DLManagedTensorVersioned *`s on new C threads, which start at the same time, and waits
// for them.
func DeleteOnThreads(managed []unsafe.Pointer, threads int) {
	deleteOnThreads(managed, threads, 0)
}

// DeleteInChild calls the deleter of a `DLManagedTensorVersioned *` in a forked child, where Go does not run, and returns the exit status
// of the child: 0 if the deleter has returned. The managed tensor is still valid in this process.
func DeleteInChild(managed unsafe.Pointer) (status int) {
	return int(C.fixture_delete_in_child(managed))
}

// DeleteLegacyOnThreads is DeleteOnThreads for `DLManagedTensor *`s.
func DeleteLegacyOnThreads(managed []unsafe.Pointer, threads int) {
	deleteOnThreads(managed, threads, 1)
}

func deleteOnThreads(managed []unsafe.Pointer, threads int, legacy C.int) {
	if len(managed) > 0 {
		C.fixture_delete_on_threads(&managed[0], C.int64_t(len(managed)), C.int32_t(threads), legacy)
	}
}

// ExportInC makes a managed tensor of one float32 element with the C library's own functions: a `DLManagedTensorVersioned *`,
// or a `DLManagedTensor *` if legacy is true. Its deleter frees the element.
func ExportInC(legacy bool) (managed unsafe.Pointer) {
	share := C.dlbcore_share_alloc(4, 1)
	defer C.dlbcore_share_drop(share)
	view := C.DLTensor{data: share.data, device: C.DLDevice{device_type: C.kDLCPU}, dtype: C.DLDataType{code: C.kDLFloat, bits: 32, lanes: 1}}
	if legacy {
		return unsafe.Pointer(C.dlbcore_export_legacy(share, &view))
	}
	return unsafe.Pointer(C.dlbcore_export_versioned(share, &view, 0))
}

// A Loan is C memory for [dlpack.Lend]. It counts the calls of its release.
type Loan struct{ f *C.fixture }

// Lend makes a Loan of size bytes. The memory is freed when the test ends.
func Lend(t testing.TB, size int) *Loan {
	l := &Loan{C.fixture_new(0, C.size_t(size))}
	t.Cleanup(func() { C.fixture_free(l.f) })
	return l
}

// Data returns the address of the memory.
func (l *Loan) Data() unsafe.Pointer { return l.f.data }

// Release returns the C function that gives the memory back, a `void (*)(void *ctx)`.
func (l *Loan) Release() unsafe.Pointer { return C.fixture_count }

// Context returns the argument ctx for the function that Release returns.
func (l *Loan) Context() unsafe.Pointer { return unsafe.Pointer(l.f) }

// Releaser returns a C function for [dlpack.Lend]. It calls the deleter of its argument, a `DLManagedTensorVersioned *`. With
// it, a test lends the memory of a managed tensor.
func Releaser() unsafe.Pointer { return C.fixture_release_managed }

// Callback returns a C function and its ctx for [dlpack.Lend]. The C function calls a Go function. Both stay valid until the
// test ends.
func Callback(t testing.TB, call func()) (release, ctx unsafe.Pointer) {
	handle := cgo.NewHandle(call)
	c := C.malloc(C.sizeof_uintptr_t)
	*(*C.uintptr_t)(c) = C.uintptr_t(handle)
	t.Cleanup(func() {
		C.free(c)
		handle.Delete()
	})
	return C.fixture_call_go, c
}

//export fixtureCall
func fixtureCall(handle C.uintptr_t) { cgo.Handle(handle).Value().(func())() }

// Releases returns the number of times that the memory was given back.
func (l *Loan) Releases() int { return int(atomic.LoadInt64((*int64)(&l.f.deletes))) }

// A Gate blocks calls of a deleter, or of a lender's release, as if it needed a lock that another thread holds.
type Gate struct{ f *C.fixture }

// Block blocks calls of the deleter until the gate is opened. The end of the test opens it.
func (p *Producer) Block(t testing.TB) Gate { return block(t, p.f) }

// Block blocks calls of the release until the gate is opened. The end of the test opens it.
func (l *Loan) Block(t testing.TB) Gate { return block(t, l.f) }

func block(t testing.TB, f *C.fixture) Gate {
	C.fixture_close(f)
	g := Gate{f}
	t.Cleanup(g.Open)
	return g
}

// Waiting returns the number of calls that are blocked.
func (g Gate) Waiting() int { return int(atomic.LoadInt64((*int64)(&g.f.waiting))) }

// Open lets all blocked and later calls return. It waits until the blocked calls have returned.
func (g Gate) Open() { C.fixture_open(g.f) }
