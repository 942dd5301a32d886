package capi

/*
#include "message.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

// message fills a dlb_message. It stores only addresses of C memory.
type message struct {
	c       *C.dlb_message
	frames  []C.dlbcapi_frame
	tensors []C.dlbcapi_tensor
	dims    []C.int64_t
	text    []byte
	message [256]byte // error text of the C core
}

// messageSize has the number of entries that a message needs: frames, joined tensors, tensors, sizes and strides of all
// tensors (dims), and bytes of metadata and names (text).
type messageSize struct{ frames, joined, tensors, dims, text int }

// newMessage sets out to a new message with the fields of msg. fill sets its frames, tensors, metadata and names. If fill fails or
// panics, the message is freed.
func newMessage(out **C.dlb_message, msg *tens.Message, size messageSize, fill func(*message) error) error {
	c := C.dlbcapi_message_new(C.size_t(size.frames), C.size_t(size.joined), C.size_t(size.tensors), C.size_t(size.dims), C.size_t(size.text))
	if c == nil {
		return errMemory
	}
	done := false
	defer func() {
		if !done {
			C.dlbcapi_message_end(c)
		}
	}()
	m := &message{
		c:       c,
		frames:  unsafe.Slice(c.frames, size.frames+size.joined),
		tensors: unsafe.Slice(c.tensors, size.tensors),
		dims:    unsafe.Slice(c.dims, size.dims),
		text:    view(unsafe.Pointer(c.text), C.size_t(size.text)),
	}
	c.header.level = C.int32_t(msg.Level)
	for i, b := range msg.Form {
		c.header.form[i] = C.char(b)
	}
	c.header.origin, c.header.granule, c.header.seqno = C.uint64_t(msg.Origin), C.uint64_t(msg.Granule), C.uint64_t(msg.Seqno)
	if err := fill(m); err != nil {
		return err
	}
	if injectFault != nil {
		injectFault(2)
	}
	done, *out = true, c
	return nil
}

// keep copies metadata or a name into the message.
func (m *message) keep(s []byte) C.dlb_bytes {
	n := copy(m.text, s)
	kept := text(m.text[:n])
	m.text = m.text[n:]
	return kept
}

// text returns bytes in C memory as a dlb_bytes.
func text(b []byte) C.dlb_bytes {
	if len(b) == 0 {
		return C.dlb_bytes{}
	}
	return C.dlb_bytes{data: (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), size: C.size_t(len(b))}
}

// frame sets frame i to bytes in C memory, but not its share.
func (m *message) frame(i int, b []byte, flags C.uint64_t) {
	t := text(b)
	m.frames[i].data, m.frames[i].size, m.frames[i].flags = t.data, t.size, flags
}

// head encodes the prefix and the header (frames 0 and 1) into new memory.
func (m *message) head(msg *tens.Message) error {
	size := tens.SizePrefix(msg.Label)
	share := C.dlbcore_share_alloc(C.size_t(size+tens.HeaderSize), 0)
	if share == nil {
		return errMemory
	}
	m.frames[0].share = share
	room := view(share.data, C.size_t(size+tens.HeaderSize))
	prefix, err := tens.AppendPrefix(room[:0:size], msg.Level, msg.Form, msg.Label)
	if err != nil {
		return err
	}
	header := tens.AppendHeader(room[size:size], msg.Origin, msg.Granule, msg.Seqno)
	C.dlbcore_share_retain(share)
	m.frames[1].share = share
	m.frame(0, prefix, C.DLB_FRAME_WRITABLE)
	m.frame(1, header, C.DLB_FRAME_WRITABLE)
	m.c.label = text(prefix[size-len(msg.Label):])
	return nil
}

// keepParts takes from the relayed message the payload parts without a tensor of this message.
func (m *message) keepParts(relay []C.dlbcapi_frame, parts [][]byte) {
	taken := make([]bool, len(parts))
	for i := range m.tensors {
		t := &m.tensors[i]
		for k := range int(t.parts) {
			taken[int(t.part)+k] = true
		}
	}
	for i := range relay {
		if !taken[i] {
			m.frame(2+i, parts[i], relay[i].flags)
			C.dlbcore_share_retain(relay[i].share)
			m.frames[2+i].share = relay[i].share
		}
	}
}

// tensor sets tensor i to t, whose elements lie in the given number of payload parts, from index part on.
// m.frames[frame] has the share of its memory.
func (m *message) tensor(i, frame, part, parts int, t *dlpack.Tensor) {
	m.tensors[i].part, m.tensors[i].parts = C.size_t(part), C.size_t(parts)
	out := m.describe(i, frame, t.DType(), t.Flags()&dlpack.SubbytePadded != 0, t.Shape(), t.Strides())
	out.view.device = C.DLDevice{device_type: C.DLDeviceType(t.Device().Type), device_id: C.int32_t(t.Device().ID)}
	// The address is in a frame, or in a copy in C memory. It is stored as an integer, because it need not be valid as a
	// Go pointer.
	*(*uintptr)(unsafe.Pointer(&out.view.data)) = t.Data()
}

// described sets tensor i to a view of its payload part. The view has the description t from the label.
func (m *message) described(i int, t *tens.Tensor) error {
	frame := &m.frames[2+t.Part]
	what, err := bridge.DecodePiece(t, int64(frame.size))
	if err != nil {
		return err
	}
	m.tensors[i].part, m.tensors[i].parts = C.size_t(t.Part), 1
	out := m.describe(i, 2+t.Part, what.DType, what.Padded, what.Layout.Shape, what.Layout.Strides)
	out.view.device.device_type = C.kDLCPU
	if what.NBytes > 0 {
		out.view.data = unsafe.Add(unsafe.Pointer(frame.data), what.Layout.Offset*int64(what.DType.ItemSize()))
	}
	message := (*C.char)(unsafe.Pointer(&m.message[0]))
	if status := C.dlbcore_check_tensor(&out.view, out.flags, nil, message, C.size_t(len(m.message))); status != C.CORE_OK {
		return fmt.Errorf("%s: %w", C.GoString(message), dlpack.ErrLayout)
	}
	return nil
}

// describe sets the frame, the flags and the view of tensor i, except the view's device and data. It returns the
// tensor.
func (m *message) describe(i, frame int, dt dlpack.DataType, padded bool, shape, strides []int64) *C.dlbcapi_tensor {
	out := &m.tensors[i]
	out.frame = &m.frames[frame]
	out.view.dtype = C.DLDataType{code: C.uint8_t(dt.Code()), bits: C.uint8_t(dt.Bits()), lanes: C.uint16_t(dt.Lanes())}
	out.view.ndim = C.int32_t(len(shape))
	if n := len(shape); n > 0 {
		dims := unsafe.Slice((*int64)(unsafe.Pointer(&m.dims[0])), 2*n)
		copy(dims, shape)
		copy(dims[n:], strides)
		out.view.shape, out.view.strides = &m.dims[0], &m.dims[n]
		m.dims = m.dims[2*n:]
	}
	if padded {
		out.flags = C.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
	}
	if m.frames[frame].flags&C.DLB_FRAME_WRITABLE == 0 {
		out.flags |= C.DLPACK_FLAG_BITMASK_READ_ONLY
	}
	return out
}

// joined sets tensor i to t, the k-th joined tensor, which is a copy of its parts. The message takes a share of t.
func (m *message) joined(i, k int, in *tens.Tensor, t *dlpack.Tensor) error {
	share, err := shareOf(t)
	if err != nil {
		return err
	}
	frame := int(m.c.frame_count) + k
	m.frames[frame].share, m.frames[frame].flags = share, C.DLB_FRAME_WRITABLE
	m.tensor(i, frame, in.Part, in.Parts, t)
	m.tensors[i].flags |= C.DLPACK_FLAG_BITMASK_IS_COPIED
	m.tensors[i].copied = 1
	return nil
}

// copied sets tensor i to t, a copy of the caller's tensor, and its payload parts, from index part on, to parts of the
// memory of t. The message takes a share of t.
func (m *message) copied(i, part int, parts [][]byte, t *dlpack.Tensor) error {
	share, err := shareOf(t)
	if err != nil {
		return err
	}
	for k, b := range parts {
		m.frame(2+part+k, b, C.DLB_FRAME_WRITABLE)
	}
	m.tensor(i, 2+part, part, len(parts), t)
	m.tensors[i].copied = 1
	C.dlbcapi_message_share(m.c, C.size_t(i), share)
	return nil
}

// shareOf returns a share of the memory of t.
func shareOf(t *dlpack.Tensor) (*C.dlbcore_share, error) {
	managed, err := t.Export()
	if err != nil {
		return nil, err
	}
	share := C.dlbcore_share_versioned((*C.DLManagedTensorVersioned)(managed))
	if share == nil {
		dlpack.Release(managed)
		return nil, errMemory
	}
	return share, nil
}
