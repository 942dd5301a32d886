//go:build cgo && debug

package core

// The build tag debug helps to find use after free. Each allocation of C memory by this package has its own pages,
// which fault after it is freed. A dead block rests until its cache has made thousands of exports. Until then, a
// second call of its deleter is ignored and counted.

// #cgo CFLAGS: -DCORE_DEBUG
import "C"
