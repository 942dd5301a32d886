// Package dlpack shares tensor memory between Go, C and Python without copying it, through the C structs of DLPack.
//
//	t, err := dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2) // on the memory of the slice
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer t.Close()
//	managed, err := t.Export() // a DLManagedTensorVersioned *, to pass to a C function
//	if err != nil {
//		log.Fatal(err)
//	}
//	u, err := dlpack.Import(managed) // takes over what a C function returns
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer u.Close()
//	err = dlpack.Read(u, func(x []float32) error { fmt.Println(x); return nil })
//
// A [Tensor] is Go's reference to memory with a data type, a shape and strides. [Read] passes its elements to a function as a Go slice.
// With [Use] the function may also write to them. [ReadStrided] and [UseStrided] do the same for any layout, and [Tensor.Require] checks
// data type and shape. Package bridge/capi lets C and Python call Go functions. Package dlpacktest has leak checks, and tensors made in
// C for tests. The package writes DLPack 1.3 and the legacy form from before 1.0. It reads both forms, and all other versions 1.x.
//
// Each kind of memory has a function that makes a Tensor of it. The last column says what happens after the last Close and the release
// of the last export:
//
//	memory                             function                 what happens at the end
//	a Go slice                         FromSlice, FromBytes     the garbage collector frees it
//	a Go slice from a pool             NewFrom                  Free of the Allocator is called
//	memory of this package             New, Copy, Convert       it is freed
//	any of these                       then Tensor.OnRelease    your Go function is called, too
//	a mapping, memory of malloc, ...   Own                      your Go function gives it back
//	the same                           Lend                     your C function gives it back
//	a managed tensor                   Import, ImportLegacy     its deleter is called
//	a DLTensor, during a call          Borrow                   nothing: close the Tensor before the call ends
//
// At the end, Go functions run on a goroutine of this library. C functions and deleters run on the thread of the last Close or release.
// The comment of [Own] explains how to write an adapter for a library. These functions use a Tensor:
//
//	View, Slice, Reshape, Share         another Tensor on the same memory, which is closed separately
//	Contiguous, Align                   such a Tensor if no copy is needed, otherwise a copy
//	Export, ExportLegacy, ExportSlice   a managed tensor, which the consumer owns until it calls the deleter
//	Read, Use, ReadStrided, UseStrided  a Go slice, during the call of a function
//	Values, Unsafe...                   a Go slice, while the Tensor is open
//
// If a function returns an error, the caller still owns its inputs. The standard requires one exception: [Import] releases a managed tensor
// with an unknown major version.
//
// # Ownership
//
// A producer owns memory and describes it. A consumer reads it. A managed tensor is a description with a deleter. Its holder calls the
// deleter exactly once, on any thread. Tensors that share memory are closed separately. The memory lives until the last Tensor is closed
// and the last export is released.
//
// Close every Tensor. If a Tensor of C memory or of an import is forgotten, its cleanup guard releases the memory after a later garbage
// collection. The guard frees nothing if the program has a slice from [Values] or a similar function, because the slice may outlive the
// Tensor. Go's own memory is pinned while it has exports: see [WakeAt]. [Tensor.OnRelease] tells the program when memory was released.
// DESIGN.md beside this file explains how ownership works, and why.
//
// # Finding leaks
//
// CheckLeaks of package dlpacktest fails a test that leaves tensors behind, and prints where they were made. [ReadStats] returns the
// numbers of live objects, which are always counted. The ledger also records the stack of each export, import and allocation. [SetLedger]
// switches it on, and so does the environment variable DLBRIDGE_LEDGER with any value other than 0. [Live] lists the live objects,
// [Forgotten] lists those that cleanup guards have caught, and pprof shows the profile [ProfileName]. Objects that C programs make with
// dlbridge.h are in a separate ledger, which DLBRIDGE_LEDGER also switches on: see dlb_ledger_set in that header.
//
// With the build tag debug, a program crashes if it uses memory of [New] after the memory was freed. The package detects and
// counts a second call of a deleter until at least 64 further exports (4096 with this tag) have been made.
package dlpack
