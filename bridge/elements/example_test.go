//go:build cgo

package elements_test

import (
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/dlpack"
)

func ExampleWithoutRemedy() {
	x, err := dlpack.FromSlice([]float64{1, 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	err = fmt.Errorf("input: %w", x.Require(dlpack.Float32, -1))
	fmt.Println(err)                         // for the programmer
	fmt.Println(elements.WithoutRemedy(err)) // for the client of a server
	// Output:
	// input: dlpack: require: the tensor has float64, want float32; Convert makes a copy of that type
	// input: dlpack: require: the tensor has float64, want float32
}
