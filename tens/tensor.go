package tens

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// Tensor describes a tensor whose elements are in a payload part.
type Tensor struct {
	Shape    []int64    // size of each dimension; empty for rank 0, a tensor of one element
	Word     int        // bytes of an element; 0 if OnlyMetadata
	DType    byte       // 'f', 'i', 'u', 'c', 'b', 'V' with the attribute [Dlpack], or '?' if OnlyMetadata
	Part     int        // index of the payload part, or of the first one
	Parts    int        // number of consecutive parts that hold the elements; 0 means 1. See [Tensor.Slowest]
	Order    []int      // dimensions from the one that varies fastest in memory to the slowest; nil is C order
	Ascend   []bool     // false for each dimension whose index rises as addresses fall; nil is all true
	Metadata []byte     // JSON object, nil if absent
	Packing  string     // "" and "dense" mean the same; see [Tensor.IsDense] for other texts
	Extra    Attributes // further attributes, in the order of the label
}

// Dlpack is the name of the attribute with the DLPack data type of a tensor that has no dtype letter. A tensor of dtype 'V' must
// have it. Package bridge interprets its value.
const Dlpack = "dlpack"

// noType is the dtype of a tensor that is only metadata.
const noType = '?'

const dense = "dense"

// Ends of error texts, which say which values are supported.
const (
	knownDTypes = `, not one of "f", "i", "u", "c", "b" and "V"`
	noPacking   = ", must not be empty"
)

// words has the sizes of elements for each dtype except 'V'.
var words = [256][]int{'f': {2, 4, 8}, 'i': {1, 2, 4, 8}, 'u': {1, 2, 4, 8}, 'c': {8, 16}, 'b': {1}}

// IsDense reports whether the part holds the elements themselves. It is false for a packing other than "dense", such as a
// compressed packing, and for a tensor that is only metadata ([Tensor.OnlyMetadata]). Decoding a label keeps these tensors
// and does not check their parts. This module cannot read their elements.
func (t *Tensor) IsDense() bool { return t.isPackedDense() && !t.OnlyMetadata() }

func (t *Tensor) isPackedDense() bool { return t.Packing == "" || t.Packing == dense }

// OnlyMetadata reports whether the tensor has metadata but no elements: its DType is '?', its Word is 0, and its Shape is
// empty. The Wire-Cell Toolkit sends these tensors to describe the other tensors of a message. The specification does not
// have them.
func (t *Tensor) OnlyMetadata() bool {
	return t.DType == noType && t.Word == 0 && len(t.Shape) == 0 && t.Parts == 0 && t.Metadata != nil && t.isPackedDense()
}

// Name returns the name of the tensor: the text "name" in its metadata, decoded. It returns "" for a tensor without a
// name.
func (t *Tensor) Name() string { return string(t.name()) }

// name is [Tensor.Name]. The result may alias the metadata.
func (t *Tensor) name() []byte {
	if t == nil {
		return nil
	}
	s := strictjson.Scanner{Data: nameIn(t.Metadata)}
	if s.Peek() != '"' {
		return nil
	}
	return s.Text()
}

// nameIn returns the JSON text of the member "name" of an object, or nil.
func nameIn(object []byte) []byte {
	s := strictjson.Scanner{Data: object}
	if s.Peek() != '{' {
		return nil
	}
	s.Open()
	for s.Member() {
		if string(s.Name) == "name" {
			return s.Raw()
		}
		s.Value()
	}
	return nil
}

// SetName copies the metadata of the tensor, and adds the name to the copy as the member "name". If the metadata
// already have a name, it must be the same text. The rest of the metadata is checked when the label is encoded.
//
// Errors: [ErrNil]; [ErrInvalid] for a name that is empty or not UTF-8, and for metadata that have another name or are not an object.
func (t *Tensor) SetName(name string) error {
	switch {
	case t == nil:
		return newError(ErrNil, "tensor")
	case name == "":
		return t.newError(errNameInvalid, "metadata", "the name is empty")
	case !utf8.ValidString(name):
		return t.newError(errNameInvalid, "metadata", "name "+strictjson.Quote([]byte(name))+" is not UTF-8")
	case t.Metadata == nil:
		t.Metadata = []byte("{}")
	}
	if old := nameIn(t.Metadata); old != nil {
		if string(t.name()) == name {
			return nil
		}
		return t.newError(errNameInvalid, "metadata", "name "+strictjson.Quote([]byte(name))+", but the metadata have the name "+strictjson.Quote(old))
	}
	s := strictjson.Scanner{Data: t.Metadata}
	if s.Peek() != '{' {
		return notObject(t.Metadata)
	}
	s.Open()
	out := append(slices.Clone(s.Data[:s.Pos]), `"name":`...)
	out = strictjson.AppendString(out, name)
	if s.Peek() != '}' {
		out = append(out, ',')
	}
	t.Metadata = append(out, s.Data[s.Pos:]...)
	return nil
}

// Slowest returns the dimension with more than one index that varies slowest in memory. A tensor in several parts is
// cut along this dimension. ok is false for a tensor that is never cut: it has no dimension with more than one index,
// has no elements, or is invalid.
func (t *Tensor) Slowest() (dim int, ok bool) {
	if n, err := t.NumElements(); err != nil || n == 0 || t.layout() != nil {
		return 0, false
	}
	return t.slowest()
}

// slowest is [Tensor.Slowest] for a valid tensor with elements.
func (t *Tensor) slowest() (dim int, ok bool) {
	for k := range t.Shape {
		d := k
		if t.Order != nil {
			d = t.Order[len(t.Order)-1-k]
		}
		if t.Shape[d] > 1 {
			return d, true
		}
	}
	return 0, false
}

// NumElements returns the product of the shape, which is 1 for rank 0. It returns [ErrInvalid] for a negative size, for a
// Word below 1, and if the product of Word and all sizes other than 0 does not fit in 63 bits. This product is checked even
// if the tensor has no elements, as in NumPy. It returns [ErrNil] for a nil Tensor.
func (t *Tensor) NumElements() (int64, error) {
	n, _, err := t.size()
	if err != nil {
		return 0, err
	}
	return n, nil
}

// NumBytes returns the product of the shape times Word. Errors: those of [Tensor.NumElements].
func (t *Tensor) NumBytes() (int64, error) {
	_, n, err := t.size()
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Strides returns the stride of each dimension, and the offset of element (0, …, 0) in its part. All numbers count
// elements. Element i lies at offset plus the sum of i[d] * strides[d]. A dimension that does not ascend has a negative
// stride. A size of 0 counts as 1 in the strides of the other dimensions. offset is 0 if there are no elements.
//
// Errors: those of [Tensor.NumElements], and [ErrInvalid] for an invalid Order or Ascend.
func (t *Tensor) Strides() (strides []int64, offset int64, err error) {
	if t == nil {
		return nil, 0, newError(ErrNil, "tensor")
	}
	return t.AppendStrides(make([]int64, 0, len(t.Shape)))
}

// AppendStrides is [Tensor.Strides], but appends the strides to dst. On an error it returns dst unchanged.
func (t *Tensor) AppendStrides(dst []int64) (strides []int64, offset int64, err error) {
	n, _, fault := t.size()
	if fault == nil {
		fault = t.layout()
	}
	if fault != nil {
		return dst, 0, fault
	}
	base := len(dst)
	dst = append(dst, t.Shape...)
	strides = dst[base:]
	stride := int64(1)
	for k := range t.Shape {
		d := len(t.Shape) - 1 - k
		if t.Order != nil {
			d = t.Order[k]
		}
		strides[d] = stride
		if t.Ascend != nil && !t.Ascend[d] {
			strides[d] = -stride
			if n > 0 {
				offset += (t.Shape[d] - 1) * stride
			}
		}
		stride *= max(t.Shape[d], 1)
	}
	return dst, offset, nil
}

// Decoding and encoding share the checks below. Their errors have no Offset, and the index of the tensor is -1; the caller
// replaces it.

func (t *Tensor) newError(kind error, attribute, detail string) *Error {
	return &Error{Kind: kind, Tensor: -1, Attribute: attribute, Offset: -1, Detail: detail}
}

// size checks shape and word, and returns the number of elements and of their bytes.
func (t *Tensor) size() (elements, bytes int64, err *Error) {
	if t == nil {
		return 0, 0, newError(ErrNil, "tensor")
	}
	if t.Word < 1 {
		return 0, 0, t.newError(errWordInvalid, "word", "word = "+strconv.Itoa(t.Word)+", must be at least 1")
	}
	elements, empty := 1, false
	for d, n := range t.Shape {
		if n < 0 {
			return 0, 0, t.newError(errShapeInvalid, "shape", "shape["+strconv.Itoa(d)+"] = "+strconv.FormatInt(n, 10))
		}
		if n == 0 {
			empty = true
			continue
		}
		high, low := bits.Mul64(uint64(elements), uint64(n))
		if high != 0 || low > math.MaxInt64 {
			return 0, 0, t.newError(errSizeOverflow, "shape", "product of shape up to shape["+strconv.Itoa(d)+"] = "+strconv.FormatInt(n, 10))
		}
		elements = int64(low)
	}
	high, low := bits.Mul64(uint64(elements), uint64(t.Word))
	if high != 0 || low > math.MaxInt64 {
		return 0, 0, t.newError(errSizeOverflow, "shape", "product of shape and word = "+strconv.Itoa(t.Word))
	}
	if empty {
		return 0, 0, nil
	}
	return elements, int64(low), nil
}

// layout checks order and ascend.
func (t *Tensor) layout() *Error {
	n := len(t.Shape)
	if t.Ascend != nil && len(t.Ascend) != n {
		return t.newError(errAscendInvalid, "ascend",
			strconv.Itoa(len(t.Ascend))+" entries of ascend for "+strconv.Itoa(n)+" dimensions")
	}
	if t.Order == nil {
		return nil
	}
	if len(t.Order) != n {
		return t.newError(errOrderInvalid, "order",
			strconv.Itoa(len(t.Order))+" entries of order for "+strconv.Itoa(n)+" dimensions")
	}
	seen := make([]bool, n)
	for k, d := range t.Order {
		if d < 0 || d >= n {
			return t.newError(errOrderInvalid, "order",
				"order["+strconv.Itoa(k)+"] = "+strconv.Itoa(d)+", but the number of dimensions is "+strconv.Itoa(n))
		}
		if seen[d] {
			return t.newError(errOrderInvalid, "order", "order["+strconv.Itoa(k)+"] = "+strconv.Itoa(d)+" repeats a dimension")
		}
		seen[d] = true
	}
	return nil
}

// check checks everything that needs no payload, except the JSON text of metadata and of further attributes.
func (t *Tensor) check() *Error {
	only := t.OnlyMetadata()
	if _, _, err := t.size(); err != nil && !only {
		return err
	}
	if err := t.layout(); err != nil {
		return err
	}
	if t.Part < 0 {
		return t.newError(ErrPartMissing, "part", "part = "+strconv.Itoa(t.Part))
	}
	if err := t.checkParts(); err != nil {
		return err
	}
	if !utf8.ValidString(t.Packing) {
		return t.newError(errPackingInvalid, "packing", "packing "+strictjson.Quote([]byte(t.Packing)))
	}
	switch words := words[t.DType]; {
	case only:
	case t.DType == 'V':
		if _, ok := t.Extra.Get(Dlpack); !ok {
			return t.newError(errDTypeUnknown, "dtype", `dtype "V" without the attribute dlpack`)
		}
	case words == nil:
		return t.newError(errDTypeUnknown, "dtype", "dtype "+strictjson.Quote([]byte{t.DType})+knownDTypes)
	case !slices.Contains(words, t.Word):
		return t.newError(errDTypeWord, "word", fmt.Sprintf("word = %d, but dtype %q has the words %v", t.Word, t.DType, words))
	}
	return nil
}

// checkParts checks Parts. Shape, word, order and part of the tensor must be valid.
func (t *Tensor) checkParts() *Error {
	switch {
	case t.Parts < 0:
		return t.newError(errPartsInvalid, "parts", "parts = "+strconv.Itoa(t.Parts)+", must not be negative")
	case t.Part > math.MaxInt-t.Parts:
		return t.newError(ErrPartMissing, "part", "part = "+strconv.Itoa(t.Part)+" and parts = "+strconv.Itoa(t.Parts))
	case t.Parts < 2 || !t.IsDense():
		return nil
	}
	if elements, _, _ := t.size(); elements > 0 {
		if d, ok := t.slowest(); ok && int64(t.Parts) <= t.Shape[d] {
			return nil
		}
	}
	return t.newError(errPartsInvalid, "parts", "parts = "+strconv.Itoa(t.Parts)+", but the slowest dimension does not have at least as many indices")
}

// isSize reports whether parts with have bytes can hold exactly the elements, which take want bytes. Elements of dtype
// 'V' may be packed without the unused bits of their last byte, which saves less than a byte for each element.
func (t *Tensor) isSize(have, want int64) bool {
	return have == want || t.DType == 'V' && have < want && have > want-want/int64(t.Word)
}

// fit checks the tensor against the payload: its parts must exist, and have the size of its elements (see isSize, and
// fitPieces for several parts). A tensor that is not dense is not checked.
func (t *Tensor) fit(parts [][]byte) *Error {
	if !t.IsDense() {
		return nil
	}
	_, want, err := t.size()
	if err != nil {
		return err
	}
	if t.Part < 0 || t.Part >= len(parts) {
		return t.newError(ErrPartMissing, "part", "part = "+strconv.Itoa(t.Part)+", but the message has "+strconv.Itoa(len(parts))+" parts")
	}
	if t.Parts > 1 {
		return t.fitPieces(parts, want)
	}
	have := int64(len(parts[t.Part]))
	if t.isSize(have, want) {
		return nil
	}
	return t.newError(ErrSize, "part",
		"part "+strconv.Itoa(t.Part)+" has "+strconv.FormatInt(have, 10)+" bytes, but the tensor needs "+strconv.FormatInt(want, 10))
}

// fitPieces checks a tensor of several parts against the payload. The tensor takes want bytes. Each part must hold a
// whole number of indices of the slowest dimension, at least one. For dtype 'V' it only checks that no part is empty,
// and the sum of the sizes, because an index of packed elements may take fewer bytes; package bridge checks the rest.
func (t *Tensor) fitPieces(parts [][]byte, want int64) *Error {
	if err := t.checkParts(); err != nil {
		return err
	}
	if t.Parts > len(parts)-t.Part {
		return t.newError(ErrPartMissing, "parts",
			"part = "+strconv.Itoa(t.Part)+" and parts = "+strconv.Itoa(t.Parts)+", but the message has "+strconv.Itoa(len(parts))+" parts")
	}
	d, _ := t.slowest()
	step, have := want/t.Shape[d], int64(0)
	for i, part := range parts[t.Part : t.Part+t.Parts] {
		n := int64(len(part))
		if n == 0 || t.DType != 'V' && n%step != 0 {
			return t.newError(ErrSize, "parts", "part "+strconv.Itoa(t.Part+i)+" has "+strconv.FormatInt(n, 10)+
				" bytes, not a multiple of the "+strconv.FormatInt(step, 10)+" bytes of an index of dimension "+strconv.Itoa(d))
		}
		have += n
	}
	if t.isSize(have, want) {
		return nil
	}
	return t.newError(ErrSize, "parts", "parts "+strconv.Itoa(t.Part)+" to "+strconv.Itoa(t.Part+t.Parts-1)+" have "+
		strconv.FormatInt(have, 10)+" bytes, but the tensor needs "+strconv.FormatInt(want, 10))
}
