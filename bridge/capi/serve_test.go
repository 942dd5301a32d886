package capi_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// dlbError is the dlb_error of dlbridge.h.
type dlbError struct {
	code    int32
	message [508]byte
}

func (e *dlbError) text() string {
	text, _, _ := bytes.Cut(e.message[:], []byte{0})
	return string(text)
}

// Codes of dlbridge.h.
const (
	codeOK       = 0
	codeNull     = 1
	codeDType    = 3
	codeLayout   = 5
	codeReadOnly = 7
	codeMemory   = 9
	codeArgument = 11
	codeInternal = 13
	codeFunction = 15
)

type served = func(in ...*dlpack.Tensor) (*dlpack.Tensor, error)

func exported(t *testing.T, values ...float32) unsafe.Pointer {
	return must.Do(dlpack.ExportSlice(values))(t)
}

func TestServeImportsArgumentsAndExportsTheResult(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	a, b := []float32{1, 2, 3}, []float32{10, 20, 30}
	var e dlbError
	add := func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
		x := must.Do(dlpack.Values[float32](in[0]))(t)
		y := must.Do(dlpack.Values[float32](in[1]))(t)
		for i := range x {
			x[i] += y[i]
		}
		return in[0], nil
	}
	m := capi.Serve(add, unsafe.Pointer(&e), exported(t, a...), exported(t, b...))
	require.NotNil(t, m)
	assert.Equal(t, dlbError{}, e)
	sum := must.Do(dlpack.Import(m))(t)
	defer sum.Close()
	assert.Equal(t, uintptr(unsafe.Pointer(&a[0])), sum.Data())
	assert.Equal(t, []float32{11, 22, 33}, a)
}

func TestServeReturnsNullWithoutAnErrorForNoResult(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	e := dlbError{code: 99, message: [508]byte{'x'}}
	assert.Nil(t, capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, nil }, unsafe.Pointer(&e), exported(t, 1)))
	assert.EqualValues(t, codeOK, e.code)
	assert.Empty(t, e.text())
}

func TestServeReportsErrorsAndPanics(t *testing.T) {
	none := func(err error) served {
		return func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, err }
	}
	panics := func(value any) served {
		return func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic(value) }
	}
	long := strings.Repeat("é", 400)
	for name, c := range map[string]struct {
		f    served
		code int32
		text string
	}{
		"an error of its own":   {none(errors.New("no such model")), codeFunction, "no such model"},
		"a value":               {none(fmt.Errorf("k is %d: %w", -1, dlpack.ErrValue)), codeArgument, "k is -1: invalid value"},
		"a type":                {none(fmt.Errorf("int8: %w", dlpack.ErrDType)), codeDType, "int8: unsupported data type"},
		"a layout":              {none(fmt.Errorf("no matrix: %w", dlpack.ErrLayout)), codeLayout, "no matrix: unsupported layout"},
		"read-only":             {none(dlpack.ErrReadOnly), codeReadOnly, "read-only"},
		"memory":                {none(dlpack.ErrMemory), codeMemory, "out of memory"},
		"closed":                {none(dlpack.ErrClosed), codeArgument, "closed"},
		"a panic":               {panics("oh"), codeInternal, "dlbridge: panic: oh"},
		"an index":              {func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[1], nil }, codeInternal, "dlbridge: panic: runtime error: index out of range [1] with length 1"},
		"a nil pointer":         {func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, errors.New(*(*string)(nil)) }, codeInternal, "dlbridge: panic: runtime error: invalid memory address or nil pointer dereference"},
		"no function":           {nil, codeInternal, "dlbridge: panic: runtime error: invalid memory address or nil pointer dereference"},
		"panic(nil)":            {panics(nil), codeInternal, "dlbridge: panic: panic called with nil argument"},
		"a text with a NUL":     {none(errors.New("a\x00b")), codeFunction, `a\x00b`},
		"a text that is cut":    {none(errors.New(long)), codeFunction, long[:506]},
		"a result and an error": {func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[0], errors.New("both") }, codeFunction, "both"},
		"a closed result":       {func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { in[0].Close(); return in[0], nil }, codeArgument, "dlpack: export: the tensor is closed"},
	} {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			var e dlbError
			assert.Nil(t, capi.Serve(c.f, unsafe.Pointer(&e), exported(t, 1)))
			assert.Equal(t, c.text, e.text())
			assert.Equal(t, c.code, e.code)
			assert.Nil(t, capi.Serve(c.f, nil, exported(t, 1)), "without a dlb_error")
		})
	}
}

// The value of a panic is nil then, as if there were none.
func TestServeReportsAPanicWithNil(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	t.Setenv("GODEBUG", "panicnil=1")
	e := dlbError{code: 99}
	assert.Nil(t, capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic(nil) }, unsafe.Pointer(&e), exported(t, 1)))
	assert.Equal(t, "dlbridge: panic: <nil>", e.text())
	assert.EqualValues(t, codeInternal, e.code)
}

// Arguments that cannot be imported are released, and so are those beside them.
func TestServeTakesOverAllArguments(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	never := func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic("called") }
	var e dlbError
	assert.Nil(t, capi.Serve(never, unsafe.Pointer(&e), exported(t, 1), nil, exported(t, 2)))
	assert.EqualValues(t, codeNull, e.code)
	assert.Equal(t, "dlbridge: argument 2: tensor is NULL", e.text())

	released := exported(t, 3)
	dlpack.Release(released)
	assert.Nil(t, capi.Serve(never, unsafe.Pointer(&e), released, exported(t, 4)))
	assert.EqualValues(t, codeArgument, e.code)
	assert.Contains(t, e.text(), "argument 1: ")
}

// A Go function that is called in a forked child refuses, and takes its arguments over as always.
func TestServeRefusesInAForkedChild(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	plugin := filepath.Join(t.TempDir(), "libserved.so")
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-o", plugin, "./testdata/served")
	program := compile(t, "cc", "forked.c", append(append(slices.Clone(c11), linked(dir, "dlbridge_tensor")...), "-ldl")...)
	run(t, nil, nil, program, plugin)
}
