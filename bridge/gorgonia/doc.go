// Package gorgonia shares memory between DLPack tensors and the dense tensors of gorgonia.org/tensor, without copying.
// [Dense] makes a gorgonia tensor on the memory of a DLPack tensor of any producer. gorgonia reads and writes this
// memory in place. [FromDense] makes a DLPack tensor on the memory of a gorgonia tensor, for any consumer.
//
//	d, release, err := gorgonia.Dense(t) // d is a *tensor.Dense on the memory of t
//	if err != nil {
//		return err
//	}
//	defer release()
//	sum, err := d.Sum(0)
//	if err != nil {
//		return err
//	}
//	u, err := gorgonia.FromDense(sum) // a *dlpack.Tensor on the memory of the result
//
// [Dense] refuses every tensor on which gorgonia would compute wrong results, write outside of the tensor's memory or
// panic. The error names the call that makes an acceptable tensor. Dense accepts row-major tensors without gaps, in
// writable and aligned host memory, if gorgonia has their type. With [AllowTransposed] it also accepts fully transposed
// memory. FromDense accepts every layout that gorgonia makes: contiguous, transposed, sliced, column-major and scalar.
//
// This package does not check the views that gorgonia makes of its tensors, such as the views that Slice returns. If a
// view has gaps, MatMul, MatVecMul, Repeat and SoftMax of gorgonia v0.9.24 return wrong results, and Zero also clears
// the elements in the gaps. Materialize copies such a view to a tensor without gaps.
//
// # Who keeps the memory
//
// gorgonia's Dense keeps memory alive only if gorgonia allocated it. A view of a gorgonia tensor does not even keep
// that tensor alive. But views, clones and results have the same engine as the tensor from which they were made. The
// function Dense therefore sets an engine of this package: gorgonia's own engine with an added reference to the owner
// of the memory. As long as anything made from the new tensor is reachable, the owner is reachable too, and FromDense
// finds the owner in the engine. The function release gives up the memory immediately. The tensor and its views must
// not be used afterwards. If release is never called, foreign memory is never released, because the slices that Data
// has returned may still be in use. [dlpack.Stats] counts the missing call.
//
// Results have their own memory and the engine of their operands. They may be used after release.
//
// # Versions
//
// With Go 1.22 or later, gorgonia.org/tensor v0.9.24 ends a program at its start, unless the program requires
// go4.org/unsafe/assume-no-moving-gc in the version of 2023-11-21. This module requires it. The tests also pass with
// the latest commit of gorgonia (068d850, of 2024-04-09), which has the same faults.
//
// # Design notes
//
// The reference to the owner is in the engine, and no cleanup on the Dense releases the memory. gorgonia recycles its
// tensors (tensor.ReturnTensor), and a view refers to its parent by an address that the garbage collector does not see.
// A cleanup would therefore run while views are in use.
//
// Dense could accept layouts with gaps by changing the access pattern of the gorgonia tensor. Then gorgonia's
// elementwise operations would be correct. But MatMul, Repeat, SoftMax and sums would be wrong, and some of these write
// into the gaps. Dense refuses such layouts, because a copy costs less than a wrong result.
package gorgonia
