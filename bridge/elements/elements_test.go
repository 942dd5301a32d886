package elements_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func ExampleElements() {
	e := elements.Elements{Type: "string", Shape: []int64{2}, Values: [][]byte{[]byte("hello"), []byte(", world!")}}
	fmt.Println(&e, e.Validate())
	// Output: string[2] <nil>
}

func TestErrorsOfLongShapesAreShort(t *testing.T) {
	e := elements.Elements{Type: strings.Repeat("x", 1<<20), Shape: make([]int64, 1<<20)}
	for i := range e.Shape {
		e.Shape[i] = 1
	}
	err := e.Validate()
	require.ErrorIs(t, err, elements.ErrElements)
	assert.Contains(t, err.Error(), "shape [1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 ... of 1048576 dimensions]")
	assert.Less(t, len(err.Error()), 300)
	assert.Less(t, len(e.String()), 300)
}

func TestElementsMustFitTheirShape(t *testing.T) {
	two := [][]byte{nil, {1}}
	tests := []struct {
		name string
		e    elements.Elements
		want error
	}{
		{"scalar", elements.Elements{Values: two[:1]}, nil},
		{"none", elements.Elements{Shape: []int64{0, math.MaxInt64}}, nil},
		{"with formats", elements.Elements{Shape: []int64{2, 1}, Values: two, Formats: []string{"png", ""}}, nil},
		{"too few", elements.Elements{Shape: []int64{3}, Values: two}, elements.ErrElements},
		{"too many", elements.Elements{Shape: []int64{0}, Values: two}, elements.ErrElements},
		{"a format missing", elements.Elements{Shape: []int64{2}, Values: two, Formats: []string{"png"}}, elements.ErrElements},
		{"a negative dimension", elements.Elements{Shape: []int64{-1}, Values: two}, layout.ErrNegative},
		{"more than 63 bits", elements.Elements{Shape: []int64{1 << 32, 1 << 31}, Values: two}, layout.ErrOverflow},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.want == nil {
				assert.NoError(t, test.e.Validate())
			} else {
				assert.ErrorIs(t, test.e.Validate(), test.want)
			}
		})
	}
}

func TestNilElementsAreAnError(t *testing.T) {
	var e *elements.Elements
	assert.ErrorIs(t, e.Validate(), elements.ErrElements)
	assert.ErrorContains(t, e.Validate(), "nil")
	assert.Equal(t, "<nil>", e.String())
}
