//go:build cgo

package capi_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
)

// The programs of the other tests also pass with few processors, small stacks, or a small address space.
func TestProgramsWorkInLimitedEnvironments(t *testing.T) {
	t.Parallel()
	environments := []struct{ name, environment, limits string }{
		{"one processor", "GOMAXPROCS=1", ""},
		{"no preemption by signals", "GODEBUG=asyncpreemptoff=1", ""},
		{"stacks of 256 KiB", "", "-s 256"}, // also of threads that C makes
		{"4 GiB of addresses", "", "-v 4194304"},
	}
	if testmode.Sanitizer != "" { // sanitizers need address space and stack themselves
		environments = environments[:2]
	}
	for _, file := range append([]string{"tensor.c"}, needGo...) {
		program := compile(t, "cc", file, append(slices.Clone(c11), libraryFlags(t)...)...)
		for _, s := range environments {
			t.Run(filepath.Base(file)+", "+s.name, func(t *testing.T) {
				script := `exec "$0"`
				if s.limits != "" {
					script = "ulimit " + s.limits + " && " + script
				}
				run(t, append(slices.Clone(sanitized), s.environment), nil, "sh", "-c", script, program)
			})
		}
	}
}

// A process without free file descriptors can still call every function.
func TestProgramsWorkWithoutDescriptors(t *testing.T) {
	t.Parallel()
	program := compile(t, "cc", "descriptors.c", append(slices.Clone(c11), libraryFlags(t)...)...)
	for free := range 4 {
		t.Run(fmt.Sprint(free), func(t *testing.T) { run(t, sanitized, nil, program, fmt.Sprint(free)) })
	}
}
