//go:build !asan

package amplification

const guarded = 1
