// Package decthingstest is for tests. It has named Decthings tensors that need much memory for their size.
package decthingstest

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// length appends n as a varint of Decthings, in the only form that decoders accept.
func length(dst []byte, n uint32) []byte {
	switch {
	case n < 253:
		return append(dst, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 253), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 254), n)
}

// Long returns a Decthings tensor of one dimension whose n elements all have the given bytes.
func Long(kind byte, n uint32, element string) []byte {
	return append(length([]byte{kind, 1}, n), strings.Repeat(element, int(n))...)
}

// Sectioned is [Long] with the length of the section before the elements.
func Sectioned(kind byte, n uint32, element string) []byte {
	head := length([]byte{kind, 1}, n)
	elements := strings.Repeat(element, int(n))
	return append(length(head, uint32(len(elements))), elements...)
}

// The data types of Decthings that Tensors uses.
const (
	f64, u8, text, binaries, boolean, image, audio = 2, 7, 11, 12, 13, 14, 15
)

// Tensors returns Decthings tensors, each in one of the dialects.
func Tensors() map[string][]byte {
	const n = 100_000
	return map[string][]byte{
		"empty strings":                       Long(text, n, "\x00"),
		"empty binaries":                      Long(binaries, n, "\x00"),
		"empty binaries, in a section":        Sectioned(binaries, n, "\x00"),
		"strings of a byte":                   Long(text, n, "\x01x"),
		"binaries of a byte":                  Long(binaries, n, "\x01x"),
		"images without content":              Long(image, n, "\x03png"),
		"images of two formats":               Long(image, n, "\x03png\x03jpg"),
		"images without format":               Sectioned(image, n, "\x01\x00"),
		"images with and without format":      Sectioned(image, n, "\x01\x00\x02\x01x"),
		"images in a section":                 Sectioned(audio, n, "\x03mp3"),
		"more strings than there are":         append(Long(text, n, "\x00"), 0)[:n],
		"a string that is no text at the end": append(Long(text, n, "\x00")[:n+6], 1, 0xff),
		"numbers that are not aligned":        Long(f64, n, "12345678"),
		"booleans":                            Long(boolean, n, "\x01"),
		"numbers that are said to be there":   append([]byte{f64, 1, 255}, "\x00\x00\x00\x0f1234"...),
		"as many dimensions as there can be":  append([]byte{u8, 255}, bytes.Repeat([]byte{1}, 256)...),
		"scalars, one after another":          bytes.Repeat([]byte{u8, 0, 1}, 1000),
		"many dimensions, one after another":  bytes.Repeat(append([]byte{u8, 255}, bytes.Repeat([]byte{1}, 256)...), 100),
		"dimensions of nine bytes":            append([]byte{text, 255}, bytes.Repeat([]byte{255, 0x7f, 0, 0, 0, 0, 0, 0, 1}, 255)...),
	}
}
