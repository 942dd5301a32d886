// Package zeromq sends and receives TENS messages over ZeroMQ without copying their payloads. The engine is libzmq; this package
// hands memory over to it and takes memory from it.
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
// Programs build and start without libzmq. Sockets need libzmq 4.2 or later: the first [NewContext] loads it, and returns an error that says
// what was tried if there is none; [Load] says where it is looked for. [Encode], [Message.Frames] and [Decode] need no libzmq. They work on
// the frames of any ZeroMQ library, for example github.com/go-zeromq/zmq4 or github.com/pebbe/zmq4.
//
// # Sending
//
// [Socket.Send] gives libzmq each payload part of at least 32 KiB in the memory of its tensor, without copying it. When
// libzmq has written the part, one of its threads releases libzmq's share of the memory. Smaller parts are copied, which is
// cheaper, and so are parts in borrowed memory.
//
// When a peer of a bound socket goes, the messages for it are released soon, without a call of the program. A socket that has messages to
// receive keeps them until those are received: a program that sends on a ROUTER, DEALER, REP or PAIR must also receive.
//
// A deadline ends the time for which a call waits. Send and Recv hand all frames of a message over at once, whatever their number: for
// very many frames that takes longer than the deadline.
//
// # Receiving
//
// A part of at least 16 KiB stays in the memory of the message of libzmq, which the tensors of the part keep alive. Smaller parts
// are copied: libzmq receives small messages into common buffers of 8 KiB, which one part would keep alive.
//
// Parts that come over tcp or ipc are aligned to 8 bytes at most, and often not at all. [Aligned] copies those tensors that
// are not aligned to 256 bytes. Tensors are read-only without [Writable]: [dlpack.Read] reads them, and [dlpack.Use] refuses
// them.
//
// # Memory
//
// A receiver holds the frames of one message at a time. More messages wait in libzmq: [ReceiveHighWater] limits their
// number, and [MaxFrame] the size of their frames. Decoding takes as much memory as [bridge.Decode] says, and 64 bytes more
// for each frame.
//
// These limits are for messages that are complete. libzmq keeps the frames of a message until the last one has arrived, and no option
// limits their number: a peer that never ends its message takes memory until it is disconnected. Let only peers connect that you trust.
//
// # Faults of libzmq
//
// Some faults of libzmq (as of 4.3.5) cannot be mended here:
//
//   - It ends the process (abort) when a context, a Bind or a new connection over ipc finds no free descriptor. The limit of the process
//     (ulimit -n) must allow for all peers that can connect.
//   - It may end the process when the time of [Linger] is over, which is at once for Linger(0), while a message of several frames is partly
//     sent, and the peer closes the connection at the same moment. Without Linger, which waits until all is sent, this does not happen.
//   - It ends the process when a peer of a ROUTER or REP has chosen the routing id that libzmq gives the next peer without one. libzmq counts
//     these ids up from a number of rand() of C, which [NewContext] seeds from the randomness of the system. A peer can still guess: an id
//     that it chooses is that of the next peer with a chance of 1 in 2^32. It need not guess if the program calls srand itself, or tells a
//     peer an id that libzmq gave.
//   - A REP sends one answer to nobody, the answer to the next request, after a peer has sent a message without the envelope of a REQ and has
//     gone before Recv. The client of that request waits; give its Recv a deadline, and let it ask again on a new socket.
//   - A PUSH or DEALER may send the first frames of a message to one peer and the others to another, if a peer goes at this moment. A message
//     in one frame ([Message.Pack]) arrives whole, or not at all.
//   - A PAIR ignores all peers but one, and keeps a descriptor for each until the peer closes the connection.
//   - A peer of a PUB may subscribe to prefixes of any length, which the PUB keeps. [MaxFrame] limits them.
//   - If the peer of a PUSH or PUB goes while Send hands the frames of a long message over, libzmq may never release those that it has taken.
//     The memory of their tensors then stays until the process ends, and the counter of exports does not fall.
//
// # Both forms of a message
//
// A message is sent as separate frames, or, after [Message.Pack], as a single frame, which is a copy of all of them.
// [Socket.Recv] and [Decode] accept both: a message of one frame is in the packed form.
//
// # Routing
//
// A ROUTER receives the routing id of the peer, and perhaps the ids of further peers and an empty frame, before the message.
// They are in Message.Routing, and Send sends them first. The message begins with the first frame behind the id that begins with
// "ZIO", a digit and a form. Routing ids that an application chooses must therefore not look like that.
//
// # Clients and servers
//
// A [Server] has many [Client] sockets as peers, and knows each by a number, the routing id. It is in Message.RoutingID of a message that Recv
// returns, and Send sends a message to the client with the RoutingID of the message, or with that of the option [To]. Messages on these
// sockets have one frame, the packed form:
//
//	question, err := server.Recv(ctx)
//	answer, err := zeromq.Encode(ts)
//	err = answer.Pack()
//	answer.RoutingID = question.RoutingID
//	err = server.Send(ctx, answer)
//
// They need a libzmq that is built with its draft API, which those of most distributions are not: see [ErrDrafts].
//
// # Subscribing
//
// A SUB socket compares its subscriptions with the first frame of a message: "ZIO", the level as a digit, and the form, such as
// "ZIO0TENS". See [Subscribe].
package zeromq
