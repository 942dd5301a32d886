package payload

import (
	"encoding/binary"
	"fmt"
)

// FindNonBool returns the index of the first byte that is neither 0 nor 1, and a text about that byte for an error that
// wraps [dlpack.ErrValue]. The text is empty if all bytes are 0 or 1.
func FindNonBool(data []byte) (index int, where string) {
	i := 0
	for ; len(data)-i >= 8; i += 8 {
		if binary.NativeEndian.Uint64(data[i:])&0xfefefefefefefefe != 0 {
			break
		}
	}
	for ; i < len(data); i++ {
		if data[i] > 1 {
			return i, fmt.Sprintf("element %d of a bool tensor is %d, but must be 0 or 1", i, data[i])
		}
	}
	return 0, ""
}
