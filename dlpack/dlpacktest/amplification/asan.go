//go:build asan

package amplification

// guarded is the largest factor by which AddressSanitizer enlarges an allocation.
const guarded = 2
