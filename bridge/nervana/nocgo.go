//go:build !cgo

package nervana

// needsCgo is the type of the arguments of functions that this build does not have, because it was made without cgo. The
// compiler names it where a program calls one of them. To get these functions, install gcc or clang and set CGO_ENABLED=1.
type needsCgo struct{}

// Compose needs cgo.
func Compose(needsCgo) {}

// Describe needs cgo.
func Describe(needsCgo) {}
