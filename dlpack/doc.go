// Package dlpack shares tensor memory between Go, C and Python without copying it, through the DLPack
// C ABI, version 1.3 (and every other 1.x, and the form of before 1.0).
//
// A producer owns memory and describes it. A consumer reads it. A view describes memory and owns
// nothing. A managed tensor is a view plus a deleter that its holder calls exactly once. A [Tensor] is
// Go's reference to such memory: several tensors can share one memory, and the last [Tensor.Close] gives
// it back.
//
// Start with four functions: [FromSlice] makes a Tensor of a Go slice, [Tensor.Export] gives it to another library,
// [Import] takes one from there, and [Use] reads or writes its elements as a Go slice. Package bridge/capi has what Go
// functions need that C and Python call.
//
//	verb                     result                   owner and lifetime
//	FromSlice, FromBytes     a Tensor of Go memory    the collector; pinned while exports are alive
//	New, Copy, Convert       a Tensor of C memory     freed with the last Close or release
//	NewFrom                  a Tensor of Go memory    the allocator gets it back after the last Close or release
//	Contiguous, Align        another Tensor           as View if no copy is needed, otherwise as Copy
//	Import, ImportLegacy     a Tensor of their memory their deleter runs at the last Close or release
//	Borrow                   a Tensor of their memory they keep it; Close before they free it
//	Lend                     a Tensor of their memory their release runs at the last Close or release
//	View, Slice, Reshape ... another Tensor           shares the memory; closed by itself
//	Share                    another Tensor           shares the memory; closed by itself
//	Export, ExportLegacy     a managed tensor         the consumer, until it calls the deleter
//	ExportSlice              a managed tensor         the same, without a Tensor in between
//	Values, UnsafeBytes      a Go slice               nobody: the Tensor must stay open
//
// If a function returns an error, ownership has not moved: the caller still owns its inputs. The one exception
// is the standard's own: a managed tensor with an unknown major version has been released.
//
// # How ownership works
//
// A consumer gets a pointer to a control block: a managed tensor in C memory, followed by its shape, its strides and
// private words. Go fills in control blocks through structs laid over the C ones, so an export makes no call into C. The
// deleter in the block is a C function and makes no call into Go. It marks the block dead and gives up the block's share
// of the memory. It may therefore be called from any thread, by an I/O thread, under a pending exception, in a forked
// child, and after an interpreter has ended. The deleter trusts none of the public fields. A second call is ignored and
// counted until the block is used again, which is after 64 further exports at the earliest. After a peak of exports, a
// garbage collection returns memory of blocks to the system. Such blocks read as zeros, their deleters as NULL, and later
// calls are not counted.
//
// A word in C memory counts the shares of a memory: one for all of Go's tensors together, and one for each export. The
// thread that gives up the last share ends the memory immediately: it frees C memory, or gives other memory back to its
// producer. It does not wait for Go.
//
// Go's own memory is pinned ([runtime.Pinner]) from its first export on. If its tensor is closed, it stays pinned until
// all exports are released. If the tensor is open, it stays pinned until the first garbage collection, or [Reap], after
// the last export was released, and the next export pins it again. When a deleter gives up the last share of memory
// whose tensor is closed, Go unpins the memory with a later first export, after a collection, or as soon as more than
// 1 MiB waits: the deleter then writes to an eventfd on which a goroutine waits (see [WakeAt]).
//
// [Tensor.OnRelease] tells when nobody holds a slice any more, so that a pool of buffers can use it again. Such a slice stays
// pinned until then, and a deleter that gives up its last share wakes Go at once. [NewFrom] makes tensors of the memory of
// an [Allocator] and gives it back in this way.
//
// The first tensor of C memory, or the first export, starts this goroutine. It takes an eventfd and three more
// descriptors for Go's poller. If there are none, the library works without it. Go ends the process if another thread
// takes the last descriptors at that moment.
//
// A Tensor that is dropped without Close is caught by its cleanup guard once all tensors of its memory are unreachable.
// Until then it counts as open, and one memory can have at most 2^31-1 open tensors. Programs must not rely on the
// guard. It acts some time after a garbage collection, it makes an import a third more expensive ([WithoutGuard] imports
// without it), and it frees nothing once [Values] has returned a slice, because the slice may outlive the Tensor.
//
// The collector does not see foreign memory. If more than 64 MiB of it are in use, and more than twice as much as before,
// this package starts a collection that looks for forgotten tensors. After a peak, that limit sinks by an eighth with
// each collection, so these collections are rare. One memory counts as 1 GiB at most.
//
// Deleters and releases of forgotten memory may block, for example on Python's GIL. They run on goroutines of this
// library, up to 64 at a time, and never on those of the runtime, which run the cleanups and finalizers of the whole
// program. A release that never returns keeps its goroutine and its thread, and delays no other release until 64 of them
// have not returned. From then on, releases of forgotten memory wait for one of them. Nothing else waits for them. The
// goroutines of this library belong to no testing/synctest bubble and carry no profiler labels.
//
// # Finding leaks
//
// [ReadStats] always counts live objects. The ledger records the stack of each export, import and allocation, if it is
// switched on by [SetLedger] or by the environment variable DLBRIDGE_LEDGER, which may have any value but 0. [Live] lists
// the live objects, [Forgotten] lists those that cleanup guards have caught, and pprof shows the profile [ProfileName].
// What C programs make by the functions of dlbridge.h is in a ledger of its own, which the variable switches on too: see
// dlb_ledger_set there.
// With the build tag debug, memory of [New] faults if it is used after it was freed, and a second call of a deleter is
// found for thousands of exports.
//
// # Behaviour to know
//
// Host memory must lie at addresses from 4096 up to 2^63, and a description that reaches outside of them is refused. Go
// ends the process if it finds a pointer below 4096 while it moves a stack, or if it meets the pointer
// 0xdeaddeaddeaddead, with which it marks dead pointers; a slice that [Values] returns must be neither. Other addresses
// without memory, such as those beyond 2^47 on amd64, do no harm until they are used, and their number depends on the
// machine. They are not refused. A tensor without elements may have any address.
//
// The source and the destination of a copy must not overlap. A temporary copy, as NumPy makes it, would take as much
// memory again without being asked for; [Tensor.Copy] makes one explicitly.
//
// A float that does not fit an integer becomes the integer nearest to it. C leaves this conversion undefined, and
// processors differ. An integer that does not fit another integer type loses its high bits, as in Go, C, NumPy and
// PyTorch.
//
// Copies of several megabytes and more bypass the processor's caches. The destination need not be read first, which saves
// a third of the traffic, but code that reads the copy immediately finds less of it in the caches.
//
// A view returns an error as well as a Tensor, so views do not chain as t.Transpose().Slice(): each of these tensors
// would have to be closed, too. [Tensor.Apply] chains them on the layout instead, where a step allocates nothing and
// has no owner.
//
// Broadcasts and overlapping windows are read-only, as in NumPy, because one write would change several elements.
// [Tensor.View] accepts any strides as its caller means them.
//
// A deleter may end further shares, and chains of owners may have any length. At most eight releases run inside each
// other on one thread, so that the C stack does not grow with the chain; a share that ends deeper waits until the release
// that ended it has returned. An import that was never exported has no share, so its deleter runs at any depth. If each
// deleter of a chain of such imports calls into Go to close the next, the stack grows with the chain. A program with
// chains of thousands of imports closes the next import after the deleter has returned, on another goroutine.
//
// DESIGN.md beside this file explains the core and the decisions behind it.
package dlpack
