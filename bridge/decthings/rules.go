package decthings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/tens"
)

// AnyLength in the shape of [Rules] allows a dimension of any size, 0 included.
const AnyLength = -1

// Rules say which tensors a method takes (Decthings, "DecthingsTensorRules").
type Rules struct {
	// Shape has a size or [AnyLength] for each dimension.
	Shape []int64
	// AllowedTypes lists the types of elements that are allowed. An empty list allows none.
	AllowedTypes []Type
	// Annotations are words of the clients' that rule nothing. The document does not have them.
	Annotations []string
}

// DecodeRules reads rules from JSON, as strictly as labels are read ([tens.DecodeAttributes]): names match exactly, and
// no object, at any depth, has a name twice. Names that are not known are ignored.
//
// Errors: [ErrRules], together with [ErrType] or what package tens says of the JSON.
func DecodeRules(text []byte) (*Rules, error) {
	fields, err := tens.DecodeAttributes(bytes.Clone(text)) // package json panics where somebody changes it meanwhile
	if err != nil {
		return nil, &jsonError{err}
	}
	names, err := stringsOf(fields, "allowedTypes")
	if err != nil {
		return nil, err
	}
	r := &Rules{AllowedTypes: make([]Type, len(names)), Annotations: []string{}}
	for i, name := range names {
		if r.AllowedTypes[i], err = ParseType(name); err != nil {
			return nil, fmt.Errorf("decthings: %w: allowedTypes[%d] = %.40q: %w", ErrRules, i, name, ErrType)
		}
	}
	if r.Shape, err = integersOf(fields, "shape"); err != nil {
		return nil, err
	}
	if _, ok := fields.Get("annotations"); ok {
		if r.Annotations, err = stringsOf(fields, "annotations"); err != nil {
			return nil, err
		}
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r, nil
}

// A jsonError is what package tens says of JSON that is no rules.
type jsonError struct{ err error }

func (e *jsonError) Error() string {
	what := strings.TrimPrefix(e.err.Error(), "tens: ")
	if errors.Is(e.err, tens.ErrLabelNotObject) { // which are no label
		what = "not a JSON object"
	}
	return "decthings: " + ErrRules.Error() + ": " + what
}

func (e *jsonError) Unwrap() []error { return []error{ErrRules, e.err} }

// array is a field that must be an array, and calls yield with each of its values. The text of fields was read before.
func array(fields tens.Attributes, name string, yield func(value []byte) error) (text []byte, err error) {
	text, ok := fields.Get(name)
	if !ok {
		return nil, fmt.Errorf("decthings: %w: no %s", ErrRules, name)
	}
	if text[0] != '[' {
		return nil, fmt.Errorf("decthings: %w: %s is %.40s, and no array", ErrRules, name, text)
	}
	const space = " \t\r\n"
	rest := bytes.TrimLeft(text[1:], space)
	for i := 0; rest[0] != ']'; i++ {
		n := bytes.IndexAny(rest, ",]"+space)
		if rest[0] == '"' {
			for n = 1; rest[n] != '"'; n++ {
				if rest[n] == '\\' {
					n++
				}
			}
			n++
		}
		if err := yield(rest[:n]); err != nil {
			return nil, fmt.Errorf("decthings: %w: %s[%d] is %.40s: %w", ErrRules, name, i, rest[:n], err)
		}
		rest = bytes.TrimLeft(rest[n:], space)
		rest = bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(",")), space)
	}
	return text, nil
}

var (
	errNoString  = errors.New("not a string")
	errNoInteger = errors.New("not an integer of 64 bits")
)

func stringsOf(fields tens.Attributes, name string) (values []string, err error) {
	text, err := array(fields, name, func(value []byte) error {
		if value[0] != '"' {
			return errNoString
		}
		return nil
	})
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	return values, err
}

func integersOf(fields tens.Attributes, name string) ([]int64, error) {
	values := []int64{}
	_, err := array(fields, name, func(value []byte) error {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return errNoInteger
		}
		values = append(values, n)
		return nil
	})
	return values, err
}

// MarshalJSON prints the rules, always with annotations, since there are clients that insist on them.
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

// UnmarshalJSON is [DecodeRules]. As of everything in Go, null changes nothing.
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
		return fmt.Errorf("decthings: %w: they are nil", ErrRules)
	}
	for i, n := range r.Shape {
		if n < AnyLength {
			return fmt.Errorf("decthings: %w: shape[%d] = %d", ErrRules, i, n)
		}
	}
	for i, t := range r.AllowedTypes {
		if !t.valid() {
			return fmt.Errorf("decthings: %w: allowedTypes[%d] is %v", ErrRules, i, t)
		}
	}
	return nil
}

// Check tells whether a tensor of a type and a shape is allowed.
//
// Errors: [ErrRuleType] or [ErrRuleShape], which tell the rule that is broken; [ErrRules].
func (r *Rules) Check(t Type, shape []int64) error {
	if err := r.validate(); err != nil {
		return err
	}
	if !slices.Contains(r.AllowedTypes, t) {
		return fmt.Errorf("decthings: %w: %v, of %s", ErrRuleType, t, few(r.AllowedTypes))
	}
	if len(shape) != len(r.Shape) {
		return fmt.Errorf("decthings: %w: rank %d of shape %s, not %d of %s", ErrRuleShape, len(shape), few(shape), len(r.Shape), few(r.Shape))
	}
	for i, n := range shape {
		if n < 0 || r.Shape[i] != AnyLength && r.Shape[i] != n {
			return fmt.Errorf("decthings: %w: shape[%d] = %d, not %d", ErrRuleShape, i, n, r.Shape[i])
		}
	}
	return nil
}

// few prints a list in an error, and of a long one the beginning.
func few[T any](list []T) string {
	const most = 32
	if len(list) > most {
		text := fmt.Sprint(list[:most])
		return text[:len(text)-1] + " …]"
	}
	return fmt.Sprint(list)
}
