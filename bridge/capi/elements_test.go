//go:build cgo

package capi_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A session has the input of elements_vectors.c and the expected output. The output is that of the Go packages, which have
// tests of their own against the manifests.
type session struct {
	script      bytes.Buffer
	want, names []string
}

func (s *session) expect(name, format string, args ...any) {
	s.names = append(s.names, name)
	s.want = append(s.want, fmt.Sprintf(format, args...))
}

func (s *session) run(t *testing.T) {
	program := compile(t, "cc", "elements_vectors.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	out := run(t, sanitized, s.script.Bytes(), program)
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, got, len(s.want))
	for i, want := range s.want {
		if want == "refused" {
			// C returns the error text of Go with the code for malformed input.
			assert.True(t, strings.HasPrefix(got[i], "refused format "), "%s: %s", s.names[i], got[i])
			continue
		}
		// C has the text of Go with ways out in its own words. Errors of protobuf contain one of two kinds of spaces at random.
		assert.Equal(t, strings.ReplaceAll(errtext.InC(want), "\u00a0", " "), strings.ReplaceAll(got[i], "\u00a0", " "), s.names[i])
	}
}

func hexOf(b []byte) string {
	if len(b) == 0 {
		return "-"
	}
	return hex.EncodeToString(b)
}

// tensorLine formats a tensor as elements_vectors.c does. at is the offset of the elements in the frame, or -1.
func tensorLine(dt dlpack.DataType, shape []int64, elems []byte, at int, size int) string {
	align := dt.ItemSize()
	if dt.Code() == dlpack.CodeComplex {
		align /= 2
	}
	var flags dlpack.Flags
	if dt.IsSubByte() {
		flags |= dlpack.SubbytePadded
	}
	if at < 0 || at%align != 0 {
		at = -1
		flags |= dlpack.IsCopied
	}
	if len(elems) == 0 {
		at = -1
		flags &^= dlpack.IsCopied
	}
	return fmt.Sprintf("tensor %d %d %d %d at %d shape%s %s size %d", dt.Code(), dt.Bits(), dt.Lanes(), flags, at,
		spaced(shape), hexOf(elems), size)
}

func spaced(shape []int64) (s string) {
	for _, n := range shape {
		s += fmt.Sprint(" ", n)
	}
	return s
}

func elementsLine(e *elements.Elements, at func([]byte) int, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "elements %s shape%s values", e.Type, spaced(e.Shape))
	for i, value := range e.Values {
		b.WriteString(" " + hexOf(value))
		if e.Formats != nil {
			b.WriteString(" " + hexOf([]byte(e.Formats[i])))
		}
		fmt.Fprintf(&b, " at %d", at(value))
	}
	fmt.Fprintf(&b, " size %d", size)
	return b.String()
}

// placeIn returns the offset of bytes in data, as elements_vectors.c prints it.
func placeIn(data []byte) func([]byte) int {
	return func(part []byte) int {
		if len(part) == 0 {
			return -1
		}
		for at := range data {
			if &data[at] == &part[0] {
				return at
			}
		}
		return -1
	}
}

// lineOf returns what elements_vectors.c prints for a value of size bytes in data.
func lineOf(v *formats.View, data []byte, size int) string {
	if v.Elements != nil {
		return elementsLine(v.Elements, placeIn(data), size)
	}
	at := -1
	if v.Aliases {
		at = placeIn(data)(v.Data)
	}
	return tensorLine(v.DType, v.Shape, v.Data, at, size)
}

func TestVectorsOfFormatsInC(t *testing.T) {
	for _, f := range valueFormats() {
		t.Run(f.Name(), func(t *testing.T) {
			if f.InC.Vectors == nil {
				t.Skip("no other program writes the format")
			}
			var s session
			all := f.InC.Vectors(t)
			for _, v := range all {
				data := read(t, v.File)
				if v.Counts == nil {
					s.one(t, f, &v, data)
				}
				for _, count := range v.Counts {
					s.stream(t, f, &v, data, count)
				}
			}
			require.Greater(t, len(s.want), len(all), "most vectors are written again")
			s.run(t)
		})
	}
}

func (s *session) one(t *testing.T, f *formats.Format, v *formats.Vector, data []byte) {
	fmt.Fprintf(&s.script, "%s %d %s\n", f.Name(), v.Options, v.File)
	view, err := f.InC.DecodeView(data, v.Options)
	assert.Equal(t, v.Refused, err != nil, v.Name)
	if err != nil {
		s.expect(v.Name, "refused format %v", err)
		return
	}
	s.expect(v.Name, "%s", lineOf(&view, data, len(data)))
	for _, written := range v.Written {
		s.expect(v.Name, "written %s", written)
	}
}

func (s *session) stream(t *testing.T, f *formats.Format, v *formats.Vector, data []byte, count int) {
	fmt.Fprintf(&s.script, "%s_batch %d %d %s\n", f.Name(), v.Options, count, v.File)
	at := 0
	for _, end := range v.Ends {
		view, n, err := f.InC.DecodeFirst(data[at:], v.Options)
		require.NoError(t, err)
		s.expect(v.Name, "%s", lineOf(&view, data, n))
		at += n
		require.Equal(t, end, at)
	}
	if at < len(data) {
		s.expect(v.Name, "refused")
	}
}
