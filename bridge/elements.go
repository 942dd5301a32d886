package bridge

import (
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// ErrElements: elements that are not as many as their shape says.
var ErrElements = errors.New("elements do not fit their shape")

// Elements is a tensor whose elements DLPack has no data type for: strings, media, handles, quantised
// numbers. Packages decthings and tensorflow read and write it.
type Elements struct {
	// Type is the format's own name of the element type, such as string, image or qint8.
	Type string
	// Shape has the sizes of the dimensions, the slowest first. A scalar has none.
	Shape []int64
	// Values has the bytes of each element, row-major: as many as the product of Shape. What was read
	// aliases its input, so that it must be copied to outlive it or to be written to.
	Values [][]byte
	// Formats has the media format of each element (png, mp3), where the type is one of media, and is
	// nil for every other type.
	Formats []string
}

// Validate tells whether there are as many values, and formats unless there are none, as the shape says.
//
// Errors, without a prefix: [ErrElements], also for nil, and those of [layout.Count].
func (e *Elements) Validate() error {
	if e == nil {
		return fmt.Errorf("%w: they are nil", ErrElements)
	}
	n, err := layout.Count(e.Shape)
	if err != nil {
		return fmt.Errorf("shape %s: %w", payload.Shape(e.Shape), err)
	}
	if int64(len(e.Values)) != n {
		return fmt.Errorf("%w: %d values for shape %s", ErrElements, len(e.Values), payload.Shape(e.Shape))
	}
	if e.Formats != nil && len(e.Formats) != len(e.Values) {
		return fmt.Errorf("%w: %d formats for %d values", ErrElements, len(e.Formats), len(e.Values))
	}
	return nil
}

// String describes the elements: `image[2 3]`.
func (e *Elements) String() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%.40s%s", e.Type, payload.Shape(e.Shape))
}
