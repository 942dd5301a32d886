//go:build !race && !asan

package tvmffi_test

const instrumented = false
