package tens

import (
	"reflect"
	"strconv"

	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// Label is the decoded label of a TENS message. It has the tensors, and the metadata and attributes of the application.
// The JSON text in a decoded Label aliases the original text.
type Label struct {
	Tensors    []Tensor
	Metadata   []byte     // TENS.metadata, a JSON object, nil if absent
	Extra      Attributes // further attributes of TENS, in the order of the label
	LabelExtra Attributes // attributes of the label beside TENS, in the order of the label
	Absent     bool       // the label has no attribute TENS or is null: the message has no tensors; see [Message.DecodeLabel]
	Relay      *Message   // set it to the message of this label to encode the label as it came; nil after decoding. See [Label.Append]
}

// Attribute is a member of a JSON object.
type Attribute struct {
	Name  string // decoded: without the escapes of JSON
	Value []byte // JSON text of the value
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

// Find returns the index in Tensors of the tensor with the given [Tensor.Name]. The tensors that package bridge decodes have the
// same indices, unless a tensor lies in several parts that are not joined.
//
// Errors: [ErrNil]; [ErrNoName] if no tensor has the name; [ErrInvalid] if several tensors have it.
func (l *Label) Find(name string) (int, error) {
	if l == nil {
		return 0, newError(ErrNil, "label")
	}
	found := -1
	for i := range l.Tensors {
		if name == "" || string(l.Tensors[i].name()) != name {
			continue
		}
		if found >= 0 {
			return 0, newError(errNameAmbiguous, strictjson.Quote([]byte(name))+" of tensor "+strconv.Itoa(found)+" and tensor "+strconv.Itoa(i))
		}
		found = i
	}
	if found < 0 {
		return 0, newError(ErrNoName, strictjson.Quote([]byte(name))+l.names())
	}
	return found, nil
}

// names returns the end of an error text: a list of the first names of the tensors.
func (l *Label) names() string {
	const most = 8
	text, separator, count := "", ", but the names are ", 0
	for i := range l.Tensors {
		name := l.Tensors[i].name()
		if len(name) == 0 {
			continue
		}
		if count++; count > most {
			return text + ", …"
		}
		text += separator + strictjson.Quote(name)
		separator = ", "
	}
	if count == 0 {
		return ", but no tensor has a name"
	}
	return text
}

// unchanged reports whether the label equals the label of the message Relay.
func (l *Label) unchanged() bool {
	old, err := l.Relay.DecodeLabel()
	if err != nil {
		return false
	}
	old.Relay = l.Relay
	return reflect.DeepEqual(l, old)
}

// morePieces is the number of pieces that all tensors of several parts may have together, in addition to four for each part of the
// message. Without a limit, tensors that share their parts would take time in proportion to the number of tensors times the number of
// parts.
const morePieces = 1024

// fit returns an error unless each tensor's parts exist and have the size of its elements. Parts that no tensor uses
// are not an error.
func (l *Label) fit(parts [][]byte) error {
	pieces := 0
	for i := range l.Tensors {
		if n := l.Tensors[i].Parts; n > 1 && n <= len(parts) {
			if pieces += n; pieces > 4*len(parts)+morePieces {
				err := l.Tensors[i].newError(errPartsInvalid, "parts", "the tensors have more than "+strconv.Itoa(4*len(parts)+morePieces)+
					" pieces, the limit of four for each part plus "+strconv.Itoa(morePieces))
				err.Tensor = i
				return err
			}
		}
		if err := l.Tensors[i].fit(parts); err != nil {
			err.Tensor = i
			return err
		}
	}
	return nil
}
