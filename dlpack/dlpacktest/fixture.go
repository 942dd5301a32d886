//go:build cgo

// Package dlpacktest has what tests of the DLPack border need: a producer and a consumer in plain C,
// valid and hostile tensors, threads that Go has never seen, and checks for leaks: [CheckLeaks] in a test, and [Main]
// in the TestMain of a package. It is for the tests of programs that use package dlpack as much as for its own.
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
	"testing"
	"unsafe"

	_ "github.com/dlbridge/dlbridge/include/dlpack" // the header
)

// A Config says what a C producer hands out. The zero values of most fields are what a well-behaved
// producer fills in; the others make it misbehave.
type Config struct {
	Legacy       bool // a DLManagedTensor, the form of before DLPack 1.0
	Major, Minor uint32
	Flags        uint64
	Code, Bits   uint8 // the raw data type; all zero: float32
	Lanes        uint16
	DeviceType   int32 // 0: the CPU
	DeviceID     int32
	NDim         *int32 // instead of len(Shape)
	Shape        []int64
	Strides      []int64
	ByteOffset   uint64
	Shift        int // bytes by which the data is off its 256-byte alignment
	NullShape    bool
	NullStrides  bool // always so where Strides is nil
	NullData     bool
	DataAt       uintptr // where the data is said to lie, which nobody may touch
	ShapeAt      uintptr // and the shape
	StridesAt    uintptr // and the strides
	NullDeleter  bool
	Bytes        int // size of the data; 0: 4 KiB
}

// A Producer is a managed tensor made by C, and a count of its deleter's calls.
type Producer struct {
	f     *C.fixture
	bytes int
}

// Produce makes a managed tensor in C. It is freed when the test ends.
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

	legacy := 0
	v := (*C.DLManagedTensorVersioned)(C.fixture_managed(p.f))
	d := &v.dl_tensor
	if c.Legacy {
		legacy = 1
		d = &(*C.DLManagedTensor)(unsafe.Pointer(v)).dl_tensor
	} else {
		v.version.major, v.version.minor = C.uint32_t(c.Major), C.uint32_t(c.Minor)
		v.flags = C.uint64_t(c.Flags)
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
		if at != 0 { // which may be none that Go must have in a pointer
			*(*uintptr)(field) = at
		}
	}
	d.byte_offset = C.uint64_t(c.ByteOffset)
	if !c.NullDeleter {
		C.fixture_arm(p.f, C.int(legacy))
	}
	return p
}

// Allocate makes a `DLManagedTensorVersioned *` on count float32, all 0, as most producers make it: its memory
// is the consumer's alone, and the deleter frees it.
func Allocate(count int64) (managed unsafe.Pointer) {
	return unsafe.Pointer(C.fixture_allocate(C.int64_t(count)))
}

// ProduceGuarded makes a versioned managed tensor of another major version whose memory ends behind
// the flags: reading any further faults.
func ProduceGuarded(t testing.TB, major uint32) *Producer {
	p := &Producer{f: C.fixture_guarded(C.uint32_t(major))}
	t.Cleanup(func() { C.fixture_free(p.f) })
	return p
}

// Managed is the `DLManagedTensorVersioned *`, or `DLManagedTensor *`, to hand to a consumer.
func (p *Producer) Managed() unsafe.Pointer { return unsafe.Pointer(C.fixture_managed(p.f)) }

// DLTensor is the `DLTensor *` inside.
func (p *Producer) DLTensor(legacy bool) unsafe.Pointer {
	m := C.fixture_managed(p.f)
	if legacy {
		return unsafe.Pointer(&(*C.DLManagedTensor)(m).dl_tensor)
	}
	return unsafe.Pointer(&(*C.DLManagedTensorVersioned)(m).dl_tensor)
}

// Data is the producer's memory.
func (p *Producer) Data() []byte { return unsafe.Slice((*byte)(p.f.data), p.bytes) }

// Deletes returns the number of calls of the deleter.
func (p *Producer) Deletes() int { return int(C.fixture_deletes(p.f)) }

// A View is what a C consumer reads in a managed tensor.
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

// Read reads a `DLManagedTensorVersioned *` as a consumer in C does.
func Read(managed unsafe.Pointer) View {
	m := (*C.DLManagedTensorVersioned)(managed)
	v := readTensor(&m.dl_tensor)
	v.Major, v.Minor, v.Flags = uint32(m.version.major), uint32(m.version.minor), uint64(m.flags)
	v.NullDeleter = m.deleter == nil
	return v
}

// ReadLegacy reads a `DLManagedTensor *`.
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
	for i := 0; i < int(t.ndim); i++ {
		v.Shape = append(v.Shape, unsafe.Slice((*int64)(unsafe.Pointer(t.shape)), t.ndim)[i])
		if t.strides != nil {
			v.Strides = append(v.Strides, unsafe.Slice((*int64)(unsafe.Pointer(t.strides)), t.ndim)[i])
		}
	}
	return v
}

// Scribble overwrites every public field but the deleter of a `DLManagedTensorVersioned *`, as some
// consumers do before they release it.
func Scribble(managed unsafe.Pointer) {
	m := (*C.DLManagedTensorVersioned)(managed)
	deleter := m.deleter
	C.memset(managed, 0xff, C.sizeof_DLManagedTensorVersioned)
	m.deleter = deleter
}

// Sum adds up the float32 elements of a `DLManagedTensorVersioned *`, in C.
func Sum(managed unsafe.Pointer) float64 {
	return float64(C.fixture_sum(&(*C.DLManagedTensorVersioned)(managed).dl_tensor))
}

// Fill sets the float32 elements of a `DLManagedTensorVersioned *`, in C.
func Fill(managed unsafe.Pointer, value float32) {
	C.fixture_fill(&(*C.DLManagedTensorVersioned)(managed).dl_tensor, C.float(value))
}

// DeleteOnThreads calls the deleters of `DLManagedTensorVersioned *`s on new threads of C's, all at
// once.
func DeleteOnThreads(managed []unsafe.Pointer, threads int) {
	deleteOnThreads(managed, threads, 0)
}

// DeleteLegacyOnThreads does the same with `DLManagedTensor *`s.
func DeleteLegacyOnThreads(managed []unsafe.Pointer, threads int) {
	deleteOnThreads(managed, threads, 1)
}

func deleteOnThreads(managed []unsafe.Pointer, threads int, legacy C.int) {
	if len(managed) > 0 {
		C.fixture_delete_on_threads(&managed[0], C.int64_t(len(managed)), C.int32_t(threads), legacy)
	}
}

// ExportInC makes a managed tensor as C code does that is linked with the library: a
// `DLManagedTensorVersioned *`, or `DLManagedTensor *`, on one float32, which is freed with it.
func ExportInC(legacy bool) (managed unsafe.Pointer) {
	share := C.core_share_alloc(4, 1)
	defer C.core_share_drop(share)
	view := C.DLTensor{data: share.data, device: C.DLDevice{device_type: C.kDLCPU}, dtype: C.DLDataType{code: C.kDLFloat, bits: 32, lanes: 1}}
	if legacy {
		return unsafe.Pointer(C.core_export_legacy(share, &view))
	}
	return unsafe.Pointer(C.core_export_versioned(share, &view, 0))
}

// Nothing is a call into C and back that does nothing: the yardstick of benchmarks.
func Nothing() { C.fixture_nothing() }

// A Loan is memory of C's that is lent, and a count of how often it was given back.
type Loan struct{ f *C.fixture }

// Lend makes one of size bytes. It is freed when the test ends.
func Lend(t testing.TB, size int) *Loan {
	l := &Loan{C.fixture_new(0, C.size_t(size))}
	t.Cleanup(func() { C.fixture_free(l.f) })
	return l
}

// Data is the memory.
func (l *Loan) Data() unsafe.Pointer { return l.f.data }

// Release is the C function that takes the memory back, a `void (*)(void *ctx)`.
func (l *Loan) Release() unsafe.Pointer { return C.fixture_taker() }

// Context is Release's ctx.
func (l *Loan) Context() unsafe.Pointer { return unsafe.Pointer(l.f) }

// Releaser is a C function that calls the deleter of its argument, a `DLManagedTensorVersioned *`: the release of
// memory that is lent on.
func Releaser() unsafe.Pointer { return C.fixture_releaser() }

// Callback makes a release of lent memory that calls a Go function: a C function and its ctx, which lives until the
// test ends.
func Callback(t testing.TB, call func()) (release, ctx unsafe.Pointer) {
	handle := cgo.NewHandle(call)
	c := C.fixture_callback(C.uintptr_t(handle))
	t.Cleanup(func() {
		C.free(c)
		handle.Delete()
	})
	return C.fixture_caller(), c
}

//export fixtureCall
func fixtureCall(handle C.uintptr_t) { cgo.Handle(handle).Value().(func())() }

// Releases returns the number of times that the memory was given back.
func (l *Loan) Releases() int { return int(C.fixture_deletes(l.f)) }

// A Gate makes calls of a deleter, or of a lender's release, wait: those of a producer that needs a lock which
// somebody else has.
type Gate struct{ f *C.fixture }

// Block makes calls of the deleter wait until the gate is opened, which the end of the test does at the latest.
func (p *Producer) Block(t testing.TB) Gate { return block(t, p.f) }

// Block makes calls of Release wait until the gate is opened, which the end of the test does at the latest.
func (l *Loan) Block(t testing.TB) Gate { return block(t, l.f) }

func block(t testing.TB, f *C.fixture) Gate {
	C.fixture_close(f)
	g := Gate{f}
	t.Cleanup(g.Open)
	return g
}

// Waiting returns how many calls wait.
func (g Gate) Waiting() int { return int(C.fixture_waiting(g.f)) }

// Open lets the calls that wait, and all later ones, return. It returns once those that wait have.
func (g Gate) Open() { C.fixture_open(g.f) }
