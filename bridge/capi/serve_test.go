//go:build cgo

package capi_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/bridge/elements"
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
	codeFormat   = 10
	codeArgument = 11
	codeInternal = 13
	codeFunction = 15
	codeSystem   = 16
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
	m := capi.Serve(add, capi.Tensors(exported(t, a...), exported(t, b...)), unsafe.Pointer(&e))
	require.NotNil(t, m)
	assert.Equal(t, dlbError{}, e)
	sum := must.Do(dlpack.Import(m))(t)
	defer sum.Close()
	assert.Equal(t, uintptr(unsafe.Pointer(&a[0])), sum.Data())
	assert.Equal(t, []float32{11, 22, 33}, a)
}

// A tensor and the dlb_error are both unsafe.Pointers: if they were swapped, an error would be written into the tensor.
func TestServeDoesNotCompileInAWrongOrder(t *testing.T) {
	t.Parallel()
	calls := map[string]bool{ // whether they compile
		"Serve(f, capi.Tensors(x), e)":               true,
		"Serve(f, capi.Tensors(x), nil)":             true,
		"Serve(f, capi.Tensors(x, y), e)":            true,
		"Serve(f, capi.Tensors(), e)":                true,
		"Serve(f, e, x)":                             false,
		"Serve(f, e, x, y)":                          false,
		"Serve(f, e)":                                false,
		"Serve(f, nil, x)":                           false,
		"Serve(f, nil, x, y)":                        false,
		"Serve(f, nil)":                              false,
		"Serve(f, x, e)":                             false,
		"Serve(f, x, y, e)":                          false,
		"Serve(f, nil, e)":                           false,
		"Serve(f, []unsafe.Pointer{x}, e)":           false,
		"Serve(f, e, capi.Tensors(x))":               false,
		"Serve(f, nil, capi.Tensors(x))":             false,
		"Serve(f, capi.Tensors(x))":                  false,
		"Serve(f, capi.Tensors(x), capi.Tensors(e))": false,
	}
	source := "package main\nimport (\"unsafe\"; \"github.com/dlbridge/dlbridge/bridge/capi\"; \"github.com/dlbridge/dlbridge/dlpack\")\n" +
		"func main() {}\nfunc calls(f func(...*dlpack.Tensor) (*dlpack.Tensor, error), x, y, e unsafe.Pointer) {\n"
	first := strings.Count(source, "\n") + 1
	order := slices.Sorted(maps.Keys(calls))
	for _, call := range order {
		source += "capi." + call + "\n"
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source+"}\n"), 0o600))
	output, err := exec.Command("go", "build", "-gcflags=-e", "-o", filepath.Join(dir, "main"), file).CombinedOutput()
	require.Error(t, err)
	for i, call := range order {
		refused := regexp.MustCompile(fmt.Sprintf(`main\.go:%d:\d+: (cannot use|not enough arguments|too many arguments)`, first+i)).Match(output)
		assert.Equal(t, !calls[call], refused, "%s\n%s", call, output)
	}
}

// For a tensor from C, the ledger names the exported function that calls Serve.
func TestTheLedgerNamesWhoServesATensor(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer dlpack.SetLedger(dlpack.SetLedger(true))
	look := func(...*dlpack.Tensor) (*dlpack.Tensor, error) {
		live := dlpack.Live()
		require.Len(t, live, 2)
		assert.Equal(t, dlpack.KindImport, live[1].Kind)
		assert.Contains(t, live[1].Caller().Function, "TestTheLedgerNamesWhoServesATensor")
		return nil, nil
	}
	capi.Serve(look, capi.Tensors(exported(t, 1)), nil)
}

func TestServeReturnsNullWithoutAnErrorForNoResult(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	e := dlbError{code: 99, message: [508]byte{'x'}}
	assert.Nil(t, capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, nil }, capi.Tensors(exported(t, 1)), unsafe.Pointer(&e)))
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
	frame := regexp.MustCompile(`\S*TestServeReportsErrorsAndPanics\.[\w.]+ \(capi/serve_test\.go:\d+\)$`)
	const place = "this function"
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
		"the system":            {none(&os.PathError{Op: "open", Path: "a", Err: syscall.ENOENT}), codeSystem, "open a: no such file or directory"},
		"a file cut short":      {none(fmt.Errorf("a: %w", elements.ErrTruncated)), codeFormat, "a: file cut short"},
		"closed":                {none(dlpack.ErrClosed), codeArgument, "closed"},
		"a panic":               {panics("oh"), codeInternal, "dlbridge: panic: oh\n  in " + place},
		"an index":              {func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[1], nil }, codeInternal, "dlbridge: panic: runtime error: index out of range [1] with length 1\n  in " + place},
		"a nil pointer":         {func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, errors.New(*(*string)(nil)) }, codeInternal, "dlbridge: panic: runtime error: invalid memory address or nil pointer dereference\n  in " + place},
		"no function":           {nil, codeInternal, "dlbridge: panic: runtime error: invalid memory address or nil pointer dereference"},
		"panic(nil)":            {panics(nil), codeInternal, "dlbridge: panic: panic called with nil argument\n  in " + place},
		"a text with a NUL":     {none(errors.New("a\x00b")), codeFunction, `a\x00b`},
		"a text that is cut":    {none(errors.New(long)), codeFunction, long[:506]},
		"a result and an error": {func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { return in[0], errors.New("both") }, codeFunction, "both"},
		"a closed result":       {func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) { in[0].Close(); return in[0], nil }, codeArgument, "dlpack: export: the tensor is closed"},
	} {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			var e dlbError
			assert.Nil(t, capi.Serve(c.f, capi.Tensors(exported(t, 1)), unsafe.Pointer(&e)))
			assert.Equal(t, c.text, frame.ReplaceAllString(e.text(), place))
			assert.Equal(t, c.code, e.code)
			assert.Nil(t, capi.Serve(c.f, capi.Tensors(exported(t, 1)), nil), "without a dlb_error")
		})
	}
}

// The error of package dlpack says which argument is wrong, however the function wraps it.
func TestServeNamesTheArgumentThatAnErrorIsAbout(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	refused := func(i int, format string) served {
		return func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
			_, err := dlpack.Values[int64](in[i])
			return nil, fmt.Errorf(format, err)
		}
	}
	const text = "the tensor has float32, want int64; dlb_tensor_convert makes a copy of that type"
	for format, want := range map[string]string{"%w": "tensor argument 2: " + text, "scale: %w": "scale: tensor argument 2: " + text} {
		var e dlbError
		assert.Nil(t, capi.Serve(refused(1, format), capi.Tensors(exported(t, 1), exported(t, 2)), unsafe.Pointer(&e)))
		assert.Equal(t, want, e.text())
		assert.EqualValues(t, codeDType, e.code)
	}
	var e dlbError
	view := func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
		v := must.Do(in[0].AsBytes())(t)
		defer v.Close()
		return nil, v.Require(dlpack.Int64, -1)
	}
	assert.Nil(t, capi.Serve(view, capi.Tensors(exported(t, 1)), unsafe.Pointer(&e)))
	assert.Equal(t, "dlpack: require: the tensor has uint8, want int64; dlb_tensor_convert makes a copy of that type", e.text(), "of no argument")
}

// The value of a panic is nil then, as if there were none.
func TestServeReportsAPanicWithNil(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	t.Setenv("GODEBUG", "panicnil=1")
	e := dlbError{code: 99}
	assert.Nil(t, capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic(nil) }, capi.Tensors(exported(t, 1)), unsafe.Pointer(&e)))
	assert.Regexp(t, `^dlbridge: panic: <nil>\n  in \S+ \(capi/serve_test.go:\d+\)$`, e.text())
	assert.EqualValues(t, codeInternal, e.code)
}

//go:noinline
func first(levels int, value any) { second(levels, value) }

//go:noinline
func second(levels int, value any) {
	if levels > 0 {
		second(levels-1, value)
		return
	}
	panic(value)
}

// The error of a panic says where it began.
func TestServeReportsThePlaceOfAPanic(t *testing.T) {
	const in = `\n  in github\.com/dlbridge/dlbridge/bridge/capi_test\.%s \(capi/serve_test\.go:\d+\)`
	three := fmt.Sprintf(in, "second") + fmt.Sprintf(in, "first") + fmt.Sprintf(in, `TestServeReportsThePlaceOfAPanic\.\S+`)
	huge := strings.Repeat("ö", 1<<20)
	for name, c := range map[string]struct {
		levels int
		value  any
		text   string // a regular expression
	}{
		"three frames":          {0, "oh", "oh" + three},
		"thousands of frames":   {10_000, errors.New("oh"), "oh(" + fmt.Sprintf(in, "second") + "){5}\n  …"},
		"a megabyte":            {0, huge, huge[:240] + "…" + fmt.Sprintf(in+in, "second", "first") + "\n  …"},
		"a megabyte of numbers": {0, make([]int, 1<<20), `a value of type \[\]int` + three},
		"a number":              {0, 7, "7" + three},
		"a type with String":    {0, dlpack.Float32, "float32" + three},
		"what is like frames":   {0, "a\n  in b", "a\n  in b" + three},
	} {
		t.Run(name, func(t *testing.T) {
			dlpacktest.CheckLeaks(t)
			var e dlbError
			f := func(...*dlpack.Tensor) (*dlpack.Tensor, error) { first(c.levels, c.value); return nil, nil }
			assert.Nil(t, capi.Serve(f, capi.Tensors(exported(t, 1)), unsafe.Pointer(&e)))
			assert.Regexp(t, "^dlbridge: panic: "+c.text+"$", e.text())
			assert.EqualValues(t, codeInternal, e.code)
		})
	}
}

// The report leaves out the functions of this library that are in the middle of the stack.
func TestServeReportsThePlaceOfAPanicWithinRead(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	var e dlbError
	capi.Serve(func(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
		return nil, dlpack.ReadStrided(in[0], func(dlpack.Strided[float32]) error { first(0, "oh"); return nil })
	}, capi.Tensors(exported(t, 1)), unsafe.Pointer(&e))
	const in = `\n  in \S+/bridge/capi_test\.%s \(capi/serve_test\.go:\d+\)`
	within := fmt.Sprintf(in, `TestServeReportsThePlaceOfAPanicWithinRead\.\S+`)
	assert.Regexp(t, "^dlbridge: panic: oh"+fmt.Sprintf(in+in, "second", "first")+within+within+"$", e.text())
}

// A fault in a function of the program has a place, too.
func TestServeReportsThePlaceOfAFault(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	var told any
	capi.OnPanic(func(value any, _ []byte) { told = value })
	defer capi.OnPanic(nil)
	var e dlbError
	capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) {
		return nil, errors.New(*(*string)(unsafe.Add(unsafe.Pointer(nil), 1<<20)))
	}, capi.Tensors(), unsafe.Pointer(&e))
	assert.Regexp(t, `^dlbridge: the memory at 0x1[0-9a-f]{5} cannot be accessed\n  in \S+TestServeReportsThePlaceOfAFault\.\S+ \(capi/serve_test\.go:\d+\)$`, e.text())
	assert.EqualValues(t, codeArgument, e.code)
	assert.Implements(t, (*runtime.Error)(nil), told)
}

// The hook receives the value of a panic and the whole stack. It is not called for errors, and a panic of its own is ignored.
func TestOnPanic(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	type value struct{ number int }
	var values []any
	var stacks []string
	call := func(f served) (text string) {
		var e dlbError
		assert.Nil(t, capi.Serve(f, capi.Tensors(exported(t, 1)), unsafe.Pointer(&e)))
		return e.text()
	}
	panics := func(...*dlpack.Tensor) (*dlpack.Tensor, error) { first(20, &value{7}); return nil, nil }
	capi.OnPanic(func(value any, stack []byte) { values, stacks = append(values, value), append(stacks, string(stack)) })
	defer capi.OnPanic(nil)
	without := call(panics)
	call(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { return nil, errors.New("no panic") })
	assert.Equal(t, []any{&value{7}}, values)
	assert.Equal(t, 21, strings.Count(stacks[0], "capi_test.second("))
	assert.Regexp(t, `capi_test\.first\(.*\n\t/.*/bridge/capi/serve_test\.go:\d+`, stacks[0])

	capi.OnPanic(func(any, []byte) { panic("of the hook") })
	assert.Equal(t, without, call(panics))
	capi.OnPanic(nil)
	assert.Equal(t, without, call(panics))
	assert.Len(t, values, 1)
}

// Threads may panic while another one sets the hook.
func TestOnPanicOnManyThreads(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	defer capi.OnPanic(nil)
	const threads, calls = 8, 50
	var told atomic.Int64
	count := func(any, []byte) { told.Add(1) }
	capi.OnPanic(count)
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for range calls {
				capi.OnPanic(count)
				capi.Serve(func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic("oh") }, capi.Tensors(), nil)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, threads*calls, told.Load())
}

// If some arguments cannot be imported, all arguments are released.
func TestServeTakesOverAllArguments(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	never := func(...*dlpack.Tensor) (*dlpack.Tensor, error) { panic("called") }
	var e dlbError
	assert.Nil(t, capi.Serve(never, capi.Tensors(exported(t, 1), nil, exported(t, 2)), unsafe.Pointer(&e)))
	assert.EqualValues(t, codeNull, e.code)
	assert.Equal(t, "dlbridge: tensor argument 2: tensor is NULL", e.text())

	released := exported(t, 3)
	dlpack.Release(released)
	assert.Nil(t, capi.Serve(never, capi.Tensors(released, exported(t, 4)), unsafe.Pointer(&e)))
	assert.EqualValues(t, codeArgument, e.code)
	assert.Contains(t, e.text(), "argument 1: ")
}

// C calls the functions of a Go library.
func TestAProgramCallsServedFunctions(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	plugin := filepath.Join(t.TempDir(), "libserved.so")
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-trimpath", "-o", plugin, "./testdata/served")
	for name, source := range map[string]string{
		"a forked child refuses, and takes the arguments over as always": "forked.c",
		"a panic has a place, and a hook":                                "panic.c",
	} {
		t.Run(name, func(t *testing.T) {
			program := compile(t, "cc", source, append(append(slices.Clone(c11), linked(dir, "dlbridge_tensor")...), "-ldl", "-lpthread")...)
			run(t, nil, nil, program, plugin)
		})
	}
}
