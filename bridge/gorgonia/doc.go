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
// [Dense] refuses every tensor on which gorgonia would compute wrong results, write outside of its memory or panic. The
// error names the call that makes an acceptable tensor. Dense accepts tensors in writable, aligned host memory that are
// row-major without gaps and have a type of gorgonia. With [AllowTransposed] it also accepts fully transposed memory.
// FromDense accepts every layout that gorgonia makes: contiguous, transposed, sliced, column-major and scalar.
//
// This package does not check the views that gorgonia makes of its tensors, such as those of Slice. If a view has gaps,
// MatMul, MatVecMul, Repeat and SoftMax of gorgonia v0.9.24 return wrong results, and Zero also clears the elements in
// the gaps. Materialize copies such a view to a tensor without gaps.
//
// # Who keeps the memory
//
// gorgonia's Dense keeps no memory alive that gorgonia did not allocate, and a view of it does not even keep the Dense.
// But views, clones and results have the same engine as the tensor from which they were made. Dense therefore sets an
// engine that is gorgonia's own engine with a reference to the owner of the memory. As long as anything made from the
// Dense is reachable, the owner is reachable too, and FromDense finds it in the engine. The function release gives up
// the memory immediately; the Dense and its views must not be used afterwards. If release is never called, foreign
// memory is never released, because the slices that Data has returned may still be in use; [dlpack.Stats] counts the
// omission.
//
// Results have their own memory and the engine of their operands. They may be used after release.
//
// # Versions
//
// With Go 1.22 or later, gorgonia.org/tensor v0.9.24 ends a program at its start, unless the program requires
// go4.org/unsafe/assume-no-moving-gc as of 2023-11-21. This module requires it. The tests also pass on the latest
// commit of gorgonia (068d850, of 2024-04-09), which has the same faults.
//
// # Design notes
//
// The reference to the owner is in the engine, and no cleanup on the Dense releases the memory. gorgonia recycles its
// tensors (tensor.ReturnTensor), and a view refers to its parent by an address that the garbage collector does not see.
// A cleanup would therefore run while views are in use.
//
// Dense could accept layouts with gaps by changing the access pattern of the gorgonia tensor. gorgonia's elementwise
// operations would then be correct, but MatMul, Repeat, SoftMax and sums would not, and some write into the gaps. Dense
// refuses such layouts, because a copy costs less than a wrong result.
package gorgonia
