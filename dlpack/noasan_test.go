//go:build cgo && !asan

package dlpack_test

const asan = false
