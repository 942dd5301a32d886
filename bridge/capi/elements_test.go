package capi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
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

func (s *session) run(t *testing.T, least int) {
	program := compile(t, "cc", "elements_vectors.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	out := run(t, sanitized, s.script.Bytes(), program)
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.GreaterOrEqual(t, len(s.want), least)
	require.Len(t, got, len(s.want))
	for i, want := range s.want {
		if want == "refused" {
			// C returns the error text of Go with the code for malformed input.
			assert.True(t, strings.HasPrefix(got[i], "refused format "), "%s: %s", s.names[i], got[i])
			continue
		}
		// Errors of protobuf contain one of two kinds of spaces at random.
		assert.Equal(t, strings.ReplaceAll(want, "\u00a0", " "), strings.ReplaceAll(got[i], "\u00a0", " "), s.names[i])
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

func decthingsLine(v *decthings.View, data []byte, size int) string {
	if v.Elements != nil {
		return elementsLine(v.Elements, placeIn(data), size)
	}
	return tensorLine(v.Type.DataType(), v.Shape, v.Data, placeIn(data)(v.Data), size)
}

func TestDecthingsVectorsInC(t *testing.T) {
	type manifest struct {
		vectors.Folder
		Tensors []struct {
			ID    string
			Files map[string]string
			Flags []string
		}
		Streams []struct {
			ID, Dialect, File string
			EndsAt            []int `json:"ends_at"`
		}
		Malformed []struct {
			ID, Expect, File string
			Dialects         []string
			Value            struct{ Consumed int }
		}
		Ambiguous []struct {
			ID, File string
			Readings map[string]json.RawMessage
		}
	}
	for _, m := range vectors.Read[manifest](t, "decthings") {
		var s session
		one := func(name, file, dialect string) {
			d, err := decthings.ParseDialect(dialect)
			require.NoError(t, err)
			path := filepath.Join(m.Dir(), file)
			fmt.Fprintf(&s.script, "decthings %d %s\n", d, path)
			data := read(t, path)
			v, err := decthings.DecodeView(data, d)
			if err != nil {
				s.expect(name, "refused format %v", err)
				return
			}
			s.expect(name, "%s", decthingsLine(&v, data, len(data)))
			s.expect(name, "written %x", data)
		}
		for _, v := range m.Tensors {
			for dialect, file := range v.Files {
				one(v.ID, file, dialect)
				assert.Equal(t, slices.Contains(v.Flags, "dim_over_int64"), strings.HasPrefix(s.want[len(s.want)-1], "refused"), v.ID)
			}
		}
		for _, v := range m.Ambiguous {
			for dialect := range v.Readings {
				one(v.ID, v.File, dialect)
				assert.Contains(t, s.want[len(s.want)-1], "written", v.ID)
			}
		}
		stream := func(name, file, dialect string, count int, ends []int) {
			d, err := decthings.ParseDialect(dialect)
			require.NoError(t, err)
			path := filepath.Join(m.Dir(), file)
			fmt.Fprintf(&s.script, "stream %d %d %s\n", d, count, path)
			data, at := read(t, path), 0
			for _, end := range ends {
				var v decthings.View
				n, err := v.DecodeFirst(data[at:], d)
				require.NoError(t, err)
				s.expect(name, "%s", decthingsLine(&v, data, n))
				at += n
				require.Equal(t, end, at)
			}
			if at < len(data) {
				s.expect(name, "refused")
			}
		}
		for _, v := range m.Malformed {
			for _, dialect := range v.Dialects {
				one(v.ID, v.File, dialect)
				assert.Contains(t, s.want[len(s.want)-1], "refused", v.ID)
				if v.Expect == "trailing" {
					stream(v.ID, v.File, dialect, 1, []int{v.Value.Consumed})
				}
			}
		}
		for _, v := range m.Streams {
			for _, count := range []int{1, 2, 1000} {
				stream(v.ID, v.File, v.Dialect, count, v.EndsAt)
			}
		}
		s.run(t, len(m.Tensors))
	}
}

func TestTensorFlowVectorsInC(t *testing.T) {
	type manifest struct {
		vectors.Folder
		Tensors []struct {
			ID, File string
			Writers  map[string]string
		}
		Malformed []struct{ ID, File string }
	}
	for _, m := range vectors.Read[manifest](t, "tensorflow") {
		var s session
		one := func(name, file string, how int, content, fields string) {
			path := filepath.Join(m.Dir(), file)
			fmt.Fprintf(&s.script, "tensorflow %d %s\n", how, path)
			data := read(t, path)
			var options []tensorflow.DecodeOption
			if how == 1 {
				options = append(options, tensorflow.Lenient())
			}
			v, err := tensorflow.DecodeView(data, options...)
			if err != nil {
				s.expect(name, "refused format %v", err)
				return
			}
			dt := v.DType.DataType()
			if how == 2 {
				dt = v.DType.Storage()
			}
			if dt == 0 {
				s.expect(name, "%s", elementsLine(v.AsElements(), placeIn(data), len(data)))
			} else {
				at := -1
				if v.Aliases {
					at = placeIn(data)(v.Data)
				}
				s.expect(name, "%s", tensorLine(dt, v.Shape, v.Data, at, len(data)))
			}
			s.expect(name, "written %s", content)
			s.expect(name, "written %s", fields)
		}
		for _, v := range m.Tensors {
			one(v.ID, v.File, 0, v.Writers["AsProtoTensorContent_hex"], v.Writers["AsProtoField_hex"])
		}
		for _, v := range m.Malformed {
			one(v.ID, v.File, 0, "", "")
			assert.Contains(t, s.want[len(s.want)-1], "refused", v.ID)
		}
		s.run(t, 3*len(m.Tensors)+len(m.Malformed))
	}
}
