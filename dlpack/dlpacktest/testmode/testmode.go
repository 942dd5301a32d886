// Package testmode tells the tests of this repository in which mode they run.
package testmode

import "testing"

// SkipLong skips a test that takes seconds if the flag -short is set, as in make test, but not under AddressSanitizer.
// The target race runs the skipped tests. .ci/marked.py finds them by the name of this function.
func SkipLong(t testing.TB) {
	t.Helper()
	if testing.Short() && Sanitizer != "-asan" {
		t.Skip("long; make race runs it")
	}
}

// SkipMemory skips a test that measures memory if the flag -short is set. Unlike SkipLong, it also does so under AddressSanitizer, which
// takes memory itself.
func SkipMemory(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("long; make race runs it")
	}
}

// MeetsThreads marks a test in which threads use the same memory, blocks or slots at the same time. It does nothing: .ci/marked.py finds
// the tests that call it by the name of this function, for the targets tsan and processors. A test with a goroutine that never waits must
// not call it: Go interrupts this goroutine with signals, which ThreadSanitizer delays, and with one processor each turn of the goroutine
// takes 10 ms.
func MeetsThreads(testing.TB) {}
