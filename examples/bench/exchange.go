package main

import (
	"time"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

const elements = 1024

// batch is the number of managed tensors that exist at the same time in paths that create them before the timing
// begins. It is so small that all of them stay in the cache of a core.
const batch = 256

// alive is the number of live exports of each tensor, unless the name of a path gives another number.
const alive = 32

func newTensor(shape ...int64) *dlpack.Tensor { return must(dlpack.New(dlpack.Float32, shape...)) }

func sliceTensor(n int) *dlpack.Tensor { return must(dlpack.FromSlice(make([]float32, n))) }

func exportRelease(t *dlpack.Tensor) func(n int) {
	return func(n int) {
		for range n {
			m, err := t.Export()
			if err != nil {
				panic(err)
			}
			dlpack.Release(m)
		}
	}
}

// importViewClose does the work of a Go consumer: it imports a managed tensor, views its values and closes it.
func importViewClose(m unsafe.Pointer, options ...dlpack.ImportOption) {
	t, err := dlpack.Import(m, options...)
	if err != nil {
		panic(err)
	}
	if _, err := dlpack.Values[float32](t); err != nil {
		panic(err)
	}
	t.Close()
}

// exchange returns the paths that export, delete and import tensors between Go and C.
func exchange() []path {
	paths := []path{
		{name: "export_release_new", counted: true, run: exportRelease(newTensor(elements))},
		{name: "export_release_slice", counted: true, run: exportRelease(sliceTensor(elements))},
	}
	for _, memory := range []struct {
		name   string
		tensor func() *dlpack.Tensor
	}{{"new", func() *dlpack.Tensor { return newTensor(elements) }}, {"slice", func() *dlpack.Tensor { return sliceTensor(elements) }}} {
		list := make(manageds, batch)
		exports := func(of int) func(int) {
			var tensors []*dlpack.Tensor
			for range of {
				tensors = append(tensors, memory.tensor())
			}
			return func(int) {
				for i := range list {
					list[i] = must(tensors[i%of].Export())
				}
			}
		}
		few, many := exports(batch/alive), exports(1)
		t := memory.tensor()
		paths = append(paths,
			path{name: "export_" + memory.name, rounds: batch, counted: true, run: few,
				after: func(int) { list.deleteHere() }},
			path{name: "delete_on_go_thread_" + memory.name, rounds: batch, before: few,
				clocked: func(int) time.Duration { return list.deleteHere() }},
			path{name: "delete_on_foreign_thread_" + memory.name, rounds: batch, before: few,
				clocked: func(int) time.Duration { return list.deleteThere() }},
			path{name: "delete_on_foreign_thread_" + memory.name + "_of_256", rounds: batch, before: many,
				clocked: func(int) time.Duration { return list.deleteThere() }},
			path{name: "import_own_" + memory.name, counted: true, run: func(n int) {
				for range n {
					importViewClose(must(t.Export()), dlpack.WithoutGuard)
				}
			}},
			path{name: "import_own_" + memory.name + "_with_guard", counted: true, run: func(n int) {
				for range n {
					importViewClose(must(t.Export()))
				}
			}},
		)
	}

	list := make(manageds, batch)
	produce := func(int) { list.produce() }
	return append(paths,
		path{name: "c_free", rounds: batch, before: produce,
			clocked: func(int) time.Duration { return list.deleteHere() }},
		path{name: "import_close_without_guard", rounds: batch, counted: true, before: produce, less: "c_free",
			run: func(int) {
				for _, m := range list {
					importViewClose(m, dlpack.WithoutGuard)
				}
			}},
		path{name: "import_close_with_guard", rounds: batch, counted: true, before: produce, less: "c_free",
			run: func(int) {
				for _, m := range list {
					importViewClose(m)
				}
			}},
	)
}
