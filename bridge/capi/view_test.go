//go:build cgo

package capi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/viewtest"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// The numbers of errors and kinds in dlbridge.h, for the cases of views.c.
const (
	errorLayout, errorOverflow, errorArgument = 5, 6, 11

	indexStart, indexStop, indexAt, indexEllipsis, indexNewAxis = 1, 2, 4, 8, 16
)

// viewCases are random views in Go, which views.c makes too. A line has the operation, the shape, the strides, the
// offset and the flags of the tensor, the arguments, and the code; after code 0 also shape, strides, offset and flags
// of the view. A list begins with its length.
func viewCases(t testing.TB) string {
	r := rand.New(rand.NewPCG(17, 3))
	choices := make([]byte, 64)
	var cases strings.Builder
	memory := make([]byte, 4*8192)
	for range 4000 {
		shape, strides := viewtest.Random(r)
		low, _, err := layout.Span(shape, strides)
		require.NoError(t, err)
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		c := viewtest.Choices(choices)
		v := c.View(viewtest.Of(layout.Layout{Shape: shape, Strides: strides, Offset: -low}))
		args, ok := viewArguments(t, v)
		if !ok {
			continue
		}
		spec := dlpack.Spec{DType: dlpack.Float32, Shape: shape, Strides: strides, ByteOffset: -4 * low, ReadOnly: r.IntN(4) == 0}
		base := must.Do(dlpack.FromBytes(memory, spec))(t)
		line := []any{v.Method, list(shape), list(strides), -low, uint64(base.Flags()), list(args)}
		results := v.Call(base)
		view := results[0].(*dlpack.Tensor)
		if err, _ := results[1].(error); err != nil {
			line = append(line, viewCode(err))
		} else {
			l, offset := view.Layout(), int64(0)
			if n, err := l.Count(); n > 0 {
				require.NoError(t, err)
				offset = int64(view.Data()-base.Data()) / 4
			}
			line = append(line, 0, list(l.Shape), list(l.Strides), offset, uint64(view.Flags()))
			view.Close()
		}
		base.Close()
		fmt.Fprintln(&cases, line...)
	}
	return cases.String()
}

// list returns the length of a list and its numbers.
func list(n []int64) string { return strings.TrimSpace(fmt.Sprint(len(n), " ", numbers(n))) }

func viewCode(err error) int {
	switch {
	case errors.Is(err, layout.ErrOverflow):
		return errorOverflow
	case slices.ContainsFunc([]error{layout.ErrIndex, layout.ErrAxis, layout.ErrOrder, layout.ErrRank},
		func(cause error) bool { return errors.Is(err, cause) }):
		return errorArgument
	}
	return errorLayout
}

// viewArguments returns the arguments of a view in C, four numbers for each index of a slice, or false if C has no such view.
func viewArguments(t testing.TB, v viewtest.View) (args []int64, ok bool) {
	switch arg := v.Args[0].(type) {
	case []int64:
		return arg, true
	case []int:
		for _, d := range arg {
			args = append(args, int64(d))
		}
		return args, true
	case []layout.Index:
		for _, x := range arg {
			args = append(args, indexNumbers(t, x.String())...)
		}
		return args, len(arg) <= 8
	}
	return nil, false
}

// indexNumbers returns start, stop, step and kind of an index in Python's notation.
func indexNumbers(t testing.TB, text string) []int64 {
	kind, numbers := int64(0), []int64{0, 0, 1}
	switch {
	case text == "...":
		kind = indexEllipsis
	case text == "None":
		kind = indexNewAxis
	default:
		parts := strings.Split(text, ":")
		kinds := []int64{indexStart, indexStop, 0}
		if len(parts) == 1 {
			kinds[0] = indexAt
		}
		for k, part := range parts {
			if part != "" {
				n := must.Do(strconv.ParseInt(part, 10, 64))(t)
				numbers[k], kind = n, kind|kinds[k]
			}
		}
	}
	return append(numbers, kind)
}

var viewCasesOnce sync.Once

// viewCasesFile writes viewCases to a file.
func viewCasesFile(t testing.TB) string {
	file := filepath.Join(scratch, "view_cases")
	viewCasesOnce.Do(func() { require.NoError(t, os.WriteFile(file, []byte(viewCases(t)), 0o600)) })
	return file
}

// The library makes the same views as Go. They share the memory, and release it once.
func TestViewsOfTheLibrary(t *testing.T) {
	program := compile(t, "cc", "views.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	run(t, sanitized, nil, program, viewCasesFile(t))
}
