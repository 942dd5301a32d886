//go:build linux && cgo

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// What Send writes, in the byte order of the machine, since both processes run on it:
//
//	8 bytes   magic
//	4         size of what follows
//	4         number of tensors
//	4         number of segments: their descriptors come with the first byte (SCM_RIGHTS), in order
//	then for each tensor
//	4         number of its segment; 2^32-1 for a tensor without elements
//	4         data type, as in DLDataType
//	4         flags: wireReadOnly, wirePadded
//	4         rank
//	8         offset of element (0, ..., 0) in the segment, in bytes
//	8 × rank  shape
//	8 × rank  strides, in elements
//
// and zeros until there are 512 bytes in all, so that one read takes most messages, and never a byte of the next one.
const (
	magic      = "dlb-shm\x01"
	headerSize = 20
	firstSize  = 512
	recordSize = 24 // without shape and strides

	maxSegments = 253     // that one message of a Unix socket can carry
	maxWire     = 1 << 20 // bytes

	noSegment = 1<<32 - 1 // of a tensor without elements

	wireReadOnly = 1
	wirePadded   = 2
)

// A record describes one tensor.
type record struct {
	segment uint32
	spec    dlpack.Spec // ByteOffset counts from the beginning of the segment
}

// appendMessage writes the records behind dst, with the header.
func appendMessage(dst []byte, records []record, segments int) ([]byte, error) {
	order := binary.NativeEndian
	begin := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, make([]byte, headerSize-len(magic))...)
	for _, r := range records {
		flags := uint32(0)
		if r.spec.ReadOnly {
			flags |= wireReadOnly
		}
		if r.spec.Padded {
			flags |= wirePadded
		}
		dst = order.AppendUint32(dst, r.segment)
		dst = order.AppendUint32(dst, uint32(r.spec.DType))
		dst = order.AppendUint32(dst, flags)
		dst = order.AppendUint32(dst, uint32(len(r.spec.Shape)))
		dst = order.AppendUint64(dst, uint64(r.spec.ByteOffset))
		for _, sizes := range [][]int64{r.spec.Shape, r.spec.Strides} {
			for _, n := range sizes {
				dst = order.AppendUint64(dst, uint64(n))
			}
		}
	}
	if missing := firstSize - (len(dst) - begin); missing > 0 {
		dst = append(dst, make([]byte, missing)...)
	}
	size := len(dst) - begin - headerSize
	if size > maxWire {
		return nil, fmt.Errorf("the descriptions of %d tensors take %d bytes, more than %d: %w", len(records), size, maxWire, dlpack.ErrOverflow)
	}
	order.PutUint32(dst[begin+8:], uint32(size))
	order.PutUint32(dst[begin+12:], uint32(len(records)))
	order.PutUint32(dst[begin+16:], uint32(segments))
	return dst, nil
}

// readHeader checks a header, and returns the size of the rest and the numbers of tensors and segments.
func readHeader(data []byte) (size, tensors, segments int, err error) {
	order := binary.NativeEndian
	if string(data[:len(magic)]) != magic {
		return 0, 0, 0, fmt.Errorf("header: %q is not the beginning of tensors that Send has written: %w", data[:len(magic)], dlpack.ErrValue)
	}
	n, t, s := order.Uint32(data[8:]), order.Uint32(data[12:]), order.Uint32(data[16:])
	if n < firstSize-headerSize || n > maxWire || t > n/recordSize || s > maxSegments || s > t {
		return 0, 0, 0, fmt.Errorf("header: %d bytes, %d tensors and %d segments do not belong together: %w", n, t, s, dlpack.ErrValue)
	}
	return int(n), int(t), int(s), nil
}

// readRecords reads the descriptions of tensors, and checks all but where they lie.
func readRecords(data []byte, tensors, segments int) ([]record, error) {
	order := binary.NativeEndian
	records := make([]record, tensors)
	for i := range records {
		r := &records[i]
		wrong := func(what string, err error) ([]record, error) {
			if what != "" {
				what += ": "
			}
			return nil, fmt.Errorf("tensor %d: %s%w", i, what, err)
		}
		if len(data) < recordSize {
			return wrong("its description is cut", dlpack.ErrValue)
		}
		r.segment = order.Uint32(data)
		r.spec.DType = dlpack.DataType(order.Uint32(data[4:]))
		flags, rank := order.Uint32(data[8:]), order.Uint32(data[12:])
		offset := order.Uint64(data[16:])
		data = data[recordSize:]
		switch {
		case r.segment != noSegment && int64(r.segment) >= int64(segments):
			return wrong(fmt.Sprintf("segment %d of %d", r.segment, segments), dlpack.ErrValue)
		case flags&^(wireReadOnly|wirePadded) != 0:
			return wrong(fmt.Sprintf("flags %#x are not known", flags), dlpack.ErrValue)
		case uint64(len(data)) < 16*uint64(rank):
			return wrong("its description is cut", dlpack.ErrValue)
		case offset > 1<<62:
			return wrong(fmt.Sprintf("offset %d", offset), dlpack.ErrOverflow)
		}
		r.spec.ByteOffset = int64(offset)
		r.spec.ReadOnly, r.spec.Padded = flags&wireReadOnly != 0, flags&wirePadded != 0
		numbers := make([]int64, 2*rank)
		for k := range numbers {
			numbers[k] = int64(order.Uint64(data[8*k:]))
		}
		data = data[16*rank:]
		r.spec.Shape, r.spec.Strides = numbers[:rank:rank], numbers[rank:]
		if err := check(r.spec, r.segment == noSegment); err != nil {
			return wrong("", err)
		}
	}
	if len(data) >= firstSize {
		return nil, fmt.Errorf("%d bytes follow the description of the last tensor: %w", len(data), dlpack.ErrValue)
	}
	return records, nil
}

// check checks the description of a tensor, except where it lies. It must have elements, or none.
func check(s dlpack.Spec, none bool) error {
	if err := s.DType.Validate(); err != nil {
		return fmt.Errorf("data type: %w", err)
	}
	if len(s.Shape) > dlpack.MaxRank {
		return fmt.Errorf("%d dimensions are more than %d: %w", len(s.Shape), dlpack.MaxRank, dlpack.ErrLayout)
	}
	count, err := layout.Layout{Shape: s.Shape}.Count()
	if err == nil && none != (count == 0) {
		err = fmt.Errorf("%d elements, of which a tensor in a segment has some, and only such a tensor", count)
	}
	if err != nil {
		return fmt.Errorf("shape %v: %w", s.Shape, errors.Join(dlpack.ErrLayout, err))
	}
	return nil
}

// within returns the bytes of a segment that a tensor needs, from low up to high.
func (r record) within(size uint64) (low, high uint64, err error) {
	before, behind, err := span(r.spec.DType, layout.Layout{Shape: r.spec.Shape, Strides: r.spec.Strides}, r.spec.Padded)
	if err != nil {
		return 0, 0, err
	}
	at := uint64(r.spec.ByteOffset) // at most 2^62, as before and behind are at most 2^63
	count, err := layout.Layout{Shape: r.spec.Shape}.Count()
	if err != nil {
		return 0, 0, err
	}
	nbytes, err := r.spec.DType.NumBytes(count, r.spec.Padded)
	if err != nil {
		return 0, 0, err
	}
	if uint64(before) > at || at > size || uint64(behind) > size-at {
		return 0, 0, fmt.Errorf("its elements reach from byte %d to %d, and the segment has %d bytes: %w",
			r.spec.ByteOffset-before, at+uint64(behind), size, dlpack.ErrOverflow)
	}
	if uint64(nbytes) > size {
		return 0, 0, fmt.Errorf("it is a broadcast: its elements have %d bytes, and the segment %d: %w", nbytes, size, dlpack.ErrLayout)
	}
	return at - uint64(before), at + uint64(behind), nil
}
