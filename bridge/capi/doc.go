// Package capi implements the C interface of dlbridge, which dlbridge.h declares. It is for programs in languages other
// than Go.
//
//	//export double
//	func double(x, e unsafe.Pointer) unsafe.Pointer { return capi.Serve(doubled, capi.Tensors(x), e) }
//
//	func doubled(in ...*dlpack.Tensor) (*dlpack.Tensor, error) {
//		return nil, dlpack.Use(in[0], func(x []float32) error {
//			for i := range x {
//				x[i] *= 2
//			}
//			return nil
//		})
//	}
//
// The flag -buildmode=c-shared builds a program with this function as a library. C declares the function as
// `DLManagedTensorVersioned *double(DLManagedTensorVersioned *x, dlb_error *e)`. Python calls it through dlbridge.wrap.
// [Serve] imports the arguments, exports the result, and reports errors and panics in e.
//
// Importing the package links the C interface into a program. Package libdlbridge imports it to build the shared
// library libdlbridge. Any other main package that is built with -buildmode=c-shared or c-archive may import it too.
// The process then has only one Go runtime. [OnPanic] reports panics to the program.
//
// # Design notes
//
// The C files that do not include _cgo_export.h are plain C, built on the C core of package dlpack. They implement tensors, access to
// messages, and the memory of values. They enter Go only through a function pointer (dlbcapi_counting), and never in a forked child.
// Therefore they work on any thread, at any time, and in a forked child. The files with the build tag !dlbridge_shared make up
// libdlbridge_tensor, a library without Go (tensor.c of package libdlbridge). Go code decodes and encodes: tens.c and elements.c check
// arguments, and then call tens.go and elements.go. formats.h and formats.go each have a row for each format.
//
// Go describes and C owns. During a call, Go reads the caller's frames and tensors through views that own nothing, and
// writes a description into C memory. C takes over frames and tensors only after Go has returned. After an error at any
// point, the caller therefore still owns everything. C keeps no Go pointer.
//
// The library recognises objects that were released or taken over. Messages and elements are in slabs that are never
// freed (registry.c). Tensors and frames are exports. The library never frees their control blocks either. A control
// block that is taken over is marked. Its deleter then has no effect, because only the former owner can call the
// deleter. The new owner ends the block by dlbcore_block_end.
//
// Reading an unmapped address causes a fault. In Go code, the fault becomes an error (see guard). The Go runtime ends
// the process when Go memory runs out. Therefore assembled elements and long lists are in C memory (see newList and
// [payload.Scratch]). Before the package allocates any other memory that grows with the input,
// [dlpack.RequireMemory] checks that the system has enough.
package capi
