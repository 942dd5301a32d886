package tens

import (
	"strconv"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// DecodeAttributes returns the members of a JSON object, which it reads as strictly as a label. Their values alias it.
//
// Errors: [ErrInvalid] for text that is not JSON or not an object, duplicate names and nesting beyond [MaxDepth].
func DecodeAttributes(object []byte) (Attributes, error) {
	r := newReader(object)
	var a Attributes
	err := r.Document(func() error { return r.extra(&a, 0) })
	if err != nil {
		return nil, r.locate(err)
	}
	return a, nil
}

// DecodeLabel decodes the label of a TENS message. It does not check the payload: [Message.DecodeLabel] checks that the parts exist
// and have the sizes of their tensors.
//
// Errors: [ErrInvalid], [ErrUnsupported], [ErrNoTENS], and [ErrPartMissing] for a negative part.
func DecodeLabel(label []byte) (*Label, error) {
	l, _, err := decodeLabel(label)
	return l, err
}

// DecodeLabel decodes the label and checks it against the payload. In a message of the form TENS the label must have the attribute
// TENS. In a message of another form a label that is not a JSON object, or has no attribute TENS, belongs to the application, and
// the message has no tensors: the result is then empty with Absent set. In every form it is an error if the label is invalid after
// the name TENS, or if duplicate names or too deep nesting precede it.
//
// Errors: those of the function [DecodeLabel], [ErrPartMissing], [ErrSize]. A part must have exactly the size of its tensor, except
// that the part of a tensor of dtype 'V' may be smaller by less than a byte for each element; package bridge, which interprets
// the attribute [Dlpack], checks that size.
func (m *Message) DecodeLabel() (*Label, error) {
	if m == nil {
		return nil, fault(ErrNil, "message")
	}
	l, met, err := decodeLabel(m.Label)
	if err != nil {
		if m.Form != formTENS && !met {
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

// decodeLabel also reports whether it met the attribute TENS, with an error too.
func decodeLabel(text []byte) (l *Label, met bool, err error) {
	r := newReader(text)
	few := new(fewTensors)
	l = &few.Label
	l.Tensors, r.sizes = few.tensors[:0], few.sizes[:0]
	err = r.Document(func() error {
		switch {
		case string(r.Name) != "TENS":
			return r.extra(&l.LabelExtra, 0)
		case met:
			return r.Duplicate()
		}
		met = true
		return r.readTENS(l)
	})
	if err != nil {
		return nil, met, r.locate(err)
	}
	if !met {
		return nil, false, fault(ErrNoTENS, "")
	}
	return l, true, nil
}

// inAttribute returns err, as locate does, as an error in the given attribute.
func (r *reader) inAttribute(name string, err error) error {
	e := r.locate(err)
	e.Attribute = name
	return e
}

func newReader(text []byte) *reader {
	return &reader{Scanner: strictjson.Scanner{Data: text}, tensor: -1}
}

// fail returns an error of the label at the given byte.
func (r *reader) fail(kind error, at int, detail string) *Error {
	return &Error{Kind: kind, Tensor: r.tensor, Offset: at, Detail: detail}
}

// locate returns err, which is an error of the scanner or of this package, as an error in the tensor that is being read.
func (r *reader) locate(err error) *Error { return labelError(err, r.tensor) }

// refuse reads over a value that is valid JSON but of the wrong kind, and returns the error.
func (r *reader) refuse(kind error, wanted string) error {
	value, err := r.Raw()
	if err != nil {
		return err
	}
	return r.fail(kind, r.Pos-len(value), strictjson.Quote(value)+" instead of "+wanted)
}

// extra reads an attribute that the specification does not have. Its name must be unique among those since base.
func (r *reader) extra(list *Attributes, base int) error {
	_, err := r.further(list, 0, base)
	return err
}

// further is extra for a list of which only list[start:] belongs to the object that is being read. It returns the new start,
// which differs when the list has moved to larger memory.
func (r *reader) further(list *Attributes, start, base int) (int, error) {
	if err := r.Once(base); err != nil {
		return start, err
	}
	name := string(r.Name)
	value, err := r.Raw()
	if err != nil {
		return start, err
	}
	if len(*list) == cap(*list) {
		*list = strictjson.Grow(&r.Scanner, *list, start, strictjson.LeastMember)
		start = 0
	}
	*list = append(*list, Attribute{name, value})
	return start, nil
}

// fewTensors is a label with memory for the tensors of most labels, in one allocation.
type fewTensors struct {
	Label
	tensors [3]Tensor
	sizes   [8]int64
}

// leastTensor is the fewest bytes of text that a tensor takes, with a comma.
const leastTensor = len(`{"shape":[],"word":1,"dtype":"b"},`)

// reader decodes a TENS label. The lists of all its tensors are slices of the few lists here, so that a label takes few
// allocations.
type reader struct {
	strictjson.Scanner
	tensor int // index of the tensor that is being read, or -1

	sizes  []int64
	orders []int
	bools  []bool
	extras Attributes
}

// The attributes of a tensor, in the order in which they are written.
const (
	attrAscend = 1 << iota
	attrDType
	attrMetadata
	attrOrder
	attrPacking
	attrPart
	attrPointer
	attrShape
	attrWord
)

func (r *reader) readTENS(l *Label) error {
	if r.Peek() != '{' {
		return r.refuse(errTENSInvalid, "an object")
	}
	if err := r.Open(); err != nil {
		return err
	}
	base := r.Names()
	var tensors, metadata bool
	for first := true; ; first = false {
		more, err := r.Member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch string(r.Name) {
		case "tensors":
			if tensors {
				return r.Duplicate()
			}
			tensors = true
			err = r.readTensors(l)
		case "metadata":
			if metadata {
				return r.Duplicate()
			}
			metadata = true
			if l.Metadata, err = r.readMetadata(); err != nil {
				err = r.inAttribute("metadata", err)
			}
		default:
			err = r.extra(&l.Extra, base)
		}
		if err != nil {
			return err
		}
	}
	if err := r.Leave(base); err != nil {
		return err
	}
	if !tensors {
		return r.fail(errTENSInvalid, r.Pos-1, "no attribute tensors")
	}
	return nil
}

func (r *reader) readMetadata() ([]byte, error) {
	if r.Peek() != '{' {
		return nil, r.refuse(errMetadataInvalid, "an object")
	}
	return r.Raw()
}

func (r *reader) readTensors(l *Label) error {
	if r.Peek() != '[' {
		return r.refuse(errTENSInvalid, "an array of tensors")
	}
	if err := r.Open(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := r.Element(i == 0)
		if err != nil {
			return err
		}
		if !more {
			r.tensor = -1
			return nil
		}
		if len(l.Tensors) == cap(l.Tensors) {
			l.Tensors = strictjson.Grow(&r.Scanner, l.Tensors, 0, leastTensor)
		}
		l.Tensors = append(l.Tensors, Tensor{})
		t := &l.Tensors[i]
		t.Part = i
		r.tensor = i
		if err := r.readTensor(t); err != nil {
			return err
		}
	}
}

func (r *reader) readTensor(t *Tensor) error {
	if r.Peek() != '{' {
		return r.refuse(errTensorInvalid, "an object")
	}
	start := r.Pos
	if err := r.Open(); err != nil {
		return err
	}
	base, further := r.Names(), len(r.extras)
	var seen uint
	for first := true; ; first = false {
		more, err := r.Member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		name := r.Name
		var this uint
		switch string(name) {
		case "shape":
			this = attrShape
		case "word":
			this = attrWord
		case "dtype":
			this = attrDType
		case "part":
			this = attrPart
		case "order":
			this = attrOrder
		case "ascend":
			this = attrAscend
		case "metadata":
			this = attrMetadata
		case "packing":
			this = attrPacking
		case "pointer":
			this = attrPointer
		default:
			if r.extras == nil {
				r.extras = make(Attributes, 0, 4)
			}
			further, err = r.further(&r.extras, further, base)
			if err != nil {
				return err
			}
			continue
		}
		if seen&this != 0 {
			return r.Duplicate()
		}
		seen |= this
		if err := r.readAttribute(t, this); err != nil {
			return r.inAttribute(string(name), err)
		}
	}
	if err := r.Leave(base); err != nil {
		return err
	}
	if n := len(r.extras); n > further {
		t.Extra = r.extras[further:n:n]
	}
	var fault *Error
	switch {
	case seen&attrShape == 0:
		fault = t.fault(errShapeInvalid, "shape", "no attribute shape")
	case seen&attrWord == 0:
		fault = t.fault(errWordInvalid, "word", "no attribute word")
	case seen&attrDType == 0:
		fault = t.fault(errDTypeInvalid, "dtype", "no attribute dtype")
	default:
		fault = t.check()
	}
	if fault != nil {
		fault.Tensor, fault.Offset = r.tensor, start
		return fault
	}
	return nil
}

func (r *reader) readAttribute(t *Tensor, which uint) (err error) {
	switch which {
	case attrShape:
		t.Shape, err = readInts(r, &r.sizes, errShapeInvalid)
	case attrWord:
		t.Word, err = readInt[int](r, errWordInvalid, errWordInvalid)
	case attrDType:
		t.DType, err = r.readDType()
	case attrPart:
		t.Part, err = readInt[int](r, errPartInvalid, ErrPartMissing)
	case attrOrder:
		t.Order, err = readInts(r, &r.orders, errOrderInvalid)
	case attrAscend:
		t.Ascend, err = r.readAscend()
	case attrMetadata:
		t.Metadata, err = r.readMetadata()
	case attrPacking:
		t.Packing, err = r.readPacking()
	case attrPointer:
		err = r.refuse(errPointerUnsupported, "a part")
	}
	return err
}

// readInt reads a plain integer: any other value is of the given kind, one that does not fit of the kind
// large.
func readInt[T int | int64](r *reader, kind, large error) (T, error) {
	if c := r.Peek(); c != '-' && !strictjson.IsDigit(c) {
		return 0, r.refuse(kind, "an integer")
	}
	start := r.Pos
	v, plain, err := r.Number()
	if err != nil {
		return 0, err
	}
	if !plain {
		r.Pos = start
		return 0, r.refuse(kind, "an integer of 64 bits")
	}
	if int64(T(v)) != v {
		return 0, r.fail(large, start, strconv.FormatInt(v, 10)+" does not fit in an int")
	}
	return T(v), nil
}

// readInts reads an array of integers to the end of list, and returns them alone.
func readInts[T int | int64](r *reader, list *[]T, kind error) ([]T, error) {
	if r.Peek() != '[' {
		return nil, r.refuse(kind, "an array")
	}
	if err := r.Open(); err != nil {
		return nil, err
	}
	if *list == nil {
		*list = make([]T, 0, 12)
	}
	all := *list
	start := len(all)
	for {
		more, err := r.Element(len(all) == start)
		if err != nil {
			return nil, err
		}
		if !more {
			*list = all
			return all[start:len(all):len(all)], nil
		}
		v, err := readInt[T](r, kind, kind)
		if err != nil {
			return nil, err
		}
		if len(all) == cap(all) {
			all = strictjson.Grow(&r.Scanner, all, start, strictjson.LeastElement)
			start = 0
		}
		all = append(all, v)
	}
}

func (r *reader) readAscend() ([]bool, error) {
	if r.Peek() != '[' {
		return nil, r.refuse(errAscendInvalid, "an array")
	}
	if err := r.Open(); err != nil {
		return nil, err
	}
	if r.bools == nil {
		r.bools = make([]bool, 0, 16)
	}
	start := len(r.bools)
	for {
		more, err := r.Element(len(r.bools) == start)
		if err != nil {
			return nil, err
		}
		if !more {
			return r.bools[start:len(r.bools):len(r.bools)], nil
		}
		if len(r.bools) == cap(r.bools) {
			r.bools = strictjson.Grow(&r.Scanner, r.bools, start, strictjson.LeastElement)
			start = 0
		}
		switch r.Peek() {
		case 't':
			err = r.Literal("true")
			r.bools = append(r.bools, true)
		case 'f':
			err = r.Literal("false")
			r.bools = append(r.bools, false)
		default:
			err = r.refuse(errAscendInvalid, "true or false")
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *reader) readDType() (byte, error) {
	if r.Peek() != '"' {
		return 0, r.refuse(errDTypeInvalid, "a string")
	}
	start := r.Pos
	text, err := r.Text()
	if err != nil {
		return 0, err
	}
	if len(text) != 1 {
		return 0, r.fail(errDTypeUnknown, start, "dtype "+strictjson.Quote(text))
	}
	return text[0], nil
}

func (r *reader) readPacking() (string, error) {
	if r.Peek() != '"' {
		return "", r.refuse(errPackingInvalid, "a string")
	}
	start := r.Pos
	text, err := r.Text()
	if err != nil {
		return "", err
	}
	if string(text) != dense {
		return "", r.fail(errPackingUnsupported, start, "packing "+strictjson.Quote(text))
	}
	return dense, nil
}
