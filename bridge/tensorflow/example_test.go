//go:build cgo

package tensorflow_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

// This example is a server that answers a tensor with its ReLU. The folder examples/http has a whole server, which
// answers each kind of error with its own status, and a client in Python.
func ExampleReadTensor() {
	relu := func(x *dlpack.Tensor) error {
		if err := x.Require(dlpack.Float32, -1, 3); err != nil { // -1 stands for any size, also for 0
			return err
		}
		return dlpack.Use(x, func(values []float32) error { // in the memory into which the body was read
			for i := range values {
				values[i] = max(values[i], 0)
			}
			return nil
		})
	}
	serve := func(w http.ResponseWriter, r *http.Request) {
		x, err := tensorflow.ReadTensor(http.MaxBytesReader(w, r.Body, 1<<20), r.ContentLength)
		if err != nil {
			http.Error(w, elements.WithoutRemedy(err), http.StatusBadRequest) // without the names of Go functions
			return
		}
		defer x.Close()
		if err := relu(x); err != nil {
			http.Error(w, elements.WithoutRemedy(err), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		if err := tensorflow.WriteTensor(w, x); err != nil {
			log.Print(err) // the client has gone
		}
	}

	good, _ := dlpack.FromSlice([]float32{-1, 0, 1}, 1, 3)
	defer good.Close()
	wrong, _ := dlpack.FromSlice([]float64{-1, 0, 1}, 1, 3)
	defer wrong.Close()
	for _, x := range []*dlpack.Tensor{good, wrong} {
		message, _ := tensorflow.AppendTensor(nil, x)
		answer := httptest.NewRecorder()
		serve(answer, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(message)))
		if answer.Code != http.StatusOK {
			fmt.Print(answer.Code, " ", answer.Body)
			continue
		}
		y, err := tensorflow.ReadTensor(answer.Body, -1)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer y.Close()
		fmt.Println(y)
	}
	// Output:
	// float32[1 3] on cpu
	// [[0 0 1]]
	// 400 dlpack: require: the tensor has float64, want float32
}

func ExampleSizeTensor() {
	t, _ := dlpack.FromSlice([]float32{1, 2, 3, 4})
	defer t.Close()
	size, err := tensorflow.SizeTensor(t, tensorflow.Pad(64))
	if err != nil {
		fmt.Println(err)
		return
	}
	frame := make([]byte, 0, size) // or memory of whoever sends it
	message, err := tensorflow.AppendTensor(frame, t, tensorflow.Pad(64))
	fmt.Println(len(message) == size, &message[0] == &frame[:1][0], err)
	// Output: true true <nil>
}

func ExampleAs() {
	levels, _ := dlpack.FromSlice([]uint8{0, 128, 255})
	defer levels.Close()
	message, err := tensorflow.AppendTensor(nil, levels, tensorflow.As(tensorflow.QUInt8))
	if err != nil {
		fmt.Println(err)
		return
	}
	view, err := tensorflow.DecodeView(message)
	fmt.Println(view.DType, view.Data, err)
	_, err = tensorflow.AppendTensor(nil, levels, tensorflow.As(tensorflow.QInt32))
	fmt.Println(err)
	// Output:
	// quint8 [0 128 255] <nil>
	// tensorflow: elements of uint8 cannot be encoded as qint32, whose elements have another form in memory: data type not representable
}

func ExampleIntegers() {
	message := []byte("\x08\x0c\x12\x04\x12\x02\x08\x03\x22\x03\x00\x80\xff") // quint8[3]
	for _, options := range [][]tensorflow.DecodeOption{nil, {tensorflow.Integers()}} {
		v, err := tensorflow.Decode(message, options...)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.DType, v.Elements, v.Tensor)
		v.Close()
	}
	// Output:
	// quint8 quint8[3] <nil>
	// quint8 <nil> uint8[3] on cpu, read-only [0 128 255]
}

func ExampleLimit() {
	message := []byte("\x08\x01\x12\x06\x12\x04\x08\x80\x80\x04\x2a\x04\x00\x00\x80\x3f") // float[65536], all of them 1
	view, err := tensorflow.DecodeView(message)
	fmt.Println(len(message), "bytes for", len(view.Data), err)
	_, err = tensorflow.DecodeView(message, tensorflow.Limit(4096))
	fmt.Println(errors.Is(err, tensorflow.ErrLimit), err)
	// Output:
	// 16 bytes for 262144 <nil>
	// true tensorflow: byte 12: 65536 elements of float, repeated from 1 values, need more than 4096 bytes; Limit allows more: more memory than is allowed
}

func ExampleLenient() {
	message := []byte("\x08\x03\x12\x04\x12\x02\x08\x02\x3a\x03\x07\x08\x09") // int32[2], three values
	_, err := tensorflow.DecodeView(message)
	fmt.Println(err)
	view, err := tensorflow.DecodeView(message, tensorflow.Lenient())
	fmt.Println(view.Data, err)
	// Output:
	// tensorflow: byte 10: field 7 has 3 values, but the shape has 2 elements: number of values does not fit the shape
	// [7 0 0 0 8 0 0 0] <nil>
}

func ExampleCompress() {
	bias := make([]float32, 1024)
	bias[0] = 1
	t, _ := dlpack.FromSlice(bias)
	defer t.Close()
	plain, _ := tensorflow.SizeTensor(t)
	message, err := tensorflow.AppendTensor(nil, t, tensorflow.Compress(64, 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d bytes instead of %d: %x\n", len(message), plain, message)
	v, err := tensorflow.Decode(message)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	fmt.Println(v.Tensor, v.Copied)
	// Output:
	// 19 bytes instead of 4108: 0801120512030880082a080000803f00000000
	// float32[1024] on cpu [1 0 0 ... 0 0 0] true
}

func ExampleFields() {
	t, _ := dlpack.FromSlice([]int32{1, 2, 300})
	defer t.Close()
	content, _ := tensorflow.AppendTensor(nil, t)
	fields, err := tensorflow.AppendTensor(nil, t, tensorflow.Fields())
	fmt.Printf("%x\n%x %v\n", content, fields, err)
	// Output:
	// 0803120412020803220c01000000020000002c010000
	// 08031204120208033a040102ac02 <nil>
}

func ExampleAlign() {
	t, _ := dlpack.FromSlice([]float32{1, 2})
	defer t.Close()
	for _, options := range [][]tensorflow.EncodeOption{nil, {tensorflow.Pad(64)}} {
		message, err := tensorflow.AppendTensor(make([]byte, 0, 256), t, options...)
		if err != nil {
			fmt.Println(err)
			return
		}
		// A kernel may require 64 bytes. A message that was written so is aliased, and any other is copied.
		v, err := tensorflow.Decode(message, tensorflow.Align(64))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Tensor.Data()%64 == 0)
		v.Close()
	}
	// Output:
	// true
	// true
}

func ExampleAppendSlice() {
	slice, _ := tensorflow.ParseTensorSlice("-:2,3")
	message := tensorflow.AppendSlice(nil, slice) // a TensorSliceProto
	back, err := tensorflow.DecodeSlice(message)
	fmt.Printf("%q %v %v\n", message, back, err)
	// Output: "\n\x00\n\x04\b\x02\x10\x03" -:2,3 <nil>
}

func ExampleView_AsElements() {
	view, err := tensorflow.DecodeView([]byte("\x08\x0c\x12\x04\x12\x02\x08\x03\x22\x03\x00\x80\xff")) // quint8[3]
	if err != nil {
		fmt.Println(err)
		return
	}
	elements := view.AsElements()
	fmt.Println(elements, elements.Values)
	// Output: quint8[3] [[0] [128] [255]]
}
