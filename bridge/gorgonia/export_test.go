//go:build cgo

package gorgonia

// Describe is what FromDense says of a tensor.
var Describe = describe
