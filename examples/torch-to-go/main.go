// Libstandardise is a C library in Go that standardises the rows of a matrix of float32 in place.
package main

import "C"

import (
	"fmt"
	"math"
	"os"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// standardise gives each row the mean 0 and the variance 1. It takes over a DLManagedTensorVersioned and returns another one
// over the same memory, or NULL.
//
//export standardise
func standardise(managed unsafe.Pointer) unsafe.Pointer {
	t, err := dlpack.Import(managed)
	if err != nil {
		dlpack.Release(managed) // on error, Import has not taken it over
		return refuse(err)
	}
	defer t.Close() // ends only Go's share; the export stays valid
	x, err := dlpack.Values[float32](t)
	if err != nil {
		return refuse(err)
	}
	if t.Rank() != 2 {
		return refuse(fmt.Errorf("standardise: shape %v is not the shape of a matrix", t.Shape()))
	}
	for width := int(t.Dim(1)); len(x) > 0; x = x[width:] {
		standardiseRow(x[:width])
	}
	out, err := t.Export()
	if err != nil {
		return refuse(err)
	}
	return out
}

func standardiseRow(row []float32) {
	var sum, squares float64
	for _, v := range row {
		sum += float64(v)
	}
	mean := sum / float64(len(row))
	for _, v := range row {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := 1 / math.Sqrt(squares/float64(len(row)))
	for i, v := range row {
		row[i] = float32((float64(v) - mean) * scale)
	}
}

func refuse(err error) unsafe.Pointer {
	fmt.Fprintln(os.Stderr, err)
	return nil
}

func main() {}
