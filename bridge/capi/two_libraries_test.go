//go:build cgo

package capi_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// tensorLibrary builds libdlbridge_tensor with only the necessary tools in the search path, without Go.
var tensorLibrary = sync.OnceValues(func() (string, error) {
	tools, dir := filepath.Join(scratch, "tools"), filepath.Join(scratch, "tensor")
	if err := os.Mkdir(tools, 0o700); err != nil {
		return "", err
	}
	for _, tool := range []string{
		"cc", "as", "ld", "ar", // of the compiler and binutils
		"sh", "dirname", "ln", "mkdir", "mktemp", "mv", "rm", "sed",
	} {
		found, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(found, filepath.Join(tools, tool))
		}
		if err != nil {
			return "", err
		}
	}
	command := exec.Command("sh", "../libdlbridge/tensor.sh", dir)
	command.Env = []string{"PATH=" + tools}
	return dir, build(command)
})

// The scripts use CC, AR, CFLAGS and LDFLAGS, and first report a variable that does not work.
func TestTheScriptsHeedTheToolsTheyAreGiven(t *testing.T) {
	t.Parallel()
	build := func(script string, environment ...string) (dir, text string, err error) {
		dir = t.TempDir()
		command := exec.Command("sh", "../libdlbridge/"+script, dir)
		command.Env = append(os.Environ(), environment...)
		out, err := command.CombinedOutput()
		return dir, string(out), err
	}
	for _, wrong := range []struct{ script, variable, text string }{
		{"tensor.sh", "CC=no-compiler", "`no-compiler` builds no shared library with CFLAGS='' and LDFLAGS='': install a C compiler"},
		{"tensor.sh", "CFLAGS=-no-such-flag", "with CFLAGS='-no-such-flag' and"},
		{"tensor.sh", "LDFLAGS=-lno_such_library", "and LDFLAGS='-lno_such_library': install"},
		{"tensor.sh", "AR=no-archiver", "`no-archiver` makes no archive: install binutils"},
		{"build.sh", "GO=no-go", "`no-go` cannot build this module: install Go 1.26 or later"},
		{"build.sh", "CGO_ENABLED=0", "it needs cgo"},
	} {
		dir, text, err := build(wrong.script, wrong.variable)
		require.Error(t, err, wrong.variable)
		assert.Contains(t, text, wrong.text)
		assert.NotContains(t, text, "tensor.c", "the sources were compiled")
		assert.Empty(t, must.Do(os.ReadDir(dir))(t), wrong.variable)
	}
	dir, text, err := build("tensor.sh", "AR=ar -v", "CFLAGS=-g", "LDFLAGS=-Wl,-rpath,/where")
	require.NoError(t, err, text)
	f := must.Do(elf.Open(filepath.Join(dir, "libdlbridge_tensor.so")))(t)
	defer f.Close()
	assert.NotNil(t, f.Section(".debug_info"))
	assert.Contains(t, must.Do(f.DynString(elf.DT_RUNPATH))(t), "/where")
	assert.Contains(t, text, "a - ", "ar is verbose")
}

// A program with libdlbridge_tensor alone, shared or static, has one thread and no Go. The library needs only libc.
func TestLibdlbridgeTensorStartsNoThread(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	f := must.Do(elf.Open(filepath.Join(dir, "libdlbridge_tensor.so")))(t)
	defer f.Close()
	needed := must.Do(f.ImportedLibraries())(t)
	for _, library := range needed {
		assert.Regexp(t, `^(lib(c|m|pthread|dl)|ld-linux-.*)\.so`, library)
	}
	names := must.Do(f.DynString(elf.DT_SONAME))(t)
	assert.Equal(t, []string{"libdlbridge_tensor.so." + version(t, "MAJOR")}, names)

	address := slices.Concat([]string{"-fsanitize=address"}, undefined)
	shared := linked(dir, "dlbridge_tensor")
	static := []string{filepath.Join(dir, "libdlbridge_tensor.a"), "-lpthread", "-ldl", "-lm"}
	for _, variant := range []struct {
		name  string
		flags []string
	}{
		{"shared", shared},
		{"static", static},
		{"shared, address and undefined", slices.Concat(address, shared)},
		{"static, address and undefined", slices.Concat(address, static)},
	} {
		t.Run(variant.name, func(t *testing.T) {
			for _, file := range []string{"one_thread.c", "tensor.c"} {
				run(t, sanitized, nil, compile(t, "cc", file, slices.Concat(c11, variant.flags)...))
			}
		})
	}
}

// The global names of the static library are the names in the header, and no others. So its names cannot clash with the
// names of a program.
func TestLibdlbridgeTensorHasNoOtherGlobalNames(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	var declared []string
	for _, f := range header(t).functions {
		if f.library == "libdlbridge_tensor" {
			declared = append(declared, f.name)
		}
	}
	var defined []string
	for line := range strings.Lines(run(t, nil, nil, "nm", "--defined-only", "--extern-only", filepath.Join(dir, "libdlbridge_tensor.a"))) {
		if fields := strings.Fields(line); len(fields) == 3 {
			defined = append(defined, fields[2])
		}
	}
	assert.ElementsMatch(t, declared, defined)
}

// A plugin that contains the static library exports none of its functions and calls its own, and stays loaded when it is closed.
func TestAPluginHasALibraryOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	program := compile(t, "cc", "plugin.c", slices.Concat(c11, []string{"-ldl"}, linked(dir, "dlbridge_tensor"))...)
	for _, what := range []string{"tensor", "receive"} {
		t.Run(what, func(t *testing.T) {
			plugin := compile(t, "cc", "plugin.c", append(slices.Clone(c11), "-DPLUGIN", "-shared", "-fPIC",
				filepath.Join(dir, "libdlbridge_tensor.a"), "-lpthread", "-ldl", "-lm")...)
			f := must.Do(elf.Open(plugin))(t)
			defer f.Close()
			var exported []string
			for _, s := range must.Do(f.DynamicSymbols())(t) {
				if s.Section != elf.SHN_UNDEF {
					exported = append(exported, s.Name)
				}
			}
			assert.ElementsMatch(t, []string{"make", "count", "receive"}, exported)
			run(t, nil, nil, program, plugin, what)
		})
	}
}

// A program that calls a function of libdlbridge cannot be linked without it.
func TestMessagesNeedLibdlbridge(t *testing.T) {
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	program := filepath.Join(t.TempDir(), "program")
	for _, name := range []string{"dlb_message_decode", "dlb_message_free", "dlb_elements_free", "dlb_tensorflow_decode"} {
		source := program + ".c"
		text := "#include <dlbridge.h>\nint main(void) { return ((void (*)(void))" + name + ")(), 0; }\n"
		require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
		out, err := exec.Command("cc", slices.Concat([]string{source, "-o", program, "-I" + headers}, linked(dir, "dlbridge_tensor"))...).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "undefined reference to `"+name+"'")
	}
}

// internal matches the names of internal functions.
var internal = regexp.MustCompile(`^dlb(core|capi|segment)_`)

// libdlbridge defines no internal function of libdlbridge_tensor: that would be a second copy of its state.
func TestLibdlbridgeHasNoCopyOfTheOtherLibrary(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	names := func(library string) (defined, used []string) {
		f := must.Do(elf.Open(filepath.Join(dir, library)))(t)
		defer f.Close()
		for _, s := range must.Do(f.Symbols())(t) {
			switch {
			case !internal.MatchString(s.Name):
			case s.Section == elf.SHN_UNDEF:
				name, _, _ := strings.Cut(s.Name, "@") // its version follows
				used = append(used, name)
			default:
				defined = append(defined, s.Name)
			}
		}
		return defined, used
	}
	own, used := names("libdlbridge.so")
	provided, _ := names("libdlbridge_tensor.so")
	assert.NotEmpty(t, used)
	assert.Subset(t, provided, used)
	for _, name := range own {
		assert.NotContains(t, provided, name)
	}
}

// tensor.c includes each C file that libdlbridge.so leaves out, and no other.
func TestTheUnitIsWhatTheSharedLibraryLeavesOut(t *testing.T) {
	const tag = "//go:build !dlbridge_shared\n"
	var tagged, included []string
	for _, folder := range []string{core, ".", "../internal/segment"} {
		for _, file := range must.Do(filepath.Glob(folder + "/*.c"))(t) {
			if strings.HasPrefix(string(read(t, file)), tag) {
				tagged = append(tagged, must.Do(filepath.Abs(file))(t))
			}
		}
	}
	unit := string(read(t, "../libdlbridge/tensor.c"))
	for _, m := range regexp.MustCompile(`(?m)^#include "(.*)"$`).FindAllStringSubmatch(unit, -1) {
		included = append(included, must.Do(filepath.Abs(filepath.Join("../libdlbridge", m[1])))(t))
	}
	assert.NotEmpty(t, included)
	assert.ElementsMatch(t, tagged, included)
}

// A process that loads both libraries has one copy of the library without Go.
func TestTwoLibrariesHaveOneState(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	whole, half := filepath.Join(dir, "libdlbridge.so"), filepath.Join(dir, "libdlbridge_tensor.so")
	plain := compile(t, "cc", "two_libraries.c", append(slices.Clone(c11), "-ldl")...)
	program := compile(t, "cc", "two_libraries.c", slices.Concat(c11, []string{"-DLINKED", "-ldl"}, linked(dir, "dlbridge_tensor"))...)
	for _, mode := range []string{"local", "global"} {
		t.Run(mode, func(t *testing.T) {
			run(t, nil, nil, plain, half, whole, mode)
			run(t, nil, nil, plain, whole, half, mode)
			run(t, nil, nil, program, half, whole, mode)
			run(t, nil, nil, program, whole, half, mode)
		})
	}
}
