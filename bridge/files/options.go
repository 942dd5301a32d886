//go:build linux || darwin

package files

import "github.com/dlbridge/dlbridge/dlpack"

// An OpenOption changes how a file is opened.
type OpenOption func(*opening)

type opening struct {
	writable bool
	dtype    dlpack.DataType // 0 for what the file says
}

// Writable maps an npy file so that writing to its tensor changes the file. Other formats refuse it, and so does a big-endian array, whose
// tensor would be a copy.
func Writable() OpenOption { return func(o *opening) { o.writable = true } }

// As gives the elements of an npy file a data type that NumPy has no name for, such as [dlpack.BFloat16], as As of package npy does. In an
// npz file it does so for all arrays of which the file says only that their elements have the size of that type.
func As(dtype dlpack.DataType) OpenOption { return func(o *opening) { o.dtype = dtype } }

func openingOf(options []OpenOption) (o opening) {
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			option(&o)
		}
	}
	return o
}
