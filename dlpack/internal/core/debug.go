//go:build cgo && debug

package core

// #cgo CFLAGS: -DCORE_DEBUG
import "C"
