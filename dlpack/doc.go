// Package dlpack shares tensor memory between Go, C and Python without copying it, through the DLPack
// C ABI: version 1.3, every other 1.x, and the legacy form from before 1.0.
//
// A producer owns memory and describes it. A consumer reads it. A view describes memory and owns
// nothing. A managed tensor is a view plus a deleter that its holder calls exactly once. A [Tensor] is
// Go's reference to such memory: several tensors can share one memory, and the last [Tensor.Close] gives
// it back.
//
// Start with four functions: [FromSlice] makes a Tensor of a Go slice, [Tensor.Export] gives it to another library,
// [Import] takes one from there, and [Use] reads or writes its elements as a Go slice. Package bridge/capi is for Go
// functions that C and Python call.
//
//	verb                     result                     owner and lifetime
//	FromSlice, FromBytes     a Tensor of Go memory      the collector; pinned while exports are alive
//	New, Copy, Convert       a Tensor of C memory       freed with the last Close or release
//	NewFrom                  a Tensor of Go memory      the allocator gets it back after the last Close or release
//	Contiguous, Align        another Tensor             as View if no copy is needed, otherwise as Copy
//	Import, ImportLegacy     a Tensor of foreign memory the producer's deleter runs at the last Close or release
//	Borrow                   a Tensor of foreign memory the owner keeps it; Close before the owner frees it
//	Lend                     a Tensor of foreign memory the lender's release runs at the last Close or release
//	View, Slice, Reshape ... another Tensor             shares the memory; closed by itself
//	Share                    another Tensor             shares the memory; closed by itself
//	Export, ExportLegacy     a managed tensor           the consumer, until it calls the deleter
//	ExportSlice              a managed tensor           the same, without a Tensor in between
//	Values, UnsafeBytes      a Go slice                 nobody: the Tensor must stay open
//
// If a function returns an error, ownership has not moved: the caller still owns its inputs. The one exception
// is the standard's own: a managed tensor with an unknown major version has been released.
//
// # How ownership works
//
// A consumer gets a pointer to a control block: a managed tensor in C memory, followed by its shape, its strides and
// private words. Go fills in control blocks through structs laid over the C ones, so an export calls C only to get
// memory for more blocks. The deleter in the block is a C function and makes no call into Go. It marks the block dead
// and gives up the block's share of the memory. It may therefore be called from any thread, while a Python exception is
// pending, in a forked child, and after an interpreter has ended. The deleter trusts none of the public fields. A
// second call is ignored and counted until the block is used again, which is after 64 further exports at the earliest.
// After a peak of exports, a garbage collection returns the memory of dead blocks to the system. Such blocks read as
// zeros, so their deleters are NULL.
//
// A word in C memory counts the shares of a memory: one for all of Go's tensors together, and one for each export. The
// thread that gives up the last share ends the memory immediately: it frees C memory, or gives other memory back to its
// producer. It does not wait for Go.
//
// Go's own memory is pinned ([runtime.Pinner]) from its first export on. If its tensor is closed, it stays pinned until
// all exports are released. If the tensor is open, it stays pinned until the first garbage collection, or [Reap], after
// the last export was released, and the next export pins it again. When a deleter gives up the last share of memory
// whose tensor is closed, Go unpins the memory during a later export or allocation, after a collection, or as soon as
// 1 MiB waits to be unpinned: the deleter then writes to an eventfd, or on systems without one to a pipe, on which a
// goroutine of this library waits (see [WakeAt]).
//
// [Tensor.OnRelease] tells when nobody holds a slice any more, so that a pool of buffers can use it again. Such a slice stays
// pinned until then, and a deleter that gives up its last share wakes Go at once. [NewFrom] makes tensors of the memory of
// an [Allocator] and gives it back in this way.
//
// The first tensor of C memory, the first export or the first OnRelease starts the goroutine that deleters wake. It needs an
// eventfd, and up to three more file descriptors for Go's poller. If the process has too few left, the library works without
// this goroutine. Go ends the process if another thread takes the last descriptors at that moment.
//
// A Tensor of C memory or of an import that is dropped without Close is caught by its cleanup guard once all tensors of
// its memory are unreachable. Until then it counts as open, and one memory can have at most 2^31-1 open tensors. Programs
// must not rely on the guard. It acts some time after a garbage collection, it makes an import a third more expensive
// ([WithoutGuard] imports without it), and it frees nothing once a slice is out, because the slice may outlive the Tensor. A
// slice of the memory is out for good as soon as [Values], [UnsafeValues] or [Tensor.UnsafeBytes] has returned one, or a function
// of this module has returned a value that refers to the elements: the parts of a message that bridge or bridge/zeromq has made or
// received, elements.Elements of foreign memory, or a tensor of gorgonia. A slice that lives only during a call, such as that of
// [Use], is not out when the call has returned.
//
// The collector does not see memory that is not Go's. If more than 64 MiB of it have a cleanup guard, and more than twice as
// much as was alive after the last collection, this package starts a collection that looks for forgotten tensors. After a
// peak, this limit falls by at most an eighth with each collection, so these collections are rare. One memory counts as
// 1 GiB at most.
//
// Deleters and releases of forgotten memory may block, for example on Python's GIL. They run on goroutines of this
// library, up to 64 at a time, and never on those of the runtime, which run the cleanups and finalizers of the whole
// program. A release that never returns keeps its goroutine and its thread, and delays no other release until 64 of them
// have not returned. From then on, releases of forgotten memory and functions of [Tensor.OnRelease], which run on the same
// goroutines, wait for one of them to return. Nothing else waits for them. The goroutines of this library belong to no
// testing/synctest bubble and carry no profiler labels.
//
// # Finding leaks
//
// [ReadStats] returns the numbers of live objects, which are always counted. The ledger also records the stack of each
// export, import and allocation while it is switched on, by [SetLedger] or by any value other than 0 of the environment
// variable DLBRIDGE_LEDGER. [Live] lists the live objects, [Forgotten] lists those that cleanup guards have caught, and
// pprof shows the profile [ProfileName]. The objects that C programs make by the functions of dlbridge.h are in a separate
// ledger, which DLBRIDGE_LEDGER switches on, too: see dlb_ledger_set in dlbridge.h.
//
// With the build tag debug, memory of [New] faults if it is used after it was freed, and a second call of a deleter is
// counted for at least 4096 further exports, instead of 64.
//
// # Behaviour to know
//
// Host memory must lie at addresses from 4096 up to 2^63, and a description that reaches outside of them is refused. Go
// ends the process if it finds a pointer below 4096 while it moves a stack, or if it meets the pointer
// 0xdeaddeaddeaddead, with which it marks dead pointers, so no slice that [Values] returns may begin there. Other addresses
// without memory, such as those beyond 2^47 on amd64, do no harm until they are used, and which ones they are depends on
// the machine. They are not refused. A tensor without elements may have any address.
//
// The source and the destination of a copy must not overlap. This package makes no temporary copy, as NumPy does, because
// that would take as much memory again without being asked for; [Tensor.Copy] makes one explicitly.
//
// A float that does not fit an integer type of 8 bits or more becomes the nearest integer of that type. C leaves this
// conversion undefined, and processors differ. An integer that does not fit another integer type loses its high bits, as in
// Go, C, NumPy and PyTorch. [Tensor.ConvertTo] has all rules.
//
// With AVX2, copies of 32 MiB and more, and transposes of 4 MiB and more, bypass the processor's caches. The destination
// then need not be read first, which saves a third of the traffic, but code that reads the copy immediately finds less of
// it in the caches.
//
// A view returns an error as well as a Tensor, so views do not chain as t.Transpose().Slice(): each of these tensors
// would have to be closed, too. [Tensor.Apply] chains them on the layout instead, where a step allocates nothing and
// has no owner.
//
// Broadcasts and overlapping windows are read-only, as in NumPy, because one write would change several elements.
// [Tensor.View] does not check this: its caller may make a writable view with any strides.
//
// A deleter may end further shares, and chains of owners may have any length. At most eight releases run inside each
// other on one thread, so that the C stack does not grow with the chain; a share that ends deeper waits until the release
// that ended it has returned. An import that was never exported has no share, so its deleter runs at any depth. If each
// deleter of a chain of such imports calls into Go to close the next, the stack grows with the chain. A program with
// chains of thousands of imports closes the next import after the deleter has returned, on another goroutine.
//
// DESIGN.md beside this file explains the core and the decisions behind it.
package dlpack
