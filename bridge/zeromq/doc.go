// Package zeromq sends and receives TENS messages over ZeroMQ without copying their payloads. libzmq transfers the
// messages; this package passes memory to libzmq and receives memory from it.
//
//	ctx, err := zeromq.NewContext()
//	push, err := ctx.NewSocket(zeromq.Push)
//	err = push.Connect("tcp://127.0.0.1:5555")
//	msg, err := zeromq.Encode([]*dlpack.Tensor{t}, bridge.Metadata([]byte(`{"run":7}`)))
//	err = push.Send(context.Background(), msg)   // t may be closed now
//
//	got, err := pull.Recv(context.Background(), zeromq.Aligned()) // in another process, on a PULL
//	defer got.Close()
//	err = dlpack.Read(got.Tensors[0], func(x []float32) error { fmt.Println(x); return nil })
//
// Programs build and start without libzmq. Sockets need libzmq 4.2 or later. The first [NewContext] loads libzmq. If no
// libzmq is found, the error lists the files that were tried. The comment of [Load] lists the places that are searched.
// [Encode], [Message.Frames] and [Decode] need no libzmq. They work on the frames of any ZeroMQ library, for example
// github.com/go-zeromq/zmq4 or github.com/pebbe/zmq4.
//
// # Sending
//
// [Socket.Send] does not copy a payload part of at least 32 KiB: libzmq reads the part in the memory of its tensor.
// When libzmq has written the part, a thread of libzmq releases the part's share of the memory. Smaller parts are copied,
// because copying them is cheaper. Parts in borrowed memory are copied too.
//
// When a peer of a bound socket disconnects, libzmq soon releases the messages for this peer, without a call of the
// program. There is one exception: a socket with unread messages keeps the messages for the peer until the program has
// received the unread messages. So a program that sends on a ROUTER, DEALER, REP or PAIR must also receive on this
// socket.
//
// A deadline limits how long a call waits. Send and Recv transfer all frames of a message in one step. With very many
// frames, this step can take longer than the deadline.
//
// # Receiving
//
// A part of at least 16 KiB stays in the memory of libzmq's message; the tensors of the part keep this memory alive.
// Smaller parts are copied: libzmq receives small messages into common buffers of 8 KiB, and one part would keep a
// whole buffer alive.
//
// Parts received over tcp or ipc are aligned to 8 bytes at most, and often not at all. With the option [Aligned],
// tensors that are not aligned to 256 bytes are copied. Tensors are read-only without [Writable]: [dlpack.Read] reads
// them, and [dlpack.Use] refuses them.
//
// # Memory
//
// A receiver holds the frames of one message at a time. Further messages wait in libzmq: [ReceiveHighWater] limits
// their number, and [MaxFrame] limits the size of their frames. Decoding takes the memory that [bridge.Decode]
// documents, plus 64 bytes for each frame.
//
// These limits apply to complete messages. libzmq keeps the frames of a message until the last frame has arrived, and
// no option limits their number. If a peer never ends its message, libzmq therefore takes more and more memory in this
// process until the peer is disconnected. So let only trusted peers connect.
//
// # Faults of libzmq
//
// This package cannot repair some faults of libzmq (as of 4.3.5):
//
//   - libzmq ends the process (abort) when a context, a Bind or a new connection over ipc finds no free descriptor. The
//     limit of the process (ulimit -n) must be large enough for all peers that can connect.
//   - libzmq may end the process if the time of [Linger] ends while a message of several frames is partly sent, and the
//     peer closes the connection at the same moment. With Linger(0), the time ends immediately. Without Linger, libzmq
//     waits until everything is sent, so it does not end the process.
//   - libzmq ends the process if a peer of a ROUTER or REP has chosen the routing id that libzmq would give to the next
//     peer without an id. libzmq counts these ids up from a number that C's rand() returns. [NewContext] seeds rand
//     from the randomness of the system. A peer can still guess the id of the next peer, with a chance of 1 in 2^32.
//     The peer need not guess if the program calls srand itself, or reveals an id that libzmq gave.
//   - A REP loses the answer to the next request if a peer sends a message without the envelope of a REQ and
//     disconnects before Recv. The client of that request waits. Give the client's Recv a deadline, and let the client
//     ask again on a new socket.
//   - If a peer disconnects while a PUSH or DEALER sends a message, the first frames may go to one peer and the
//     remaining frames to another. A message in one frame ([Message.Pack]) arrives whole, or not at all.
//   - A PAIR ignores all peers except one. It keeps a descriptor for each ignored peer until the peer closes the
//     connection.
//   - A peer of a PUB may subscribe to prefixes of any length, and the PUB stores these prefixes. [MaxFrame] limits
//     their length.
//   - If the peer of a PUSH or PUB disconnects while Send passes the frames of a long message to libzmq, libzmq may
//     never release the frames that it already has. The memory of their tensors then stays until the process ends, and
//     the counter of exports does not fall.
//
// # Both forms of a message
//
// A message is sent as separate frames. After [Message.Pack] it is sent as a single frame with a copy of all frames,
// the packed form. [Socket.Recv] and [Decode] accept both forms.
//
// # Routing
//
// A ROUTER receives frames before the message: the routing id of the peer, and perhaps the ids of further peers and an
// empty frame. [Message.Routing] has these frames, and Send sends them before the message. After the id, the first
// frame that begins with "ZIO", a digit and a form is the beginning of the message. Routing ids chosen by an
// application must therefore not begin in this way.
//
// # Clients and servers
//
// A [Server] has many [Client] sockets as peers, and identifies each by a number, the routing id. Recv returns the id
// in Message.RoutingID. Send sends a message to the client that RoutingID or the option [To] names. Messages on these
// sockets have one frame, the packed form:
//
//	question, err := server.Recv(ctx)
//	answer, err := zeromq.Encode(ts)
//	err = answer.Pack()
//	answer.RoutingID = question.RoutingID
//	err = server.Send(ctx, answer)
//
// These sockets need a libzmq built with its draft API. The libzmq of most distributions is built without it: see
// [ErrDrafts].
//
// # Subscribing
//
// A SUB socket compares its subscriptions with the first frame of a message, which is "ZIO", the level as a digit, and
// the form, such as "ZIO0TENS". See [Subscribe].
package zeromq
