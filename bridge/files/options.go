//go:build linux || darwin

package files

import "github.com/dlbridge/dlbridge/dlpack"

// An OpenOption changes how a file is opened.
type OpenOption func(*opening)

type opening struct {
	writable bool
	dtype    dlpack.DataType // 0 for the type that the file says
}

// Writable maps an npy file so that writing to its tensor changes the file. Open returns an error for other formats,
// and for a big-endian array, because its tensor would be a copy.
func Writable() OpenOption { return func(o *opening) { o.writable = true } }

// As gives the elements of an npy file a data type that NumPy has no name for, such as [dlpack.BFloat16], like As of
// package npy. In an npz file it applies to all arrays for which the file gives only an element size that is the size
// of the type.
func As(dtype dlpack.DataType) OpenOption { return func(o *opening) { o.dtype = dtype } }

func openingOf(options []OpenOption) (o opening) {
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			option(&o)
		}
	}
	return o
}
