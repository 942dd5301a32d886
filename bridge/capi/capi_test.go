//go:build cgo

package capi_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/dlbridge/dlbridge/bridge/capi" // the library that the programs are linked with
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/include"
	"github.com/dlbridge/dlbridge/tens"
)

// The tests are C programs in testdata. Each program makes its own checks, and exits with 0 or prints an error. The
// tests need a C compiler.

const (
	headers = "../../include"
	core    = "../../dlpack/internal/core"
	// ofFormats are the programs of what only one format does.
	ofFormats = "../*/testdata/capi_*.c"
)

var (
	folders = []string{"-I" + headers, "-I" + core, "-I.", "-I../internal/segment"} // for what includes internal headers
	strict  = []string{"-Wall", "-Wextra", "-pedantic", "-Werror"}
	c11     = slices.Concat([]string{"-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-I" + headers, "-Itestdata"}, strict, positional)
	// The programs initialise structures by position, without their reserved words.
	positional = []string{"-Wno-missing-field-initializers"}
	// The programs that call functions which need Go, relative to testdata. Tests of a single format are in
	// testdata/capi_NAME.c of its folder.
	needGo = []string{"tens.c", "elements.c", "files.c"}
)

var scratch string

func TestMain(m *testing.M) {
	// The results depend on files that only the compiler reads. `go test` caches a result unless a file that the test
	// itself has opened changes; therefore the test opens them too.
	for _, pattern := range []string{"*.[ch]", "testdata/*.[ch]", ofFormats, "testdata/two_runtimes/*", "testdata/recorded/*", "../libdlbridge/*", core + "/*.[ch]", "../internal/segment/*.[ch]"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			panic("no files " + pattern)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				panic(err)
			}
		}
	}
	files, err := filepath.Glob(ofFormats)
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		needGo = append(needGo, "../"+file)
	}
	if scratch, err = os.MkdirTemp("", "dlbridge"); err != nil {
		panic(err)
	}
	code := dlpacktest.Run(m)
	os.RemoveAll(scratch)
	os.Exit(code)
}

// run runs a command and returns its output. The command is killed shortly before the tests time out, and the failure shows
// what its threads were doing.
func run(t testing.TB, environment []string, stdin []byte, name string, args ...string) string {
	t.Helper()
	ctx := t.Context()
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := test.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-30*time.Second))
			defer cancel()
		}
	}
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), environment...)
	command.Stdin = bytes.NewReader(stdin)
	var out, complaints bytes.Buffer
	var stuck string
	command.Stdout, command.Stderr = &out, &complaints
	command.Cancel = func() error {
		stuck = threads(command.Process.Pid)
		return command.Process.Kill()
	}
	err := command.Run()
	require.NoError(t, err, "%s %s\n%s%s%s", name, strings.Join(args, " "), out.String(), complaints.String(), stuck)
	return out.String()
}

// threads returns the state of each thread of a process, and its calls if gdb is installed.
func threads(pid int) string {
	var text strings.Builder
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, dir := range files {
		for _, name := range []string{"stat", "wchan", "syscall"} {
			content, _ := os.ReadFile(filepath.Join(dir, name))
			fmt.Fprintf(&text, "%s ", bytes.TrimSpace(content))
		}
		text.WriteString("\n")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	calls, _ := exec.CommandContext(ctx, "gdb", "-p", fmt.Sprint(pid), "-batch", "-ex", "thread apply all backtrace 20").CombinedOutput()
	text.Write(calls)
	return text.String()
}

// compile builds a program from a C file in testdata.
func compile(t testing.TB, compiler, file string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	run(t, nil, nil, compiler, append([]string{"testdata/" + file, "-o", program}, flags...)...)
	return program
}

// library builds the shared library in the same way as for installation.
var library = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "lib")
	return dir, build(exec.Command("sh", "../libdlbridge/build.sh", dir))
})

// archive builds the library as an archive, under the sanitizer of the tests; AddressSanitizer is combined with
// UndefinedBehaviorSanitizer.
var archive = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "libdlbridge.a")
	command := exec.Command("go", "build", testmode.Sanitizer, "-buildmode=c-archive", "-o", file, "../libdlbridge")
	if testmode.Sanitizer == "-asan" {
		undefined := strings.Join(undefined, " ")
		command.Env = append(os.Environ(), "CGO_CFLAGS=-O2 -g "+undefined, "CGO_LDFLAGS="+undefined)
	}
	return file, build(command)
})

var undefined = []string{"-fsanitize=undefined", "-fno-sanitize-recover=all"}

func build(command *exec.Cmd) error {
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", command.Args, err, out)
	}
	return nil
}

// linked returns the flags that link a program with a shared library in a folder. build.sh builds two libraries.
func linked(dir, name string) []string {
	flags := []string{"-L" + dir, "-l" + name, "-Wl,-rpath," + dir, "-lpthread", "-rdynamic"}
	if name == "dlbridge" {
		flags = append(flags, "-ldlbridge_tensor")
	}
	return flags
}

// libraryFlags returns the flags that link a program with dlbridge: with the shared library, or with the archive if a
// sanitizer checks Go too. Go's race detector supports only programs at fixed addresses.
func libraryFlags(t testing.TB) []string {
	t.Helper()
	if testmode.Sanitizer == "" {
		dir := must.Do(library())(t)
		return linked(dir, "dlbridge")
	}
	file := must.Do(archive())(t)
	flags := []string{file, "-lpthread"}
	if testmode.Sanitizer == "-race" {
		return append(flags, "-no-pie")
	}
	return append(append(flags, "-fsanitize=address"), undefined...)
}

// Sanitizers return NULL for an allocation that is too large, instead of ending the process.
var sanitized = []string{"ASAN_OPTIONS=allocator_may_return_null=1", "TSAN_OPTIONS=allocator_may_return_null=1"}

// The header is complete in every language that can include it.
func TestHeaderCompilesAlone(t *testing.T) {
	languages := []struct{ name, compiler, language, standard string }{
		{"C99", "cc", "c", "-std=c99"},
		{"C11", "cc", "c", "-std=c11"},
		{"C++17", "c++", "c++", "-std=c++17"},
		{"C99 clang", "clang", "c", "-std=c99"},
		{"C11 clang", "clang", "c", "-std=c11"},
		{"C++17 clang", "clang++", "c++", "-std=c++17"},
	}
	for _, l := range languages {
		if testmode.Sanitizer == "-asan" && strings.HasPrefix(l.compiler, "clang") {
			continue // the library is built with the sanitizer of gcc, which clang cannot link
		}
		t.Run(l.name, func(t *testing.T) {
			if strings.HasPrefix(l.compiler, "clang") {
				if _, err := exec.LookPath(l.compiler); err != nil {
					t.Skip("clang is not installed")
				}
			}
			program := filepath.Join(t.TempDir(), "program")
			flags := append([]string{l.standard, "-I" + headers}, strict...)
			flags = append(flags, "-x", l.language, "testdata/header.c", "-x", "none", "-o", program)
			run(t, nil, nil, l.compiler, append(flags, libraryFlags(t)...)...)
			run(t, nil, nil, program)
		})
	}
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	return must.Do(os.ReadFile(file))(t)
}

// The tensor functions link and run without Go. Sanitizers and valgrind find no error in them.
func TestTensorFunctionsWorkWithoutGo(t *testing.T) {
	t.Parallel()
	variants := []struct {
		name  string
		flags []string
	}{
		{"plain", nil},
		{"address and undefined", append([]string{"-fsanitize=address"}, undefined...)},
		{"thread", []string{"-fsanitize=thread"}},
		{"valgrind", nil},
	}
	if testing.Short() {
		variants = variants[:1]
	}
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			half := withoutGo(t, slices.Concat(strict, positional, v.flags)...)
			flags := slices.Concat(c11, v.flags, folders, []string{half, "-lpthread", "-ldl", "-lm"})
			program, views := compile(t, "cc", "tensor.c", flags...), compile(t, "cc", "views.c", flags...)
			if v.name == "valgrind" {
				valgrind(t, nil, append(slices.Clone(definite), program)...)
				valgrind(t, nil, append(slices.Clone(definite), views, viewCasesFile(t))...)
				return
			}
			run(t, sanitized, nil, program)
			run(t, sanitized, nil, views, viewCasesFile(t))
			flags = append(flags, "-Wl,--wrap=malloc,--wrap=calloc,--wrap=posix_memalign")
			run(t, append([]string{"DLBRIDGE_CHECK=0"}, sanitized...), nil, compile(t, "cc", "out_of_memory.c", flags...))
		})
	}
}

// withoutGo compiles the library without Go into an object.
func withoutGo(t *testing.T, flags ...string) string {
	object := filepath.Join(t.TempDir(), "half.o")
	options := slices.Concat([]string{"-std=gnu11", "-g", "-O1", "-DCORE_API="}, folders, flags)
	run(t, nil, nil, "cc", append(options, "-c", "../libdlbridge/tensor.c", "-o", object)...)
	return object
}

// definite has the flags with which valgrind reports each block without a reference as an error.
var definite = []string{"--leak-check=full", "--show-leak-kinds=definite,indirect", "--errors-for-leak-kinds=definite,indirect"}

// valgrind runs a program, and fails the test if valgrind finds an error.
func valgrind(t *testing.T, environment []string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("valgrind"); err != nil {
		t.Skip("valgrind is not installed")
	}
	run(t, environment, nil, "valgrind", append([]string{"-q", "--error-exitcode=9"}, args...)...)
}

func TestTensorFunctionsOfTheLibrary(t *testing.T) {
	run(t, sanitized, nil, compile(t, "cc", "tensor.c", append(slices.Clone(c11), libraryFlags(t)...)...))
}

// See the programs.
func TestFunctionsThatNeedGo(t *testing.T) {
	t.Parallel()
	for _, file := range needGo {
		program := compile(t, "cc", file, append(slices.Clone(c11), libraryFlags(t)...)...)
		for _, environment := range []string{"GOGC=100", "GOGC=1", "GODEBUG=cgocheck=1,clobberfree=1,invalidptr=1"} {
			t.Run(filepath.Base(file)+" "+environment, func(t *testing.T) {
				run(t, append(slices.Clone(sanitized), environment), nil, program)
			})
		}
	}
}

// The files are the malformed safetensors files of the table, and npy files of arrays that cannot become tensors. A
// file that does not begin like a safetensors file is refused because its format is unknown.
func TestMalformedFilesAreRefusedInC(t *testing.T) {
	t.Parallel()
	var table []struct {
		Header, Cause string
		Data          int
		Length        *uint64
		Cut           *int
		Byte          int64
	}
	require.NoError(t, json.Unmarshal(read(t, "../safetensors/testdata/malformed.json"), &table))
	require.Greater(t, len(table), 60)
	dir := t.TempDir()
	var args []string
	for i, m := range table {
		length := uint64(len(m.Header))
		if m.Length != nil {
			length = *m.Length
		}
		file := append(binary.LittleEndian.AppendUint64(nil, length), m.Header+strings.Repeat("\x00", m.Data)...)
		if m.Cut != nil {
			file = file[:*m.Cut]
		}
		code, text := "format", fmt.Sprintf("byte %d: ", m.Byte)
		switch {
		case len(file) == 0:
			code, text = "argument", "the file is empty"
		case length > math.MaxUint32, len(file) <= 8, file[8] != '{':
			code, text = "argument", "byte 0: "
		case m.Cause == "dtype":
			code = "dtype"
		}
		path := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.WriteFile(path, file, 0o600))
		args = append(args, code, text, path)
	}
	for _, name := range []string{"objects", "records", "unicode", "bytes", "dates"} {
		args = append(args, "dtype", "npy: byte ", "../npy/testdata/"+name+".npy")
	}
	program := compile(t, "cc", "files.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	run(t, sanitized, nil, program, args...)
}

func TestFramesThatChangeWhileTheyAreRead(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	run(t, sanitized, nil, compile(t, "cc", "changing_frames.c", append(slices.Clone(c11), libraryFlags(t)...)...))
}

// An object that is not complete yet cannot be freed by an old address.
func TestWhatIsBeingMadeIsNobodyElses(t *testing.T) {
	t.Parallel()
	run(t, sanitized, nil, compile(t, "cc", "registry.c", append(slices.Clone(c11), libraryFlags(t)...)...))
}

// The library is built without a sanitizer, which would need more address space than the limit leaves.
func TestMemoryThatIsMissingIsAnError(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	dir := must.Do(library())(t)
	run(t, nil, nil, compile(t, "cc", "memory_limit.c", append(slices.Clone(c11), linked(dir, "dlbridge")...)...))
}

// The library is built without a sanitizer, which would make stack frames larger.
func TestFunctionsThatNeedGoRunOnSmallStacks(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	run(t, nil, nil, compile(t, "cc", "small_stack.c", append(slices.Clone(c11), linked(dir, "dlbridge")...)...))
}

// In a chain of owners each one holds the next. It is released on a stack of constant size.
func TestChainsOfOwnersAreReleasedOnASmallStack(t *testing.T) {
	t.Parallel()
	links, stack := "1000000", "65536"
	if testmode.Sanitizer != "" { // stack frames are larger, and each link takes more memory
		links, stack = "100000", "262144"
	}
	run(t, sanitized, nil, compile(t, "cc", "release_chain.c", append(slices.Clone(c11), libraryFlags(t)...)...), links, stack)
}

// The commands of leaks.c, and whether a leak checker must report a leak.
var leakCases = []struct {
	name string
	args []string
	lost bool
}{
	{"nothing is left", []string{"nothing"}, false},
	{"all is kept", []string{"keep"}, false},
	{"tensors are lost", []string{"lose", "tensor"}, true},
	{"tensors that were read are lost", []string{"lose", "tensor that was read"}, true},
	{"legacy tensors are lost", []string{"lose", "legacy tensor"}, true},
	{"frames are lost", []string{"lose", "frame"}, true},
}

// The program is built with LeakSanitizer. The library is not instrumented, and LeakSanitizer does not search the memory of
// Go for references.
func TestLeakSanitizerReportsWhatIsLostAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	program := compile(t, "cc", "leaks.c", append(append(slices.Clone(c11), "-fsanitize=address"), linked(dir, "dlbridge")...)...)
	for _, c := range leakCases {
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.Command(program, c.args...).CombinedOutput()
			if !c.lost {
				require.NoError(t, err, string(out))
				assert.Empty(t, string(out))
				return
			}
			require.Error(t, err)
			assert.Contains(t, string(out), "LeakSanitizer: detected memory leaks")
			recorded := exec.Command(program, c.args...) // the records of the ledger are no references
			recorded.Env = append(os.Environ(), "DLBRIDGE_LEDGER=1")
			out, err = recorded.CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(out), "LeakSanitizer: detected memory leaks")
		})
	}
}

// The checker reports each lost tensor and all lost memory, even at the place of an object that the program has
// released. Under LeakSanitizer alone, dlbcore_checked is false, so freed memory and control blocks are reused
// immediately.
func TestReleasedObjectsHideNoLeak(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	program := compile(t, "cc", "leaks.c", append(append(slices.Clone(c11), "-fsanitize=leak"), linked(dir, "dlbridge")...)...)
	for _, what := range []string{"tensor", "legacy tensor", "tensor that was read", "elements", "message", "frame"} {
		t.Run(what, func(t *testing.T) {
			out, err := exec.Command(program, "after", what).CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(out), " leaked in 512 allocation(s)")
		})
	}
	out, err := exec.Command(program, "all").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), " leaked in 600 allocation(s)")
}

// A tool that looks for leaks or wild writes names the function that is to blame, and no function that had the same
// memory before.
func TestToolsNameTheGuilty(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	flags := append(append(slices.Clone(c11), "-fno-omit-frame-pointer"), linked(dir, "dlbridge_tensor")...)
	for _, tool := range []struct {
		name    string
		command []string
		text    map[string]string
	}{
		{"AddressSanitizer", []string{compile(t, "cc", "blame.c", append(slices.Clone(flags), "-fsanitize=address")...)}, map[string]string{
			"leak": `Direct leak of`, "behind": `AddressSanitizer: heap-buffer-overflow`, "before": `AddressSanitizer: use-after-poison`,
		}},
		{"valgrind", []string{"valgrind", "--leak-check=full", "--error-exitcode=9", compile(t, "cc", "blame.c", flags...)}, map[string]string{
			"leak": `are definitely lost`, "behind": `Invalid write of size 4`, "before": `Invalid write of size 4`,
		}},
	} {
		for fault, text := range tool.text {
			t.Run(tool.name+" "+fault, func(t *testing.T) {
				if _, err := exec.LookPath(tool.command[0]); err != nil {
					t.Skip("valgrind is not installed")
				}
				out, err := exec.Command(tool.command[0], append(slices.Clone(tool.command[1:]), fault)...).CombinedOutput()
				require.Error(t, err, string(out))
				assert.Regexp(t, text+`(.*\n)+?.*\bguilty\b`, string(out))
				assert.NotContains(t, string(out), "innocent")
			})
		}
	}
}

// In a program that is checked, each release of a tensor without an owner writes one line, and the calls that led to
// it. The program goes on.
func TestRepeatedReleasesAreReported(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	flags := append(append(slices.Clone(c11), "-fno-omit-frame-pointer"), linked(dir, "dlbridge_tensor")...)
	plain := compile(t, "cc", "blame.c", flags...)
	for _, tool := range []struct {
		name, check string
		command     []string
	}{
		{"AddressSanitizer", "", []string{compile(t, "cc", "blame.c", append(slices.Clone(flags), "-fsanitize=address")...)}},
		{"valgrind", "", []string{"valgrind", "-q", "--error-exitcode=9", plain}},
		{"DLBRIDGE_CHECK=1", "1", []string{plain}},
		{"DLBRIDGE_CHECK=0", "0", []string{plain}},
	} {
		for _, fault := range []string{"release", "deleter", "taken"} {
			t.Run(tool.name+" "+fault, func(t *testing.T) {
				if _, err := exec.LookPath(tool.command[0]); err != nil {
					t.Skip("valgrind is not installed")
				}
				command := exec.Command(tool.command[0], append(slices.Clone(tool.command[1:]), fault)...)
				command.Env = append(os.Environ(), "DLBRIDGE_CHECK="+tool.check)
				var report strings.Builder
				command.Stderr = &report
				address, err := command.Output()
				require.NoError(t, err, report.String())
				if tool.check == "0" {
					assert.Empty(t, report.String())
					return
				}
				before := map[string]string{"taken": "taken over"}[fault]
				if before == "" {
					before = "released"
				}
				assert.Regexp(t, `^dlbridge: the tensor or frame at `+strings.TrimSpace(string(address))+` is released, but was `+before+
					` before: .*dlb_tensor_share.*\n(    .*\n)*    guilty_of_repeating `, report.String())
				assert.Equal(t, 1, strings.Count(report.String(), "is released, but"))
				assert.NotContains(t, report.String(), "innocent")
			})
		}
	}
}

// The allocator of a program may reuse memory that was forbidden while a tensor had it.
func TestNothingIsForbiddenInMemoryThatWasFreed(t *testing.T) {
	t.Parallel()
	flags := append(slices.Clone(c11), withoutGo(t), "-Wl,--wrap=posix_memalign,--wrap=free", "-lpthread", "-ldl", "-lm")
	run(t, sanitized, nil, compile(t, "cc", "pool.c", append(slices.Clone(flags), "-fsanitize=address")...))
	valgrind(t, nil, compile(t, "cc", "pool.c", flags...))
}

// A panic or a failed allocation becomes an error, after which the caller still owns its inputs.
func TestFaultsBecomeErrors(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	dir := filepath.Join(scratch, "fault")
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-tags=dlbridge_fault",
		"-ldflags=-extldflags '-Wl,--wrap=malloc,--wrap=calloc,--wrap=posix_memalign'",
		"-o", filepath.Join(dir, "libfault.so"), "../libdlbridge")
	program := compile(t, "cc", "fault_injection.c", append(slices.Clone(c11), linked(dir, "fault")...)...)
	run(t, nil, nil, program)
	program = compileHostile(t, append([]string{"-DFAULTS"}, linked(dir, "fault")...)...)
	for seed := range 4 {
		run(t, nil, nil, program, "20000", fmt.Sprint(2*seed+1))
	}
}

// The library is not unloaded. Opening it again returns it in the same state.
func TestLibraryStaysAfterDlclose(t *testing.T) {
	dir := must.Do(library())(t)
	program := compile(t, "cc", "dlclose.c", append(slices.Clone(c11), "-ldl")...)
	run(t, nil, nil, program, filepath.Join(dir, "libdlbridge.so"))
}

// The library can be opened after twenty other libraries that also need static TLS. If no static TLS is left, dlopen
// fails.
func TestLibraryIsOpenedLate(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	program := compile(t, "cc", "static_tls.c", append(slices.Clone(c11), "-ldl")...)
	others := func(count, room int) (files []string) {
		one := compile(t, "cc", "static_tls.c", "-shared", "-fPIC", fmt.Sprint("-DROOM=", room))
		for i := range count {
			files = append(files, fmt.Sprint(one, i))
			require.NoError(t, os.WriteFile(files[i], read(t, one), 0o600)) // the loader treats a copy as another library
		}
		return files
	}
	open := func(others ...string) string {
		return run(t, nil, nil, program, append([]string{filepath.Join(dir, "libdlbridge.so")}, others...)...)
	}
	assert.Equal(t, "after 20: it works\n", open(others(20, 16)...))
	assert.Contains(t, open(append(others(1, 1024), others(100, 8)...)...), "cannot allocate memory in static TLS block")
}

// version returns a part of the version in the header.
func version(t testing.TB, part string) string {
	found := regexp.MustCompile(`#define DLB_VERSION_` + part + ` (\d+)`).FindStringSubmatch(include.Header)
	require.NotNil(t, found)
	return found[1]
}

// The SONAME has the major version of the header, and the symbolic links refer to the file.
func TestLibraryHasASoname(t *testing.T) {
	dir := must.Do(library())(t)
	soname := "libdlbridge.so." + version(t, "MAJOR")
	file := soname + "." + version(t, "MINOR") + "." + version(t, "PATCH")
	f := must.Do(elf.Open(filepath.Join(dir, "libdlbridge.so")))(t)
	defer f.Close()
	names := must.Do(f.DynString(elf.DT_SONAME))(t)
	assert.Equal(t, []string{soname}, names)
	target := must.Do(os.Readlink(filepath.Join(dir, soname)))(t)
	assert.Equal(t, file, target)
	entries := must.Do(os.ReadDir(dir))(t)
	assert.Len(t, entries, 7, "two libraries with two links each, the static one, and no header of cgo's")
}

// The two libraries together export exactly the functions that the header declares, each in the library that its
// section names.
func TestLibrariesExportTheHeaderAndNoMore(t *testing.T) {
	declared := map[string][]string{}
	for _, f := range header(t).functions {
		declared[f.library] = append(declared[f.library], f.name)
	}
	require.Equal(t, strings.Count(include.Header, "\nDLB_API "), len(declared["libdlbridge"])+len(declared["libdlbridge_tensor"]))
	dir := must.Do(library())(t)
	for _, library := range []string{"libdlbridge", "libdlbridge_tensor"} {
		f := must.Do(elf.Open(filepath.Join(dir, library+".so")))(t)
		defer f.Close()
		symbols := must.Do(f.DynamicSymbols())(t)
		var exported []string
		for _, s := range symbols {
			// libdlbridge calls the internal functions of libdlbridge_tensor.
			if s.Section != elf.SHN_UNDEF && s.Section != elf.SHN_ABS && !internal.MatchString(s.Name) {
				exported = append(exported, s.Name)
			}
		}
		assert.ElementsMatch(t, declared[library], exported, library)
	}
}

// Integers are not passed as pointers, and C has no handles of Go values. The one exception is the handle of an open file. It is kept in
// a dlb_file, and C checks the address of the dlb_file before it uses the handle.
func TestThereAreNoHandlesOfGo(t *testing.T) {
	files := must.Do(filepath.Glob("*.go"))(t)
	handle := "cgo." + "Handle"
	for _, file := range files {
		if file == "files.go" {
			continue
		}
		assert.NotContains(t, string(read(t, file)), handle, file)
	}
}

// A vector is a message that another program has written. The manifests describe it.
type vector struct {
	ID, Verdict string
	Frames      []string
	Encoded     *struct{ File string }
	Message     struct{ Label string }
	Tens        *struct {
		Tensors []struct {
			Shape, Strides []int64
			Word, Part     int
			DType          string
			Count, Offset  int64
			OnlyMetadata   bool `json:"only_metadata"`
		}
	}
}

// Messages of other programs, in both forms, are decoded without copying and encoded again unchanged.
// Invalid messages are refused, and the caller still owns every frame.
func TestVectorsOfOtherWriters(t *testing.T) {
	program := compile(t, "cc", "tens_vectors.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	type manifest struct {
		vectors.Folder
		Vectors []vector
	}
	for _, m := range vectors.Read[manifest](t, vectors.ZIO, "message", "tens", "layout", "wirecell", "invalid") {
		t.Run(m.Name()+"/"+filepath.Base(m.Dir()), func(t *testing.T) {
			var script bytes.Buffer
			messages := 0
			for _, v := range m.Vectors {
				if v.Frames != nil {
					v.describe(t, &script, m.Dir(), 0, v.Frames)
					messages++
				}
				if v.Encoded != nil && v.Encoded.File != "" {
					v.describe(t, &script, m.Dir(), 1, []string{v.Encoded.File})
					messages++
				}
			}
			require.GreaterOrEqual(t, messages, len(m.Vectors))
			require.NotZero(t, messages)
			out := run(t, sanitized, script.Bytes(), program)
			assert.Equal(t, fmt.Sprintln(messages), out)
		})
	}
}

// describe writes the input of tens_vectors.c: its task and the expected result. If a decoder may either accept or
// refuse a vector, C must accept it exactly if Go does.
func (v *vector) describe(t *testing.T, w *bytes.Buffer, dir string, packed int, files []string) {
	messageOnly := 0
	if v.Tens == nil && v.Verdict == "accept" {
		messageOnly = 1
	}
	fmt.Fprintf(w, "message %s %d %d %d\n", v.ID, packed, messageOnly, len(files))
	for _, file := range files {
		fmt.Fprintln(w, filepath.Join(dir, file))
	}
	if v.Verdict == "reject" || v.Verdict == "either" && !accepts(dir, files) {
		fmt.Fprintln(w, "refused")
		return
	}
	if v.Tens == nil {
		fmt.Fprint(w, "tensors 0\n0 \n")
		return
	}
	fmt.Fprintln(w, "tensors", len(v.Tens.Tensors))
	type object = map[string]json.RawMessage // keeps the texts of the label, and the case of the names
	decode := func(text json.RawMessage, out any) {
		if text != nil {
			require.NoError(t, json.Unmarshal(text, out), v.ID)
		}
	}
	var label, form object
	tensors := make([]object, len(v.Tens.Tensors))
	decode(json.RawMessage(v.Message.Label), &label)
	decode(label["TENS"], &form)
	decode(form["tensors"], &tensors)
	fmt.Fprintln(w, len(form["metadata"]), string(form["metadata"]))
	codes := map[string]int{"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
	for i, s := range v.Tens.Tensors {
		metadata := tensors[i]["metadata"]
		fmt.Fprintln(w, len(metadata), string(metadata))
		if s.OnlyMetadata {
			fmt.Fprintln(w, -1)
			continue
		}
		offset, strides := s.Offset*int64(s.Word), s.Strides
		if s.Count == 0 {
			offset = -1
		}
		if strides == nil {
			strides = make([]int64, len(s.Shape))
		}
		fmt.Fprintln(w, s.Part, codes[s.DType], 8*s.Word, 1, offset, len(s.Shape), numbers(s.Shape), numbers(strides))
	}
}

// accepts reports whether package tens decodes the frames in some files and their label.
func accepts(dir string, files []string) bool {
	var frames [][]byte
	for _, file := range files {
		frame, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return false
		}
		frames = append(frames, frame)
	}
	msg, err := tens.Decode(frames)
	if err == nil {
		_, err = msg.DecodeLabel()
	}
	return err == nil
}

func numbers(n []int64) string { return strings.Trim(fmt.Sprint(n), "[]") }
