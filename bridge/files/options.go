//go:build linux || darwin

package files

// An OpenOption changes how a file is opened.
type OpenOption func(*opening)

type opening struct{ writable bool }

// Writable maps a file of npy so that its tensor can be written to, which changes the file. Other formats refuse it.
func Writable() OpenOption { return func(o *opening) { o.writable = true } }

func openingOf(options []OpenOption) (o opening) {
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			option(&o)
		}
	}
	return o
}
