//go:build cgo && asan

package dlpack_test

// The address sanitizer makes small values escape to the heap.
const asan = true
