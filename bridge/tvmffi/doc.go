// Package tvmffi joins Go and TVM-FFI, the ABI that TVM and kernel libraries built for it speak: it
// calls their functions on Go's slices and tensors, and makes Go functions theirs. It is written
// against version 0.1 of that ABI, as the wheel apache-tvm-ffi 0.1.15 has it, and needs nothing of
// it to build.
//
// # Calling
//
//	m, err := tvmffi.LoadModule("kernels.so")           // what TVM's export_library wrote
//	f, err := m.Function("matmul")                      // or tvmffi.Global("name")
//	_, err = f.Call(tvmffi.Shape(a, 2, 3), tvmffi.Shape(b, 3, 4), c)
//	n, err := tvmffi.As[int64](f.Call(x, 2.5, "text"))  // results are any
//	p, err := f.Prepare(x, y, z)                        // the same call, many times
//
// libtvm_ffi is looked for when it is first needed; see [Load] for where. Kernels with parallel
// loops need libtvm_runtime too, see [LoadRuntime]. Errors have the kind and the text they were
// raised with, see [Error].
//
// # Serving
//
// [Register] puts a Go function into the global table, for Python, C++ and Go in the same process.
// A Go program that is built with -buildmode=c-shared is a module that tvm_ffi.load_module loads,
// and that takes tensors of NumPy, PyTorch and JAX, when it exports functions whose names begin
// with __tvm_ffi_: see [Serve].
//
// A handler may call functions of TVM-FFI, and these other handlers. Such calls lie inside each other on a stack of C, of
// 8 MiB in most programs: some thousands are possible, fewer with many arguments, and more end the process.
//
//	verb                what you get                       who owns it, and until when
//	LoadModule, Global  a Module, a Function               you, until Close
//	Call                a result                           you, until Close where it has one
//	Prepare             a call that holds its arguments    you, until Close
//	slices, tensors     arguments: views                   you; they end with the call
//	Keep                an argument that may be kept       a share is the function's, until it lets go
//	Args.Tensor, Slice  a view of the caller's             the caller; it ends with the call
//	Args.Keep           a value that outlives the call     you, until Close
//	a handler's result  the caller's                       it is handed over, and closed here
//
// # Design notes
//
// A call is one C function, from the arguments to the text of the error: errors lie in the thread
// that raised them, and a goroutine may find itself on another thread at its next call into C.
//
// Addresses of Go's memory are arguments of that C function, which builds the DLTensors on its own
// stack. So no rule of cgo is bent, nothing is pinned or allocated, and a kernel may call back into
// Go. Telling the compiler that they do not escape would save an allocation for slices on the
// stack, and break when a callback moves that stack.
//
// Tensors are exported for the time of a call: the export is the DLTensor that the function gets,
// it pins and holds the memory, and a Close elsewhere cannot pull it away. What is only borrowed
// cannot be exported and is described anew.
//
// libtvm_ffi is opened at run time, not linked: a program that imports this package builds and
// starts without it, and takes the copy that the process has, of which there must be only one. Its
// constructor takes SIGSEGV, without the alternate stack that Go's handlers need; the handler from
// before is put back.
//
// A symbol for each served function is what dlsym asks for, and only the linker makes symbols. cgo
// makes one of each //export, with a Go body, and that needs no header and no C at all: three lines
// of Go, one of them a comment. A C macro would need a file of its own (cgo copies the C code of
// files that export), flags for the header's path, and a second line in Go for the function itself.
// A generator would be one more tool.
//
// A forked child must not enter Go, whose other threads are lost, and what cgo exports has no place
// for a check before it does. On Linux the linker brings the two calls by which it enters to this
// package (--wrap), which refuses those of functions that TVM-FFI calls: a RuntimeError, at once. A
// check in Serve comes too late: of 100 children of a parent that was busy in Go, 97 hung on their
// way to it. A C function before each would be three more lines for every function of every user.
//
// Handlers get their arguments by asking for them, with one check behind all questions. Plain Go
// signatures would need reflection, at several times the cost of the call, or a function for each
// number of parameters.
package tvmffi
