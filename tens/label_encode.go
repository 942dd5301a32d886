package tens

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// EncodeLabel checks l against the payload, as [Message.DecodeLabel] does, and sets m.Label to the text that
// [Label.Append] writes. It does not set the form. On an error the message is unchanged. Like [Label.Append], it ends
// the process if there is no memory for the label.
//
// Errors: [ErrNil], [ErrPartMissing], [ErrSize], and those of [Label.Append].
func (m *Message) EncodeLabel(l *Label) error {
	switch {
	case m == nil:
		return newError(ErrNil, "message")
	case l == nil:
		return newError(ErrNil, "label")
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

// Append appends the label as JSON text in the form of the C++ implementation: without white space, and with names in
// the order of their bytes. It always writes the attributes part and TENS.metadata. Of a tensor it omits a nil Ascend,
// Order or Metadata, an empty Packing, and Parts below 2. JSON text in the label loses its white space and is otherwise
// unchanged. [DecodeLabel] can decode the result. On an error it returns dst unchanged. Like append, it ends the
// process if there is no memory for the result. The result may be much larger than the label if attributes share their
// memory.
//
// The metadata of a tensor must be an object of scalars, as the specification says: objects and arrays belong in TENS.metadata.
// [DecodeLabel] accepts any object, and tensors that are only metadata. To forward a decoded label, set Relay to the message that it
// was decoded from. The metadata of tensors may then have objects and arrays, tensors may be only metadata, and JSON text is written
// unchanged. If nothing in the label was changed, the result is the label of that message, byte for byte.
//
// Errors: [ErrNil]; those of [DecodeLabel]; without Relay, [ErrInvalid] also for metadata of a tensor that contains an object or array,
// and [ErrUnsupported] for a tensor that is only metadata; [ErrInvalid] for a further attribute whose name belongs to the
// specification, is not unique or is not UTF-8; and [ErrNoTENS] for a label that is Absent, unless it is relayed unchanged.
func (l *Label) Append(dst []byte) ([]byte, error) {
	if l == nil {
		return dst, newError(ErrNil, "label")
	}
	if l.Relay != nil && l.unchanged() {
		return append(dst, l.Relay.Label...), nil
	}
	if l.Absent {
		return dst, newError(ErrNoTENS, "the label is Absent; set Absent to false to encode the label without tensors")
	}
	w := writer{out: slices.Grow(dst, 48+80*len(l.Tensors)+len(l.Metadata)), tensor: -1, relay: l.Relay != nil}
	label := w.open(l.LabelExtra)
	w.member(&label, "TENS")
	tens := w.open(l.Extra)
	w.member(&tens, "metadata")
	w.metadata(l.Metadata)
	w.member(&tens, "tensors")
	w.depth++
	w.out = append(w.out, '[')
	for i := range l.Tensors {
		w.comma()
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

// writer writes the JSON objects of a label. The caller writes the attributes of the specification in the order of their names,
// and writer inserts the further attributes between them. Values that are JSON text keep their own order. After an error the
// output has no meaning. The first error is kept.
type writer struct {
	out    []byte
	depth  int  // number of open objects and arrays
	tensor int  // index of the tensor that is being written, or -1
	relay  bool // JSON text is written unchanged, metadata of a tensor may have objects and arrays, and a tensor may be only metadata
	err    error
}

func (w *writer) fail(err *Error) {
	if w.err == nil {
		err.Tensor = w.tensor
		w.err = err
	}
}

// refuse fails because of the attribute with the given name. why completes a sentence that begins with the name.
func (w *writer) refuse(name, why string) {
	w.fail(&Error{Kind: errAttributeInvalid, Attribute: name, Offset: -1, Detail: strictjson.Quote([]byte(name)) + " " + why})
}

// open begins an object with the given further attributes, and returns these in the order of their names. The methods
// member, optional and close write these attributes, and remove them from the list.
func (w *writer) open(extra Attributes) Attributes {
	w.depth++
	w.out = append(w.out, '{')
	byName := func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(extra, byName) {
		extra = slices.Clone(extra)
		slices.SortFunc(extra, byName)
	}
	return extra
}

// member writes the further attributes whose names precede name, and then name, an attribute of the specification. The caller
// writes the value.
func (w *writer) member(extra *Attributes, name string) { w.optional(extra, name, true) }

// optional is member for an attribute that may be absent. It returns present.
func (w *writer) optional(extra *Attributes, name string, present bool) bool {
	for len(*extra) > 0 && (*extra)[0].Name <= name {
		if (*extra)[0].Name == name {
			w.refuse(name, "is a name of the specification")
			break
		}
		w.further(extra)
	}
	if present {
		w.comma()
		w.out = append(append(append(w.out, '"'), name...), '"', ':') // names in the specification need no escapes
	}
	return present
}

// comma separates a member or element from the one before, if there is one.
func (w *writer) comma() {
	if c := w.out[len(w.out)-1]; c != '{' && c != '[' {
		w.out = append(w.out, ',')
	}
}

// close writes the remaining further attributes, and ends the object.
func (w *writer) close(extra *Attributes) {
	for len(*extra) > 0 {
		w.further(extra)
	}
	w.out = append(w.out, '}')
	w.depth--
}

// further writes the first of the remaining further attributes, and removes it from extra.
func (w *writer) further(extra *Attributes) {
	a, rest := (*extra)[0], (*extra)[1:]
	*extra = rest
	if !utf8.ValidString(a.Name) {
		w.refuse(a.Name, "is not UTF-8")
	}
	if len(rest) > 0 && rest[0].Name == a.Name {
		w.refuse(a.Name, "is a duplicate name")
	}
	w.comma()
	w.out = append(strictjson.AppendString(w.out, a.Name), ':')
	w.value(a.Name, a.Value)
}

// value writes JSON text that a caller has set for an attribute. It removes white space, unless the label is relayed. It fails if
// the text is not valid JSON.
func (w *writer) value(attribute string, text []byte) {
	s := strictjson.Scanner{Data: text, Depth: w.depth}
	s.Value()
	s.End()
	if s.Err != nil {
		e := labelError(s.Err, w.tensor)
		e.Attribute = attribute
		w.fail(e)
		return
	}
	if w.relay {
		w.out = append(w.out, text...)
		return
	}
	w.out = strictjson.AppendCompact(w.out, text)
}

// metadata writes metadata that a caller has set, which must be an object. nil is written as an empty object.
func (w *writer) metadata(text []byte) {
	if text == nil || string(text) == "{}" {
		w.out = append(w.out, "{}"...)
		return
	}
	if s := (strictjson.Scanner{Data: text}); s.Peek() != '{' {
		w.fail(notObject(text))
		return
	}
	w.value("metadata", text)
}

// notObject returns the error for metadata that is not an object.
func notObject(metadata []byte) *Error {
	return &Error{Kind: errMetadataInvalid, Tensor: -1, Attribute: "metadata", Offset: -1,
		Detail: strictjson.Quote(metadata) + " instead of an object"}
}

// scalars fails if the metadata object of a tensor contains an object or array, because the specification allows only
// scalars. Relayed metadata may contain them.
func (w *writer) scalars(object []byte) {
	if w.err != nil || w.relay || object == nil {
		return
	}
	s := strictjson.Scanner{Data: object}
	s.Open()
	for s.Member() {
		if c := s.Peek(); c == '{' || c == '[' {
			w.fail(&Error{Kind: errMetadataInvalid, Attribute: "metadata", Offset: -1, Detail: "attribute " + strictjson.Quote(s.Name) +
				" of a tensor's metadata is an object or array, but must be a scalar; TENS.metadata accepts any value, and Relay keeps the metadata of a decoded message"})
			return
		}
		s.Value()
	}
}

func (w *writer) writeTensor(t *Tensor) {
	if err := t.check(); err != nil {
		w.fail(err)
		return
	}
	if t.OnlyMetadata() && !w.relay {
		w.fail(t.newError(errDTypeUnknown, "dtype", `dtype "?" means a tensor that is only metadata; Relay keeps such a tensor of a decoded message`))
		return
	}
	extra := w.open(t.Extra)
	if w.optional(&extra, "ascend", t.Ascend != nil) {
		appendList(w, t.Ascend, strconv.AppendBool)
	}
	w.member(&extra, "dtype")
	w.out = append(w.out, '"', t.DType, '"')
	if w.optional(&extra, "metadata", t.Metadata != nil) {
		w.metadata(t.Metadata)
		w.scalars(t.Metadata)
	}
	if w.optional(&extra, "order", t.Order != nil) {
		appendList(w, t.Order, appendInt)
	}
	if w.optional(&extra, "packing", t.Packing != "") {
		w.out = strictjson.AppendString(w.out, t.Packing)
	}
	w.member(&extra, "part")
	w.out = appendInt(w.out, t.Part)
	if w.optional(&extra, "parts", t.Parts > 1) {
		w.out = appendInt(w.out, t.Parts)
	}
	w.optional(&extra, "pointer", false)
	w.member(&extra, "shape")
	appendList(w, t.Shape, appendInt)
	w.member(&extra, "word")
	w.out = appendInt(w.out, t.Word)
	w.close(&extra)
}

func appendInt[T int | int64](dst []byte, v T) []byte { return strconv.AppendInt(dst, int64(v), 10) }

func appendList[T any](w *writer, list []T, appendItem func(dst []byte, item T) []byte) {
	out := append(w.out, '[')
	for i, item := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendItem(out, item)
	}
	w.out = append(out, ']')
}
