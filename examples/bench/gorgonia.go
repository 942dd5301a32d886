package main

import (
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
)

// gorgonias returns the paths that wrap a tensor for gorgonia, and the paths that make a tensor from a gorgonia matrix.
func gorgonias() []path {
	var paths []path
	for _, size := range []struct {
		name string
		side int
	}{{"4KiB", 32}, {"16MiB", 2048}} {
		t := newTensor(int64(size.side), int64(size.side))
		held := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(size.side, size.side))
		if err := held.T(); err != nil {
			panic(err)
		}
		paths = append(paths,
			path{name: "gorgonia_tensor_new_" + size.name, counted: true, run: func(n int) {
				for range n {
					tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(size.side, size.side), tensor.WithEngine(tensor.StdEng{}),
						tensor.FromMemory(t.Data(), uintptr(t.NumBytes())))
				}
			}},
			path{name: "gorgonia_dense_" + size.name, counted: true, run: func(n int) {
				for range n {
					_, release, err := gorgonia.Dense(t)
					if err != nil {
						panic(err)
					}
					release()
				}
			}},
			path{name: "gorgonia_from_dense_" + size.name, counted: true, run: func(n int) {
				for range n {
					must(gorgonia.FromDense(held)).Close()
				}
			}})
	}
	return paths
}
