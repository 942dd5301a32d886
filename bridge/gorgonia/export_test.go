//go:build cgo

package gorgonia

import (
	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/dlpack"
)

// Describe returns the description that FromDense makes of a tensor.
func Describe(d *tensor.Dense) (s dlpack.Spec, err error) {
	err = describe(d, &s)
	return s, err
}
