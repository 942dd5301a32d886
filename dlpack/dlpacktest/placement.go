//go:build cgo

package dlpacktest

// #include "fixture.h"
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A Placement is a kind of memory for the elements of a tensor.
type Placement struct {
	Name string
	// ReadOnly is true if a write to the memory crashes. The tensors are then read-only.
	ReadOnly bool
	// Guarded is true if access to the bytes just before or just after the memory crashes.
	Guarded bool
	// Collected is the result of [dlpack.Tensor.Collected] for the tensors.
	Collected bool

	bytes func(t testing.TB, data []byte) []byte                    // copies data to this kind of memory
	own   func(t testing.TB, memory []byte) (*dlpack.Tensor, error) // makes a tensor of the copy; nil means FromBytes
}

// Placements lists all kinds of memory. It has no addresses in the first page, because no tensor may lie there.
var Placements = []Placement{
	{Name: "an array", Collected: true, bytes: func(_ testing.TB, data []byte) []byte { return slices.Clone(data) }},
	{Name: "an odd address", Collected: true, bytes: func(_ testing.TB, data []byte) []byte { return at(1, data) }},
	{Name: "a struct with pointers", Collected: true, bytes: inStruct},
	{Name: "an array in an interface", Collected: true, bytes: inInterface},
	{Name: "a slice that began on the stack", Collected: true, bytes: fromStack},
	{Name: "a global with pointers", Collected: true, bytes: globalRoom.take},
	{Name: "a global without pointers", Collected: true, bytes: plainRoom.take},
	{Name: "a struct with pointers, from C", bytes: inStruct, own: throughC},
	{Name: "the end of a mapping", Collected: true, Guarded: true, bytes: func(t testing.TB, data []byte) []byte { return mapped(t, data, true, false) }},
	{Name: "the beginning of a mapping", Collected: true, Guarded: true, bytes: func(t testing.TB, data []byte) []byte { return mapped(t, data, false, false) }},
	{Name: "the end of a read-only mapping", Collected: true, Guarded: true, ReadOnly: true, bytes: func(t testing.TB, data []byte) []byte { return mapped(t, data, true, true) }},
	{Name: "the beginning of a read-only mapping", Collected: true, Guarded: true, ReadOnly: true, bytes: func(t testing.TB, data []byte) []byte { return mapped(t, data, false, true) }},
	{Name: "memory of C", Collected: true, bytes: inC},
	{Name: "memory of C, by Own", bytes: inC, own: func(_ testing.TB, memory []byte) (*dlpack.Tensor, error) {
		return dlpack.Own(memory, dlpack.Spec{DType: dlpack.Uint8, Shape: []int64{int64(len(memory))}}, func() {})
	}},
	{Name: "lent memory of C", bytes: inC, own: func(_ testing.TB, memory []byte) (*dlpack.Tensor, error) {
		return dlpack.Lend(unsafe.Pointer(unsafe.SliceData(memory)), int64(len(memory)), false, nil, nil)
	}},
	{Name: "imported memory", bytes: inC, own: func(t testing.TB, memory []byte) (*dlpack.Tensor, error) {
		return dlpack.Import(producerOf(t, memory, false).Managed())
	}},
	{Name: "imported memory in the form of before 1.0", bytes: inC, own: func(t testing.TB, memory []byte) (*dlpack.Tensor, error) {
		return dlpack.ImportLegacy(producerOf(t, memory, true).Managed(), dlpack.AssumeWritable)
	}},
	{Name: "borrowed memory", bytes: inC, own: func(t testing.TB, memory []byte) (*dlpack.Tensor, error) {
		return dlpack.Borrow(producerOf(t, memory, false).DLTensor(false), dlpack.AssumeWritable)
	}},
	{Name: "memory of New", bytes: func(_ testing.TB, data []byte) []byte { return data }, own: func(_ testing.TB, data []byte) (*dlpack.Tensor, error) {
		x, err := dlpack.New(dlpack.Uint8, int64(len(data)))
		if err == nil {
			memory, _, _ := x.UnsafeBytes()
			copy(memory, data)
		}
		return x, err
	}},
}

// Tensor copies data to this kind of memory, and makes the tensor of the copy that s describes. The tensor is read-only if the
// memory is. The end of the test closes it.
func (p *Placement) Tensor(t testing.TB, data []byte, s dlpack.Spec) *dlpack.Tensor {
	t.Helper()
	s.ReadOnly = s.ReadOnly || p.ReadOnly
	x, err := p.tensor(t, data, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func (p *Placement) tensor(t testing.TB, data []byte, s dlpack.Spec) (*dlpack.Tensor, error) {
	memory := p.bytes(t, data)
	if p.own == nil {
		return dlpack.FromBytes(memory, s)
	}
	whole, err := p.own(t, memory)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	return whole.View(s)
}

// Bytes returns a copy of data in this kind of memory, which is valid until the test ends. For memory of New it returns data
// itself.
func (p *Placement) Bytes(t testing.TB, data []byte) []byte { return p.bytes(t, data) }

// Check runs an operation on two tensors with the same elements: one in this kind of memory, and one in a Go array. It fails the
// test unless both runs return the same result and leave the same elements in memory. The result must not contain addresses.
// Check closes the tensors. what is the name of the case in failure messages.
func (p *Placement) Check(t testing.TB, what string, data []byte, s dlpack.Spec, run func(t testing.TB, x *dlpack.Tensor) any) {
	t.Helper()
	x := p.Tensor(t, data, s)
	defer x.Close()
	s.ReadOnly = s.ReadOnly || p.ReadOnly
	y, err := dlpack.FromBytes(at((x.Data()-uintptr(s.ByteOffset))&255, data), s) // with the alignment of x
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if x.NumElements() > 0 && x.Collected() != p.Collected {
		t.Fatalf("%s: Collected() = %v, want %v", what, x.Collected(), p.Collected)
	}
	held, err := x.AsBytes() // keeps the memory for the comparison if run closes x
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	got, start, gotErr := x.UnsafeBytes()
	want, from, wantErr := y.UnsafeBytes()
	if err := errors.Join(gotErr, wantErr); err != nil {
		t.Fatal(err)
	}
	if start != from || !bytes.Equal(want, got) {
		t.Fatalf("%s: %d bytes, the first element at %d, want %d at %d", what, len(got), start, len(want), from)
	}
	expected, outcome := run(t, y), run(t, x)
	if !reflect.DeepEqual(expected, outcome) {
		t.Fatalf("%s: %v\nwant %v", what, outcome, expected)
	}
	if !bytes.Equal(want, got) {
		t.Fatalf("%s: the elements are %v\nwant %v", what, got, want)
	}
}

// CheckPlacements calls [Placement.Check] with an operation for every kind of memory, each with several data types and layouts.
func CheckPlacements(t *testing.T, run func(t testing.TB, x *dlpack.Tensor) any) {
	for i := range Placements {
		p := &Placements[i]
		t.Run(p.Name, func(t *testing.T) {
			CheckLeaks(t)
			for _, dt := range []dlpack.DataType{dlpack.Uint8, dlpack.Float32, dlpack.Complex128} {
				item := dt.ItemSize()
				data := make([]byte, 35*item)
				for i := range data {
					data[i] = byte(i % 63)
				}
				for _, c := range []struct {
					elements int // in memory, from the lowest to the highest
					dlpack.Spec
				}{
					{35, dlpack.Spec{Shape: []int64{5, 7}}},
					{35, dlpack.Spec{Shape: []int64{7, 5}, Strides: []int64{1, 7}}},
					{35, dlpack.Spec{Shape: []int64{35}, Strides: []int64{-1}, ByteOffset: int64(34 * item)}},
					{35, dlpack.Spec{Shape: []int64{18}, Strides: []int64{2}}},
					{0, dlpack.Spec{Shape: []int64{0, 3}}},
					{1, dlpack.Spec{Shape: []int64{}}},
				} {
					c.DType = dt
					p.Check(t, fmt.Sprintf("%v%v, strides %v", dt, c.Shape, c.Strides), data[:c.elements*item], c.Spec, run)
				}
			}
		})
	}
}

// at returns a copy of data in an array, at an address that is offset bytes after a multiple of 256.
func at(offset uintptr, data []byte) []byte {
	room := make([]byte, len(data)+512)
	start := (offset - uintptr(unsafe.Pointer(&room[0]))) & 255
	return room[start:][:copy(room[start:], data):len(data)]
}

func inStruct(_ testing.TB, data []byte) []byte {
	object := reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "Name", Type: reflect.TypeFor[*string]()},
		{Name: "Bytes", Type: reflect.ArrayOf(len(data), reflect.TypeFor[byte]())},
		{Name: "Next", Type: reflect.TypeFor[*string]()},
	})).Elem()
	object.Field(0).Set(reflect.ValueOf(new(string)))
	object.Field(2).Set(reflect.ValueOf(new(string)))
	bytes := object.Field(1).Slice(0, len(data)).Bytes()
	copy(bytes, data)
	return bytes
}

func inInterface(_ testing.TB, data []byte) []byte {
	array := reflect.New(reflect.ArrayOf(len(data), reflect.TypeFor[byte]())).Elem()
	reflect.Copy(array, reflect.ValueOf(data))
	boxed := array.Interface() // has a copy of the array
	start := (*[2]unsafe.Pointer)(unsafe.Pointer(&boxed))[1]
	return unsafe.Slice((*byte)(start), len(data))
}

// fromStack appends one byte after the other, because Go may begin such a slice on the stack.
func fromStack(_ testing.TB, data []byte) []byte {
	var bytes []byte
	for range data {
		bytes = append(bytes, data[len(bytes)])
	}
	return bytes
}

// globalBytes is the size of each global.
const globalBytes = 40 << 20

var (
	global struct {
		name  *string
		bytes [globalBytes]byte
	}
	plainGlobal [globalBytes]byte

	globalRoom, plainRoom = &room{memory: global.bytes[:]}, &room{memory: plainGlobal[:]}
)

func init() { global.name = new(string) }

// A room gives parts of a global to tests, one after the other. After all these tests have ended, it starts from the beginning
// again.
type room struct {
	memory []byte
	mu     sync.Mutex
	used   int
	users  int
}

func (r *room) take(t testing.TB, data []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.memory)-r.used < len(data) {
		t.Fatalf("no room for %d bytes in a global", len(data))
	}
	part := r.memory[r.used:][:len(data):len(data)]
	copy(part, data)
	r.used += (len(data) + 255) &^ 255
	r.users++
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.users--; r.users == 0 {
			r.used = 0
		}
	})
	return part
}

// mapped returns a copy of data in a mapping between two inaccessible pages, at the end of the mapping or at its beginning.
func mapped(t testing.TB, data []byte, atEnd, readOnly bool) []byte {
	page := syscall.Getpagesize()
	size := (len(data) + page - 1) &^ (page - 1)
	all, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(all) })
	pages := all[page:][:size:size]
	start := 0
	if atEnd {
		start = size - len(data)
	}
	if size == 0 {
		return pages
	}
	if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	copy(pages[start:], data)
	if readOnly {
		if err := syscall.Mprotect(pages, syscall.PROT_READ); err != nil {
			t.Fatal(err)
		}
	}
	return pages[start:][:len(data):len(data)]
}

func inC(t testing.TB, data []byte) []byte {
	f := C.fixture_new(0, C.size_t(len(data)))
	t.Cleanup(func() { C.fixture_free(f) })
	memory := unsafe.Slice((*byte)(f.data), len(data))
	copy(memory, data)
	return memory
}

// producerOf returns a producer in C whose managed tensor describes memory as one dimension of bytes.
func producerOf(t testing.TB, memory []byte, legacy bool) *Producer {
	return Produce(t, Config{
		Legacy: legacy, Code: uint8(dlpack.CodeUInt), Bits: 8, Lanes: 1, Shape: []int64{int64(len(memory))}, Bytes: 1,
		DataAt: uintptr(unsafe.Pointer(unsafe.SliceData(memory))),
	})
}

// throughC exports Go's memory and imports the export.
func throughC(_ testing.TB, memory []byte) (*dlpack.Tensor, error) {
	x, err := dlpack.FromSlice(memory)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	managed, err := x.Export()
	if err != nil {
		return nil, err
	}
	return dlpack.Import(managed)
}
