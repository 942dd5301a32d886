package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

// message returns a message of three tensors of n float32 each. Their memory is C memory, because a large Go heap would delay
// garbage collections.
func message(n int) *tens.Message {
	var tensors []*dlpack.Tensor
	for range 3 {
		tensors = append(tensors, newTensor(int64(n)))
	}
	m, _, err := bridge.Encode(tensors)
	if err != nil {
		panic(err)
	}
	return m
}

func parse(frames [][]byte) func(n int) {
	return func(n int) {
		for range n {
			l, err := must(tens.Decode(frames)).DecodeLabel()
			if err != nil || len(l.Tensors) != 3 {
				panic(err)
			}
		}
	}
}

// batchOf returns an Arrow record whose columns have 1024 float32 each, and its schema.
func batchOf(columns int) (*arrow.Schema, arrow.RecordBatch) {
	var fields []arrow.Field
	var arrays []arrow.Array
	for i := range columns {
		fields = append(fields, arrow.Field{Name: string(rune('a' + i)), Type: arrow.PrimitiveTypes.Float32})
		arrays = append(arrays, floats(memory.NewGoAllocator()))
	}
	schema := arrow.NewSchema(fields, nil)
	return schema, array.NewRecordBatch(schema, arrays, elements)
}

// arrowView opens an IPC file in memory. Each round views its first record.
func arrowView(columns int) func(n int) {
	schema, record := batchOf(columns)
	var file bytes.Buffer
	w := must(ipc.NewFileWriter(seekable{&file}, ipc.WithSchema(schema)))
	if err := w.Write(record); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	r := must(ipc.NewMappedFileReader(file.Bytes()))
	return func(n int) {
		for range n {
			must(r.RecordBatchAt(0)).Release()
		}
	}
}

// seekable is a buffer for an Arrow file writer, which calls Seek only to learn how much it has written.
type seekable struct{ *bytes.Buffer }

func (s seekable) Seek(int64, int) (int64, error) { return int64(s.Len()), nil }

func arrowEncode(columns int) func(n int) {
	schema, record := batchOf(columns)
	w := ipc.NewWriter(io.Discard, ipc.WithSchema(schema))
	return func(n int) {
		for range n {
			if err := w.Write(record); err != nil {
				panic(err)
			}
		}
	}
}

func messages() []path {
	small := message(elements)
	label := must(small.DecodeLabel())
	decode := func(n int) {
		for range n {
			var l struct {
				TENS struct {
					Tensors []struct {
						Shape []int64
						Word  int
						DType string
						Part  int
					}
				}
			}
			if err := json.Unmarshal(small.Label, &l); err != nil || len(l.TENS.Tensors) != 3 {
				panic(err)
			}
		}
	}
	return []path{
		{name: "tens_parse_4KiB", counted: true, run: parse(small.Encode())},
		{name: "tens_parse_16MiB", counted: true, run: parse(message(4 << 20).Encode())},
		{name: "tens_encode", counted: true, run: func(n int) {
			m := *small
			for range n {
				if err := m.EncodeLabel(label); err != nil || len(m.Encode()) != 5 {
					panic(err)
				}
			}
		}},
		{name: "json_unmarshal_label", counted: true, run: decode},
		{name: "arrow_ipc_view_1_column", counted: true, run: arrowView(1)},
		{name: "arrow_ipc_view_3_columns", counted: true, run: arrowView(3)},
		{name: "arrow_ipc_encode_1_column", counted: true, run: arrowEncode(1)},
		{name: "arrow_ipc_encode_3_columns", counted: true, run: arrowEncode(3)},
	}
}
