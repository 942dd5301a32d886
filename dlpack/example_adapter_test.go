//go:build cgo

package dlpack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/background"
)

// mapFloats is an adapter for mmap: it makes a tensor of the float32 numbers in a file. An adapter for your library needs the same
// steps.
func mapFloats(path string) (*dlpack.Tensor, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the mapping does not need it
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	// 1. Get the memory from the library, as a slice of bytes. For an address in C this is unsafe.Slice((*byte)(address), size).
	memory, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}

	// 2. Describe the elements, and say whether they may be written. This mapping is read-only, so the tensor is, too.
	spec := dlpack.Spec{DType: dlpack.Float32, Shape: []int64{info.Size() / 4}, ReadOnly: true}

	// 3. Pass it to Own, with the function of the library that gives it back.
	t, err := dlpack.Own(memory, spec, func() {
		if err := syscall.Munmap(memory); err != nil {
			fmt.Println(err)
		}
		fmt.Println("given back")
	})
	if err != nil {
		_ = syscall.Munmap(memory) // 4. After an error the memory is still yours.
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return t, nil
}

func Example_adapter() {
	folder, err := os.MkdirTemp("", "adapter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "numbers")
	if err := os.WriteFile(path, []byte{0, 0, 128, 63, 0, 0, 0, 64}, 0o600); err != nil {
		fmt.Println(err)
		return
	}
	t, err := mapFloats(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := t.Export() // for example for Python
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t)
	t.Close()
	fmt.Println("closed, but a consumer has the memory")
	dlpack.Release(m)
	background.Wait() // only needed for the output below
	// Output:
	// float32[2] on cpu, read-only [1 2]
	// closed, but a consumer has the memory
	// given back
}

// The matrices of gonum are Go slices, so they need no adapter.
func Example_gonum() {
	a := mat.NewDense(2, 2, []float64{1, 2, 3, 4})
	raw := a.RawMatrix()                                                   // a blas64.General
	t, err := dlpack.FromSlice(raw.Data, int64(raw.Rows), int64(raw.Cols)) // requires that raw.Stride is raw.Cols, as for a new matrix
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println(t)

	// In the other direction, gonum computes in the memory of a tensor while Use runs, whoever owns the memory.
	err = dlpack.Use(t, func(elements []float64) error {
		x := blas64.General{Rows: 2, Cols: 2, Stride: 2, Data: elements}
		blas64.Scal(10, blas64.Vector{N: 2, Inc: 1, Data: x.Data[:2]}) // the first row
		fmt.Println(mat.Trace(mat.NewDense(x.Rows, x.Cols, x.Data)))
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.At(0, 1))
	// Output:
	// float64[2 2] on cpu
	// [[1 2]
	//  [3 4]]
	// 14
	// 20
}
