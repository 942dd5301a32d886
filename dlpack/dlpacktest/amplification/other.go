//go:build !cgo || !linux

package amplification

// usedByC returns 0: this build cannot measure C memory.
func usedByC() int64 { return 0 }
