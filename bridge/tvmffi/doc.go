// Package tvmffi connects Go with TVM-FFI, the ABI of TVM and of kernel libraries that are built for it. It calls
// functions of these libraries with Go slices and tensors, and makes Go functions available to the libraries. It
// accepts version 0.1.x of libtvm_ffi, and is tested with 0.1.16 (the wheel apache-tvm-ffi 0.1.15.post2). Building this
// package needs no part of TVM-FFI.
//
//	m, err := tvmffi.LoadModule("kernels.so")           // written by TVM's export_library
//	f, err := m.Function("matmul")                      // or tvmffi.Global("name")
//	_, err = f.Call(tvmffi.Shape(a, 2, 3), tvmffi.Shape(b, 3, 4), c)
//	n, err := tvmffi.As[int64](f.Call(x, 2.5, "text"))  // results are any
//	p, err := f.Prepare(x, y, z)                        // the same call, many times
//
// # Calling
//
// The package looks for libtvm_ffi when a call first needs the library. The comment of [Load] says where. Kernels with
// parallel loops also need libtvm_runtime; see [LoadRuntime]. An [Error] has the kind and the text with which it was
// raised.
//
// # Serving
//
// [Register] puts a Go function into the global table, where Python, C++ and Go in the same process find it. A Go
// library (-buildmode=c-shared) is a module for tvm_ffi.load_module if it exports functions whose names begin with
// __tvm_ffi_. These functions accept tensors of NumPy, PyTorch and JAX; see [Serve].
//
// A handler may call functions of TVM-FFI, and these may call other handlers. The nested calls use one C stack, which
// has 8 MiB in most programs. A few thousand nested calls are possible, or fewer if they have many arguments. If the
// stack overflows, the process ends.
//
//	verb                result                             owner and lifetime
//	LoadModule, Global  a Module, a Function               the caller, until Close
//	Call                a result                           the caller, until Close if it has one
//	Prepare             a call that holds its arguments    the caller, until Close
//	slices, tensors     arguments: views                   the caller; the views end with the call
//	Keep                an argument that may be kept       the function has a share, until it gives it up
//	Args.Tensor, Slice  a view of the caller's memory      the caller; the view ends with the call
//	Args.Keep           a value that outlives the call     the handler, until Close
//	a handler's result  a value for the caller             passed to the caller, and closed by this package
//
// DESIGN.md in this folder explains the decisions behind the package.
package tvmffi
