//go:build !cgo

package bridge

// needsCgo is the type of the arguments of functions that this build does not have, because it was made without cgo. The
// compiler names it where a program calls one of them. To get these functions, install gcc or clang and set CGO_ENABLED=1.
type needsCgo struct{}

// Decode needs cgo.
func Decode(needsCgo) {}

// DecodeParts needs cgo.
func DecodeParts(needsCgo) {}

// Encode needs cgo.
func Encode(needsCgo) {}
