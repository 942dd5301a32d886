//go:build race || asan

package tvmffi_test

// instrumented: the build adds allocations of its own.
const instrumented = true
