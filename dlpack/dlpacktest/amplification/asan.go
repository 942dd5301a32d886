//go:build asan

package amplification

// guarded is how many times its size memory takes at most with what AddressSanitizer puts around it.
const guarded = 2
