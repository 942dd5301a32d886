package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// MaxHeader is the largest size in bytes of a header, as in the reference.
const MaxHeader = 100_000_000

const (
	lengthSize   = 8 // bytes of the length of the header, at the beginning of a file
	metadataName = "__metadata__"
	leastTensor  = len(`"":{"dtype":"U8","shape":[],"data_offsets":[0,0]},`)
	maxRank      = 256 // dlpack.MaxRank, which needs cgo
)

// A File has the descriptions of all tensors of a file.
type File struct {
	// Metadata has the texts of the metadata by name. It is nil if the header has no metadata.
	Metadata map[string]string
	// Tensors has the tensors in the order of their elements in the file.
	Tensors []View

	index map[string]int // into Tensors
}

// A View describes a tensor of a file. It aliases the file and owns nothing.
type View struct {
	Name  string
	DType DType
	Shape []int64
	// Offset is the index of the first byte of the elements in the file.
	Offset int64
	// Data has the elements: little-endian, row-major, at any address. Elements of F4, F6E2M3 and F6E3M2 share bytes;
	// the first element has the lowest bits.
	Data []byte
}

// Find returns the tensor with the given name.
//
// Errors: [elements.ErrNoName]; [elements.ErrNil] for a nil File.
func (f *File) Find(name string) (*View, error) {
	if f == nil {
		return nil, fmt.Errorf("safetensors: the File is %w", elements.ErrNil)
	}
	i, err := payload.Find(name, f.index, func(i int) string { return f.Tensors[i].Name }, "safetensors")
	if err != nil {
		return nil, err
	}
	return &f.Tensors[i], nil
}

// Alignment returns the largest power of two, up to 4096, that divides Offset. The elements have this alignment in
// memory if the file begins at a multiple of 4096, like a mapping.
func (v *View) Alignment() int { return payload.FileAlignment(v.Offset) }

// DecodeFile decodes the header of a file, and checks it against the size of the file. data is the whole file; only the
// header is read.
//
// Errors: an [*elements.Error] with the byte of the file and [elements.ErrHeader], [elements.ErrTruncated], [ErrOffsets], [elements.ErrDuplicate], [elements.ErrDType],
// [elements.ErrSize], [layout.ErrNegative], [layout.ErrOverflow], or [dlpack.ErrLayout] for more than [dlpack.MaxRank] dimensions.
func DecodeFile(data []byte) (*File, error) {
	text, err := header(data)
	if err != nil {
		return nil, err
	}
	d := decoder{reader: reader{strictjson.Scanner{Data: text}, lengthSize}, elements: data[lengthSize+len(text):]}
	d.file.index = make(map[string]int, len(text)/128) // a description takes about 128 bytes in most headers
	d.Open()
	for d.Member() {
		if string(d.Name) == metadataName {
			d.metadata()
		} else {
			d.tensor()
		}
	}
	if rest := bytes.TrimLeft(text[d.Pos:], " "); d.Err == nil && len(rest) > 0 {
		d.fail(len(text)-len(rest), elements.ErrHeader, "%s follows the header, but only spaces may", errtext.Quote(rest[:1]))
	}
	if d.Err != nil {
		return nil, d.err()
	}
	if err := d.file.order(int64(lengthSize+len(text)), int64(len(data))); err != nil {
		return nil, err
	}
	return &d.file, nil
}

// header returns the text of the header of a file.
func header(data []byte) ([]byte, error) {
	if len(data) < lengthSize {
		return nil, newError(int64(len(data)), elements.ErrTruncated, "the file has %d bytes, but the length of the header needs %d", len(data), lengthSize)
	}
	n := binary.LittleEndian.Uint64(data)
	switch {
	case n > MaxHeader:
		return nil, newError(0, elements.ErrHeader, "a header of %d bytes is larger than %d", n, MaxHeader)
	case n > uint64(len(data)-lengthSize):
		return nil, newError(int64(len(data)), elements.ErrTruncated, "the header has %d bytes, but only %d are left", n, len(data)-lengthSize)
	case n == 0 || data[lengthSize] != '{':
		return nil, newError(lengthSize, elements.ErrHeader, "%s instead of a header that begins with '{'", errtext.Quote(data[lengthSize:lengthSize+min(n, 1)]))
	}
	return data[lengthSize : lengthSize+n : lengthSize+n], nil
}

// A decoder reads a header.
type decoder struct {
	reader
	elements []byte // of all tensors
	file     File
	dims     []int64 // the shapes of all tensors, which share memory
}

// metadata reads the metadata.
func (d *decoder) metadata() {
	if d.file.Metadata != nil {
		d.Duplicate()
		return
	}
	d.file.Metadata = map[string]string{}
	d.texts(d.file.Metadata, nil)
}

// tensor reads the description of a tensor.
func (d *decoder) tensor() {
	v, at := View{Name: string(d.Name)}, d.NameAt
	if _, ok := d.file.index[v.Name]; ok {
		d.Duplicate()
		return
	}
	if !d.begins('{', "an object") {
		return
	}
	offsetsAt := 0 // index of the brace
	var offsets [2]int64
	d.Open()
	base := d.Names()
	for d.Member() {
		d.Once(base)
		switch string(d.Name) {
		case "dtype":
			v.DType = d.dtype()
		case "shape":
			v.Shape = d.shape()
		case "data_offsets":
			d.Peek()
			offsetsAt = d.Pos
			offsets = d.offsets()
		default:
			d.Value()
		}
	}
	d.Leave(base)
	switch {
	case d.Err != nil:
		return
	case v.DType == 0 || v.Shape == nil || offsetsAt == 0:
		d.fail(at, elements.ErrHeader, "tensor %s needs dtype, shape and data_offsets", errtext.Quote(v.Name))
		return
	}
	size, err := v.numBytes()
	begin, end, all := offsets[0], offsets[1], int64(len(d.elements))
	switch {
	case err != nil:
		d.fail(at, err, "the size of tensor %s, %v%s", errtext.Quote(v.Name), v.DType, errtext.Shape(v.Shape))
		return
	case begin > end:
		d.fail(offsetsAt, ErrOffsets, "data_offsets [%d, %d] of tensor %s end before they begin", begin, end, errtext.Quote(v.Name))
		return
	case size != end-begin:
		d.fail(offsetsAt, elements.ErrSize, "data_offsets [%d, %d] of tensor %s span %d bytes, but %v%s needs %d", begin, end, errtext.Quote(v.Name), end-begin, v.DType, errtext.Shape(v.Shape), size)
		return
	case end > all:
		d.fail(offsetsAt, elements.ErrTruncated, "data_offsets [%d, %d] of tensor %s end beyond the file, which has %d bytes after its header", begin, end, errtext.Quote(v.Name), all)
		return
	}
	v.Offset, v.Data = int64(lengthSize+len(d.Data))+begin, d.elements[begin:end:end]
	if len(d.file.Tensors) == cap(d.file.Tensors) {
		d.file.Tensors = strictjson.Grow(&d.Scanner, d.file.Tensors, 0, leastTensor)
	}
	d.file.index[v.Name] = len(d.file.Tensors)
	d.file.Tensors = append(d.file.Tensors, v)
}

// numBytes returns the size of the elements. The product of the sizes before the first 0 must not overflow, so that
// readers that multiply in order get the same result. The errors have no prefix.
func (v *View) numBytes() (int64, error) {
	count := int64(1)
	for _, dim := range v.Shape {
		var fits bool
		if dim < 0 {
			return 0, layout.ErrNegative
		} else if count, fits = layout.Mul(count, dim); !fits {
			return 0, layout.ErrOverflow
		}
	}
	size, err := v.DType.DataType().NumBytes(count, false)
	if err != nil {
		return 0, layout.ErrOverflow
	}
	if count%8*int64(v.DType.DataType().BitSize())%8 != 0 {
		return 0, fmt.Errorf("%d elements do not fill whole bytes: %w", count, elements.ErrSize)
	}
	return size, nil
}

// dtype reads a data type.
func (d *decoder) dtype() DType {
	if !d.begins('"', "a data type") {
		return 0
	}
	at := d.Pos
	name := d.Text()
	t := parseDType(name)
	if t == 0 && d.Err == nil {
		d.fail(at, elements.ErrDType, "%s is not a type of safetensors 0.8", errtext.Quote(name))
	}
	return t
}

// shape reads a shape. The result is not nil.
func (d *decoder) shape() []int64 {
	if !d.begins('[', "a list of sizes") {
		return nil
	}
	start := len(d.dims)
	for d.Open(); d.Element(); {
		if len(d.dims)-start == maxRank {
			d.fail(d.Pos, dlpack.ErrLayout, "a shape of more than %d dimensions", maxRank)
		}
		if len(d.dims) == cap(d.dims) {
			d.dims = strictjson.Grow(&d.Scanner, d.dims, start, strictjson.LeastElement)
			start = 0
		}
		d.dims = append(d.dims, d.number(layout.ErrNegative))
	}
	if len(d.dims) == start {
		return []int64{}
	}
	return d.dims[start:len(d.dims):len(d.dims)]
}

// offsets reads the beginning and the end of the elements of a tensor.
func (d *decoder) offsets() (offsets [2]int64) {
	if !d.begins('[', "a list of two offsets") {
		return offsets
	}
	at, n := d.Pos, 0
	for d.Open(); d.Element(); n++ {
		if value := d.number(ErrOffsets); n < len(offsets) {
			offsets[n] = value
		}
	}
	if n != len(offsets) && d.Err == nil {
		d.fail(at, elements.ErrHeader, "%d offsets instead of 2", n)
	}
	return offsets
}

// number reads an integer, and fails with the given error if it is negative.
func (d *decoder) number(negative error) int64 {
	c := d.Peek()
	at := d.Pos
	if c != '-' && !strictjson.IsDigit(c) {
		d.wrong("a number")
		return 0
	}
	value, plain := d.Number()
	if d.Err != nil {
		return 0
	}
	switch text := d.Data[at:d.Pos]; {
	case c == '-':
		d.fail(at, negative, "%s is negative", text[:min(len(text), 32)])
	case plain:
	case bytes.ContainsAny(text, ".eE"):
		d.fail(at, elements.ErrHeader, "%s instead of an integer", text[:min(len(text), 32)])
	default:
		d.fail(at, layout.ErrOverflow, "%s does not fit in 63 bits", text[:min(len(text), 32)])
	}
	return value
}

// order sorts the tensors by the place of their elements, and checks that the elements fill the bytes of the file from
// begin to end.
func (f *File) order(begin, end int64) error {
	inOrder := func(a, b View) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(len(a.Data), len(b.Data)))
	}
	if !slices.IsSortedFunc(f.Tensors, inOrder) {
		slices.SortStableFunc(f.Tensors, inOrder)
		for i, v := range f.Tensors {
			f.index[v.Name] = i
		}
	}
	for i, v := range f.Tensors {
		if v.Offset > begin {
			return newError(begin, ErrOffsets, "%d bytes before tensor %s belong to no tensor", v.Offset-begin, errtext.Quote(v.Name))
		}
		if v.Offset < begin {
			return newError(v.Offset, ErrOffsets, "tensor %s begins inside of tensor %s", errtext.Quote(v.Name), errtext.Quote(f.Tensors[i-1].Name))
		}
		begin += int64(len(v.Data))
	}
	if begin < end {
		return newError(begin, ErrOffsets, "the last %d bytes of the file belong to no tensor", end-begin)
	}
	return nil
}
