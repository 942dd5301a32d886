package tensorflow

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// A Description is a TensorDescription: the type and shape of a tensor, and its memory in a process of TensorFlow
// (tensor_description.proto).
type Description struct {
	DType DType // as in the message: possibly 0 or an unknown type
	Shape layout.PartialShape
	// Allocation describes the memory, and is nil if the message does not.
	Allocation *Allocation
}

// An Allocation is an AllocationDescription: memory of the process that wrote the message
// (allocation_description.proto).
type Allocation struct {
	RequestedBytes     int64
	AllocatedBytes     int64
	AllocatorName      string
	AllocationID       int64
	HasSingleReference bool
	Ptr                uint64 // an address in that process
}

// DecodeDescription decodes a TensorDescription. Without a shape it describes a scalar.
//
// Errors: those of [DecodeShape]; also [ErrText] for the name of an allocator.
func DecodeDescription(data []byte) (Description, error) {
	var d Description
	var shape shapeProto
	var f record
	r := reader{data: data}
	for r.next(&f) {
		switch {
		case f.num == 1 && f.typ == protowire.VarintType:
			d.DType = DType(f.number())
		case f.num == 2 && f.typ == protowire.BytesType:
			if err := shape.read(f.sub()); err != nil {
				return Description{}, err
			}
		case f.num == 4 && f.typ == protowire.BytesType:
			if d.Allocation == nil {
				d.Allocation = new(Allocation)
			}
			if err := d.Allocation.read(f.sub()); err != nil {
				return Description{}, err
			}
		}
	}
	if f.err == nil {
		d.Shape, f.err = shape.partial()
	}
	if f.err != nil {
		return Description{}, f.err
	}
	return d, nil
}

func (a *Allocation) read(r reader) error {
	var f record
	for r.next(&f) {
		number := f.typ == protowire.VarintType
		switch {
		case f.num == 1 && number:
			a.RequestedBytes = int64(f.number())
		case f.num == 2 && number:
			a.AllocatedBytes = int64(f.number())
		case f.num == 3 && f.typ == protowire.BytesType:
			if !utf8.Valid(f.value) {
				return newError(f.at, ErrText, "name of an allocator")
			}
			a.AllocatorName = string(f.value)
		case f.num == 4 && number:
			a.AllocationID = int64(f.number())
		case f.num == 5 && number:
			a.HasSingleReference = f.number() != 0
		case f.num == 6 && number:
			a.Ptr = f.number()
		}
	}
	return f.err
}

// Append appends the description as a TensorDescription: the inverse of [DecodeDescription].
//
// Errors: [ErrText], [dlpack.ErrOverflow] for more than [MaxSize] bytes, [elements.ErrNil] for a nil Description; dst is then
// returned unchanged.
func (d *Description) Append(dst []byte) ([]byte, error) {
	if d == nil {
		return dst, fmt.Errorf("tensorflow: the Description is %w", elements.ErrNil)
	}
	if d.Allocation != nil {
		const others = 8 << 10 // larger than all other fields together
		name := len(d.Allocation.AllocatorName)
		if err := checkSize("TensorDescription", name+others, name); err != nil {
			return dst, err
		}
	}
	if d.Allocation != nil && !utf8.ValidString(d.Allocation.AllocatorName) {
		return dst, fmt.Errorf("tensorflow: name of an allocator %.40q: %w", d.Allocation.AllocatorName, ErrText)
	}
	dst = appendInt(dst, 1, int64(d.DType))
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 2, protowire.BytesType), AppendShape(nil, d.Shape))
	if d.Allocation == nil {
		return dst, nil
	}
	a := d.Allocation
	var out []byte
	out = appendInt(out, 1, a.RequestedBytes)
	out = appendInt(out, 2, a.AllocatedBytes)
	out = appendText(out, 3, a.AllocatorName)
	out = appendInt(out, 4, a.AllocationID)
	if a.HasSingleReference {
		out = appendInt(out, 5, 1)
	}
	out = appendInt(out, 6, int64(a.Ptr))
	return protowire.AppendBytes(protowire.AppendTag(dst, 4, protowire.BytesType), out), nil
}

func appendText(dst []byte, num protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), text)
}
