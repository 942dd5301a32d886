// Package shm shares tensors between the processes of one machine, without copying their elements.
//
//	t, err := shm.New(dlpack.Float32, 1024, 1024)   // in a segment
//	err = shm.Send(ctx, conn, []*dlpack.Tensor{t})  // conn is a connected Unix socket
//
//	ts, err := shm.Recv(ctx, conn)                  // in the other process: the same memory
//
// A [Handle] can travel over any other transport on the same machine. Another process uses it to fetch the segment:
//
//	h, err := shm.Offer(t, time.Minute)
//	t, err := shm.Fetch(ctx, h, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{1024, 1024}})
//
// In a TENS message the handle replaces the tensor's payload part. A message of a few hundred bytes can then carry a
// tensor of any size:
//
//	m, err := zeromq.Encode(ts, shm.Offers(ts, time.Minute))
//	err = push.Send(ctx, m)
//
//	got, err := pull.Recv(ctx)
//	label, err := got.DecodeLabel()
//	err = shm.FetchTensors(ctx, label, got.Tensors)
//
// [Attach] reads named shared memory of other programs, such as Python's multiprocessing.shared_memory.
//
// A segment is memory with a descriptor (memfd_create), which processes map at different addresses. It has no name. It
// disappears when the last process that holds it ends, even by a crash. The tensors of a segment are ordinary tensors.
// Their views are in the segment too. Go slices, C libraries and NumPy arrays can use their memory. When the last share is
// released, the mapping ends and the descriptor is closed.
//
// # Read-only
//
// Without [Writable], Send forbids all later writable mappings of the segment (F_SEAL_FUTURE_WRITE), and Recv maps it
// without write permission. A consumer that ignores the flag of a read-only tensor then ends its own process and harms
// no other process. Earlier writable mappings stay writable: the sender may still write, and the receiver sees the
// changes.
//
// The first hand-over of a segment, by [Send] or [Offer], decides whether other processes may write to it. If any
// process later hands over a tensor of the segment with the other access, the call returns [dlpack.ErrReadOnly] before
// anything is sent. So a tensor always arrives with the access that its sender chose. (The kernel keeps the decision:
// after a writable hand-over, F_SEAL_SEAL forbids the other seal.) [Copy] makes a tensor in a new segment, whose access
// is not yet decided. A Send that fails because of the socket or its context also decides the access. An Offer that
// fails decides nothing.
//
// [ReadOnly] protects memory inside one process: it maps the memory of a segment or of a mapped file a second time,
// without write permission.
//
// # What is not trusted
//
// Recv maps only regular files whose size is sealed. If another process could make the file smaller, reading elements
// could end this process. The option [CopyUnsealed] lets Recv copy the elements of other files. These include files of
// huge pages, because the machine may have no page left for their holes. Recv checks all offsets and sizes against the
// size that the kernel reports. Both sides may change a writable segment at any time. So a program that checks elements
// and then relies on them must copy them first. The segments of other processes take at most a quarter of the address
// space of this process (RLIMIT_AS, or 47 bits); a call that needs more returns [dlpack.ErrMemory]. If a received
// descriptor is not a segment, a separate thread closes it, because the sender can delay the closing without limit. If
// this process has no descriptor left, the kernel closes the received descriptor, and the call waits. An offer can be
// fetched once, by a process of the same user that knows a secret of 128 bits.
//
// The package needs Linux 5.1 or later. For each segment that it holds, a process needs one descriptor and a few
// mappings, which all tensors of the segment share. On one connection, a Send and a Recv may run at the same time, but
// not two Sends or two Recvs.
package shm
