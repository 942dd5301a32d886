package payload

import (
	"encoding/binary"

	"github.com/dlbridge/dlbridge/bridge/elements"
)

// LittleEndian reports whether numbers lie in this machine's memory as all formats store them. Tests set it.
var LittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// CheckByteOrder returns [elements.ErrByteOrder] if elements of itemSize bytes would have to be swapped on this
// machine.
func CheckByteOrder(itemSize int) error {
	if !LittleEndian && itemSize > 1 {
		return elements.ErrByteOrder
	}
	return nil
}
