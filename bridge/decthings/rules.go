package decthings

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// AnyLength in the shape of [Rules] allows a dimension of any size, 0 included.
const AnyLength = -1

// Rules describe the tensors that a method accepts (Decthings, "DecthingsTensorRules").
type Rules struct {
	// Shape has a size or [AnyLength] for each dimension.
	Shape []int64
	// AllowedTypes lists the allowed element types. An empty list allows none.
	AllowedTypes []Type
	// Annotations are texts that some clients write. Check ignores them, and the published document does not have them.
	Annotations []string
}

// DecodeRules decodes rules from JSON, as strictly as package tens decodes labels: names match exactly, and no object at any
// depth has a name twice. Unknown names are ignored.
//
// Errors: [ErrRules], together with [ErrType] for an unknown type.
func DecodeRules(text []byte) (*Rules, error) {
	s := &strictjson.Scanner{Data: text}
	r := &Rules{Annotations: []string{}}
	err := s.Document(func() {
		s.Once(0)
		switch string(s.Name) {
		case "allowedTypes":
			r.AllowedTypes = []Type{}
			eachItem(s, "allowedTypes", func() {
				name := scanString(s)
				t, err := ParseType(name)
				if err != nil {
					s.Fail(unknownType(name))
				}
				r.AllowedTypes = append(r.AllowedTypes, t)
			})
		case "shape":
			r.Shape = []int64{}
			eachItem(s, "shape", func() { r.Shape = append(r.Shape, scanInteger(s)) })
		case "annotations":
			eachItem(s, "annotations", func() { r.Annotations = append(r.Annotations, scanString(s)) })
		default:
			s.Value()
		}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("decthings: %w: %w", ErrRules, err)
	case r.AllowedTypes == nil:
		return nil, fmt.Errorf("decthings: %w: allowedTypes is missing", ErrRules)
	case r.Shape == nil:
		return nil, fmt.Errorf("decthings: %w: shape is missing", ErrRules)
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r, nil
}

// eachItem reads an array and calls item once for each item; item must read it. name names the array in errors.
func eachItem(s *strictjson.Scanner, name string, item func()) {
	if s.Peek() != '[' {
		s.Fail(fmt.Errorf("%s is %.40s, not an array", name, s.Raw()))
		return
	}
	s.Open()
	for i := 0; s.Element(); i++ {
		if item(); s.Err != nil {
			s.Err = fmt.Errorf("%s[%d]: %w", name, i, s.Err)
		}
	}
}

func scanString(s *strictjson.Scanner) string {
	if s.Peek() != '"' {
		s.Fail(fmt.Errorf("%.40s is not a string", s.Raw()))
	}
	return string(s.Text())
}

func scanInteger(s *strictjson.Scanner) int64 {
	c, start := s.Peek(), s.Pos
	if c == '-' || strictjson.IsDigit(c) {
		if n, plain := s.Number(); plain {
			return n
		}
	} else {
		s.Value()
	}
	s.Fail(fmt.Errorf("%.40s is not an integer of 64 bits", s.Data[start:s.Pos]))
	return 0
}

// MarshalJSON returns the rules as JSON. The text always has annotations, because some clients require them.
//
// Errors: [ErrRules].
func (r Rules) MarshalJSON() ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	for i, text := range r.Annotations {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("decthings: %w: annotations[%d] is not UTF-8", ErrRules, i)
		}
	}
	fields := struct {
		Shape        []int64  `json:"shape"`
		AllowedTypes []string `json:"allowedTypes"`
		Annotations  []string `json:"annotations"`
	}{append([]int64{}, r.Shape...), make([]string, len(r.AllowedTypes)), append([]string{}, r.Annotations...)}
	for i, t := range r.AllowedTypes {
		fields.AllowedTypes[i] = t.String()
	}
	return json.Marshal(fields)
}

// UnmarshalJSON is [DecodeRules]. JSON null leaves the rules unchanged, as is usual in Go.
func (r *Rules) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	parsed, err := DecodeRules(text)
	if err == nil {
		*r = *parsed
	}
	return err
}

func (r *Rules) validate() error {
	if r == nil {
		return fmt.Errorf("decthings: %w: the Rules are nil", ErrRules)
	}
	for i, n := range r.Shape {
		if n < AnyLength {
			return fmt.Errorf("decthings: %w: shape[%d] is %d, but must be at least 0, or %d for any length", ErrRules, i, n, AnyLength)
		}
	}
	for i, t := range r.AllowedTypes {
		if !t.valid() {
			return fmt.Errorf("decthings: %w: allowedTypes[%d] is %v, which Decthings does not have", ErrRules, i, t)
		}
	}
	return nil
}

// Check returns an error unless the rules allow a tensor with the given type and shape.
//
// Errors: [ErrRuleType] or [ErrRuleShape], according to the rule that is broken; [ErrRules] for invalid rules.
func (r *Rules) Check(t Type, shape []int64) error {
	if err := r.validate(); err != nil {
		return err
	}
	if !slices.Contains(r.AllowedTypes, t) {
		return fmt.Errorf("decthings: %w: %v is not one of %s", ErrRuleType, t, errtext.List(r.AllowedTypes))
	}
	if len(shape) != len(r.Shape) {
		return fmt.Errorf("decthings: %w: shape %s has rank %d, but must have rank %d, as %s has", ErrRuleShape,
			errtext.List(shape), len(shape), len(r.Shape), errtext.List(r.Shape))
	}
	for i, n := range shape {
		if n < 0 {
			return fmt.Errorf("decthings: %w: shape[%d] is %d, but must not be negative", ErrRuleShape, i, n)
		}
		if r.Shape[i] != AnyLength && r.Shape[i] != n {
			return fmt.Errorf("decthings: %w: shape[%d] is %d, but must be %d", ErrRuleShape, i, n, r.Shape[i])
		}
	}
	return nil
}
