package tens

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
