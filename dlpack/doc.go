// Package dlpack shares tensor memory between Go, C and Python without copying it, through the DLPack
// C ABI, version 1.3 (and every other 1.x, and the form of before 1.0).
//
// A producer owns memory and describes it. A consumer reads it. A view describes memory and owns
// nothing. A managed tensor is a view plus a deleter that its holder calls exactly once. A [Tensor] is
// Go's reference to such memory: views share it, and the last [Tensor.Close] gives it back.
//
//	verb                     what you get             who owns it, and until when
//	FromSlice, FromBytes     a Tensor of Go memory    the collector; pinned while exports live
//	New, Copy, Convert       a Tensor of C memory     freed with the last Close or release
//	Contiguous, Align        another Tensor           as of View where it can be, else as of Copy
//	Import, ImportLegacy     a Tensor of theirs       their deleter runs at the last Close or release
//	Borrow                   a Tensor of theirs       they keep it; Close before it goes
//	Lend                     a Tensor of theirs       their release runs at the last Close or release
//	View, Slice, Reshape ... another Tensor           shares the memory, closed by itself
//	Description.Allocate     a Tensor of C memory     as of New
//	Description.Bind         another Tensor           as of View
//	Export, ExportLegacy     a managed tensor         the consumer, until it calls the deleter
//	ExportSlice              a managed tensor         the same, without a Tensor in between
//	Values, UnsafeBytes      a Go slice               nobody: the Tensor must stay open
//
// On error nothing has moved: whoever owned the input owns it still. The one exception is the
// standard's own: a major version that is not known has been released.
//
// # How ownership works
//
// What a consumer gets points to a control block: a managed tensor in C memory, with its shape and strides and with
// private words behind it. Go fills blocks through structs laid over the C ones, so that an export makes no call into C.
// The deleter in the block is C and makes no call into Go: it marks the block dead and drops the block's share of the
// memory. It may therefore be called from any thread, by an I/O thread, under a pending exception, in a forked child
// and after an interpreter is gone. It trusts none of the public fields, and a second call is ignored and counted, until
// the block is in use again, after 64 further exports at the earliest. After a peak of exports, a collection gives memory of
// blocks back to the system: these read as zeros, their deleters as NULL, and what comes too late for them is not counted.
//
// Memory is counted by a word in C memory: one share for all of Go's tensors together, one for each export. Whoever
// drops the last one ends the memory, there and then, on that thread: C memory is freed, other memory given back to its
// producer. Go is not waited for.
//
// Go's own memory is pinned ([runtime.Pinner]) from its first export on. It stays pinned until its tensor is closed and
// all exports are released or, while the tensor is open, until the first collection after its last export was released;
// [Reap] does the same. The next export pins it again. When a deleter drops the last share of memory whose tensor
// is closed, Go unpins it with a later first export, after a collection, or when more than 1 MiB waits: the deleter then
// writes to an eventfd that a goroutine waits for, see [WakeAt].
//
// The first tensor of C memory, or the first export, starts what Go is woken by. It takes an eventfd and three more
// descriptors for Go's poller, or does without where there are none; Go ends the process if another thread takes the
// last ones at that moment.
//
// DESIGN.md beside this file explains the core in one page.
//
// A Tensor that is forgotten without Close is caught by a cleanup once it and all others on its memory are unreachable;
// until then it counts as open, and with 2^31-1 such views of one memory there can be no more. The cleanup is a net,
// not a plan: it comes with a collection, whenever that is, it costs a third of an import more
// ([WithoutGuard] does without), and it frees nothing once a bare slice was handed out, since the slice
// may outlive the Tensor. The collector does not see foreign bytes; where more than 64 MiB of them are
// out, and more than twice as many as were in use, a collection is started to look for forgotten ones. After a peak that
// bound sinks by an eighth with each collection, so that there are few. Of one memory at most 1 GiB is counted.
//
// Deleters and releases of forgotten memory may block, as those do that wait for Python's GIL. They run on
// goroutines of this library, up to 64 at a time, and never on the runtime's own, which run the cleanups and
// finalizers of the whole program. A release that never returns keeps its goroutine and its thread for good, and
// delays no other release, until 64 of them have not returned: releases of forgotten memory then wait for one that
// does. Nothing else ever waits for them. The goroutines of this library are in nobody's testing/synctest bubble, and
// carry nobody's profiler labels.
//
// # Finding leaks
//
// [ReadStats] counts what is alive, always. [SetLedger], or the variable DLBRIDGE_LEDGER in the environment, records the
// stack of each export, import and allocation: [Live] lists what is alive, [Forgotten] what the net has
// caught, and pprof shows the profile [ProfileName]. With the build tag debug, memory of [New] faults when it is
// used after it was freed, and a second deleter call is found for thousands of exports.
//
// # Design notes
//
// Blocks are used again first in, first out, after 64 others. A last-in-first-out list would be
// warmer in the cache, but a consumer that calls a deleter twice (PyTorch and TensorFlow do, on some
// errors) would then release somebody else's tensor.
//
// The pool of a goroutine is picked by the address of its stack. A pool for each processor would need
// the runtime's private pinning; one pool for all would be a lock that everybody waits for.
//
// Fields that hold addresses are uintptr in the structs over C memory. With pointers, the write barrier
// would look at what stood in a recycled block, and stop the program at a bad pointer.
//
// A release may end other shares, and the chain of owners may be of any length. At most eight releases run inside
// each other on one thread, so that the C stack does not grow with the chain. A share that ends deeper waits in a
// list of that thread until the release that ended it has returned. An import that was never exported has no share:
// its deleter runs at whatever depth, and a chain of such imports, each of whose deleters calls into Go to close the
// next, needs as much stack as it is long. A program with such chains of thousands closes the next import once the
// deleter has returned, on another goroutine. Queueing every nested release would be simpler,
// but a release may count on what it has ended, for example when it frees an arena in which tensors lay. A release
// that panics never returns to its caller in C. The frames of the releases that run tell the C core so: what lies
// below the frame of a new call is over.
//
// Host memory must lie at addresses from 4096 up to 2^63; a description that reaches outside of them is refused. Go
// ends the process when it moves a stack and finds a pointer below 4096 there, or meets the pointer 0xdeaddeaddeaddead,
// with which it marks dead ones: a slice that [Values] returns must be neither. Other addresses that no process has,
// such as those beyond 2^47 on amd64, do no harm until they are used, and how many there are depends on the machine.
// They are not refused. A tensor without elements may have any address.
//
// Source and destination of a copy must not overlap. To go by way of a temporary, as NumPy does, would take
// as much memory again, unasked; whoever wants that writes Copy.
//
// A float that does not fit an integer becomes the integer nearest to it. C leaves such a conversion
// undefined, and what processors make of it differs. An integer that does not fit another loses its high
// bits, which Go, C, NumPy and PyTorch agree on.
//
// Copies from some megabytes on pass by the caches. The line that is written need not be read first, which
// is a third of the traffic; whoever reads the copy at once finds less of it near.
//
// A view returns an error, so that views do not chain as t.Transpose().Slice(): each of these tensors would
// have to be closed, too. [Tensor.Apply] chains them on the layout instead, where no step costs an allocation
// or has an owner.
//
// Broadcasts and overlapping windows are read-only, as NumPy's are: who writes one element would write several.
// [Tensor.View] takes any strides as its caller means them.
//
// The shares of an import are counted from its first export on. Most imports are never exported, and their Close then
// makes one call into C: their deleter.
package dlpack
