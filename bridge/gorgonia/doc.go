// Package gorgonia shares memory between DLPack tensors and the dense tensors of gorgonia.org/tensor,
// without copying. [Dense] wraps memory of any producer for gorgonia to compute on, and in place;
// [FromDense] describes what gorgonia holds, for any consumer.
//
// What gorgonia computes wrongly, writes outside of, or dies on is refused before it sees it, with an
// error that names the call that makes an acceptable tensor of it: [Dense] takes writable, aligned host
// memory, row-major without gaps, of a type that gorgonia has; fully transposed memory by
// [AllowTransposed]. [FromDense] takes every layout that gorgonia makes: contiguous, transposed, sliced,
// column-major, scalar.
//
// Views are gorgonia's own affair, wrapped or not: where a slice leaves gaps, v0.9.24 gets MatMul, MatVecMul,
// Repeat and SoftMax of it wrong, and Zero clears what lies between. Materialize makes a tensor of it.
//
// # Who keeps the memory
//
// A Dense over memory that gorgonia did not make keeps nothing alive, and a view of it does not even
// keep the Dense. What views, clones and results do inherit is the engine. The engine of a wrapped
// tensor is therefore gorgonia's own with a reference to the memory's owner in it: as long as anything
// that was made of the Dense can be reached, the owner can, and FromDense finds it there. release ends
// the hold, there and then; the Dense and its views must not be used any more. Since Data hands out bare
// slices, a release that was forgotten is never made up for: it is counted ([dlpack.Stats]).
//
// Results have memory of their own, and the engine of their operands: they may be used after release.
//
// # Versions
//
// gorgonia.org/tensor v0.9.24 stops at the start of a program that was built with Go 1.22 or later, unless
// the program requires go4.org/unsafe/assume-no-moving-gc as of 2023-11-21, as this module does. The tests pass on gorgonia's
// head (068d850, of 2024-04-09) as well, whose faults are the same.
//
// # Design notes
//
// The owner travels in the engine and not in a cleanup on the Dense. gorgonia recycles its tensors
// (tensor.ReturnTensor) and its views hold their parent by number, so that a cleanup would run while
// views live.
//
// Layouts with gaps could be had by writing to the access pattern of a Dense. gorgonia's elementwise
// operations then agree with its At, but MatMul, Repeat, SoftMax and sums do not, and some write into the
// gaps. They are refused, for a copy is cheaper than a wrong number.
package gorgonia
