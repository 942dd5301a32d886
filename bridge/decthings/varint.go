package decthings

import "encoding/binary"

// The smallest values whose varint begins with the byte 253, 254 or 255, followed by 16, 32 or 64 bits, big-endian
// (Decthings, "Binary format"). A smaller value is a single byte.
const (
	varint16 = 253
	varint32 = 1 << 16
	varint64 = 1 << 32
)

// sizeVarint returns the size in bytes of the varint of x.
func sizeVarint(x uint64) int {
	switch {
	case x < varint16:
		return 1
	case x < varint32:
		return 3
	case x < varint64:
		return 5
	}
	return 9
}

func appendVarint(dst []byte, x uint64) []byte {
	switch {
	case x < varint16:
		return append(dst, byte(x))
	case x < varint32:
		return binary.BigEndian.AppendUint16(append(dst, 253), uint16(x))
	case x < varint64:
		return binary.BigEndian.AppendUint32(append(dst, 254), uint32(x))
	}
	return binary.BigEndian.AppendUint64(append(dst, 255), x)
}

// widthVarint returns the size in bytes of a varint with the given first byte.
func widthVarint(first byte) int {
	if first < varint16 {
		return 1
	}
	return 1 + 2<<(first-varint16)
}

// decodeVarint decodes the varint at data[at], where at must not exceed len(data), and returns the index after it.
// Errors: [ErrTruncated], [ErrVarint].
func decodeVarint(data []byte, at int) (x uint64, next int, err error) {
	if at == len(data) {
		return 0, 0, ErrTruncated
	}
	first := data[at]
	if first < varint16 {
		return uint64(first), at + 1, nil
	}
	n := widthVarint(first)
	if n > len(data)-at {
		return 0, 0, ErrTruncated
	}
	for _, b := range data[at+1 : at+n] {
		x = x<<8 | uint64(b)
	}
	if sizeVarint(x) < n {
		return 0, 0, ErrVarint
	}
	return x, at + n, nil
}
