//go:build cgo && !race && !asan && (amd64 || arm64)

package capi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// files.c opens thousands of files, which takes valgrind many minutes.
func forValgrind() []string {
	return slices.DeleteFunc(slices.Clone(needGo), func(file string) bool { return file == "files.c" })
}

// Valgrind cannot run instrumented programs, and the Go runtime supports it only on these two architectures.
func TestFunctionsThatNeedGoUnderValgrind(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	dir := filepath.Join(scratch, "valgrind")
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-tags=valgrind", "-o", filepath.Join(dir, "libvalgrind.so"), "../libdlbridge")
	for _, file := range forValgrind() {
		program := compile(t, "cc", file, append(slices.Clone(c11), linked(dir, "valgrind")...)...)
		valgrind(t, []string{"GODEBUG=asyncpreemptoff=1"}, "--leak-check=no", program)
	}
}

// The thread that answers fetches ends with the process. It is not a leak, and needs no suppression.
func TestHandlesUnderValgrind(t *testing.T) {
	testmode.SkipLong(t)
	t.Parallel()
	dir := must.Do(tensorLibrary())(t)
	program := compile(t, "cc", "shm.c", append(slices.Clone(c11), linked(dir, "dlbridge_tensor")...)...)
	valgrind(t, nil, "--leak-check=full", "--error-exitcode=9", program, "handle")
}

// The library is the installed one, with the installed suppressions. It is built without valgrind support, which would disturb
// the search for leaks.
func TestValgrindReportsWhatIsLostAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := must.Do(library())(t)
	suppressions := filepath.Join(t.TempDir(), "dlbridge.supp")
	text := run(t, nil, nil, "sh", "../libdlbridge/suppressions.sh")
	require.NoError(t, os.WriteFile(suppressions, []byte(text), 0o600))
	with := func(file string, args ...string) []string {
		program := compile(t, "cc", file, append(slices.Clone(c11), linked(dir, "dlbridge")...)...)
		return append([]string{"--leak-check=full", "--error-exitcode=9", "--suppressions=" + suppressions, program}, args...)
	}
	for _, file := range append([]string{"tensor.c"}, forValgrind()...) {
		t.Run(filepath.Base(file), func(t *testing.T) { valgrind(t, nil, with(file)...) })
	}
	for _, c := range leakCases {
		t.Run(c.name, func(t *testing.T) {
			if !c.lost {
				valgrind(t, nil, with("leaks.c", c.args...)...)
				return
			}
			out, err := exec.Command("valgrind", with("leaks.c", c.args...)...).CombinedOutput()
			require.Error(t, err, string(out))
			assert.Contains(t, string(out), "are definitely lost")
		})
	}
	t.Run("memory that was freed", func(t *testing.T) {
		out, err := exec.Command("valgrind", with("leaks.c", "freed")...).CombinedOutput()
		require.Error(t, err, string(out))
		assert.Regexp(t, `(?s)Invalid read of size.*copy_freed`, string(out))
	})
}
