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
// A [Tensor] is Go's reference to memory with a data type, a shape and strides. [Read] shows its elements as a Go slice, and [Use] for
// writing; [ReadStrided] and [UseStrided] do so for any layout. [Tensor.Require] checks type and shape before. Package bridge/capi makes
// Go functions that C and Python call, and package dlpacktest has leak checks and C-made tensors for tests. The package reads and writes
// DLPack 1.3, every other 1.x, and the legacy form from before 1.0.
//
// Each memory has a function that makes a Tensor of it. Somebody is told after the last Close and the release of the last export:
//
//	the memory                         function                      who is told then
//	a slice of Go                      FromSlice, FromBytes          nobody: the collector frees it
//	a slice of Go, from a pool         NewFrom                       Free of the Allocator
//	memory of this package             New, Copy, Convert            nobody: it is freed
//	these, if you want to know         Tensor.OnRelease, after that  your Go function
//	a mapping, of malloc, of a runtime Own                           your Go function, which gives it back
//	the same, given back by C          Lend                          your C function, which gives it back
//	a managed tensor                   Import, ImportLegacy          its deleter
//	a DLTensor, during a call          Borrow                        nobody: close the Tensor before the call ends
//
// Go functions run on a goroutine of this library, C functions and deleters on the thread that gives up the last share. The comment of
// [Own] says how to write an adapter for a library. What one does with a Tensor:
//
//	View, Slice, Reshape, Share        another Tensor on the same memory, which is closed by itself
//	Contiguous, Align                  the same if no copy is needed, otherwise as Copy
//	Export, ExportLegacy, ExportSlice  a managed tensor: the consumer's, until it calls the deleter
//	Read, Use, ReadStrided, UseStrided a Go slice during the call of a function
//	Values, Unsafe...                  a Go slice while the Tensor stays open
//
// If a function returns an error, the caller still owns its inputs. The one exception is the standard's own: a managed tensor with an
// unknown major version has been released.
//
// # Ownership
//
// A producer owns memory and describes it. A consumer reads it. A managed tensor is a description and a deleter, which its holder calls
// exactly once, on any thread. Tensors that share a memory are closed one by one; the memory ends with the last Tensor and the last export.
//
// Close every Tensor. A forgotten one of C memory or of an import is caught by its cleanup guard, some time after a garbage collection. The
// guard frees nothing if a slice of the memory is out, such as one of [Values], because the slice may outlive the Tensor. Go's own memory is
// pinned while it has exports: see [WakeAt], and [Tensor.OnRelease], which tells the program when memory was released. DESIGN.md beside
// this file says how ownership works, and why.
//
// # Finding leaks
//
// CheckLeaks of package dlpacktest fails a test that leaves something behind, and prints where it was made. [ReadStats] returns the numbers of live objects, which are always counted. The ledger also records the stack of each
// export, import and allocation while it is switched on, by [SetLedger] or by any value other than 0 of the environment
// variable DLBRIDGE_LEDGER.
// [Live] lists the live objects, [Forgotten] lists those that cleanup guards have caught, and
// pprof shows the profile [ProfileName]. The objects that C programs make by the functions of dlbridge.h are in a separate
// ledger, which DLBRIDGE_LEDGER switches on, too: see dlb_ledger_set in dlbridge.h.
//
// With the build tag debug, memory of [New] faults if it is used after it was freed, and a second call of a deleter is
// counted for at least 4096 further exports, instead of 64.
package dlpack
