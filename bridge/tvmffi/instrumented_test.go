//go:build race || asan

package tvmffi_test

// instrumented reports that the build adds its own allocations.
const instrumented = true
