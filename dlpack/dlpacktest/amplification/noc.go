//go:build !cgo || !linux

package amplification

func usedByC() int64 { return 0 }
