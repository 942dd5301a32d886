// Liblife is a C library in Go that plays Conway's Game of Life on a Go slice. NumPy reads and writes the slice.
package main

import "C"

import (
	"slices"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge/capi"
	"github.com/dlbridge/dlbridge/dlpack"
)

const rows, columns = 8, 16

var cells = make([]bool, rows*columns) // allocated by Go

// world exports the cells as a DLManagedTensorVersioned. The caller must release it; the slice is pinned until then. On
// error world returns NULL and fills e, a dlb_error.
//
//export world
func world(e unsafe.Pointer) unsafe.Pointer { return capi.Serve(share, capi.Tensors(), e) }

func share(...*dlpack.Tensor) (*dlpack.Tensor, error) { return dlpack.FromSlice(cells, rows, columns) }

// step replaces the generation by the next generation, in place.
//
//export step
func step() {
	last := slices.Clone(cells)
	for i := range cells {
		neighbours := 0
		for _, d := range [][2]int{{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, -1}, {1, 0}, {1, 1}} {
			row, column := (i/columns+d[0]+rows)%rows, (i+d[1]+columns)%columns
			if last[row*columns+column] {
				neighbours++
			}
		}
		cells[i] = neighbours == 3 || neighbours == 2 && last[i]
	}
}

// shared returns how many exported tensors are still held.
//
//export shared
func shared() C.longlong { return C.longlong(dlpack.ReadStats().Exports) }

func main() {}
