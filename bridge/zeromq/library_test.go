//go:build cgo

package zeromq_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

// pathVariable is the environment variable of a child with the path of libzmq.
const pathVariable = "DLBRIDGE_TEST_LIBZMQ"

// These tests need a process that has not loaded the library, so they run in a child.
var children = map[string]func(t *testing.T){
	"load nothing": func(t *testing.T) {
		os.Unsetenv(zeromq.LibraryVariable)
		zeromq.Rename("libnothing.so.5")
		const want = "zeromq: libzmq cannot be loaded: libnothing.so.5: cannot open shared object file: No such file or directory; " +
			"install libzmq 4.2 or later (libzmq5 of Debian), or set DLBRIDGE_LIBZMQ to the path of libnothing.so.5"
		_, err := zeromq.NewContext()
		assert.ErrorIs(t, err, zeromq.ErrLibrary)
		assert.EqualError(t, err, want)
		_, err = zeromq.Version()
		assert.EqualError(t, err, want)
		assert.EqualError(t, zeromq.Errno(syscall.EINVAL), "invalid argument", "of the system")
	},
	"load what is no libzmq": func(t *testing.T) {
		fifo, text := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "text")
		require.NoError(t, syscall.Mkfifo(fifo, 0o600))
		require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("text", 100)), 0o600))
		const version = "void zmq_version(int *a, int *b, int *c) { *a = %d; *b = %d; *c = 9; }"
		empty := t.TempDir()
		for path, why := range map[string]string{
			"/nonexistent/libzmq.so":                "/nonexistent/libzmq.so: cannot open shared object file: No such file or directory",
			empty:                                   empty + "/libzmq.so.5: cannot open shared object file: No such file or directory",
			fifo:                                    "is not a regular file",
			text:                                    text + ": invalid ELF header",
			compiled(t, "int x;"):                   "undefined symbol: zmq_version",
			compiled(t, fmt.Sprintf(version, 4, 1)): "has version 4.1.9, want 4.2 or a later 4.x",
			compiled(t, fmt.Sprintf(version, 5, 3)): "has version 5.3.9, want 4.2 or a later 4.x",
			compiled(t, fmt.Sprintf(version, 4, 3)): "undefined symbol: zmq_strerror",
			compiled(t, "int x;", "-Wl,--no-as-needed", os.Getenv(pathVariable)): "is not libzmq, but a library that uses " + os.Getenv(pathVariable),
		} {
			err := zeromq.Load(path)
			assert.ErrorIs(t, err, zeromq.ErrLibrary)
			assert.ErrorContains(t, err, why)
			t.Setenv(zeromq.LibraryVariable, path)
			_, err = zeromq.NewContext()
			assert.ErrorIs(t, err, zeromq.ErrLibrary)
			assert.ErrorContains(t, err, "zeromq: libzmq cannot be loaded: DLBRIDGE_LIBZMQ: ")
			assert.ErrorContains(t, err, why+"; set the variable to the path of libzmq.so.5, or unset it")
		}
		assert.ErrorContains(t, zeromq.Load("libzmq.so.5\x00"), "contains a NUL")
		t.Setenv(zeromq.LibraryVariable, os.Getenv(pathVariable))
		newContext(t)
	},
	"load by file": func(t *testing.T) {
		t.Setenv(zeromq.LibraryVariable, "/nonexistent")
		path := os.Getenv(pathVariable)
		require.NoError(t, zeromq.Load(path))
		newContext(t)
		require.NoError(t, zeromq.Load(""), "it is there")
		require.NoError(t, zeromq.Load(path), "it is that one")
		err := zeromq.Load("/nonexistent")
		require.ErrorIs(t, err, zeromq.ErrLibrary)
		require.ErrorContains(t, err, "and cannot load /nonexistent as well")
	},
	"load by folder": func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "libzmq.so.5")
		require.NoError(t, os.WriteFile(file, must.Do(os.ReadFile(os.Getenv(pathVariable)))(t), 0o700))
		require.NoError(t, zeromq.Load(dir))
		require.Equal(t, file, zeromq.Path())
		newContext(t)
	},
	"load on many threads": func(t *testing.T) {
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				if i%2 == 0 {
					_, err := zeromq.Version()
					assert.NoError(t, err)
				}
				c, err := zeromq.NewContext()
				if assert.NoError(t, err) {
					assert.NoError(t, c.Close())
				}
			})
		}
		group.Wait()
	},
}

// compiled compiles a C library and returns its path.
func compiled(t *testing.T, source string, flags ...string) string {
	file := filepath.Join(t.TempDir(), "library.so")
	require.NoError(t, os.WriteFile(file+".c", []byte(source), 0o600))
	out, err := exec.Command("cc", append([]string{"-shared", "-fPIC", "-o", file, file + ".c"}, flags...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	return file
}

func TestLoadingLibzmq(t *testing.T) {
	if name := os.Getenv(otherVariable); name != "" {
		children[name](t)
		return
	}
	for name := range children {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(os.Args[0], "-test.run=^TestLoadingLibzmq$", "-test.v")
			command.Env = append(os.Environ(), otherVariable+"="+name)
			if name != "load nothing" {
				zeromq.Need(t)
				command.Env = append(command.Env, pathVariable+"="+zeromq.Path())
			}
			t.Parallel()
			out, err := command.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

// A libzmq without the draft API makes CLIENT and SERVER sockets, but lacks the functions for them. The tests in
// peers/drafts use a libzmq with the draft API.
func TestClientAndServerNeedTheDraftAPI(t *testing.T) {
	c := newContext(t)
	symbols := must.Do(must.Do(elf.Open(zeromq.Path()))(t).DynamicSymbols())(t)
	drafts := slices.ContainsFunc(symbols, func(symbol elf.Symbol) bool { return symbol.Name == "zmq_msg_routing_id" })
	for _, kind := range []zeromq.Type{zeromq.Client, zeromq.Server} {
		_, err := c.NewSocket(kind)
		if drafts {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, zeromq.ErrDrafts)
		require.EqualError(t, err, "zeromq: socket: CLIENT and SERVER: libzmq has no draft API: "+zeromq.Path()+" lacks this API; set DLBRIDGE_LIBZMQ to "+
			"libzmq 4.3.2 or later that is built with it (cmake -DENABLE_DRAFTS=ON)")
	}
}

// A program builds and starts without libzmq.
func TestLibzmqIsNotLinked(t *testing.T) {
	file, err := elf.Open(os.Args[0])
	if err != nil {
		t.Skip(err)
	}
	defer file.Close()
	for _, name := range must.Do(file.ImportedLibraries())(t) {
		assert.NotContains(t, name, "zmq")
	}
}

// The compiler compares abi.h with zmq.h.
func TestABIAgreesWithLibzmqs(t *testing.T) {
	if out, err := exec.Command("cc", "-E", "-include", "zmq.h", "-x", "c", os.DevNull).CombinedOutput(); err != nil {
		t.Skip("zmq.h is not installed: " + string(out))
	}
	var ours, same strings.Builder
	names := regexp.MustCompile(`\b(ZMQ_\w+|EFSM) = `).FindAllSubmatch(must.Do(os.ReadFile("abi.h"))(t), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		fmt.Fprintf(&ours, "enum { our_%[1]s = %[1]s };\n", name[1])
		fmt.Fprintf(&same, "_Static_assert(our_%[1]s == %[1]s, \"%[1]s\");\n", name[1])
	}
	source := "#define zmq_msg_t our_msg_t\n#define zmq_free_fn our_free_fn\n#include \"abi.h\"\n#undef zmq_msg_t\n#undef zmq_free_fn\n" + ours.String() +
		"#include <zmq.h>\n" + same.String() +
		"_Static_assert(sizeof(our_msg_t) == sizeof(zmq_msg_t) && _Alignof(our_msg_t) == _Alignof(zmq_msg_t), \"zmq_msg_t\");\n" +
		"#define SAME(result, name, parameters, arguments) result(*const our_##name) parameters = zmq_##name;\n" +
		"ZMQ_FUNCTIONS(SAME)\nZMQ_DRAFT_FUNCTIONS(SAME)\n"
	command := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-DZMQ_BUILD_DRAFT_API", "-I.", "-fsyntax-only", "-x", "c", "-")
	command.Stdin = strings.NewReader(source)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
}
