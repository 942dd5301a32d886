//go:build cgo

package tvmffi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/tvmffi"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// These tests need a process that has not loaded the library, so they run in a child.
var children = map[string]func(t *testing.T){
	// Go's handler for SIGSEGV is restored after the library has replaced it.
	"nil dereference after loading": func(t *testing.T) {
		require.NoError(t, tvmffi.Load(""))
		file := must.Do(kernels())(t)
		m := must.Do(tvmffi.LoadModule(file))(t)
		defer m.Close()
		defer func() {
			assert.ErrorContains(t, recover().(error), "nil pointer dereference")
		}()
		var nothing *struct{ field int }
		nothing.field++
	},
	"results outlive their module": func(t *testing.T) {
		file := must.Do(kernels())(t)
		m := must.Do(tvmffi.LoadModule(file))(t)
		f := must.Do(m.Function("make"))(t)
		x := must.Do(tvmffi.As[*dlpack.Tensor](f.Call(100)))(t)
		f.Close()
		m.Close()
		require.NoError(t, x.Close(), "its deleter is in the library")
	},
	"load by file": func(t *testing.T) {
		file := filepath.Join(folder(), "libtvm_ffi.so")
		t.Setenv(tvmffi.LibraryVariable, "/nonexistent")
		require.NoError(t, tvmffi.Load(file))
		assert.True(t, same(t, file, tvmffi.Path()))
	},
	"load by folder": func(t *testing.T) {
		dir := folder()
		t.Setenv(tvmffi.LibraryVariable, "/nonexistent")
		require.NoError(t, tvmffi.Load(dir))
		assert.True(t, same(t, filepath.Join(dir, "libtvm_ffi.so"), tvmffi.Path()))
		assert.NoError(t, tvmffi.Load(""), "it is there")
		assert.NoError(t, tvmffi.Load(dir), "it is that one")
		err := tvmffi.Load(filepath.Join(dir, "libtvm_ffi_testing.so"))
		assert.ErrorIs(t, err, tvmffi.ErrLibrary, "and there cannot be another one")
	},
	"load by the environment": func(t *testing.T) {
		assert.Empty(t, tvmffi.Path(), "nothing is loaded before it is needed")
		must.Own(tvmffi.Global("ffi.String"))(t)
		assert.True(t, same(t, filepath.Join(folder(), "libtvm_ffi.so"), tvmffi.Path()))
	},
	"load by the loader": func(t *testing.T) {
		os.Unsetenv(tvmffi.LibraryVariable)
		t.Setenv("PATH", "/nonexistent")
		require.NoError(t, tvmffi.Load(""))
	},
	"load by python": func(t *testing.T) {
		site, dir := filepath.Dir(filepath.Dir(folder())), t.TempDir() // a python3 that has the package
		os.Unsetenv(tvmffi.LibraryVariable)
		script := "#!/bin/sh\nPYTHONPATH='" + site + "' exec " + ok(exec.LookPath("python3")) + " \"$@\"\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755))
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		require.NoError(t, tvmffi.Load(""))
		assert.True(t, same(t, filepath.Join(site, "tvm_ffi", "lib", "libtvm_ffi.so"), tvmffi.Path()))
	},
	// It may have another ABI. None of its functions may be called, because a call would end the process.
	"load another version": func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "libtvm_ffi.so")
		out, err := exec.Command("cc", "-shared", "-fPIC", "-I../../include", "-o", other, "testdata/other.c").CombinedOutput()
		require.NoError(t, err, string(out))
		refused := other + " has version 0.2.0, want 0.1.x"
		err = tvmffi.Load(other)
		assert.ErrorIs(t, err, tvmffi.ErrLibrary)
		assert.ErrorContains(t, err, refused)
		assert.Empty(t, tvmffi.Path())
		_, err = tvmffi.Global("ffi.String")
		assert.ErrorContains(t, err, refused, "it stays in the process, and stays refused")
		status := tvmffi.Serve(func(tvmffi.Args) (any, error) {
			t.Error("the handler reads arguments of another form")
			return nil, nil
		}, nil, 0, unsafe.Pointer(new(ffiAny)))
		assert.EqualValues(t, -1, status)
		defer func() {
			assert.ErrorContains(t, recover().(error), "nil pointer dereference", "Go's handler is back")
		}()
		var nothing *struct{ field int }
		nothing.field++
	},
	"load nothing": func(t *testing.T) {
		file := must.Do(kernels())(t)
		for name, err := range map[string]error{
			"a file that is not there": tvmffi.Load("/nonexistent/libtvm_ffi.so"),
			"a folder without it":      tvmffi.Load(t.TempDir()),
			"another library":          tvmffi.Load(file),
		} {
			assert.ErrorIs(t, err, tvmffi.ErrLibrary, name)
		}
		t.Setenv(tvmffi.LibraryVariable, "/nonexistent")
		err := tvmffi.Load("")
		assert.ErrorIs(t, err, tvmffi.ErrLibrary)
		assert.ErrorContains(t, err, tvmffi.LibraryVariable, "no other place is tried behind one that was named")
		assert.ErrorContains(t, err, "; set the variable to the path of libtvm_ffi.so, or unset it")
		os.Unsetenv(tvmffi.LibraryVariable)
		t.Setenv("PATH", "/nonexistent")
		_, err = tvmffi.Global("ffi.String")
		assert.ErrorIs(t, err, tvmffi.ErrLibrary)
		assert.ErrorContains(t, err, "; install the wheel apache-tvm-ffi, or set "+tvmffi.LibraryVariable+" to the path of libtvm_ffi.so")
		assert.Empty(t, tvmffi.Path())
		assert.ErrorIs(t, tvmffi.LoadRuntime(""), tvmffi.ErrLibrary)
	},
}

func folder() string {
	dir := os.Getenv(tvmffi.LibraryVariable)
	if strings.HasSuffix(dir, ".so") {
		dir = filepath.Dir(dir)
	}
	return dir
}

func same(t *testing.T, a, b string) bool {
	one := must.Do(os.Stat(a))(t)
	other := must.Do(os.Stat(b))(t)
	return os.SameFile(one, other)
}

func TestLibraryInAProcessOfItsOwn(t *testing.T) {
	if name := os.Getenv("TVMFFI_CHILD"); name != "" {
		children[name](t)
		return
	}
	for name := range children {
		t.Run(name, func(t *testing.T) {
			if name != "load another version" { // this test needs no library
				skipWithoutWheel(t)
			}
			t.Parallel()
			command := exec.Command(os.Args[0], "-test.run=^TestLibraryInAProcessOfItsOwn$", "-test.v")
			command.Env = append(os.Environ(), "TVMFFI_CHILD="+name)
			if name == "load by the loader" {
				command.Env = append(command.Env, "LD_LIBRARY_PATH="+folder()+":"+os.Getenv("LD_LIBRARY_PATH"))
			}
			out, err := command.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "--- PASS: TestLibraryInAProcessOfItsOwn")
		})
	}
}

// The compiler compares the declarations in abi.h with those of the wheel.
func TestABIAgreesWithUpstreams(t *testing.T) {
	skipWithoutWheel(t) // does not load the library, so a wheel of another version can be compared
	upstream := filepath.Join(folder(), "..", "include")
	require.FileExists(t, filepath.Join(upstream, "tvm", "ffi", "c_api.h"))
	run := func(name string, args ...string) {
		out, err := exec.Command(name, args...).CombinedOutput()
		require.NoError(t, err, "%s %v\n%s", name, args, out)
	}
	run("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"+upstream, "testdata/abi.c")
	cells := filepath.Join(t.TempDir(), "abi")
	run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I"+upstream, "-o", cells, "testdata/abi.cc")
	run(cells)
	compared := string(must.Do(os.ReadFile("testdata/abi.c"))(t))
	require.NotEmpty(t, constants())
	for name := range constants() {
		assert.Contains(t, compared, "SAME_VALUE("+name+",", "abi.c does not compare it")
	}
}
