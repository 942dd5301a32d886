//go:build !cgo

package amplification

func usedByC() int64 { return 0 }
