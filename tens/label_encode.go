package tens

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

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
	label := w.open(l.LabelExtra)
	w.member(&label, "TENS")
	tens := w.open(l.Extra)
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
	w.close(&tens)
	w.close(&label)
	if w.err != nil {
		return dst, w.err
	}
	return w.out, nil
}

// writer writes JSON objects. The members of an object, which are attributes of the specification and further attributes, are
// written in the order of their names. After an error the output has no meaning; the first error is kept.
type writer struct {
	out    []byte
	depth  int // of the objects and arrays that are open
	tensor int // index of the tensor that is being written, or -1
	err    error
}

// object is the state of an object that is being written.
type object struct {
	extra Attributes // the further attributes that are not written yet, in the order of their names
	some  bool       // whether a member has been written
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

// open begins an object that has the given further attributes.
func (w *writer) open(extra Attributes) object {
	w.depth++
	w.out = append(w.out, '{')
	byName := func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(extra, byName) {
		extra = slices.Clone(extra)
		slices.SortFunc(extra, byName)
	}
	return object{extra: extra}
}

// member writes the further attributes whose names precede the name of an attribute of the specification, and then that name.
// The caller writes the value.
func (w *writer) member(o *object, name string) { w.optional(o, name, true) }

// optional is member for an attribute that may be absent. It returns present.
func (w *writer) optional(o *object, name string, present bool) bool {
	for len(o.extra) > 0 && o.extra[0].Name <= name {
		if o.extra[0].Name == name {
			w.refuse(name, "is a name of the specification")
			break
		}
		w.further(o)
	}
	if present {
		w.comma(o)
		w.out = append(append(append(w.out, '"'), name...), '"', ':') // the name needs no escapes
	}
	return present
}

func (w *writer) comma(o *object) {
	if o.some {
		w.out = append(w.out, ',')
	}
	o.some = true
}

// close writes the further attributes that are left, and ends the object.
func (w *writer) close(o *object) {
	for len(o.extra) > 0 {
		w.further(o)
	}
	w.out = append(w.out, '}')
	w.depth--
}

// further writes the next further attribute.
func (w *writer) further(o *object) {
	a := o.extra[0]
	if !utf8.ValidString(a.Name) {
		w.refuse(a.Name, "is not UTF-8")
	}
	if o.extra = o.extra[1:]; len(o.extra) > 0 && o.extra[0].Name == a.Name {
		w.refuse(a.Name, "is a duplicate name")
	}
	w.comma(o)
	w.out = append(strictjson.AppendString(w.out, a.Name), ':')
	w.value(a.Name, a.Value)
}

// value checks JSON text that a caller has set, and writes it without white space.
func (w *writer) value(attribute string, text []byte) {
	s := strictjson.Scanner{Data: text, Depth: w.depth}
	err := s.Value()
	if err == nil {
		err = s.End()
	}
	if err != nil {
		e := labelError(err, w.tensor)
		e.Attribute = attribute
		w.fail(e)
		return
	}
	w.out = strictjson.AppendCompact(w.out, text)
}

// metadata writes metadata that a caller has set, which must be an object; nil is an empty object.
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
	o := w.open(t.Extra)
	if w.optional(&o, "ascend", t.Ascend != nil) {
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
	if w.optional(&o, "metadata", t.Metadata != nil) {
		w.metadata(t.Metadata)
	}
	if w.optional(&o, "order", t.Order != nil) {
		appendInts(w, t.Order)
	}
	if w.optional(&o, "packing", t.Packing != "") {
		w.out = append(w.out, `"`+dense+`"`...)
	}
	w.member(&o, "part")
	w.out = strconv.AppendInt(w.out, int64(t.Part), 10)
	w.optional(&o, "pointer", false)
	w.member(&o, "shape")
	appendInts(w, t.Shape)
	w.member(&o, "word")
	w.out = strconv.AppendInt(w.out, int64(t.Word), 10)
	w.close(&o)
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
