//go:build !race && !asan && (amd64 || arm64)

package capi_test

import (
	"path/filepath"
	"slices"
	"testing"
)

// Valgrind does not run what the sanitizers instrument, and Go's runtime speaks to it on these two only.
func TestFunctionsThatNeedGoUnderValgrind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(scratch, "valgrind")
	run(t, nil, nil, "go", "build", "-buildmode=c-shared", "-tags=valgrind", "-o", filepath.Join(dir, "libdlbridge.so"), "../libdlbridge")
	for _, file := range []string{"message.c", "value.c"} {
		program := compile(t, "cc", file, append(slices.Clone(c11), linked(dir, "dlbridge")...)...)
		valgrind(t, []string{"GODEBUG=asyncpreemptoff=1"}, "--leak-check=no", program)
	}
}
