//go:build cgo && debug

package core

// The build tag debug looks for use after the end. Memory of ours has pages of its own, which fault from when it is freed;
// blocks are used again after thousands of others, so that a second deleter call is ignored and counted for so long.

// #cgo CFLAGS: -DCORE_DEBUG
import "C"
