//go:build cgo

package peers

/*
#cgo pkg-config: libczmq
#include <czmq.h>
*/
import "C"

import (
	"errors"
	"unsafe"
)

// encode returns the packed form that CZMQ's zmsg_encode makes of frames.
func encode(frames [][]byte) []byte {
	message := C.zmsg_new()
	defer C.zmsg_destroy(&message)
	for _, frame := range frames {
		C.zmsg_addmem(message, unsafe.Pointer(unsafe.SliceData(frame)), C.size_t(len(frame)))
	}
	whole := C.zmsg_encode(message)
	defer C.zframe_destroy(&whole)
	return C.GoBytes(unsafe.Pointer(C.zframe_data(whole)), C.int(C.zframe_size(whole)))
}

// decode returns the frames that CZMQ's zmsg_decode reads.
func decode(data []byte) (frames [][]byte, err error) {
	whole := C.zframe_new(unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)))
	defer C.zframe_destroy(&whole)
	message := C.zmsg_decode(whole)
	if message == nil {
		return nil, errors.New("zmsg_decode refuses the message")
	}
	defer C.zmsg_destroy(&message)
	for frame := C.zmsg_first(message); frame != nil; frame = C.zmsg_next(message) {
		frames = append(frames, C.GoBytes(unsafe.Pointer(C.zframe_data(frame)), C.int(C.zframe_size(frame))))
	}
	return frames, nil
}
