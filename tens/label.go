package tens

import "strconv"

// Label is the content of the label of a TENS message: the tensors, and metadata and attributes of the application. The
// JSON text in a decoded Label aliases the text that was decoded.
type Label struct {
	Tensors    []Tensor
	Metadata   []byte     // TENS.metadata, a JSON object, nil where absent
	Extra      Attributes // further attributes of TENS, in the order of the label
	LabelExtra Attributes // attributes of the label beside TENS, in the order of the label
	Absent     bool       // the label has no attribute TENS, so that the message has no tensors; see [Message.DecodeLabel]
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

// morePieces is the number of pieces that tensors of several parts may have together, beyond four for each part of the message.
// Without a limit, tensors that share their parts would take time in proportion to the product of their number and that of the parts.
const morePieces = 1024

// fit returns an error unless each tensor's parts exist and have the size of its elements. Parts that no tensor uses
// are not an error.
func (l *Label) fit(parts [][]byte) error {
	pieces := 0
	for i := range l.Tensors {
		if n := l.Tensors[i].Parts; n > 1 && n <= len(parts) {
			if pieces += n; pieces > 4*len(parts)+morePieces {
				err := l.Tensors[i].newError(errPartsInvalid, "parts", "the tensors have more than "+strconv.Itoa(4*len(parts)+morePieces)+
					" pieces, four for each part and "+strconv.Itoa(morePieces))
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
