//go:build cgo

package capi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// The table of addresses is shared with the tests of package dlpack.
func TestDataLiesWhereMemoryCanBe(t *testing.T) {
	file := must.Do(os.ReadFile("../../dlpack/testdata/addresses.json"))(t)
	var cases []struct {
		Name, Data, Offset string
		Shape, Strides     []int64
		Good               bool
	}
	require.NoError(t, json.Unmarshal(file, &cases))
	var lines bytes.Buffer
	for _, c := range cases {
		strided, good := 0, 0
		if c.Strides != nil {
			strided = 1
		}
		if c.Good {
			good = 1
		}
		fmt.Fprintln(&lines, c.Data, c.Offset, len(c.Shape), words(c.Shape), strided, words(c.Strides), good, c.Name)
	}
	program := compile(t, "cc", "address.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	run(t, sanitized, lines.Bytes(), program)
	for _, function := range []string{"decode", "make", "make a part", "encode", "encode a tensor", "elements", "formats", "no elements", "room", "rules"} {
		t.Run("no bytes for "+function, func(t *testing.T) { // each in a new process, in which the stack of Go is still small
			run(t, sanitized, nil, program, function)
		})
	}
}

func words(numbers []int64) (s string) {
	for _, n := range numbers {
		s += fmt.Sprint(n, " ")
	}
	return s
}
