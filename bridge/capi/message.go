package capi

/*
#include "capi.h"
*/
import "C"

import (
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

// A message is a dlb_message that is being filled. What is stored in it are addresses of C memory.
type message struct {
	c       *C.dlb_message
	frames  []C.capi_frame
	tensors []C.capi_tensor
	dims    []C.int64_t
	text    []byte
}

// newMessage makes a message with the fields of msg, copies of the metadata, and room for the frames and
// tensors, which fill fills in. Unless fill comes to a good end there is no message.
func newMessage(out **C.dlb_message, msg *tens.Message, metadata []byte, texts [][]byte, ts []*dlpack.Tensor, fill func(*message) error) error {
	frames, dims, size := 2+len(msg.Parts), 0, len(metadata)
	for i, t := range ts {
		dims += 2 * t.Rank()
		size += len(texts[i])
	}
	c := C.capi_message_new(C.size_t(frames), C.size_t(len(ts)), C.size_t(dims), C.size_t(size))
	if c == nil {
		return errMemory
	}
	done := false
	defer func() {
		if !done {
			C.dlb_message_free(c)
		}
	}()
	m := &message{
		c:       c,
		frames:  unsafe.Slice(c.frames, frames),
		tensors: unsafe.Slice(c.tensors, len(ts)),
		dims:    unsafe.Slice(c.dims, dims),
		text:    view(unsafe.Pointer(c.text), C.size_t(size)),
	}
	c.header.level = C.int32_t(msg.Level)
	for i, b := range msg.Form {
		c.header.form[i] = C.char(b)
	}
	c.header.origin, c.header.granule, c.header.seqno = C.uint64_t(msg.Origin), C.uint64_t(msg.Granule), C.uint64_t(msg.Seqno)
	c.metadata = m.keep(metadata)
	for i, t := range texts {
		m.tensors[i].metadata = m.keep(t)
	}
	if err := fill(m); err != nil {
		return err
	}
	if fault != nil {
		fault(2)
	}
	done, *out = true, c
	return nil
}

// keep copies metadata into the message.
func (m *message) keep(metadata []byte) C.dlb_bytes {
	n := copy(m.text, metadata)
	kept := text(m.text[:n])
	m.text = m.text[n:]
	return kept
}

// text is C's view of bytes in C memory.
func text(b []byte) C.dlb_bytes {
	if len(b) == 0 {
		return C.dlb_bytes{}
	}
	return C.dlb_bytes{data: (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), size: C.size_t(len(b))}
}

// frame sets frame i to bytes in C memory.
func (m *message) frame(i int, b []byte, flags C.uint64_t) {
	t := text(b)
	m.frames[i].data, m.frames[i].size, m.frames[i].flags = t.data, t.size, flags
}

// head writes prefix and header into memory of their own.
func (m *message) head(msg *tens.Message) error {
	size := tens.SizePrefix(msg.Label)
	share := C.core_share_alloc(C.size_t(size+tens.HeaderSize), 0)
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
	C.core_share_take(share)
	m.frames[1].share = share
	m.frame(0, prefix, C.DLB_FRAME_WRITABLE)
	m.frame(1, header, C.DLB_FRAME_WRITABLE)
	m.c.label = text(prefix[size-len(msg.Label):])
	return nil
}

// tensor sets tensor i to a view of a frame.
func (m *message) tensor(i, frame int, t *dlpack.Tensor) {
	out := &m.tensors[i]
	out.frame = &m.frames[frame]
	out.view.device = C.DLDevice{device_type: C.DLDeviceType(t.Device().Type), device_id: C.int32_t(t.Device().ID)}
	out.view.dtype = C.DLDataType{code: C.uint8_t(t.DType().Code()), bits: C.uint8_t(t.DType().Bits()), lanes: C.uint16_t(t.DType().Lanes())}
	out.view.ndim = C.int32_t(t.Rank())
	shape := m.dims[:t.Rank()]
	for d := range shape {
		shape[d] = C.int64_t(t.Dim(d))
	}
	m.dims = m.dims[len(shape):]
	if len(shape) > 0 {
		out.view.shape = &shape[0]
	}
	strides := m.dims[:t.Rank()]
	for d := range strides {
		strides[d] = C.int64_t(t.Stride(d))
	}
	m.dims = m.dims[len(strides):]
	if len(strides) > 0 {
		out.view.strides = &strides[0]
	}
	// An address in a frame of the caller's, of a tensor's, or of a copy in C memory.
	*(*uintptr)(unsafe.Pointer(&out.view.data)) = t.Data()
	out.flags = C.uint64_t(t.Flags() & dlpack.SubbytePadded)
	if m.frames[frame].flags&C.DLB_FRAME_WRITABLE == 0 {
		out.flags |= C.DLPACK_FLAG_BITMASK_READ_ONLY
	}
}

// copied sets part i to a copy of the elements of tensor i, which the message comes to own.
func (m *message) copied(i int, part []byte, t *dlpack.Tensor) error {
	managed, err := t.Export()
	if err != nil {
		return err
	}
	share := C.core_share_versioned((*C.DLManagedTensorVersioned)(managed))
	if share == nil {
		dlpack.Release(managed)
		return errMemory
	}
	m.frames[2+i].share = share
	m.frame(2+i, part, C.DLB_FRAME_WRITABLE)
	m.tensor(i, 2+i, t)
	m.tensors[i].copied = 1
	return nil
}
