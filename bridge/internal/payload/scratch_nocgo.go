//go:build !cgo

package payload

// Scratch returns zeroed Go memory. There is no C memory without cgo.
func Scratch(size int64) (data []byte, free func(), err error) {
	return make([]byte, size), func() {}, nil
}
