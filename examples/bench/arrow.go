package main

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/memory/mallocator"
)

func floats(from memory.Allocator) arrow.Array {
	b := array.NewFloat32Builder(from)
	defer b.Release()
	b.AppendValues(make([]float32, elements), nil)
	return b.NewArray()
}

// arrowExchange returns the paths of arrow-go's C data interface. They exchange arrays without their schema. This favours Arrow,
// because a managed tensor carries its data type.
func arrowExchange() []path {
	out := cdata.ArrayFromPtr(newArrows(1).at(0))
	export := func(a arrow.Array) func(n int) {
		return func(n int) {
			for range n {
				cdata.ExportArrowArray(a, out, nil)
				cdata.ReleaseCArrowArray(out)
			}
		}
	}
	list := newArrows(batch)
	produce := func(n int) { list.produce(n) }
	return []path{
		{name: "arrow_export_release_c_memory", counted: true, run: export(floats(mallocator.NewMallocator()))},
		{name: "arrow_export_release_go_memory", counted: true, run: export(floats(memory.NewGoAllocator()))},
		{name: "arrow_c_release", rounds: batch, before: produce,
			clocked: func(n int) time.Duration { return list.release(n) }},
		{name: "arrow_import_release", rounds: batch, counted: true, before: produce, less: "arrow_c_release",
			run: func(n int) {
				for i := range n {
					a := must(cdata.ImportCArrayWithType(cdata.ArrayFromPtr(list.at(i)), arrow.PrimitiveTypes.Float32))
					if len(a.(*array.Float32).Float32Values()) != elements {
						panic("arrow: wrong length")
					}
					a.Release()
				}
			}},
	}
}
