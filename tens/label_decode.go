package tens

import (
	"strconv"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// DecodeAttributes returns the members of a JSON object. It reads the object as strictly as a label. The values alias
// the object.
//
// Errors: [ErrInvalid] for text that is not JSON or not an object, duplicate names and nesting beyond [MaxDepth].
func DecodeAttributes(object []byte) (Attributes, error) {
	r := newReader(object)
	var a Attributes
	if err := r.Document(func() { r.extra(&a, 0, 0) }); err != nil {
		return nil, r.locate(err)
	}
	return a, nil
}

// DecodeLabel decodes the label of a TENS message. It does not check the payload: [Message.DecodeLabel] checks that the parts exist
// and have the sizes of their tensors. A TENS without the attribute tensors has no tensors.
//
// Errors: [ErrInvalid], [ErrUnsupported], [ErrNoTENS], and [ErrPartMissing] for a negative part.
func DecodeLabel(label []byte) (*Label, error) {
	l, _, err := decodeLabel(label)
	return l, err
}

// DecodeLabel decodes the label and checks it against the payload. In a message of the form TENS the label must have the attribute
// TENS or be null. The Wire-Cell Toolkit writes null if there are no tensors and no metadata. In a message of another form, a label
// that is not a JSON object, or has no attribute TENS, belongs to the application. The message then has no tensors, as with null:
// the result is empty, with Absent set. In every form, an invalid label after the name TENS is an error. So are duplicate names and
// too deep nesting before this name.
//
// A tensor of a packing other than "dense", or one that is only metadata, is kept without a check of its part: see [Tensor.IsDense].
//
// Errors: those of the function [DecodeLabel], [ErrPartMissing], [ErrSize]. A part must have exactly the size of its tensor. There
// is one exception: the part of a tensor of dtype 'V' may be smaller, by less than a byte for each element. Package bridge
// interprets the attribute [Dlpack] and checks this size.
func (m *Message) DecodeLabel() (*Label, error) {
	if m == nil {
		return nil, newError(ErrNil, "message")
	}
	l, met, err := decodeLabel(m.Label)
	if err != nil {
		if !met && (m.Form != formTENS || isNull(m.Label)) {
			switch err.(*Error).Kind {
			case errLabelNotJSON, errLabelNotObject, ErrNoTENS:
				return &Label{Absent: true}, nil
			}
		}
		return nil, err
	}
	if err := l.fit(m.Parts); err != nil {
		return nil, err
	}
	return l, nil
}

// isNull reports whether text is the JSON value null.
func isNull(text []byte) bool {
	s := strictjson.Scanner{Data: text}
	if s.Peek() != 'n' {
		return false
	}
	s.Literal("null")
	s.End()
	return s.Err == nil
}

// decodeLabel is DecodeLabel. met reports whether the name TENS was read, even if err is not nil.
func decodeLabel(text []byte) (l *Label, met bool, err error) {
	r := newReader(text)
	few := new(fewTensors)
	l = &few.Label
	l.Tensors, r.sizes = few.tensors[:0], few.sizes[:0]
	err = r.Document(func() {
		switch {
		case string(r.Name) != "TENS":
			r.extra(&l.LabelExtra, 0, 0)
		case met:
			r.Duplicate()
		default:
			met = true
			r.readTENS(l)
		}
	})
	if err != nil {
		return nil, met, r.locate(err)
	}
	if !met {
		return nil, false, newError(ErrNoTENS, "")
	}
	return l, true, nil
}

func newReader(text []byte) *reader {
	return &reader{Scanner: strictjson.Scanner{Data: text}, tensor: -1}
}

// fewTensors is a Label with memory for three tensors whose shapes have eight sizes in all, in one allocation. Most
// labels need no more.
type fewTensors struct {
	Label
	tensors [3]Tensor
	sizes   [8]int64
}

// leastTensor is the smallest number of bytes of a tensor in a label, with the comma after it.
const leastTensor = len(`{"shape":[],"word":1,"dtype":"b"},`)

// reader decodes a TENS label. The fields Shape, Order, Ascend and Extra of all tensors are slices of sizes, orders,
// bools and extras, so that a label takes few allocations.
type reader struct {
	strictjson.Scanner
	tensor    int    // index of the tensor that is being read, or -1
	attribute string // after an error in an attribute of the specification, the name of the attribute

	sizes  []int64
	orders []int
	bools  []bool
	extras Attributes
}

// Bits for the attributes of a tensor that were read. They show which attributes are duplicate or missing.
const (
	attrAscend = 1 << iota
	attrDType
	attrMetadata
	attrOrder
	attrPacking
	attrPart
	attrParts
	attrPointer
	attrShape
	attrWord
)

// locate returns err as an [*Error] with the tensor and the attribute in which it occurred. err is an error of the
// scanner or of this package.
func (r *reader) locate(err error) error {
	e := labelError(err, r.tensor)
	if r.attribute != "" {
		e.Attribute = r.attribute
	}
	return e
}

// fail ends the reading with an error at the given byte of the label.
func (r *reader) fail(kind error, at int, detail string) {
	r.Fail(&Error{Kind: kind, Tensor: r.tensor, Offset: at, Detail: detail})
}

// refuse skips a value of the wrong type, and fails with an error of the given kind, which says that wanted was
// expected. If the value is not JSON, the error of the scanner remains.
func (r *reader) refuse(kind error, wanted string) {
	value := r.Raw()
	r.fail(kind, r.Pos-len(value), strictjson.Quote(value)+" instead of "+wanted)
}

// open reads the bracket or brace at the beginning of a value. The error for any other value has the given kind, and
// says that wanted was expected.
func (r *reader) open(bracket byte, kind error, wanted string) {
	if r.Peek() != bracket {
		r.refuse(kind, wanted)
		return
	}
	r.Open()
}

// extra reads an attribute that the specification does not have, and appends it to list. list[start:] are the earlier
// attributes of the same object. base is the result of r.Names for this object, in which names must be unique. extra
// returns the new start, as add does.
func (r *reader) extra(list *Attributes, start, base int) int {
	r.Once(base)
	name := string(r.Name)
	return add(r, list, start, strictjson.LeastMember, Attribute{name, r.Raw()})
}

// add appends an item to list. list[start:] belongs to the object or array that is being read. If list has no room,
// these items move to larger memory. add returns the index where they now begin: 0 if they have moved, otherwise start.
// least is the smallest number of bytes of text for an item.
func add[L ~[]T, T any](r *reader, list *L, start, least int, item T) int {
	if len(*list) == cap(*list) {
		*list = strictjson.Grow(&r.Scanner, *list, start, least)
		start = 0
	}
	*list = append(*list, item)
	return start
}

func (r *reader) readTENS(l *Label) {
	r.open('{', errTENSInvalid, "an object")
	base := r.Names()
	var tensors, metadata bool // whether these attributes were read
	for r.Member() {
		switch string(r.Name) {
		case "tensors":
			if tensors {
				r.Duplicate()
			}
			tensors = true
			r.readTensors(l)
		case "metadata":
			if metadata {
				r.Duplicate()
				break
			}
			metadata = true
			if l.Metadata = r.readMetadata(); r.Err != nil {
				r.attribute = "metadata"
			}
		default:
			r.extra(&l.Extra, 0, base)
		}
	}
	r.Leave(base)
}

func (r *reader) readTensors(l *Label) {
	r.open('[', errTENSInvalid, "an array of tensors")
	for i := 0; r.Element(); i++ {
		if len(l.Tensors) == cap(l.Tensors) {
			l.Tensors = strictjson.Grow(&r.Scanner, l.Tensors, 0, leastTensor)
		}
		l.Tensors = l.Tensors[:i+1]
		l.Tensors[i].Part = i
		r.tensor = i
		r.readTensor(&l.Tensors[i])
	}
	if r.Err == nil {
		r.tensor = -1
	}
}

func (r *reader) readTensor(t *Tensor) {
	r.open('{', errTensorInvalid, "an object")
	start := r.Pos - 1
	base, further := r.Names(), len(r.extras)
	var name []byte
	var seen uint
	once := func(attribute uint) {
		if seen&attribute != 0 {
			r.Duplicate()
			name = nil // the error is in the object, not in the value of the attribute
		}
		seen |= attribute
	}
	for r.Member() {
		name = r.Name
		switch string(name) {
		case "shape":
			once(attrShape)
			t.Shape = readList(r, &r.sizes, errShapeInvalid, r.readSize)
		case "word":
			once(attrWord)
			t.Word = readInt[int](r, errWordInvalid, errWordInvalid)
		case "dtype":
			once(attrDType)
			if text := r.readString("dtype", errDTypeInvalid, errDTypeUnknown, isByte, knownDTypes); len(text) == 1 {
				t.DType = text[0]
			}
		case "part":
			once(attrPart)
			t.Part = readInt[int](r, errPartInvalid, ErrPartMissing)
		case "parts":
			once(attrParts)
			start := r.Pos
			if t.Parts = readInt[int](r, errPartsInvalid, errPartsInvalid); t.Parts < 2 && r.Err == nil {
				r.fail(errPartsInvalid, start, "parts = "+strconv.Itoa(t.Parts)+", less than 2")
			}
		case "order":
			once(attrOrder)
			t.Order = readList(r, &r.orders, errOrderInvalid, r.readDimension)
		case "ascend":
			once(attrAscend)
			t.Ascend = readList(r, &r.bools, errAscendInvalid, r.readBool)
		case "metadata":
			once(attrMetadata)
			t.Metadata = r.readMetadata()
		case "packing":
			once(attrPacking)
			if text := r.readString("packing", errPackingInvalid, errPackingUnsupported, isPacking, noPacking); string(text) == dense {
				t.Packing = dense
			} else {
				t.Packing = string(text)
			}
		case "pointer":
			once(attrPointer)
			r.refuse(errPointerUnsupported, "an attribute part")
		default:
			if r.extras == nil {
				r.extras = make(Attributes, 0, 4)
			}
			further = r.extra(&r.extras, further, base)
			continue
		}
		if r.Err != nil {
			r.attribute = string(name)
		}
	}
	r.Leave(base)
	if n := len(r.extras); n > further {
		t.Extra = r.extras[further:n:n]
	}
	var fault *Error
	switch {
	case seen&attrShape == 0:
		fault = t.newError(errShapeInvalid, "shape", "no attribute shape")
	case seen&attrWord == 0:
		fault = t.newError(errWordInvalid, "word", "no attribute word")
	case seen&attrDType == 0:
		fault = t.newError(errDTypeInvalid, "dtype", "no attribute dtype")
	default:
		fault = t.check()
	}
	if fault != nil {
		fault.Tensor, fault.Offset = r.tensor, start
		r.Fail(fault)
	}
}

func (r *reader) readMetadata() []byte {
	if r.Peek() != '{' {
		r.refuse(errMetadataInvalid, "an object")
	}
	return r.Raw()
}

// readInt reads an integer without fraction and exponent. If the integer does not fit in T, the error has the kind
// large. For an integer of more than 64 bits, and for any other value, it has the given kind.
func readInt[T int | int64](r *reader, kind, large error) T {
	if c := r.Peek(); c != '-' && !strictjson.IsDigit(c) {
		r.refuse(kind, "an integer")
		return 0
	}
	start := r.Pos
	v, plain := r.Number()
	if !plain {
		r.fail(kind, start, strictjson.Quote(r.Data[start:r.Pos])+" instead of an integer of 64 bits")
	}
	if int64(T(v)) != v {
		r.fail(large, start, strconv.FormatInt(v, 10)+" does not fit in an int")
	}
	return T(v)
}

func (r *reader) readSize() int64    { return readInt[int64](r, errShapeInvalid, errShapeInvalid) }
func (r *reader) readDimension() int { return readInt[int](r, errOrderInvalid, errOrderInvalid) }

// readList reads an array with the function read for each element. It appends the elements to *list, and returns the
// slice of these elements alone. The error for a value that is not an array has the given kind.
func readList[T any](r *reader, list *[]T, kind error, read func() T) []T {
	r.open('[', kind, "an array")
	if *list == nil {
		*list = make([]T, 0, 12)
	}
	all := *list
	start := len(all)
	for r.Element() {
		start = add(r, &all, start, strictjson.LeastElement, read())
	}
	*list = all
	return all[start:len(all):len(all)]
}

func (r *reader) readBool() bool {
	switch r.Peek() {
	case 't':
		r.Literal("true")
		return true
	case 'f':
		r.Literal("false")
	default:
		r.refuse(errAscendInvalid, "true or false")
	}
	return false
}

// readString reads a string, the value of the attribute named what. The error for a value of another type has the given
// kind. If supported returns false for the string, the error has the kind unknown, and its text ends with which.
func (r *reader) readString(what string, kind, unknown error, supported func(text []byte) bool, which string) (text []byte) {
	if r.Peek() != '"' {
		r.refuse(kind, "a string")
		return nil
	}
	start := r.Pos
	if text = r.Text(); !supported(text) {
		r.fail(unknown, start, what+" "+strictjson.Quote(text)+which)
	}
	return text
}

func isByte(text []byte) bool    { return len(text) == 1 }
func isPacking(text []byte) bool { return len(text) > 0 }
