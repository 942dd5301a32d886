//go:build !race && !asan && (amd64 || arm64)

package capi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Valgrind cannot run instrumented programs, and the Go runtime supports it only on these two architectures.
func TestFunctionsThatNeedGoUnderValgrind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(scratch, "valgrind")
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-tags=valgrind", "-o", filepath.Join(dir, "libdlbridge.so"), "../libdlbridge")
	for _, file := range []string{"tens.c", "elements.c"} {
		program := compile(t, "cc", file, append(slices.Clone(c11), linked(dir, "dlbridge")...)...)
		valgrind(t, []string{"GODEBUG=asyncpreemptoff=1"}, "--leak-check=no", program)
	}
}

// The library is built without valgrind support, which would disturb the search for leaks.
func TestValgrindReportsWhatIsLostAndNothingElse(t *testing.T) {
	t.Parallel()
	dir, err := library()
	require.NoError(t, err)
	program := compile(t, "cc", "leaks.c", append(slices.Clone(c11), linked(dir, "dlbridge")...)...)
	for _, c := range leakCases {
		t.Run(c.name, func(t *testing.T) {
			args := append(append([]string{"--undef-value-errors=no", "--error-exitcode=9"}, definite...), program)
			if !c.lost {
				valgrind(t, []string{"GODEBUG=asyncpreemptoff=1"}, append(args, c.args...)...)
				return
			}
			command := exec.Command("valgrind", append(args, c.args...)...)
			command.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
			out, err := command.CombinedOutput()
			require.Error(t, err, string(out))
			assert.Contains(t, string(out), "are definitely lost")
		})
	}
}
