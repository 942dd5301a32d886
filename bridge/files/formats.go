//go:build linux || darwin

package files

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/dlbridge/dlbridge/bridge/gguf"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The formats.
const (
	Safetensors Format = "safetensors"
	NPY         Format = "npy"
	NPZ         Format = "npz"
	GGUF        Format = "gguf"
)

// formats has a row for each format. Only tensors.go, which needs cgo, also knows the formats: tensorOf makes tensors
// from their descriptions, and writers write files.
var formats = []*row{
	{name: Safetensors, is: isSafetensors, parse: (*File).parseSafetensors},
	{name: NPY, is: begins("\x93NUMPY"), parse: (*File).parseNPY, writable: true},
	{name: NPZ, is: isZip, parse: (*File).parseNPZ},
	{name: GGUF, is: begins("GGUF"), parse: (*File).parseGGUF},
}

type row struct {
	name     Format
	writable bool                   // a file can be opened for writing
	is       func(data []byte) bool // reads only a few bytes
	// parse adds the tensors of a file, and its metadata. It reads only the descriptions of the tensors.
	parse func(f *File, p *part, o opening) error
}

// formatOf returns the row of the format of a file.
func formatOf(data []byte) (*row, error) {
	for _, row := range formats {
		if row.is(data) {
			return row, nil
		}
	}
	if bytes.HasPrefix(data, []byte("{")) {
		return nil, fmt.Errorf("byte 0: the file is JSON; OpenSet opens an index of safetensors: %w", ErrFormat)
	}
	var names []Format
	for _, row := range formats {
		names = append(names, row.name)
	}
	return nil, fmt.Errorf("byte 0: the file begins with %q, but must have one of the formats %v: %w", data[:min(len(data), 8)], names, ErrFormat)
}

// begins returns a function that reports whether a file begins with a text.
func begins(text string) func(data []byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(text)) }
}

// isZip reports whether a file begins with the header of a member, or with the end of the directory if there are no
// members.
func isZip(data []byte) bool { return begins("PK\x03\x04")(data) || begins("PK\x05\x06")(data) }

// isSafetensors reports whether a file begins with a length below 2^32 and a brace. The package of the format checks the length.
func isSafetensors(data []byte) bool {
	return len(data) > 8 && data[8] == '{' && string(data[4:8]) == "\x00\x00\x00\x00"
}

func (f *File) parseSafetensors(p *part, o opening) error {
	s, err := safetensors.DecodeFile(p.data)
	if err != nil {
		return err
	}
	f.grow(len(s.Tensors))
	for i := range s.Tensors {
		v := &s.Tensors[i]
		f.put(p, Entry{
			Name: v.Name, Type: v.DType.String(), DType: v.DType.DataType(), Shape: v.Shape,
			Offset: v.Offset, Size: int64(len(v.Data)), Aligned: v.Alignment() >= payload.Alignment(v.DType.DataType()),
		}, v)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
		f.metadata = append(f.metadata, Field{key, s.Metadata[key]})
	}
	return nil
}

const (
	nameless  = "arr_0" // the name that numpy.savez gives to an array without a name
	bigEndian = "big-endian"
	deflated  = "deflated"
)

func (f *File) parseNPY(p *part, o opening) error {
	n, err := npy.DecodeFile(p.data)
	if err != nil {
		return err
	}
	v := n.Tensors[0]
	v.Name = nameless
	if o.dtype != 0 {
		if v, err = v.As(o.dtype); err != nil {
			return err
		}
	}
	if o.writable && v.BigEndian {
		return fmt.Errorf("the array of type %s is big-endian, so it cannot be opened for writing: %w", v.Type, ErrFormat)
	}
	f.putArray(p, &v)
	return nil
}

func (f *File) parseNPZ(p *part, o opening) error {
	n, err := npy.DecodeZip(p.data)
	if err != nil {
		return err
	}
	f.grow(len(n.Tensors))
	for i := range n.Tensors {
		v := &n.Tensors[i]
		if o.dtype != 0 {
			if as, err := v.As(o.dtype); err == nil { // otherwise the type is the one that the file says
				v = &as
			}
		}
		f.putArray(p, v)
	}
	return nil
}

func (f *File) putArray(p *part, v *npy.View) {
	e := Entry{Name: v.Name, Err: v.Err}
	if v.Err == nil {
		e = Entry{Name: v.Name, Type: v.Type, DType: v.DType, Shape: v.Shape, Offset: v.Offset, Size: v.Size}
		e.Aligned = v.Size == 0 || v.Alignment() >= payload.Alignment(v.DType)
	}
	switch {
	case v.Compressed:
		e.Copied, e.Aligned = deflated, true
	case v.BigEndian:
		e.Copied = bigEndian
	}
	f.put(p, e, v)
}

func (f *File) parseGGUF(p *part, o opening) error {
	g, err := gguf.DecodeFile(p.data)
	if err != nil {
		return err
	}
	f.grow(len(g.Tensors))
	for i := range g.Tensors {
		v := &g.Tensors[i]
		dtype := v.DType.DataType()
		if dtype == 0 { // quantised
			dtype = dlpack.Uint8
		}
		f.put(p, Entry{
			Name: v.Name, Type: v.DType.String(), DType: dtype, Shape: v.Shape,
			Offset: v.Offset, Size: int64(len(v.Data)), Aligned: v.Alignment() >= payload.Alignment(dtype),
		}, v)
	}
	for _, m := range g.Metadata {
		f.metadata = append(f.metadata, Field(m))
	}
	return nil
}
