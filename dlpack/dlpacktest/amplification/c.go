//go:build cgo && linux

package amplification

// #include <malloc.h>
import "C"

// usedByC returns the number of bytes of C memory in use.
func usedByC() int64 {
	info := C.mallinfo2()
	return int64(info.uordblks + info.hblkhd)
}
