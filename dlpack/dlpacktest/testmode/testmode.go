// Package testmode tells the tests of this repository how they run.
package testmode

import "testing"

// SkipLong skips a test that takes seconds: with -short, as make test runs the tests, but not under AddressSanitizer. The
// target race runs the tests that it skips; .ci/long.py finds them by the name of this function.
func SkipLong(t testing.TB) {
	t.Helper()
	if testing.Short() && Sanitizer != "-asan" {
		t.Skip("long; make race runs it")
	}
}
