// Package testmode tells the tests of this repository how they run.
package testmode

import "testing"

// SkipLong skips a test that takes seconds: with -short, as make test runs the tests, but not under AddressSanitizer. The
// target race runs the tests that it skips; .ci/marked.py finds them by the name of this function.
func SkipLong(t testing.TB) {
	t.Helper()
	if testing.Short() && Sanitizer != "-asan" {
		t.Skip("long; make race runs it")
	}
}

// SkipMemory skips a test that measures memory, with -short: as SkipLong does, and under AddressSanitizer too, which takes memory itself.
func SkipMemory(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("long; make race runs it")
	}
}

// MeetsThreads marks a test in which threads use the same memory, blocks or slots at the same time. It does nothing: the targets tsan and
// processors run the tests that call it, which .ci/marked.py finds by the name of this function. A test with a goroutine that never waits
// must not call it: ThreadSanitizer delays the signals by which Go interrupts such a goroutine, and with one processor each turn of it
// takes 10 ms.
func MeetsThreads(testing.TB) {}
