package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/memory/mallocator"

	"github.com/dlbridge/dlbridge/dlpack"
)

// lives returns the paths for whole lifetimes of tensors, in patterns of real programs. A program may create a tensor,
// export and release it several times and close it, keep many exports alive at the same time, or export many tensors in
// turn.
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
	return append(paths, firstOut(256), turnsOf(1000), handedOver(256))
}

// firstOut keeps some exports of one tensor alive, and releases the oldest before each new export.
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

// turnsOf exports and releases many tensors in turn.
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

// handedOver exports on one goroutine and releases on another. It passes several exports at a time, so that the cost of the
// channel is small.
func handedOver(some int) path {
	t := sliceTensor(elements)
	exports := make([]unsafe.Pointer, some)
	there, back := make(chan int), make(chan struct{})
	go func() {
		for n := range there {
			for _, m := range exports[:n] {
				dlpack.Release(m)
			}
			back <- struct{}{}
		}
	}()
	return path{name: "life_handed_over", run: func(n int) {
		for ; n > 0; n -= some {
			now := min(n, some)
			for i := range exports[:now] {
				exports[i] = must(t.Export())
			}
			there <- now
			<-back
		}
	}}
}

// worstExport reports the time of the slowest of 100,000 exports. Before them, a million exports are made and then
// released. The garbage collector is off. Other work of the machine delays some exports, so there are 20 trials. For
// each group of 1,000 exports, the trial with the smallest maximum counts.
func worstExport() {
	const many, some, trials = 1_000_000, 1000, 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	t := sliceTensor(elements)
	defer t.Close()
	exports := make([]unsafe.Pointer, many)
	var quietest [100]time.Duration
	for trial := range trials {
		for i := range exports {
			exports[i] = must(t.Export())
		}
		for _, m := range exports {
			dlpack.Release(m)
		}
		for i := range quietest {
			longest := time.Duration(0)
			for range some {
				start := time.Now()
				m := must(t.Export())
				longest = max(longest, time.Since(start))
				dlpack.Release(m)
			}
			if trial == 0 || longest < quietest[i] {
				quietest[i] = longest
			}
		}
		runtime.GC() // frees the unused control blocks
	}
	report("life_worst_export", float64(slices.Max(quietest[:])), "ns")
}

// arrowLife creates an array, exports it once, releases the export, and releases the array.
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
