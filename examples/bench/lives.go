package main

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/memory/mallocator"

	"github.com/dlbridge/dlbridge/dlpack"
)

// lives are the patterns that programs have: a tensor is made, exported some times, released as often and closed; many
// exports are alive at once; many tensors take turns.
func lives() []path {
	data := make([]float32, elements)
	paths := []path{
		{name: "life_export_slice", counted: true, run: func(n int) {
			for range n {
				dlpack.Release(must(dlpack.ExportSlice(data)))
			}
		}},
		arrowLife("arrow_life_go_memory", func() arrow.Array { return arrowOf(memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(data))) }),
		arrowLife("arrow_life_c_memory", func() arrow.Array {
			b := memory.NewResizableBuffer(mallocator.NewMallocator())
			b.Resize(4 * elements)
			defer b.Release()
			return arrowOf(b)
		}),
	}
	for _, exports := range []int{1, 8, 64} {
		for _, kind := range []struct {
			name string
			make func() *dlpack.Tensor
		}{
			{"slice", func() *dlpack.Tensor { return must(dlpack.FromSlice(data)) }},
			{"new", func() *dlpack.Tensor { return newTensor(elements) }},
		} {
			paths = append(paths, path{name: fmt.Sprintf("life_%s_%d", kind.name, exports), counted: true, run: func(n int) {
				for range n {
					t := kind.make()
					for range exports {
						dlpack.Release(must(t.Export()))
					}
					t.Close()
				}
			}})
		}
	}
	return append(paths, firstOut(256), turnsOf(1000))
}

// firstOut has some exports of one tensor alive, of which the oldest is released before each export.
func firstOut(alive int) path {
	t := sliceTensor(elements)
	live := make([]unsafe.Pointer, alive)
	for i := range live {
		live[i] = must(t.Export())
	}
	next := 0
	return path{name: fmt.Sprintf("life_alive_%d", alive), run: func(n int) {
		for range n {
			dlpack.Release(live[next])
			live[next] = must(t.Export())
			if next++; next == alive {
				next = 0
			}
		}
	}}
}

// turnsOf exports one of many tensors after the other.
func turnsOf(many int) path {
	tensors := make([]*dlpack.Tensor, many)
	for i := range tensors {
		tensors[i] = sliceTensor(elements)
	}
	next := 0
	return path{name: fmt.Sprintf("life_turns_%d", many), run: func(n int) {
		for range n {
			dlpack.Release(must(tensors[next].Export()))
			if next++; next == many {
				next = 0
			}
		}
	}}
}

// arrowLife makes an array over memory, exports it once, releases that, and releases the array.
func arrowLife(name string, make func() arrow.Array) path {
	out := cdata.ArrayFromPtr(newArrows(1).at(0))
	return path{name: name, counted: true, run: func(n int) {
		for range n {
			a := make()
			cdata.ExportArrowArray(a, out, nil)
			cdata.ReleaseCArrowArray(out)
			a.Release()
		}
	}}
}

func arrowOf(b *memory.Buffer) arrow.Array {
	d := array.NewData(arrow.PrimitiveTypes.Float32, elements, []*memory.Buffer{nil, b}, nil, 0, 0)
	defer d.Release()
	return array.MakeFromData(d)
}
