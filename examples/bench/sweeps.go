package main

import "fmt"

// sweeps returns the paths that show how the cost of an export depends on the rank (a little) and on the size (not at all).
func sweeps() []path {
	var paths []path
	for rank := 1; rank <= 64; rank *= 2 {
		shape := make([]int64, rank)
		for i := range shape {
			shape[i] = 1
		}
		shape[rank-1] = elements
		paths = append(paths, path{name: fmt.Sprintf("sweep_rank_%d", rank), run: exportRelease(newTensor(shape...))})
	}
	for size := 1 << 10; size <= 1<<28; size <<= 6 {
		paths = append(paths,
			path{name: fmt.Sprintf("sweep_bytes_new_%d", size), run: exportRelease(newTensor(int64(size / 4)))},
			path{name: fmt.Sprintf("sweep_bytes_slice_%d", size), run: exportRelease(sliceTensor(size / 4))})
	}
	return paths
}
