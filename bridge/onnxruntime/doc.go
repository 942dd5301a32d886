// Package onnxruntime runs models with ONNX Runtime on the memory of DLPack tensors. It is an adapter for the binding
// github.com/yalue/onnxruntime_go, which loads ONNX Runtime at run time. It is a separate module, so that only its
// users depend on the binding.
//
//	r, err := onnxruntime.Open("model.onnx", []string{"x"}, []string{"y"}, nil)
//	defer r.Close()
//	outputs := map[string]*dlpack.Tensor{}
//	err = r.Run(map[string]*dlpack.Tensor{"x": x}, outputs) // writes into the memory of tensors that are in outputs, and adds the others
//	defer outputs["y"].Close()
//
// The program must initialize the binding (InitializeEnvironment) before it uses this package. DestroyEnvironment
// unloads ONNX Runtime, so the program may call it only after the last Destroy of a value and the last Close of a
// [Runner].
//
//	function  result                     memory
//	[Value]   a value of the binding     the memory of the tensor, until Destroy
//	[Tensor]  a tensor of a value        the memory of the value; both may be released in any order
//	[Runner]  runs a model on tensors    inputs, given outputs and outputs of a fixed shape are not copied
//
// # Types
//
// Tensors of bool, integers of 8 to 64 bits, float32 and float64 become values of the binding's type Tensor[T]. The
// binding's type CustomDataTensor holds float16, bfloat16, the four float8 types of ONNX, float8_e8m0fnu, float4_e2m1fn,
// and integers of 2 and 4 bits; elements of fewer than 8 bits are packed. The binding's tensors have at least one
// dimension, and its CustomDataTensor has at least one element.
//
// # Outputs that are copied
//
// If a model does not state the whole shape of an output, ONNX Runtime allocates the output, and the binding copies it into a Go
// slice. The tensor of this output has the flag [dlpack.IsCopied]. To avoid the copy, a program that knows the shape passes Run
// a tensor for the output. The binding copies one byte for each element of a CustomDataTensor, which is wrong for float16,
// bfloat16 and packed elements. If no tensor is passed for an output of these types, Run therefore returns an error.
// The binding cannot return an output without dimensions either. Pass Run a tensor of shape [1] for it.
package onnxruntime
