package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens"
)

// A Description describes a tensor of a label in DLPack's terms.
type Description struct {
	DType  dlpack.DataType
	Layout layout.Layout // the offset is in elements from the beginning of the part
	Padded bool          // whether each element of less than a byte has a byte of its own, instead of being packed
	NBytes int64         // size in bytes of the part, or of all parts together
}

// DecodeTensor returns the description of a tensor of a label. The attributes dtype and word name the data type. If
// dtype is V, the attribute dlpack names it. The attributes order and ascend determine the strides and the offset, both
// in elements (ZIO TENS, section 2.1; Boost.MultiArray, general_storage_order).
//
// Errors: [elements.ErrDType]; [tens.ErrNil]; [tens.ErrUnsupported] if the packing is not "dense" or the tensor is only
// metadata; and the errors of [tens.Tensor.Strides].
func DecodeTensor(t *tens.Tensor) (Description, error) {
	if t == nil {
		return Description{}, fmt.Errorf("tensor: %w", tens.ErrNil)
	}
	if t.OnlyMetadata() {
		return Description{}, fmt.Errorf("the tensor is only metadata, and has no elements: %w", tens.ErrUnsupported)
	}
	if !t.IsDense() {
		return Description{}, fmt.Errorf("packing %.40q is not \"dense\": %w", t.Packing, tens.ErrUnsupported)
	}
	dt, padded, err := dataType(t)
	if err != nil {
		return Description{}, err
	}
	strides, offset, err := t.Strides()
	if err != nil {
		return Description{}, err
	}
	d := Description{DType: dt, Padded: padded, Layout: layout.Layout{Shape: t.Shape, Strides: strides, Offset: offset}}
	n, err := t.NumElements()
	if err != nil {
		return Description{}, err
	}
	d.NBytes, err = dt.NumBytes(n, padded)
	if err != nil {
		return Description{}, fmt.Errorf("%w: %w", elements.ErrDType, err)
	}
	if dt.IsSubByte() && !padded && !layout.IsRowMajor(t.Shape, strides) {
		return Description{}, fmt.Errorf("%w: packed %v must be in C order", elements.ErrDType, dt)
	}
	return d, nil
}

// Step returns the dimension along which a tensor is cut into several parts ([tens.Tensor.Slowest]), and the number of
// bytes that one index of this dimension takes. ok is false if the tensor cannot be cut. Such a tensor has no elements,
// has no dimension with more than one index, or has packed elements that do not fill whole bytes for one index.
//
// Errors: those of [DecodeTensor].
func Step(t *tens.Tensor) (dim int, size int64, ok bool, err error) {
	what, err := DecodeTensor(t)
	if err != nil {
		return 0, 0, false, err
	}
	if dim, ok = t.Slowest(); !ok {
		return 0, 0, false, nil
	}
	n, inner := t.Shape[dim], int64(1) // inner is the number of elements that one index of dim has, modulo 8
	for d, m := range t.Shape {
		if d != dim {
			inner = inner * (m % 8) % 8
		}
	}
	if what.DType.IsSubByte() && !what.Padded && inner*int64(what.DType.BitSize()%8)%8 != 0 {
		return 0, 0, false, nil
	}
	return dim, what.NBytes / n, true, nil
}

// A Budget bounds the memory that the tensors of a message take in addition to its parts: copies of tensors, and
// descriptions of the pieces of tensors in several parts. Any number of tensors may share the parts.
type Budget struct {
	Bytes, Taken     int64                 // the limit in bytes, and the bytes taken so far
	Piece, Dimension int64                 // the bytes that a piece takes, and each of its dimensions in addition
	Join             bool                  // the pieces of a tensor become one copy instead, which takes the bytes of its parts
	Exceeded         func(b *Budget) error // returns the error of [Pieces] beyond the limit; nil stands for [dlpack.ErrMemory]
}

// NewBudget returns the budget that [Decode] has for a message with a payload of the given number of bytes.
func NewBudget(payload int64, join bool) Budget {
	return Budget{Bytes: 64<<20 + 4*payload, Piece: 512, Dimension: 32, Join: join}
}

func errBudget(what, remedy string) error {
	return fmt.Errorf("%s more than four times the payload plus 64 MiB; %s: %w", what, remedy, dlpack.ErrMemory)
}

// take takes n bytes from the budget, and reports whether n bytes were left.
func (b *Budget) take(n int64) bool {
	b.Taken += n
	return b.Taken <= b.Bytes
}

// Need returns how many bytes a tensor takes from the budget. size returns the size of a payload part.
func (b *Budget) Need(t *tens.Tensor, size func(part int) int64) int64 {
	switch {
	case t.Parts < 2 || !t.IsDense():
		return 0
	case !b.Join:
		return int64(t.Parts) * (b.Piece + b.Dimension*int64(len(t.Shape)))
	}
	need := int64(0)
	for k := range t.Parts {
		need += size(t.Part + k)
	}
	return need
}

// takePieces takes the bytes that the pieces of a tensor need.
func (b *Budget) takePieces(t *tens.Tensor, size func(part int) int64) error {
	switch {
	case b == nil || b.take(b.Need(t, size)):
		return nil
	case b.Exceeded != nil:
		return b.Exceeded(b)
	case b.Join:
		return errBudget("joined copies need", "without Join each piece aliases its part")
	}
	return errBudget("the pieces of tensors in several parts need", "Join copies them")
}

// Pieces returns an iterator over the pieces of a tensor, one for each of its payload parts, in the order of the parts.
// A piece is a copy of t in which Part is the number of its only part, and Shape counts only the indices of the slowest
// dimension that lie in that part. size returns the size in bytes of the part with the given index. If t has one part,
// the only piece is t. A piece must not be used after the next piece has been requested. If t has several parts, the
// memory of all pieces is taken from the budget before the first piece; a nil budget counts nothing.
//
// Errors: the error of the budget; the errors of [DecodeTensor]; [elements.ErrSize] if a part does not hold a whole number
// of indices and at least one, or if the parts together do not hold all indices; [tens.ErrInvalid] for a tensor that
// cannot be cut. An error ends the iteration.
func Pieces(t *tens.Tensor, size func(part int) int64, budget *Budget) iter.Seq2[*tens.Tensor, error] {
	return func(yield func(*tens.Tensor, error) bool) {
		if t == nil || t.Parts < 2 {
			yield(t, nil)
			return
		}
		var dim int
		var step int64
		var ok bool
		err := budget.takePieces(t, size)
		if err == nil {
			dim, step, ok, err = Step(t)
		}
		if err == nil && !ok {
			err = fmt.Errorf("the tensor cannot be cut into %d parts: %w", t.Parts, tens.ErrInvalid)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		piece, left := *t, t.Shape[dim]
		piece.Parts, piece.Shape = 0, slices.Clone(t.Shape)
		for k := range t.Parts {
			n := size(t.Part + k)
			count := n / step
			if n%step != 0 || count < 1 || count > left || k == t.Parts-1 && count != left {
				yield(nil, fmt.Errorf("part %d has %d bytes, which cannot hold a part of the rest: %d indices of dimension %d, of %d bytes each, in %d parts: %w",
					t.Part+k, n, left, dim, step, t.Parts-k, elements.ErrSize))
				return
			}
			left -= count
			piece.Part, piece.Shape[dim] = t.Part+k, count
			if !yield(&piece, nil) {
				return
			}
		}
	}
}

// letters has the dtype letters of TENS with their DLPack type codes. least is the smallest number of bits of a type
// that the letter stands for; a smaller type needs the attribute dlpack.
var letters = [...]struct {
	letter byte
	code   dlpack.TypeCode
	least  uint8
}{
	{'f', dlpack.CodeFloat, 16},
	{'i', dlpack.CodeInt, 8},
	{'u', dlpack.CodeUInt, 8},
	{'c', dlpack.CodeComplex, 64},
	{'b', dlpack.CodeBool, 8},
}

// paddedMark is the fourth number in the attribute dlpack. It says that elements that do not fill whole bytes are not
// packed.
const paddedMark = int64(dlpack.SubbytePadded)

// dataType returns the data type of a tensor, and reports whether its elements are padded (see Description).
func dataType(t *tens.Tensor) (dt dlpack.DataType, padded bool, err error) {
	if t.DType == 'V' {
		return extension(t)
	}
	for _, l := range letters {
		if l.letter == t.DType && t.Word >= 1 && t.Word <= 16 {
			if dt = dlpack.MakeDataType(l.code, uint8(8*t.Word), 1); dt.Validate() == nil {
				return dt, false, nil
			}
		}
	}
	return 0, false, fmt.Errorf("%w: dtype %q with word %d", elements.ErrDType, t.DType, t.Word)
}

// extension is dataType for dtype V; the attribute dlpack has the data type.
func extension(t *tens.Tensor) (dt dlpack.DataType, padded bool, err error) {
	text, ok := t.Extra.Get(tens.Dlpack)
	if !ok {
		return 0, false, fmt.Errorf("%w: dtype V without the attribute dlpack", elements.ErrDType)
	}
	text = bytes.Clone(text)                      // package json panics if another thread changes the text meanwhile
	var n []int64                                 // package json decodes null as 0; the letter n in the text is therefore an error below
	tooMany := bytes.Count(text, []byte{','}) > 3 // package json may allocate an error for each of many numbers
	if tooMany || json.Unmarshal(text, &n) != nil || bytes.ContainsRune(text, 'n') || len(n) < 3 || len(n) > 4 || len(n) == 4 && n[3] != paddedMark {
		return 0, false, fmt.Errorf("%w: dlpack = %.40q is not [code, bits, lanes] or [code, bits, lanes, 4]", elements.ErrDType, text)
	}
	if n[0] < 0 || n[0] > 255 || n[1] < 1 || n[1] > 255 || n[2] < 1 || n[2] > 65535 {
		return 0, false, fmt.Errorf("%w: dlpack = %v is out of range", elements.ErrDType, n)
	}
	dt = dlpack.MakeDataType(dlpack.TypeCode(n[0]), uint8(n[1]), uint16(n[2]))
	if err := dt.Validate(); err != nil {
		return 0, false, fmt.Errorf("%w: dlpack = %v: %w", elements.ErrDType, n, err)
	}
	if t.Word != dt.ItemSize() {
		return 0, false, fmt.Errorf("%w: word is %d, but %v has %d bytes", elements.ErrDType, t.Word, dt, dt.ItemSize())
	}
	padded = len(n) == 4
	if padded && !dt.IsSubByte() {
		return 0, false, fmt.Errorf("%w: dlpack = %v states padding, but %v has whole bytes", elements.ErrDType, n, dt)
	}
	return dt, padded, nil
}

// EncodeTensor returns the description of a tensor in a label. It is the inverse of [DecodeTensor]. The strides count
// elements. The layout must have no gaps and no dimensions that share elements (see [layout.Packed]). Packed elements
// of less than a byte must be in C order. In the result Order and Ascend are nil if they have their defaults, and Part
// is 0.
//
// Errors: [elements.ErrDType] for a type that DLPack does not have, [dlpack.ErrLayout] for another layout.
func EncodeTensor(dt dlpack.DataType, padded bool, shape, strides []int64) (tens.Tensor, error) {
	t := tens.Tensor{Shape: slices.Clone(shape), Word: dt.ItemSize()}
	if t.Shape == nil {
		t.Shape = []int64{}
	}
	if err := dt.Validate(); err != nil {
		return t, fmt.Errorf("%w: %w", elements.ErrDType, err)
	}
	order, reversed, ok := layout.Packed(shape, strides)
	if !ok {
		return t, fmt.Errorf("strides %v of shape %v leave gaps or share elements: %w", strides, shape, dlpack.ErrLayout)
	}
	if dt.IsSubByte() && !padded && !layout.IsRowMajor(shape, strides) {
		return t, fmt.Errorf("packed %v must be in C order: %w", dt, dlpack.ErrLayout)
	}
	if !slices.IsSorted(order) {
		slices.Reverse(order) // TENS lists the fastest dimension first
		t.Order = order
	}
	if slices.Contains(reversed, true) {
		t.Ascend = make([]bool, len(reversed))
		for d, r := range reversed {
			t.Ascend[d] = !r
		}
	}
	if letter := letterOf(dt); letter != 0 {
		t.DType = letter
		return t, nil
	}
	t.DType = 'V'
	text := append([]byte{'['}, strconv.Itoa(int(dt.Code()))...)
	text = strconv.AppendInt(append(text, ','), int64(dt.Bits()), 10)
	text = strconv.AppendInt(append(text, ','), int64(dt.Lanes()), 10)
	if padded && dt.IsSubByte() {
		text = strconv.AppendInt(append(text, ','), paddedMark, 10)
	}
	t.Extra = tens.Attributes{{Name: tens.Dlpack, Value: append(text, ']')}}
	return t, nil
}

// letterOf returns the letter of TENS for a valid data type, or 0 if there is none.
func letterOf(dt dlpack.DataType) byte {
	for _, l := range letters {
		if l.code == dt.Code() && dt.Bits() >= l.least && dt.Lanes() == 1 {
			return l.letter
		}
	}
	return 0
}
