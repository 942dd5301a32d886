//go:build cgo

package dlpack

import (
	"fmt"
	"log/slog"
)

// mostLogged is the length of the longest text of a tensor in a log line. With the quotes around it, that is 200 bytes.
const mostLogged = 198

// LogValue implements [slog.LogValuer]: in a log line a tensor is the text of [Tensor.String], without the elements. The text takes at
// most 200 bytes: if shape or strides are too long, only their first and last number are written. A tensor in a slice, a map or an
// exported field of a struct has the same text: slog.TextHandler prints it with %+v, and slog.JSONHandler with [Tensor.MarshalText]. For
// a tensor in an unexported field, slog.TextHandler writes an address, and slog.JSONHandler writes nothing.
func (t *Tensor) LogValue() slog.Value {
	text := t.String()
	if len(text) > mostLogged {
		text = t.describedBy(func(sizes []int64) string {
			if len(sizes) < 3 {
				return fmt.Sprint(sizes)
			}
			return fmt.Sprintf("[%d ... %d]", sizes[0], sizes[len(sizes)-1])
		})
	}
	return slog.StringValue(text)
}

// MarshalText implements [encoding.TextMarshaler]: in JSON a tensor is the text of [Tensor.LogValue], even inside a
// slice or a struct. It is for logs: the text lacks the elements, and nothing decodes it. It never fails.
func (t *Tensor) MarshalText() ([]byte, error) { return []byte(t.LogValue().String()), nil }

// LogValue implements [slog.LogValuer]: in a log line the counters are a group.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("exports", s.Exports),
		slog.Int64("imports", s.Imports),
		slog.Int64("allocations", s.Allocations),
		slog.Int64("foreign_bytes", s.ForeignBytes),
		slog.Int64("pinned_bytes", s.PinnedBytes),
		slog.Int64("double_deletes", s.DoubleDeletes),
		slog.Int64("forgotten", s.Forgotten),
	)
}
