package capi

/*
#include "message.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

// C: dlb_message_decode
//
//export capiDecode
func capiDecode(op *C.dlbcapi_name, out **C.dlb_message, frames *C.dlb_frame, count C.size_t, options C.uint64_t, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_FORMAT, func() error {
		in := unsafe.Slice(frames, int(count))
		prefix := 0
		if len(in) > 0 {
			prefix = int(in[0].size)
		}
		room, err := roomAfter(options, prefix, len(in))
		if err != nil {
			return err
		}
		list, free, err := viewList(in, viewFrame)
		if err != nil {
			return err
		}
		defer free()
		return decode(out, list, len(list), options, room, func(m *message) error {
			for i, frame := range list {
				m.frame(i, frame, in[i].flags)
			}
			return nil
		})
	})
}

func viewFrame(f C.dlb_frame) []byte { return view(f.data, f.size) }

// C: dlb_message_decode_packed, and with next, where the message ends, dlb_message_decode_next
//
//export capiDecodePacked
func capiDecodePacked(op *C.dlbcapi_name, out **C.dlb_message, next *C.size_t, packed *C.dlb_frame, offset C.size_t, options C.uint64_t, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_FORMAT, func() error {
		data := view(packed.data, packed.size)[offset:]
		if next != nil {
			n, err := tens.SizeFirst(data)
			if fault, ok := errors.AsType[*tens.Error](err); ok {
				fault.Offset += int(offset)
			}
			if err != nil {
				return err
			}
			data, *next = data[:n], offset+C.size_t(n)
		}
		var few [2][]byte // header and label
		count := 0
		for frame, err := range tens.DecodeAllFrames(data) {
			if err != nil {
				return err
			}
			if count < len(few) {
				few[count] = frame
			}
			count++
		}
		frames := few[:min(count, len(few))]
		room, err := roomAfter(options, len(few[0]), count)
		if err != nil {
			return err
		}
		if options&C.DLB_DECODE_MESSAGE_ONLY == 0 { // the label is checked against the parts
			all, free, err := newList[[]byte](count)
			if err != nil {
				return err
			}
			defer free()
			if err := eachFrame(data, count, func(i int, frame []byte) { all[i] = frame }); err != nil {
				return err
			}
			frames = all
		}
		return decode(out, frames, count, options, room, func(m *message) error {
			return eachFrame(data, count, func(i int, frame []byte) { m.frame(i, frame, packed.flags) })
		})
	})
}

// DLB_LIMIT counts this many bytes of memory for each frame of a message, for each piece of a tensor in several parts,
// for each dimension of a piece, and (perByte) for each byte of the prefix, which contains the label. The numbers for a
// piece include the tensor that a program, in C or Python, makes of it.
const (
	perFrame          = 128
	perPiece          = 1600
	perPieceDimension = 64
)

// roomAfter returns the bytes of memory that the limit in the options leaves for tensors in several parts, after a
// prefix of prefix bytes and count frames. Without a limit it returns noLimit. It returns an error if nothing is left.
func roomAfter(options C.uint64_t, prefix, count int) (int64, error) {
	limit := limitOf(options, noLimit)
	if limit == noLimit {
		return noLimit, nil
	}
	if options&C.DLB_DECODE_MESSAGE_ONLY != 0 {
		prefix = 0
	}
	if int64(count) <= limit/perFrame && int64(prefix) <= (limit-int64(count)*perFrame)/perByte {
		return limit - int64(count)*perFrame - int64(prefix)*perByte, nil
	}
	return 0, fmt.Errorf("dlbridge: a prefix of %d bytes and %d frames take more than %d bytes; Limit allows more", prefix, count, limit)
}

// noLimit stands for a call without DLB_LIMIT.
const noLimit = math.MaxInt64

// eachFrame calls set with each packed frame. The frames were counted before; it fails if another thread has changed
// their number since then.
func eachFrame(data []byte, count int, set func(i int, frame []byte)) error {
	i := 0
	for frame, err := range tens.DecodeAllFrames(data) {
		if err != nil {
			return err
		}
		if i < count {
			set(i, frame)
		}
		i++
	}
	if i != count {
		return fmt.Errorf("dlbridge: %d frames became %d while they were decoded", count, i)
	}
	return nil
}

// decode makes a message with count frames, which setFrames sets. frames has all of them, or at least the first two
// with the option DLB_DECODE_MESSAGE_ONLY. room is the result of roomAfter.
func decode(out **C.dlb_message, frames [][]byte, count int, options C.uint64_t, room int64, setFrames func(m *message) error) error {
	msg, err := tens.Decode(frames)
	if err != nil {
		return err
	}
	label := &tens.Label{}
	if options&C.DLB_DECODE_MESSAGE_ONLY == 0 {
		if err := dlpack.RequireMemory(perByte * int64(len(msg.Label))); err != nil {
			return err
		}
		if label, err = msg.DecodeLabel(); err != nil {
			return err
		}
	}
	size := messageSize{frames: count, text: len(label.Metadata)}
	join := options&C.DLB_DECODE_JOIN != 0
	sizeOf := func(part int) int64 { return int64(len(msg.Parts[part])) }
	var budget *bridge.Budget
	for i := range label.Tensors {
		t := &label.Tensors[i]
		size.text += len(t.Metadata) + len(t.Name())
		if !t.IsDense() {
			size.tensors++
			continue
		}
		if rank := len(t.Shape); rank > dlpack.MaxRank { // before memory for the dimensions is allocated
			return fmt.Errorf("bridge: tensor %d: rank %d is more than %d: %w", i, rank, dlpack.MaxRank, dlpack.ErrLayout)
		}
		pieces := 1
		if t.Parts > 1 {
			if pieces = t.Parts; budget == nil {
				budget = budgetOf(label, msg.Parts, sizeOf, join, room)
			}
			for _, err := range bridge.Pieces(t, sizeOf, budget) {
				if err != nil {
					return fmt.Errorf("bridge: tensor %d: %w", i, err)
				}
			}
			if join {
				pieces = 1
				size.joined++
			}
		}
		size.tensors += pieces
		size.dims += 2 * len(t.Shape) * pieces
	}
	var joined []*dlpack.Tensor
	if size.joined > 0 {
		if joined, err = joinedOf(label, msg.Parts); err != nil {
			return err
		}
		defer func() {
			for _, t := range joined {
				t.Close()
			}
		}()
	}
	return newMessage(out, msg, size, func(m *message) error {
		if err := setFrames(m); err != nil {
			return err
		}
		m.c.label = text(msg.Label)
		m.c.metadata = m.keep(label.Metadata)
		at, copies := 0, 0 // indices of the tensors of the message
		for i := range label.Tensors {
			t := &label.Tensors[i]
			metadata, name := m.keep(t.Metadata), m.keep([]byte(t.Name()))
			m.tensors[at].metadata, m.tensors[at].name = metadata, name
			switch {
			case !t.IsDense(): // it has no frame: see dlb_message_tensor_at
				if t.OnlyMetadata() {
					m.tensors[at].only_metadata = 1
				}
				at++
				continue
			case t.Parts > 1 && join:
				if err := m.joined(at, copies, t, joined[copies]); err != nil {
					return fmt.Errorf("bridge: tensor %d: %w", i, err)
				}
				at, copies = at+1, copies+1
				continue
			}
			for piece, err := range bridge.Pieces(t, func(part int) int64 { return int64(m.frames[2+part].size) }, nil) {
				if err == nil {
					m.tensors[at].metadata, m.tensors[at].name = metadata, name
					err = m.described(at, piece)
				}
				if err != nil {
					return fmt.Errorf("bridge: tensor %d: %w", i, err)
				}
				at++
			}
		}
		return nil
	})
}

// budgetOf returns the budget for the tensors of a label that lie in several parts. It is room bytes; with noLimit it
// is the budget of [bridge.Decode]. A piece takes more memory here than in Go. If the budget is exceeded, the error
// says how much all these tensors need together.
func budgetOf(label *tens.Label, parts [][]byte, sizeOf func(part int) int64, join bool, room int64) *bridge.Budget {
	payload := int64(0)
	for part := range parts {
		payload += sizeOf(part)
	}
	b := bridge.NewBudget(payload, join)
	b.Piece, b.Dimension = perPiece, perPieceDimension
	if room != noLimit {
		b.Bytes = room
		b.Exceeded = func(b *bridge.Budget) error {
			need := int64(0)
			for i := range label.Tensors {
				need += b.Need(&label.Tensors[i], sizeOf)
			}
			return fmt.Errorf("joining the tensors that are in several parts needs %d bytes, but the limit leaves %d; Limit allows more", need, b.Bytes)
		}
	}
	return &b
}

// joinedOf returns copies of the tensors in several parts, in order. The caller closes them.
func joinedOf(label *tens.Label, parts [][]byte) ([]*dlpack.Tensor, error) {
	spread := &tens.Label{}
	for i := range label.Tensors {
		if t := label.Tensors[i]; t.Parts > 1 && t.IsDense() {
			t.Metadata = nil
			spread.Tensors = append(spread.Tensors, t)
		}
	}
	msg := &tens.Message{Form: [4]byte{'T', 'E', 'N', 'S'}, Parts: parts}
	if err := msg.EncodeLabel(spread); err != nil {
		return nil, err
	}
	return bridge.Decode(msg, bridge.Join())
}

// C: dlb_message_encode_parts
//
//export capiEncodeParts
func capiEncodeParts(op *C.dlbcapi_name, out **C.dlb_message, header *C.dlb_header, label C.dlb_bytes, parts *C.dlb_frame, count C.size_t, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_ARGUMENT, func() error {
		in := unsafe.Slice(parts, int(count))
		list, free, err := viewList(in, viewFrame)
		if err != nil {
			return err
		}
		defer free()
		msg := &tens.Message{Label: viewText(label), Parts: list}
		setHeader(msg, header)
		return newMessage(out, msg, messageSize{frames: 2 + len(in)}, func(m *message) error {
			for i, part := range msg.Parts {
				m.frame(2+i, part, in[i].flags)
			}
			return m.head(msg)
		})
	})
}

func setHeader(msg *tens.Message, header *C.dlb_header) {
	msg.Level = int(header.level)
	for i, c := range header.form {
		msg.Form[i] = byte(c)
	}
	msg.Origin, msg.Granule, msg.Seqno = uint64(header.origin), uint64(header.granule), uint64(header.seqno)
}

// C: dlb_message_encode. Of tensors only metadata and names are used; taken has the same tensors without deleters.
//
//export capiEncode
func capiEncode(op *C.dlbcapi_name, out **C.dlb_message, fields *C.dlb_message_fields, tensors *C.dlb_message_tensor, taken *C.DLManagedTensorVersioned, count C.size_t, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_ARGUMENT, func() error {
		in := unsafe.Slice(taken, int(count))
		need := perByte * int64(fields.label.size) // bridge.Encode asks for what else the label takes
		given := unsafe.Slice(tensors, int(count))
		for i := range in {
			need += perTensor + perDimension*int64(in[i].dl_tensor.ndim) + perByte*int64(nameOf(given[i]).size)
		}
		if err := dlpack.RequireMemory(need); err != nil {
			return err
		}
		ts, how := make([]*dlpack.Tensor, 0, len(in)), make([]bool, len(in))
		defer func() {
			for _, t := range ts {
				t.Close()
			}
		}()
		for i := range in {
			if given[i].tensor == nil { // bridge.Relay has a tensor for it
				ts = append(ts, nil)
				continue
			}
			t, copied, err := packed(unsafe.Pointer(&in[i]))
			if err != nil {
				return payload.WithFormat(fmt.Sprintf("dlbridge: tensor %d", i), err)
			}
			ts = append(ts, t)
			how[i] = copied
		}
		var options []bridge.EncodeOption
		var relay []C.dlbcapi_frame // the payload parts of the message that is relayed
		if r := fields.relay; r != nil {
			relay = unsafe.Slice(r.frames, int(r.frame_count))[2:]
			parts, free, err := viewList(relay, func(f C.dlbcapi_frame) []byte { return view(unsafe.Pointer(f.data), f.size) })
			if err != nil {
				return err
			}
			defer free()
			decoded := &tens.Message{Label: viewText(r.label), Parts: parts}
			setHeader(decoded, &r.header)
			options = append(options, bridge.Relay(decoded))
		}
		if fields.metadata.size > 0 {
			options = append(options, bridge.Metadata(viewText(fields.metadata)))
		}
		var names []string // nil if no tensor has one
		for i, t := range given {
			if t.metadata.size > 0 {
				options = append(options, bridge.TensorMetadata(i, viewText(t.metadata)))
			}
			if t.name != nil {
				if names == nil {
					names = make([]string, len(given))
				}
				names[i] = viewString(nameOf(t))
			}
		}
		if names != nil {
			options = append(options, bridge.Names(names...))
		}
		if fields.label.size > 0 {
			attributes, err := tens.DecodeAttributes(viewText(fields.label))
			if err != nil {
				return err
			}
			options = append(options, bridge.LabelAttributes(attributes))
		}
		if fields.spread > 0 {
			options = append(options, bridge.Spread(int64(min(fields.spread, math.MaxInt64))))
		}
		var label *tens.Label
		options = append(options, func(l *tens.Label) error { label = l; return nil })
		msg, _, err := bridge.Encode(ts, options...)
		if err != nil {
			return err
		}
		metadata := label.Metadata
		if metadata == nil && fields.relay == nil {
			metadata = []byte("{}")
		}
		size := messageSize{frames: 2 + len(msg.Parts), tensors: len(ts), text: len(metadata)}
		for i := range label.Tensors {
			t := &label.Tensors[i]
			size.dims += 2 * len(t.Shape)
			size.text += len(t.Metadata) + len(t.Name())
		}
		form := msg.Form
		setHeader(msg, &fields.header)
		if msg.Form == [4]byte{} {
			if msg.Form = form; fields.relay != nil {
				setHeader(msg, &fields.relay.header)
			}
		}
		return newMessage(out, msg, size, func(m *message) error {
			m.c.metadata = m.keep(metadata)
			for i, t := range ts {
				m.tensors[i].metadata, m.tensors[i].name = m.keep(label.Tensors[i].Metadata), m.keep([]byte(label.Tensors[i].Name()))
				if t == nil {
					if label.Tensors[i].OnlyMetadata() {
						m.tensors[i].only_metadata = 1
					}
					continue
				}
				part, count := label.Tensors[i].Part, max(label.Tensors[i].Parts, 1)
				pieces := msg.Parts[part : part+count]
				if how[i] {
					if err := m.copied(i, part, pieces, t); err != nil {
						return err
					}
					continue
				}
				flags := C.uint64_t(C.DLB_FRAME_WRITABLE)
				if t.ReadOnly() {
					flags = 0
				}
				for k, piece := range pieces {
					m.frame(2+part+k, piece, flags)
				}
				m.tensor(i, 2+part, part, count, t)
			}
			m.keepParts(relay, msg.Parts)
			return m.head(msg)
		})
	})
}

// nameOf returns the name that the program gives a tensor to encode.
func nameOf(t C.dlb_message_tensor) C.dlb_bytes {
	if t.name == nil {
		return C.dlb_bytes{}
	}
	return C.dlb_bytes{data: t.name, size: C.strlen(t.name)}
}

// packed returns a tensor whose memory can be a payload part: the tensor that taken describes, or a copy. The copy is
// in C memory, because it may be much larger than its source (a broadcast), and a failed allocation of Go memory would
// end the process. The caller closes the tensor.
func packed(taken unsafe.Pointer) (t *dlpack.Tensor, copied bool, err error) {
	if t, err = dlpack.Import(taken, dlpack.WithoutGuard); err != nil {
		return nil, false, err
	}
	_, err = bridge.EncodeTensor(t.DType(), t.Flags()&dlpack.SubbytePadded != 0, t.Shape(), t.Strides())
	if !errors.Is(err, dlpack.ErrLayout) {
		return t, false, nil
	}
	defer t.Close()
	t, err = t.Copy()
	return t, true, err
}

// C: dlb_message_encode_packed
//
//export capiEncodePacked
func capiEncodePacked(op *C.dlbcapi_name, out *C.dlbcapi_frame, message *C.dlb_message, e *C.dlb_error) C.int32_t {
	return guard(of(op), e, C.DLB_ERROR_ARGUMENT, func() error {
		frames, free, err := viewList(unsafe.Slice(message.frames, int(message.frame_count)), func(f C.dlbcapi_frame) []byte {
			return view(unsafe.Pointer(f.data), f.size)
		})
		if err != nil {
			return err
		}
		defer free()
		n, err := tens.SizeFrames(frames)
		if err != nil {
			return err
		}
		share := C.dlbcore_share_alloc(C.size_t(n), 0)
		if share == nil {
			return errMemory
		}
		defer func() { // a fault in a frame is a panic
			if out.share == nil {
				C.dlbcore_share_drop(share)
			}
		}()
		if _, err := tens.AppendFrames(view(share.data, C.size_t(n))[:0], frames); err != nil {
			return err
		}
		out.share, out.data, out.size = share, (*C.char)(share.data), C.size_t(n)
		return nil
	})
}
