package bridge_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/repotest"
)

// needCgo maps each package that needs cgo to one of its functions that takes or returns a tensor, calls C code or
// serves it.
func needCgo(t *testing.T) map[string]string {
	functions := map[string]string{
		"dlpack": "New", "dlpack/dlpacktest": "CheckLeaks", "bridge": "Encode", "bridge/zeromq": "NewContext", "bridge/shm": "New", "bridge/files": "Write",
		"bridge/capi": "Serve", "bridge/nervana": "Describe", "bridge/gorgonia": "Dense", "bridge/tvmffi": "Serve",
	}
	formats := must.Do(filepath.Glob("*/view.go"))(t)
	require.NotEmpty(t, formats)
	ofFiles := map[string]string{"safetensors": "AppendTensors", "gguf": "Align"}
	for _, file := range formats {
		functions["bridge/"+filepath.Dir(file)] = cmp.Or(ofFiles[filepath.Dir(file)], "AppendTensor")
	}
	return functions
}

// build builds a program that uses the functions of needCgo in the given packages, with the given additional
// environment variables. It returns the output of the compiler, which is empty if the program compiles.
func build(t *testing.T, variables []string, packages ...string) string {
	t.Helper()
	imports, uses := "", ""
	for _, path := range packages {
		imports += fmt.Sprintf("import %q\n", repotest.Module+path)
		uses += fmt.Sprintf("var _ = %s.%s\n", filepath.Base(path), needCgo(t)[path])
	}
	program := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(program, []byte("package main\n"+imports+uses+"func main() {}\n"), 0o600))
	command := exec.Command("go", "build", "-gcflags=-e", "-o", os.DevNull, program)
	command.Env = append(os.Environ(), variables...)
	said, err := command.CombinedOutput()
	assert.Equal(t, err == nil, len(said) == 0, "%v: %s", err, said)
	return string(said)
}

// readme returns a README without its line breaks.
func readme(t *testing.T, file string) string {
	return strings.Join(strings.Fields(string(must.Do(os.ReadFile(file))(t))), " ")
}

func TestPackagesThatNeedCgoAreThoseOfTheREADME(t *testing.T) {
	for _, row := range regexp.MustCompile(`(?m)^\| \[.*\|$`).FindAllString(string(must.Do(os.ReadFile("README.md"))(t)), -1) {
		for _, link := range regexp.MustCompile("\\[`(\\w+)`\\]\\(\\w+\\)").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			switch name := link[1]; name {
			case "elements": // has no such function
			case "libdlbridge", "python": // are not packages that Go programs import
			case "onnxruntime": // is another module
			default:
				assert.Contains(t, needCgo(t), "bridge/"+name)
			}
		}
	}
}

func TestABuildWithoutCgoLacksWhatTheREADMESays(t *testing.T) {
	t.Parallel()
	const said = "undefined: dlpack.New"
	assert.Contains(t, readme(t, "../README.md"), "`"+said+"`")
	assert.Contains(t, readme(t, "README.md"), "`"+said+"`")
	want := []string{}
	for path, function := range needCgo(t) {
		want = append(want, fmt.Sprintf("undefined: %s.%s", filepath.Base(path), function))
	}
	require.Contains(t, want, said)
	require.Empty(t, build(t, []string{"CGO_ENABLED=1"}, slices.Collect(maps.Keys(needCgo(t)))...), "all functions exist")
	for name, variables := range map[string][]string{
		"cgo is off":             {"CGO_ENABLED=0"},
		"there is no C compiler": {"CGO_ENABLED=", "CC=", "PATH=" + t.TempDir()},
		"for Windows":            {"CGO_ENABLED=", "CC=", "GOOS=windows"},
	} {
		t.Run(name, func(t *testing.T) {
			text := build(t, variables, slices.Collect(maps.Keys(needCgo(t)))...)
			assert.ElementsMatch(t, want, regexp.MustCompile(`undefined: \S+`).FindAllString(text, -1))
			assert.Equal(t, 1+len(want), strings.Count(text, "\n"), "nothing else is said:\n%s", text)
		})
	}
}

func TestABuildForWindowsWithCgoSaysWhatTheREADMESays(t *testing.T) {
	t.Parallel()
	const said, compiler = "dlbridge does not support Windows: its ownership core needs POSIX", "x86_64-w64-mingw32-gcc"
	assert.Contains(t, readme(t, "README.md"), "`"+said+"`")
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(compiler + " is not installed")
	}
	windows := []string{"CGO_ENABLED=1", "GOOS=windows", "GOARCH=amd64", "CC=" + compiler}
	text := build(t, windows, "dlpack")
	assert.Contains(t, text, said)
	assert.Equal(t, 1, strings.Count(text, "error:"), "nothing else is said:\n%s", text)
	for path := range needCgo(t) { // the other packages import the one that says so
		list := exec.Command("go", "list", "-deps", repotest.Module+path)
		list.Env = append(os.Environ(), windows...)
		deps := strings.Fields(string(must.Do(list.Output())(t)))
		assert.Equal(t, path != "bridge/shm" && path != "bridge/files", slices.Contains(deps, repotest.Module+"dlpack/internal/core"), path)
	}
}

// Without a C compiler for macOS, this test compares the lists of files that a build with cgo would use.
func TestSharedMemoryIsForLinuxOnlyAndFilesAreForMacOSToo(t *testing.T) {
	assert.Contains(t, readme(t, "README.md"), "`shm` needs Linux, and `files` Linux or macOS: elsewhere their functions are undefined")
	for _, tt := range []struct {
		system, folder string
		empty          bool
	}{{"darwin", "./shm", true}, {"windows", "./shm", true}, {"darwin", "./files", false}, {"windows", "./files", true}} {
		list := exec.Command("go", "list", "-f", "{{.GoFiles}} {{.CgoFiles}}", tt.folder)
		list.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS="+tt.system)
		assert.Equal(t, tt.empty, string(must.Do(list.Output())(t)) == "[doc.go] []\n", "%s for %s", tt.folder, tt.system)
	}
}
