package gguf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// MaxHeader is the largest size in bytes of a header, the part of a file before the data section. The headers of models
// with the largest vocabularies have about a tenth of this size.
const MaxHeader = 100_000_000

const (
	magic        = "GGUF"
	mostKey      = 1<<16 - 1 // bytes of a key
	mostName     = 64        // bytes of the name of a tensor
	mostRank     = 4
	mostDepth    = 8 // of nested arrays
	alignmentKey = "general.alignment"
	alignment    = 32 // without that key
	maxAlignment = 1 << 20

	leastEntry = 8 + 4 + 1     // bytes of an entry with a value of one byte, beside its key
	leastView  = 8 + 4 + 4 + 8 // bytes of the description of a tensor without dimensions, beside its name
)

// A File has the metadata and the descriptions of all tensors of a file.
type File struct {
	Version int // 2 or 3
	// Alignment is a number of bytes; the offset of each tensor is a multiple of it. It is 32 without the metadata
	// "general.alignment".
	Alignment int64
	// Metadata has the metadata in the order of the file.
	Metadata []Entry
	// Tensors has the tensors in the order of their descriptions in the file.
	Tensors []View

	keys, names map[string]int // into Metadata and Tensors
}

// An Entry is one item of the metadata of a file. Value has the Go type of the value in the file: uint8 to uint64, int8
// to int64, float32, float64, bool or string. A string may be any bytes. An array is a slice of one of these types,
// such as []string; an array of arrays is []any, and its elements are such slices.
type Entry struct {
	Key   string
	Value any
}

// A View describes a tensor of a file. Its Data aliases the file; it owns nothing.
type View struct {
	Name  string
	DType DType
	Shape []int64 // in elements, the fastest dimension last
	// Offset is the index of the first byte of the elements in the file.
	Offset int64
	// Data has the elements, or the blocks of a quantised type: little-endian, row-major, without gaps, at any address.
	Data []byte
}

// Find returns the tensor with the given name.
//
// Errors: [elements.ErrNoName]; [elements.ErrNil] for a nil File.
func (f *File) Find(name string) (*View, error) {
	if f == nil {
		return nil, fmt.Errorf("gguf: the File is %w", elements.ErrNil)
	}
	i, err := payload.Find(name, f.names, func(i int) string { return f.Tensors[i].Name }, "gguf")
	if err != nil {
		return nil, err
	}
	return &f.Tensors[i], nil
}

// Value returns the value of the metadata with the given key (see [Entry]). ok reports whether the file has the key.
func (f *File) Value(key string) (value any, ok bool) {
	if f == nil {
		return nil, false
	}
	i, ok := f.keys[key]
	if !ok {
		return nil, false
	}
	return f.Metadata[i].Value, true
}

// Alignment returns the largest power of two, up to 4096, that divides Offset. The elements have this alignment in
// memory if the file begins at a multiple of 4096, like a mapping.
func (v *View) Alignment() int { return payload.FileAlignment(v.Offset) }

// DecodeFile decodes the header of a file, and checks it against the size of the file. data is the whole file; only the
// header is read.
//
// Errors: an [*elements.Error] with the byte of the file and [elements.ErrHeader], [elements.ErrTruncated], [ErrLimit], [ErrOffsets], [elements.ErrDuplicate],
// [elements.ErrName], [elements.ErrDType], [elements.ErrSize], [layout.ErrOverflow], or [dlpack.ErrLayout] for more than 4 dimensions.
func DecodeFile(data []byte) (*File, error) {
	// The first pass finds the end of the header and allocates nothing. So the allocations of the second pass are in
	// proportion to a header that exists. The second pass reads a copy that nobody else can change; all texts are parts
	// of this copy.
	first := reader{data: data[:min(len(data), MaxHeader)], limited: len(data) > MaxHeader, dry: true}
	if first.file(); first.err != nil {
		return nil, first.err
	}
	r := reader{data: bytes.Clone(data[:first.at])}
	f, offsets := r.file()
	if r.err == nil {
		r.place(f, offsets, data)
	}
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

// A reader reads a header. After the first error, all methods return zero values.
type reader struct {
	data    []byte
	at      int
	dry     bool // find the end of the header only: allocate nothing, and leave the checks of names and numbers to the second pass
	limited bool // the file continues after data
	err     error
}

// fail sets the error, unless there is one.
func (r *reader) fail(at int, cause error, format string, args ...any) {
	if r.err == nil {
		r.err = newError(int64(at), cause, format, args...)
	}
}

// short fails because the input has too few bytes for the item at byte at.
func (r *reader) short(at int, format string, args ...any) {
	what, left := fmt.Sprintf(format, args...), len(r.data)-r.at
	if r.limited {
		r.fail(at, ErrLimit, "%s, but only %d bytes are left of the %d that a header may have", what, left, MaxHeader)
	} else {
		r.fail(at, elements.ErrTruncated, "%s, but only %d bytes are left", what, left)
	}
}

// take returns the next n bytes.
func (r *reader) take(n int, what string) []byte {
	if r.err == nil && n > len(r.data)-r.at {
		r.short(r.at, "%s needs %d bytes", what, n)
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at : r.at]
}

func (r *reader) uint32(what string) uint32 {
	if b := r.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64(what string) uint64 {
	if b := r.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads the number of the items that follow. It checks that they fit into the rest of the file. least is the
// smallest size of an item in bytes.
func (r *reader) count(least int, what string) int {
	at := r.at
	if r.err == nil && len(r.data)-at < 8 {
		r.short(at, "the number of %s needs 8 bytes", what)
	}
	n := r.uint64(what)
	if r.err == nil && n > uint64(len(r.data)-r.at)/uint64(least) {
		r.short(at, "%d %s are expected", n, what)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// text reads a string. The result aliases data.
func (r *reader) text(what string) string {
	b := r.take(r.count(1, what), what)
	if r.dry {
		return ""
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// name reads a key or the name of a tensor, which must be new, and adds it to index with the value i.
func (r *reader) name(what string, most int, index map[string]int, i int) string {
	at := r.at
	name := r.text(what)
	if r.err != nil || r.dry {
		return ""
	}
	switch {
	case name == "":
		r.fail(at, elements.ErrName, "0 %s, but at least 1 is needed", what)
	case len(name) > most:
		r.fail(at, elements.ErrName, "%d %s, but at most %d are allowed", len(name), what, most)
	case !utf8.ValidString(name):
		r.fail(at, elements.ErrName, "%s is not UTF-8", errtext.Quote(name))
	}
	if _, ok := index[name]; ok {
		r.fail(at, elements.ErrDuplicate, "%s", errtext.Quote(name))
	}
	index[name] = i
	return name
}

// file reads the header. offsets has the place of each tensor in the data section, which [reader.place] checks.
func (r *reader) file() (f *File, offsets []placed) {
	if b := r.take(len(magic), "the word "+magic); b != nil && string(b) != magic {
		r.fail(0, elements.ErrHeader, "%s instead of %q", errtext.Quote(b), magic)
	}
	version := r.uint32("the version")
	switch {
	case r.err != nil:
	case version&0xffff == 0:
		r.fail(4, elements.ErrHeader, "the file is big-endian, but only little-endian files can be read")
	case version != 2 && version != 3:
		r.fail(4, elements.ErrHeader, "the version is %d, but only versions 2 and 3 can be read", version)
	}
	tensors := r.count(leastView, "tensors")
	entries := r.count(leastEntry, "entries of metadata")
	f = new(File)
	if !r.dry && r.err == nil {
		*f = File{Version: int(version), Alignment: alignment, keys: make(map[string]int, entries), names: make(map[string]int, tensors)}
		f.Metadata, f.Tensors, offsets = make([]Entry, entries), make([]View, tensors), make([]placed, tensors)
	}
	for i := 0; i < entries && r.err == nil; i++ {
		key := r.name("bytes of a key", mostKey, f.keys, i)
		at := r.at
		value := r.value(0)
		if r.dry {
			continue
		}
		f.Metadata[i] = Entry{key, value}
		if key == alignmentKey && r.err == nil {
			n, ok := value.(uint32)
			if !ok || n == 0 || n > maxAlignment || n&(n-1) != 0 {
				r.fail(at, elements.ErrHeader, "%s must be a uint32 that is a power of two and at most %d", alignmentKey, maxAlignment)
			}
			f.Alignment = int64(n)
		}
	}
	for i := 0; i < tensors && r.err == nil; i++ {
		v := View{Name: r.name("bytes of the name of a tensor", mostName, f.names, i)}
		p := r.describe(&v)
		if !r.dry {
			p.tensor = i
			f.Tensors[i], offsets[i] = v, p
		}
	}
	return f, offsets
}

// A valueType is the type of a value of the metadata.
type valueType uint32

const (
	typeBool   valueType = 7
	typeString valueType = 8
	typeArray  valueType = 9
)

// valueTypes has the types of values by their numbers. size is the least number of bytes of a value. one makes a number
// from its bytes, and slice a slice of numbers.
var valueTypes = [...]struct {
	size  int
	name  string // of an array
	one   func([]byte) any
	slice func([]byte) any
}{
	0:          {1, "elements of uint8", one[uint8], sliceOf[uint8]},
	1:          {1, "elements of int8", one[int8], sliceOf[int8]},
	2:          {2, "elements of uint16", one[uint16], sliceOf[uint16]},
	3:          {2, "elements of int16", one[int16], sliceOf[int16]},
	4:          {4, "elements of uint32", one[uint32], sliceOf[uint32]},
	5:          {4, "elements of int32", one[int32], sliceOf[int32]},
	6:          {4, "elements of float32", one[float32], sliceOf[float32]},
	typeBool:   {1, "elements of bool", one[bool], sliceOf[bool]},
	typeString: {8, "strings", nil, nil},
	typeArray:  {12, "arrays", nil, nil},
	10:         {8, "elements of uint64", one[uint64], sliceOf[uint64]},
	11:         {8, "elements of int64", one[int64], sliceOf[int64]},
	12:         {8, "elements of float64", one[float64], sliceOf[float64]},
}

func one[T any](b []byte) any {
	var v T
	_, _ = binary.Decode(b, binary.LittleEndian, &v) // b has the size of a T
	return v
}

func sliceOf[T any](b []byte) any {
	var v T
	s := make([]T, len(b)/binary.Size(v))
	_, _ = binary.Decode(b, binary.LittleEndian, s) // b has the size of s
	return s
}

// valueType reads the type of a value.
func (r *reader) valueType() valueType {
	at := r.at
	t := valueType(r.uint32("the type of a value"))
	if t >= valueType(len(valueTypes)) {
		r.fail(at, elements.ErrHeader, "unknown value type %d", t)
		return 0
	}
	return t
}

// value reads the type of a value, and the value.
func (r *reader) value(depth int) any {
	switch t := r.valueType(); t {
	case typeString:
		return r.text("bytes of a string")
	case typeArray:
		return r.array(depth + 1)
	default:
		return r.numbers(t, 1, valueTypes[t].one)
	}
}

// numbers reads n numbers or bools. value makes the result from their bytes.
func (r *reader) numbers(t valueType, n int, value func([]byte) any) any {
	at := r.at
	b := r.take(n*valueTypes[t].size, "a value")
	if r.err != nil || r.dry {
		return nil
	}
	if t == typeBool {
		if i := slices.IndexFunc(b, func(c byte) bool { return c > 1 }); i >= 0 {
			r.fail(at+i, elements.ErrHeader, "a bool is %d, but must be 0 or 1", b[i])
		}
	}
	return value(b)
}

// array reads an array. depth counts the array and the arrays around it.
func (r *reader) array(depth int) any {
	if depth > mostDepth {
		r.fail(r.at, elements.ErrHeader, "arrays nested more than %d deep", mostDepth)
	}
	t := r.valueType()
	n := r.count(valueTypes[t].size, valueTypes[t].name)
	switch t {
	case typeString:
		return list(r, n, func() string { return r.text("bytes of a string") })
	case typeArray:
		return list(r, n, func() any { return r.array(depth + 1) })
	default:
		return r.numbers(t, n, valueTypes[t].slice)
	}
}

// list reads n values of variable size.
func list[T any](r *reader, n int, value func() T) any {
	var values []T
	if !r.dry {
		values = make([]T, n)
	}
	for i := 0; i < n && r.err == nil; i++ {
		if v := value(); !r.dry {
			values[i] = v
		}
	}
	return values
}

// describe reads the description of a tensor after its name.
func (r *reader) describe(v *View) (p placed) {
	at := r.at
	rank := r.uint32("the number of dimensions")
	if rank > mostRank {
		r.fail(at, dlpack.ErrLayout, "%d dimensions, but at most %d are allowed", rank, mostRank)
		return p
	}
	if !r.dry {
		v.Shape = make([]int64, rank)
	}
	for i := range int(rank) {
		at := r.at
		size := r.uint64("the size of a dimension")
		if r.dry {
			continue
		}
		if size > math.MaxInt64 {
			r.fail(at, layout.ErrOverflow, "the size of a dimension is %d", size)
		}
		v.Shape[int(rank)-1-i] = int64(size)
	}
	dtypeAt := r.at
	v.DType = DType(r.uint32("the type of a tensor"))
	p.at = r.at
	p.offset = r.uint64("the offset of a tensor")
	if r.err != nil || r.dry {
		return p
	}
	if !v.DType.known() {
		r.fail(dtypeAt, elements.ErrDType, "type %d of tensor %s is unknown", uint32(v.DType), errtext.Quote(v.Name))
		return p
	}
	var err error
	if p.size, err = v.numBytes(); err != nil {
		r.fail(at, err, "tensor %s of %v%s", errtext.Quote(v.Name), v.DType, errtext.Shape(v.Shape))
	}
	return p
}

// numBytes returns the size of the elements. The product of the sizes other than 0 must not overflow either, so that
// readers that multiply in another order get the same result. The errors have no prefix.
func (v *View) numBytes() (int64, error) {
	block, size := v.DType.Block()
	count, row, empty := int64(1), int64(1), false
	for _, n := range v.Shape {
		row = n
		if n == 0 {
			empty = true
			continue
		}
		var fits bool
		if count, fits = layout.Mul(count, n); !fits {
			return 0, layout.ErrOverflow
		}
	}
	if row%block != 0 {
		return 0, fmt.Errorf("a row is not a whole number of blocks of %d elements: %w", block, elements.ErrSize)
	}
	size, fits := layout.Mul(count/block, size)
	if !fits {
		return 0, layout.ErrOverflow
	}
	if empty {
		return 0, nil
	}
	return size, nil
}

// A placed says where a tensor lies.
type placed struct {
	offset uint64 // in the data section
	size   int64  // in bytes
	at     int    // index in the header of the offset
	tensor int    // index into File.Tensors
}

// place sets the Offset and Data of all tensors, which must lie in the file aligned and without overlaps.
func (r *reader) place(f *File, offsets []placed, data []byte) {
	start := (int64(r.at) + f.Alignment - 1) &^ (f.Alignment - 1) // where the data section begins
	left := int64(len(data)) - start                              // its size in bytes
	for _, p := range offsets {
		v := &f.Tensors[p.tensor]
		switch {
		case p.offset%uint64(f.Alignment) != 0:
			r.fail(p.at, ErrOffsets, "offset %d of tensor %s is not a multiple of the alignment %d", p.offset, errtext.Quote(v.Name), f.Alignment)
			return
		case left < 0 || p.offset > uint64(left) || p.size > left-int64(p.offset):
			r.fail(p.at, elements.ErrTruncated, "at offset %d, tensor %s needs %d bytes, but the data section has %d", p.offset, errtext.Quote(v.Name), p.size, max(left, 0))
			return
		}
		v.Offset = start + int64(p.offset)
		v.Data = data[v.Offset : v.Offset+p.size : v.Offset+p.size]
	}
	slices.SortFunc(offsets, func(a, b placed) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.at, b.at)) })
	var last placed // the last tensor with elements
	for _, p := range offsets {
		if p.size == 0 {
			continue
		}
		if last.size > 0 && int64(p.offset)-int64(last.offset) < last.size {
			r.fail(p.at, ErrOffsets, "tensor %s begins inside of tensor %s", errtext.Quote(f.Tensors[p.tensor].Name), errtext.Quote(f.Tensors[last.tensor].Name))
			return
		}
		last = p
	}
}
