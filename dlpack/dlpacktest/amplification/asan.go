//go:build asan

package amplification

// guarded is the largest factor by which an allocation grows with the bytes that AddressSanitizer puts around it.
const guarded = 2
