//go:build cgo

package tvmffi_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// The tests need a C compiler for the kernels in testdata, and the libtvm_ffi of the wheel apache-tvm-ffi;
// DLBRIDGE_TVM_FFI names its place.

var scratch string

const eventually, tick = 30 * time.Second, 10 * time.Millisecond

func TestMain(m *testing.M) {
	for _, file := range []string{"abi.h", "testdata/abi.c", "testdata/abi.cc", "testdata/kernels.c", "testdata/kernels.cc", "testdata/other.c"} { // so that `go test` runs again when they change
		if _, err := os.ReadFile(file); err != nil {
			panic(err)
		}
	}
	var err error
	if scratch, err = os.MkdirTemp("", "tvmffi"); err != nil {
		panic(err)
	}
	if flag.Parse(); os.Getenv(tvmffi.LibraryVariable) == "" { // Examples cannot skip themselves
		fmt.Fprintln(os.Stderr, "the examples are skipped:", tvmffi.LibraryVariable, "does not say where libtvm_ffi is")
		flag.Set("test.skip", strings.Trim(flag.Lookup("test.skip").Value.String()+"|^Example", "|"))
	}
	code := dlpacktest.Run(m)
	os.RemoveAll(scratch)
	os.Exit(code)
}

// constants has the constants of abi.h by name, because test code cannot use cgo.
var constants = sync.OnceValue(func() map[string]int32 {
	found := map[string]int32{}
	text, err := os.ReadFile("abi.h")
	if err != nil {
		panic(err)
	}
	for _, match := range regexp.MustCompile(`\b(FFI_\w+) = (\d+)`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseInt(match[2], 10, 32)
		if err != nil {
			panic(err)
		}
		found[match[1]] = int32(n)
	}
	return found
})

// constant returns a constant of abi.h.
func constant(name string) int32 {
	n, ok := constants()[name]
	if !ok {
		panic("abi.h has no " + name)
	}
	return n
}

func skipWithoutWheel(t testing.TB) {
	t.Helper()
	if os.Getenv(tvmffi.LibraryVariable) == "" {
		t.Skip(tvmffi.LibraryVariable + " does not say where libtvm_ffi is")
	}
}

// need loads the library, or skips the test.
func need(t testing.TB) {
	t.Helper()
	skipWithoutWheel(t)
	require.NoError(t, tvmffi.Load(""))
}

// kernels builds the module in testdata.
var kernels = sync.OnceValues(func() (string, error) { return buildKernels("kernels.so") })

func buildKernels(name string, flags ...string) (string, error) {
	file := filepath.Join(scratch, name)
	flags = append(flags, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC",
		"-I../../include", "-o", file, "testdata/kernels.c")
	out, err := exec.Command("cc", flags...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return file, err
}

// cxxKernels builds the module in testdata that is written with the headers of the wheel.
var cxxKernels = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "cxxkernels.so")
	out, err := exec.Command("c++", "-std=c++17", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-I"+filepath.Join(folder(), "..", "include"),
		"-o", file, "testdata/kernels.cc").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return file, err
})

func module(t testing.TB) *tvmffi.Module { return moduleOf(t, kernels) }

func moduleOf(t testing.TB, build func() (string, error)) *tvmffi.Module {
	t.Helper()
	need(t)
	file := must.Do(build())(t)
	m := must.Do(tvmffi.LoadModule(file))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

func function(t testing.TB, name string, options ...tvmffi.FunctionOption) *tvmffi.Function {
	t.Helper()
	return functionOf(t, module(t), name, options...)
}

func functionOf(t testing.TB, m *tvmffi.Module, name string, options ...tvmffi.FunctionOption) *tvmffi.Function {
	t.Helper()
	f := must.Do(m.Function(name, options...))(t)
	t.Cleanup(func() { f.Close() })
	return f
}
