package tens

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// Label is the content of the label of a TENS message: the tensors, and metadata and attributes of the application. The JSON text
// in a decoded label aliases the label.
type Label struct {
	Tensors    []Tensor
	Metadata   []byte     // TENS.metadata, a JSON object, nil where absent
	Extra      Attributes // further attributes of TENS, in the order of the label
	LabelExtra Attributes // further attributes of the label beside TENS, in its order
	Absent     bool       // the label has no attribute TENS, so that the message has no tensors; see [Message.DecodeLabel]
}

// Attribute is a member of a JSON object.
type Attribute struct {
	Name  string // its escapes decoded
	Value []byte // JSON text
}

// Attributes are the members of a JSON object, or some of them.
type Attributes []Attribute

// Get returns the JSON text of the attribute with exactly the given name.
func (a Attributes) Get(name string) (value []byte, ok bool) {
	for i := range a {
		if a[i].Name == name {
			return a[i].Value, true
		}
	}
	return nil, false
}

// DecodeAttributes returns the members of a JSON object, which it reads as strictly as a label. Their values alias it.
//
// Errors: [ErrInvalid] for text that is not JSON or not an object, duplicate names and nesting beyond [MaxDepth].
func DecodeAttributes(object []byte) (Attributes, error) {
	r := newReader(object)
	var a Attributes
	err := r.Document(func() error { return r.extra(&a, 0) })
	if err != nil {
		return nil, jsonFault(err, r.tensor, r.attribute)
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

// EncodeLabel sets m.Label to the text of l, as [Label.Append] writes it, after checking it against the payload as
// [Message.DecodeLabel] does. It does not set the form. On an error the message is unchanged. It ends the process if there is no
// memory for the label, as [Label.Append] does.
func (m *Message) EncodeLabel(l *Label) error {
	switch {
	case m == nil:
		return fault(ErrNil, "message")
	case l == nil:
		return fault(ErrNil, "label")
	}
	if err := l.fit(m.Parts); err != nil {
		return err
	}
	label, err := l.Append(nil)
	if err != nil {
		return err
	}
	m.Label = label
	return nil
}

// fit returns an error unless the parts are those that the tensors need.
func (l *Label) fit(parts [][]byte) error {
	for i := range l.Tensors {
		if err := l.Tensors[i].fit(parts); err != nil {
			err.Tensor = i
			return err
		}
	}
	return nil
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
		return nil, met, jsonFault(err, r.tensor, r.attribute)
	}
	if !met {
		return nil, false, fault(ErrNoTENS, "")
	}
	return l, true, nil
}

func newReader(text []byte) *reader {
	return &reader{Scanner: strictjson.Scanner{Data: text}, tensor: -1}
}

// fail returns an error of the label at the given byte.
func (r *reader) fail(kind error, at int, detail string) *Error {
	return &Error{Kind: kind, Tensor: r.tensor, Attribute: r.attribute, Offset: at, Detail: detail}
}

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
	tensor    int    // index of the tensor that is being read, or -1
	attribute string // the attribute that is being read if it is one of the specification's, or ""

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
			l.Metadata, err = r.readMetadata()
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
	r.attribute = "metadata"
	if r.Peek() != '{' {
		return nil, r.refuse(errMetadataInvalid, "an object")
	}
	value, err := r.Raw()
	r.attribute = ""
	return value, err
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
		var this uint
		switch string(r.Name) {
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
			r.attribute = "pointer"
			return r.refuse(errPointerUnsupported, "a part")
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
			return err
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
		r.attribute = "shape"
		t.Shape, err = readInts(r, &r.sizes, errShapeInvalid)
	case attrWord:
		r.attribute = "word"
		t.Word, err = readInt[int](r, errWordInvalid, errWordInvalid)
	case attrDType:
		r.attribute = "dtype"
		t.DType, err = r.readDType()
	case attrPart:
		r.attribute = "part"
		t.Part, err = readInt[int](r, errPartInvalid, ErrPartMissing)
	case attrOrder:
		r.attribute = "order"
		t.Order, err = readInts(r, &r.orders, errOrderInvalid)
	case attrAscend:
		r.attribute = "ascend"
		t.Ascend, err = r.readAscend()
	case attrMetadata:
		t.Metadata, err = r.readMetadata()
	case attrPacking:
		r.attribute = "packing"
		t.Packing, err = r.readPacking()
	}
	r.attribute = ""
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
		return 0, r.fail(large, start, strconv.FormatInt(v, 10)+" is too large here")
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

// Append appends the label as JSON text in the form of the C++ implementation: without white space, and with names in the order of
// their bytes. Attributes with their default are omitted, except for part and TENS.metadata. JSON text in the label loses its white
// space and is otherwise unchanged. [DecodeLabel] can decode the result. On an error dst is returned unchanged. Like append, it ends
// the process if there is no memory for the result, which may be much larger than the label if attributes share their memory.
//
// Errors: those of [DecodeLabel], [ErrInvalid] also for a further attribute whose name is one of the specification's, is not unique
// or is not UTF-8, and [ErrNoTENS] for a label that is Absent.
func (l *Label) Append(dst []byte) ([]byte, error) {
	if l == nil {
		return dst, fault(ErrNil, "label")
	}
	if l.Absent {
		return dst, fault(ErrNoTENS, "label that is absent")
	}
	w := writer{out: slices.Grow(dst, 48+80*len(l.Tensors)+len(l.Metadata)), tensor: -1}
	label := w.object(l.LabelExtra)
	w.member(&label, "TENS")
	tens := w.object(l.Extra)
	w.member(&tens, "metadata")
	w.metadata(l.Metadata)
	w.member(&tens, "tensors")
	w.depth++
	w.out = append(w.out, '[')
	for i := range l.Tensors {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.tensor = i
		w.writeTensor(&l.Tensors[i])
	}
	w.tensor = -1
	w.out = append(w.out, ']')
	w.depth--
	w.end(&tens)
	w.end(&label)
	if w.err != nil {
		return dst, w.err
	}
	return w.out, nil
}

// writer writes objects whose members are ours and an application's, and keeps the first error.
type writer struct {
	out    []byte
	depth  int
	tensor int
	err    error
}

// object is an object that is being written: what is left of the further attributes, sorted.
type object struct {
	extra Attributes
	some  bool // whether a member was written
}

func (w *writer) fail(err *Error) {
	if w.err == nil {
		err.Tensor = w.tensor
		w.err = err
	}
}

func (w *writer) refuse(name, why string) {
	w.fail(&Error{Kind: errAttributeInvalid, Attribute: name, Offset: -1, Detail: strictjson.Quote([]byte(name)) + " " + why})
}

// object begins an object.
func (w *writer) object(extra Attributes) object {
	w.depth++
	w.out = append(w.out, '{')
	byName := func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(extra, byName) {
		extra = slices.Clone(extra)
		slices.SortFunc(extra, byName)
	}
	return object{extra: extra}
}

// member begins a member of ours, after the further attributes that come before it.
func (w *writer) member(o *object, name string) {
	w.reserve(o, name)
	w.begin(o, name)
}

// begin writes a name of ours, which needs no escapes.
func (w *writer) begin(o *object, name string) {
	w.comma(o)
	w.out = append(append(append(w.out, '"'), name...), '"', ':')
}

func (w *writer) comma(o *object) {
	if o.some {
		w.out = append(w.out, ',')
	}
	o.some = true
}

// reserve writes the further attributes that come before a name of ours and refuses one of that name.
func (w *writer) reserve(o *object, name string) {
	for len(o.extra) > 0 && o.extra[0].Name <= name {
		if o.extra[0].Name == name {
			w.refuse(name, "is a name of the specification")
			return
		}
		w.further(o)
	}
}

// end ends an object after the further attributes that are left.
func (w *writer) end(o *object) {
	for len(o.extra) > 0 {
		w.further(o)
	}
	w.out = append(w.out, '}')
	w.depth--
}

func (w *writer) further(o *object) {
	a := o.extra[0]
	if !utf8.ValidString(a.Name) {
		w.refuse(a.Name, "is not UTF-8")
	}
	if o.extra = o.extra[1:]; len(o.extra) > 0 && o.extra[0].Name == a.Name {
		w.refuse(a.Name, "comes twice")
	}
	w.comma(o)
	w.out = append(strictjson.AppendString(w.out, a.Name), ':')
	w.value(a.Name, a.Value)
}

// value writes JSON text of the caller's.
func (w *writer) value(attribute string, text []byte) {
	s := strictjson.Scanner{Data: text, Depth: w.depth}
	err := s.Value()
	if err == nil {
		err = s.End()
	}
	if err != nil {
		if w.err == nil {
			w.err = jsonFault(err, w.tensor, attribute)
		}
		return
	}
	w.out = strictjson.AppendCompact(w.out, text)
}

// metadata writes an object of the caller's, an empty one where there is none.
func (w *writer) metadata(text []byte) {
	if text == nil || string(text) == "{}" {
		w.out = append(w.out, "{}"...)
		return
	}
	if s := (strictjson.Scanner{Data: text}); s.Peek() != '{' {
		w.fail(&Error{Kind: errMetadataInvalid, Attribute: "metadata", Offset: -1,
			Detail: "metadata " + strictjson.Quote(text)})
		return
	}
	w.value("metadata", text)
}

func (w *writer) writeTensor(t *Tensor) {
	if err := t.check(); err != nil {
		w.fail(err)
		return
	}
	o := w.object(t.Extra)
	w.reserve(&o, "ascend")
	if t.Ascend != nil {
		w.begin(&o, "ascend")
		w.out = append(w.out, '[')
		for d, up := range t.Ascend {
			if d > 0 {
				w.out = append(w.out, ',')
			}
			w.out = strconv.AppendBool(w.out, up)
		}
		w.out = append(w.out, ']')
	}
	w.member(&o, "dtype")
	w.out = append(w.out, '"', t.DType, '"')
	w.reserve(&o, "metadata")
	if t.Metadata != nil {
		w.begin(&o, "metadata")
		w.metadata(t.Metadata)
	}
	w.reserve(&o, "order")
	if t.Order != nil {
		w.begin(&o, "order")
		appendInts(w, t.Order)
	}
	w.reserve(&o, "packing")
	if t.Packing != "" {
		w.begin(&o, "packing")
		w.out = append(w.out, '"')
		w.out = append(w.out, dense...)
		w.out = append(w.out, '"')
	}
	w.member(&o, "part")
	w.out = strconv.AppendInt(w.out, int64(t.Part), 10)
	w.reserve(&o, "pointer")
	w.member(&o, "shape")
	appendInts(w, t.Shape)
	w.member(&o, "word")
	w.out = strconv.AppendInt(w.out, int64(t.Word), 10)
	w.end(&o)
}

func appendInts[T int | int64](w *writer, list []T) {
	w.out = append(w.out, '[')
	for i, v := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	}
	w.out = append(w.out, ']')
}
