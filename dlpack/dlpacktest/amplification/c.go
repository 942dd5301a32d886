//go:build cgo && linux

package amplification

// #include <malloc.h>
import "C"

// usedByC returns how many bytes of C memory are in use.
func usedByC() int64 {
	info := C.mallinfo2()
	return int64(info.uordblks + info.hblkhd)
}
