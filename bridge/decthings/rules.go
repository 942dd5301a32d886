package decthings

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// ParseRules reads rules from JSON, as strictly as labels are read ([tens.ParseAttributes]): names match exactly, and
// no object, at any depth, has a name twice. Names that are not known are ignored.
//
// Errors: [ErrRules], together with [ErrType] or what package tens says of the JSON.
func ParseRules(text []byte) (*Rules, error) {
	fields, err := tens.ParseAttributes(text)
	if err != nil {
		return nil, &jsonError{err}
	}
	names, err := list[string](fields, "allowedTypes")
	if err != nil {
		return nil, err
	}
	r := &Rules{AllowedTypes: make([]Type, len(names)), Annotations: []string{}}
	for i, name := range names {
		if r.AllowedTypes[i], err = ParseType(name); err != nil {
			return nil, fmt.Errorf("decthings: %w: allowedTypes[%d] = %.40q: %w", ErrRules, i, name, ErrType)
		}
	}
	if r.Shape, err = list[int64](fields, "shape"); err != nil {
		return nil, err
	}
	if _, ok := fields.Get("annotations"); ok {
		if r.Annotations, err = list[string](fields, "annotations"); err != nil {
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

// list is a field that must be an array of T, none of them null.
func list[T any](fields tens.Attributes, name string) ([]T, error) {
	text, ok := fields.Get(name)
	if !ok {
		return nil, fmt.Errorf("decthings: %w: no %s", ErrRules, name)
	}
	var all []*T
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("decthings: %w: %s: %w", ErrRules, name, err)
	}
	if all == nil {
		return nil, fmt.Errorf("decthings: %w: %s is null", ErrRules, name)
	}
	values := make([]T, len(all))
	for i, value := range all {
		if value == nil {
			return nil, fmt.Errorf("decthings: %w: %s[%d] is null", ErrRules, name, i)
		}
		values[i] = *value
	}
	return values, nil
}

// MarshalJSON prints the rules, always with annotations, since there are clients that insist on them.
//
// Errors: [ErrRules].
func (r *Rules) MarshalJSON() ([]byte, error) {
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

// UnmarshalJSON is [ParseRules].
func (r *Rules) UnmarshalJSON(text []byte) error {
	parsed, err := ParseRules(text)
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
