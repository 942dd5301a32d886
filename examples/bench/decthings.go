package main

import (
	"encoding/binary"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/dlpack"
)

func decode(data []byte) func(n int) {
	return func(n int) {
		for range n {
			v := must(decthings.Decode(data))
			if v.Copied {
				panic("copied")
			}
			v.Close()
		}
	}
}

// copying runs a reader written by hand, which makes the necessary checks and copies the elements.
func copying(data []byte) func(n int) {
	return func(n int) {
		for range n {
			if shape, values := readCopy(data); len(shape) != 1 || int64(len(values)) != 4*shape[0] {
				panic("the tensor has the wrong size")
			}
		}
	}
}

func readCopy(data []byte) (shape []int64, values []byte) {
	if len(data) < 2 || data[0] != byte(decthings.F32) {
		panic("the data type is not float32")
	}
	rank := int(data[1])
	data = data[2:]
	size := int64(4)
	for range rank {
		var dim uint64
		switch first, rest := data[0], data[1:]; first {
		case 253:
			dim, data = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
		case 254:
			dim, data = uint64(binary.BigEndian.Uint32(rest)), rest[4:]
		case 255:
			dim, data = binary.BigEndian.Uint64(rest), rest[8:]
		default:
			dim, data = uint64(first), rest
		}
		shape = append(shape, int64(dim))
		size *= int64(dim)
	}
	return shape, append(values, data[:size]...)
}

// small returns the paths for a stream of tensors of 4 floats. The data of every fourth tensor is aligned.
func small() []path {
	const tensors = 1 << 12
	one := newTensor(4)
	var stream []byte
	for range tensors {
		stream = must(decthings.AppendTensor(stream, one))
	}
	buffer := make([]byte, 0, len(stream))
	return []path{
		{name: "decthings_decode_4_floats", counted: true, run: func(n int) {
			for n > 0 {
				for v, err := range decthings.DecodeAll(stream) {
					if err != nil {
						panic(err)
					}
					v.Close()
					if n--; n == 0 {
						return
					}
				}
			}
		}},
		{name: "decthings_encode_4_floats", counted: true, run: func(n int) {
			for ; n > 0; n -= tensors {
				out := buffer
				for range min(n, tensors) {
					out = must(decthings.AppendTensor(out, one))
				}
			}
		}},
	}
}

// large returns the paths for a tensor of 64 MiB. Most paths take milliseconds a round, so they run separately in fewer
// batches.
func large() []path {
	const n = 16 << 20
	t := newTensor(n)
	from := must(dlpack.Values[float32](t))
	for i := range from {
		from[i] = float32(i) // the system allocates the pages of new memory only when they are written
	}
	data := must(decthings.AppendTensor(nil, t))
	to := make([]float32, n)
	return []path{
		{name: "decthings_decode_64MiB", run: decode(data)},
		{name: "decthings_copy_64MiB", run: copying(data)},
		{name: "decthings_encode_64MiB", run: func(n int) {
			for range n {
				must(decthings.AppendTensor(data[:0], t))
			}
		}},
		{name: "memcpy_64MiB", run: func(n int) {
			for range n {
				copy(to, from)
			}
		}},
	}
}

var streamTables = []table{
	{"Decthings: small tensors", "A stream has tensors of 4 float32. The data of every fourth tensor is aligned. The Python client is the one of Decthings.",
		[]row{
			{path: "decthings_decode_4_floats", what: "decode", peer: "py_decthings_deserialize", aim: 20},
			{path: "decthings_encode_4_floats", what: "encode", peer: "py_decthings_serialize"},
			{path: "py_decthings_deserialize", what: "the Python client: decode", peers: true},
			{path: "py_decthings_serialize", what: "the Python client: encode", peers: true},
			{path: "py_dlbridge_decthings_iter", what: "Python: `dlbridge.decthings.decode_all`", peer: "py_decthings_deserialize"},
			{path: "py_dlbridge_decthings_encode", what: "Python: `dlbridge.decthings.encode`", peer: "py_decthings_serialize"},
		}},
	{"Decthings: 64 MiB", "The message has one tensor with aligned data. The copying reader is a decoder written by hand. `encode` and `copy` write to " +
		"existing memory.",
		[]row{
			{path: "decthings_decode_64MiB", what: "decode", peer: "decthings_copy_64MiB"},
			{path: "decthings_encode_64MiB", what: "encode", peer: "memcpy_64MiB"},
			{path: "decthings_copy_64MiB", what: "a copying reader", peers: true},
			{path: "memcpy_64MiB", what: "Go's `copy`", peers: true},
		}},
}
