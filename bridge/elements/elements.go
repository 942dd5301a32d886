package elements

import (
	"fmt"
	"log/slog"

	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// Elements is a tensor of byte strings. It is for elements that have no DLPack data type: strings, media, quantised
// numbers, resources and variants.
type Elements struct {
	// Type is the format's own name for the element type, such as string, image or qint8.
	Type string
	// Shape has the size of each dimension, the slowest first. A scalar has none.
	Shape []int64
	// Values has the bytes of each element in row-major order. The number of values is the product of Shape. Decoded
	// values alias the input. Copy them before you write to them, or if you keep them longer than the input.
	Values [][]byte
	// Formats has the media format of each element, such as png or mp3, if Type is a media type. Otherwise it is nil.
	Formats []string
}

// Validate returns an error unless the number of values is the product of Shape. If there are formats, their number
// must also be that product.
//
// Errors, without a prefix: [ErrElements], also for a nil receiver, and those of [layout.Count].
func (e *Elements) Validate() error {
	if e == nil {
		return fmt.Errorf("%w: the Elements are nil", ErrElements)
	}
	n, err := layout.Count(e.Shape)
	if err != nil {
		return fmt.Errorf("shape %s: %w", errtext.Shape(e.Shape), err)
	}
	if int64(len(e.Values)) != n {
		return fmt.Errorf("%w: %d values for shape %s", ErrElements, len(e.Values), errtext.Shape(e.Shape))
	}
	if e.Formats != nil && len(e.Formats) != len(e.Values) {
		return fmt.Errorf("%w: %d formats for %d values", ErrElements, len(e.Formats), len(e.Values))
	}
	return nil
}

// String returns the type and the shape, such as image[2 3].
func (e *Elements) String() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%.40s%s", e.Type, errtext.Shape(e.Shape))
}

// LogValue implements [slog.LogValuer]: a log line shows the text that [Elements.String] returns, without the values.
func (e *Elements) LogValue() slog.Value { return slog.StringValue(e.String()) }
