//go:build cgo && !race && !asan

package capi_test

import (
	"path/filepath"
	"slices"
	"testing"
)

// ThreadSanitizer checks the C code of the library and of programs with threads. Go's race detector, which the other
// tests also use, checks only Go code.
func TestCCodeUnderThreadSanitizer(t *testing.T) {
	t.Parallel()
	const thread = "-fsanitize=thread"
	archive := filepath.Join(t.TempDir(), "libdlbridge.a")
	run(t, []string{"CGO_CFLAGS=-g -O2 " + thread, "CGO_LDFLAGS=" + thread}, nil,
		"go", "build", "-buildmode=c-archive", "-o", archive, "../libdlbridge")
	flags := append(slices.Clone(c11), archive, "-lpthread", thread)
	options := []string{"TSAN_OPTIONS=allocator_may_return_null=1 die_after_fork=0"}
	for _, file := range append([]string{"tensor.c", "changing_frames.c", "registry.c", "ledger.c"}, needGo...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			args := map[string][]string{"ledger.c": {"request"}}[file]
			run(t, options, nil, compile(t, "cc", file, flags...), args...)
		})
	}
	t.Run("hostile.c", func(t *testing.T) {
		program := compileHostile(t, archive, "-lpthread", thread)
		for _, seed := range []string{"1", "3"} {
			run(t, options, nil, program, "20000", seed)
		}
	})
}
