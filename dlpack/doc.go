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
//	verb                     result                     owner and lifetime
//	FromSlice, FromBytes     a Tensor of Go memory      the collector; pinned while exports are alive
//	New, Copy, Convert       a Tensor of C memory       freed with the last Close or release
//	NewFrom                  a Tensor of Go memory      the allocator gets it back after the last Close or release
//	Contiguous, Align        another Tensor             as View if no copy is needed, otherwise as Copy
//	Import, ImportLegacy     a Tensor of foreign memory the producer's deleter runs at the last Close or release
//	Borrow                   a Tensor of foreign memory the owner keeps it; Close before the owner frees it
//	Own                      a Tensor of any memory     a Go function gives it back after the last Close or release
//	Lend                     a Tensor of foreign memory the lender's release runs at the last Close or release
//	View, Slice, Reshape ... another Tensor             shares the memory; closed by itself
//	Share                    another Tensor             shares the memory; closed by itself
//	Export, ExportLegacy     a managed tensor           the consumer, until it calls the deleter
//	ExportSlice              a managed tensor           the same, without a Tensor in between
//	Read, Use                a Go slice                 valid during the call of a function
//	ReadStrided, UseStrided  the same for any layout    valid during the call of a function
//	Values, Unsafe...        a Go slice                 nobody: the Tensor must stay open
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
// # Whose memory it is
//
// This table says which function makes a tensor of which memory, and who is told when nobody holds the memory any more: after the last Close
// and the release of the last export.
//
//	the memory                           function                       who is told
//	a slice of Go                        FromSlice, FromBytes           nobody; the collector frees it
//	a slice of Go, from a pool           NewFrom                        Free of the Allocator
//	memory of this package               New, Copy, Convert             nobody; it is freed
//	these three, and you want to know    Tensor.OnRelease, after that   your Go function
//	a mapping, memory of malloc, a       Own                            your Go function, which gives it back
//	buffer of another runtime
//	the same, given back by C code       Lend                           your C function, which gives it back
//	a managed tensor                     Import, ImportLegacy           its deleter
//	a DLTensor, during a call            Borrow                         nobody; its owner keeps it
//
// Functions of Go run on a goroutine of this library, soon after that moment; [Tensor.OnRelease] has the rules. Functions of C and deleters run
// at that moment, on the thread that gives up the last share.
//
// # An adapter for your library
//
// A library with buffers of its own needs one function that makes a tensor: it gets the memory as a slice of bytes, describes it by a [Spec],
// and passes it to [Own] with the function that gives the buffer back. The example "Adapter" is such a function for mmap.
//
// In the other direction, [Tensor.Require] checks that the library accepts the type and the shape. [Read] and [Use] are for a library that has
// the memory during one call only. If it keeps the memory longer, give it [Tensor.Data] of a [Tensor.Share], and close that when the library
// has released the buffer. A library that speaks DLPack takes an [Tensor.Export] and needs neither.
//
// A library whose buffers are Go slices needs no adapter: the example "Gonum" uses mat.Dense and blas64.General of gonum by [FromSlice] and [Use].
//
// GoMLX cannot take a tensor without a copy yet. PJRT, which is below it, accepts memory of others that is aligned to 64 bytes, and
// calls a callback once when it no longer needs it. But CreateViewOfDeviceBuffer of go-xla v0.1.4 always passes a callback of its own,
// so nobody can learn when the buffer may be released.
//
// # Finding leaks
//
// In a test, CheckLeaks of package dlpacktest fails if the test leaves something behind, and prints the stacks of what is left.
//
// [ReadStats] returns the numbers of live objects, which are always counted. The ledger also records the stack of each
// export, import and allocation while it is switched on, by [SetLedger] or by any value other than 0 of the environment
// variable DLBRIDGE_LEDGER. If the first tensor of an import or allocation is closed, the stack is that of a view or share that is open.
// [Live] lists the live objects, [Forgotten] lists those that cleanup guards have caught, and
// pprof shows the profile [ProfileName]. The objects that C programs make by the functions of dlbridge.h are in a separate
// ledger, which DLBRIDGE_LEDGER switches on, too: see dlb_ledger_set in dlbridge.h.
//
// With the build tag debug, memory of [New] faults if it is used after it was freed, and a second call of a deleter is
// counted for at least 4096 further exports, instead of 64.
package dlpack
