"""TENS messages over the sockets of pyzmq: `tens.send` and `tens.recv`. Nothing here imports pyzmq.

Sending or receiving a message takes several calls of libzmq. A signal handler, such as the one for Ctrl-C, can raise an exception between
any two calls, or in a call that has succeeded. Therefore a mark in `_State` is set before the first call and cleared after the last.
While it is set, the state of the message is unknown, and the next call on the socket finishes the message first.
"""

from __future__ import annotations

import functools
import math
import operator
import os
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypedDict, overload

from ._core import check_limit, empty, from_buffer, require_library
from ._elements import LIMIT
from ._messages import Message, decode, decode_frames, encode, encode_frames

if TYPE_CHECKING:
    from types import FrameType
    from typing import TypeAlias, Unpack

    import zmq
    import zmq.asyncio

    Socket: TypeAlias = zmq.Socket[Any]
    AsyncSocket: TypeAlias = zmq.asyncio.Socket
else:
    Socket = AsyncSocket = Any

# The constants of pyzmq, as plain integers
_REQ, _REP, _ROUTER, _SERVER, _CLIENT = 3, 4, 6, 12, 13
_RCVMORE, _EVENTS, _RCVTIMEO, _SNDTIMEO, _REQ_RELAXED = 13, 15, 27, 28, 53
_DONTWAIT, _SNDMORE = 1, 2
_POLLIN, _POLLOUT = 1, 2

_LOOKED_AT = (0, 1, 5, 8, 9, _SERVER, _CLIENT)
"""PAIR, PUB, DEALER, PUSH, XPUB, SERVER and CLIENT: sockets that may send for long without receiving, and that fetch no frame when the
program reads zmq.EVENTS. Reading it lets libzmq notice that a peer has gone, and release the memory it holds for this peer. Some sockets
notice it only then."""

_LOOK_EVERY = 1e-3
"""The seconds after which `send` reads zmq.EVENTS again. Reading it takes as long as sending three frames."""

_KEPT = 16 << 10
"""The size in bytes of the smallest received part that stays in libzmq's memory. Smaller parts are copied, because several of
them may share a buffer of 8 KiB, and each part would keep the whole buffer alive."""


class Tracker:
    """Reports when libzmq has released the parts of a message. `tens.send` with `track=True` returns a Tracker.

    Once the parts are released, the memory of the tensors may be written to. Over TCP and IPC, libzmq releases them when all parts are
    sent, or dropped. Over inproc, the receiver must also have released them. If the peer of a PUSH, PUB or similar socket goes in the
    middle of a `send`, libzmq can drop parts and never release them, even when the context ends. The tracker is then never done, and the
    memory is never released. If this matters, wait with a timeout.

        >>> import zmq
        >>> with zmq.Context() as context, context.socket(zmq.PAIR) as a, context.socket(zmq.PAIR) as b:
        ...     with a.bind("inproc://tracked"), b.connect("inproc://tracked"):
        ...         sent = dlbridge.tens.send(a, [np.zeros(1 << 20)], track=True)
        ...         before = sent.done
        ...         dlbridge.tens.recv(b).tensors[0].close()
        ...         sent.wait(timeout=10)
        >>> before, sent.done
        (False, True)

    A Tracker may be used on any thread. On the thread of `send`, `done` and `wait` also read zmq.EVENTS of the socket, because only then
    may libzmq release the memory it holds for a peer that has gone. No other thread may use the socket during these calls. (For a ROUTER,
    see `send`.)
    """

    __slots__ = ("_parts", "_place", "_socket")

    def __init__(self, parts: Iterable[Any], socket: Any = None) -> None:
        self._parts = [part for part in parts if part is not None and not part.done]  # None: libzmq has a copy
        self._socket = None if socket is None or socket.type not in _LOOKED_AT else weakref.ref(socket)
        self._place = os.getpid(), threading.get_ident()

    def _look(self) -> bool:
        """Lets libzmq release the memory it holds for peers that have gone, if this is the thread of `send`. Reports whether it did."""
        socket = None if self._socket is None or self._place != (os.getpid(), threading.get_ident()) else self._socket()
        try:
            return socket is not None and socket.get(_EVENTS) >= 0
        except (sys.modules["zmq"].ZMQError, RuntimeError):  # the socket is closed, or its event loop of asyncio has ended
            return False

    @property
    def done(self) -> bool:
        """Whether libzmq has released all parts."""
        if self._parts:
            self._look()
        self._parts = [part for part in self._parts if not part.done]
        return not self._parts

    def wait(self, timeout: float | None = None) -> None:
        """Waits until libzmq has released all parts, or raises TimeoutError after `timeout` seconds.

        In a coroutine, `await asyncio.to_thread(tracker.wait)` lets the other tasks run.
        """
        if timeout is not None and math.isnan(timeout):
            raise ValueError("dlbridge: tens: send: wait: timeout is not a number")
        end = math.inf if timeout is None else time.monotonic() + timeout
        for part in self._parts:
            while not part.done:
                left = end - time.monotonic()
                most = 0.05 if self._look() else 3600.0  # Python's locks cannot wait for centuries
                try:
                    part.wait(max(0.0, min(left, most)))
                except sys.modules["zmq"].NotDone:
                    if left <= most:
                        raise TimeoutError(f"dlbridge: tens: send: parts are still in use after {timeout} s") from None

    def __repr__(self) -> str:
        return f"<dlbridge.tens.Tracker: {'done' if self.done else f'{len(self._parts)} parts are in use'}>"


class _SendOptions(TypedDict, total=False):
    metadata: Mapping[str, Any] | None
    tensor_metadata: Iterable[Mapping[str, Any] | None] | Mapping[str, Mapping[str, Any] | None] | None
    form: bytes | str | None
    level: int | None
    label: bytes | str | Mapping[str, Any] | None
    origin: int | None
    granule: int | None
    seqno: int | None
    spread: int | None
    relay: Message | None
    packed: bool
    routing: Sequence[Any]
    routing_id: SupportsIndex
    flags: int


if TYPE_CHECKING:  # typing.overload would keep the module for as long as the process lives

    @overload
    def send(
        socket: AsyncSocket, tensors: Iterable[Any] | Mapping[str, Any], *, track: Literal[False] = ..., **options: Unpack[_SendOptions]
    ) -> Awaitable[None]: ...
    @overload
    def send(
        socket: AsyncSocket, tensors: Iterable[Any] | Mapping[str, Any], *, track: Literal[True], **options: Unpack[_SendOptions]
    ) -> Awaitable[Tracker]: ...
    @overload
    def send(socket: Socket, tensors: Iterable[Any] | Mapping[str, Any], *, track: Literal[False] = ..., **options: Unpack[_SendOptions]) -> None: ...
    @overload
    def send(socket: Socket, tensors: Iterable[Any] | Mapping[str, Any], *, track: Literal[True], **options: Unpack[_SendOptions]) -> Tracker: ...


def send(
    socket: Any,
    tensors: Iterable[Any] | Mapping[str, Any],
    *,
    metadata: Mapping[str, Any] | None = None,
    tensor_metadata: Iterable[Mapping[str, Any] | None] | Mapping[str, Mapping[str, Any] | None] | None = None,
    form: bytes | str | None = None,
    level: int | None = None,
    label: bytes | str | Mapping[str, Any] | None = None,
    origin: int | None = None,
    granule: int | None = None,
    seqno: int | None = None,
    spread: int | None = None,
    relay: Message | None = None,
    packed: bool = False,
    routing: Sequence[Any] = (),
    routing_id: SupportsIndex = 0,
    flags: int = 0,
    track: bool = False,
) -> Any:
    """Encodes tensors, as `encode` does, and sends the message on a socket of pyzmq.

    Returns: None; with `track`, a `Tracker`; on a socket of zmq.asyncio, a coroutine with this result, which must be awaited.

    Waits: until libzmq has taken the message, as `socket.send`. The call returns immediately unless `socket.sndhwm` messages wait for the
    peer, or there is no peer. It then waits for at most `socket.sndtimeo` milliseconds (-1, for ever, by default). A PUB drops the message
    instead. The call does not wait until the message is sent or received.

    Flags: `flags` is 0, or zmq.DONTWAIT (also named zmq.NOBLOCK). With zmq.DONTWAIT, a call that would wait raises zmq.Again.

    Ownership: libzmq sends each part of at least `socket.copy_threshold` bytes (64 KiB) from the memory of its tensor. It holds that memory
    until the part is sent, even after the array or `Tensor` is gone: until then, do not write to the memory. `track` reports when libzmq
    has released all parts. `Tensor.on_release` calls a function after the last holder has released the memory. Smaller parts are copied,
    which is cheaper: their memory is free when the call returns.

    Errors: those of `encode`, before anything is sent; TypeError if `socket` is not a socket of pyzmq; and errors of the socket, after which
    the message is not sent. The socket raises zmq.Again if the call would wait or has waited too long, and zmq.ZMQError for other errors,
    for example for a closed socket (ENOTSOCK) or a REQ that sends twice (EFSM).

    With `packed` the message is one frame in the packed form, which is a copy. `routing` has frames to send before the message. On a
    ROUTER, pass `Message.routing`.

    Messages of CLIENT and SERVER sockets have one frame, so they need `packed`. A SERVER also needs the `routing_id` of the receiving
    CLIENT: the `Message.routing_id` of a message from that CLIENT. Both sockets need a libzmq with the draft API, and a pyzmq that is built
    against this libzmq (ZMQ_PREFIX=… ZMQ_DRAFT_API=1 pip install --no-binary pyzmq pyzmq). Their sockets of zmq.asyncio are experimental in
    pyzmq (DraftFDWarning): an event loop that waits for them keeps a processor busy.

        >>> import zmq
        >>> with zmq.Context() as context, context.socket(zmq.PAIR) as a, context.socket(zmq.PAIR) as b:
        ...     port = a.bind_to_random_port("tcp://127.0.0.1")
        ...     with b.connect(f"tcp://127.0.0.1:{port}"):
        ...         dlbridge.tens.send(a, {"x": np.arange(3)}, metadata={"run": 7})
        ...         message = dlbridge.tens.recv(b)
        >>> message.metadata, message["x"].tolist()
        ({'run': 7}, [0, 1, 2])

    On a socket of zmq.asyncio the tensors are encoded immediately. The coroutine waits for all earlier calls on the same socket (on a
    ROUTER, to the same peer), and then sends the message. With zmq.DONTWAIT it raises zmq.Again if earlier calls wait. If the coroutine is
    cancelled, the message is sent whole or not at all.

    If a signal handler raises an exception during the call, such as KeyboardInterrupt, the call raises this exception. The receiver then gets
    one of these: the whole message, nothing, an empty message, or the first parts followed by an empty part. `recv` refuses the last two.
    (With `message_only`, `recv` cannot see that parts are missing.) Other messages that this function sends are not affected, and the socket
    stays usable. On REQ and REP the refused message counts as the request or the answer. Rarely, the exception comes while pyzmq destroys
    a frame: pyzmq hands the exception to sys.unraisablehook, and the call goes on. To miss no signal, let the handler also set a flag, and
    test the flag after the call.

    `send` and `recv` raise RuntimeError in a signal handler that has interrupted one of them on the same socket.

    If the peer of a REQ goes in the middle of the request, the whole request is sent again to the next peer. If no peer comes in time,
    zmq.Again is raised, and the socket can send again. If the next peer is a ROUTER, it may first get a message that its `recv` refuses.

    libzmq holds messages for a peer that has gone until the program looks for messages to receive. `send` looks once in a millisecond, by
    reading zmq.EVENTS. It does not do this on a ROUTER, which would then fetch the first frame of a message (see `recv`). A program that
    sends on a ROUTER and does not receive must itself call `socket.get(zmq.EVENTS)` from time to time.

    If one of several peers of a PUSH or DEALER goes while a message for another peer is being sent, libzmq can send the rest of that
    message to a third peer. With `packed` this cannot happen.

    End the context (`Context.term`, or leave a `with` block of the context) before the process ends. The context waits until everything is
    sent, for at most `socket.linger` milliseconds. A process that ends while libzmq still holds parts can crash in libzmq, as with pyzmq
    alone. A process that closes a socket with a `linger` of 0 or a few milliseconds can also crash, if a message of several parts is half
    sent and its receiver goes at that moment. Set a `linger` of at least 100.
    """
    state = _state(socket, "send")
    peer_id = _peer_id(state, packed, routing, routing_id)
    frames: list[Any] = encode(
        tensors,
        metadata=metadata, tensor_metadata=tensor_metadata, form=form, level=level, label=label,
        origin=origin, granule=granule, seqno=seqno, spread=spread, relay=relay,
    )  # fmt: skip
    if packed:
        frames = [encode_frames(frames)]
    if routing:
        frames = [*map(_routing_frame, routing), *frames]
    flags = int(flags)
    if state.futures is None:
        trackers = _send(socket, _addressed(socket.send, peer_id), socket.recv, state, frames, flags, track)
        return Tracker(trackers, socket) if track else None
    put, take = _plain_calls(socket, state)
    put = _addressed(put, peer_id)

    def step() -> Any:
        trackers = _send(socket, put, take, state, frames, flags | _DONTWAIT, track)
        return Tracker(trackers, socket) if track else None

    peer = frames[0] if routing and state.type == _ROUTER else None
    return _in_turn(socket, state, step, flags, _POLLOUT, _SNDTIMEO, peer)


class _RecvOptions(TypedDict, total=False):
    aligned: bool
    writable: bool
    message_only: bool
    join: bool
    limit: int
    flags: int


if TYPE_CHECKING:  # typing.overload would keep the module for as long as the process lives

    @overload
    def recv(socket: AsyncSocket, **options: Unpack[_RecvOptions]) -> Awaitable[Message]: ...
    @overload
    def recv(socket: Socket, **options: Unpack[_RecvOptions]) -> Message: ...


def recv(
    socket: Any,
    *,
    aligned: bool = False,
    writable: bool = False,
    message_only: bool = False,
    join: bool = False,
    limit: int = LIMIT,
    flags: int = 0,
) -> Any:
    """Receives a message on a socket of pyzmq, and decodes it, as `decode` does. The message has several frames or the packed form.

    Returns: a `Message`; on a socket of zmq.asyncio, a coroutine with this result, which must be awaited.

    Waits: until a message is there, as `socket.recv` does, for at most `socket.rcvtimeo` milliseconds (-1, for ever, by default).

    Flags: `flags` is 0, or zmq.DONTWAIT (also named zmq.NOBLOCK). With zmq.DONTWAIT, the call raises zmq.Again if no message is there.

    Ownership: parts of at least 16 KiB stay in libzmq's memory until the tensors and `parts` of the message, and all arrays made of them,
    are gone, even after the socket is closed. Smaller parts are copied. Tensors are read-only, because the memory may be the sender's
    (inproc) or shared by several receivers; `writable` makes copies. libzmq aligns parts to 8 bytes at most, and often not at all:
    `aligned` copies those that do not begin at a multiple of 256 bytes.

    Errors: those of `decode` for an invalid message, all of which is dropped; TypeError if `socket` is not a socket of pyzmq; and errors of
    the socket. The socket raises zmq.Again if no message came in time, and zmq.ZMQError for other errors, for example for a closed socket
    (ENOTSOCK) or a REQ that has sent no request (EFSM).

        >>> import zmq
        >>> with zmq.Context() as context, context.socket(zmq.PAIR) as a, context.socket(zmq.PAIR) as b:
        ...     with a.bind("inproc://received"), b.connect("inproc://received"):
        ...         dlbridge.tens.send(a, [np.arange(3)])
        ...         (tensor,) = dlbridge.tens.recv(b).tensors
        ...         try:
        ...             dlbridge.tens.recv(b, flags=zmq.DONTWAIT)
        ...         except zmq.Again:
        ...             print("no message")
        no message
        >>> tensor.tolist(), tensor.readonly
        ([0, 1, 2], True)

    `routing` of the result has the frames before the message, such as the routing id on a ROUTER. The message starts at the first frame
    that begins with "ZIO", a digit and a form. On a SERVER, `routing_id` of the result says which CLIENT has sent the message.
    A SUB socket compares its subscriptions with the first frame, such as b"ZIO0TENS".

    If the coroutine of a socket of zmq.asyncio is cancelled, it has taken no message. Concurrent calls receive in the order in which they
    begin; with zmq.DONTWAIT a call raises zmq.Again if other calls wait.

    If `recv` on a REP socket raises an exception after it has received a request, such as ValueError for a malformed request, the program
    may `send` an answer. Otherwise the next `recv` answers with an empty frame, which the client's `recv` refuses. Until then, `socket.poll`
    reports no further request. After `recv` has returned a request, the next `recv` raises zmq.ZMQError (EFSM) until an answer is sent.
    `recv` on a REQ socket raises the same error until a request is sent.

    A ROUTER or REP numbers its peers upwards from a result of rand() of C. A peer that chooses the next number as its own id ends the
    process. Python programs do not seed rand(), so anybody knows the next number. Before you make the socket, call
    ctypes.CDLL(None).srand(int.from_bytes(os.urandom(4))), and let only trusted peers connect (CURVE).

    A SUB or ROUTER socket takes the first frame of a message when the program polls the socket, or waits for it in asyncio. If the program
    then disconnects from the peer before it has received the message, the rest is lost, and libzmq can end the process. Before such a
    disconnect, receive all messages that are there (zmq.DONTWAIT), or close the socket.

    If a signal handler raises an exception during the call, such as KeyboardInterrupt, the call raises this exception. The rest of the
    message is dropped, at the latest by the next call of `recv` or `send` on the socket. No other message is affected if the program makes
    no other call on the socket before. In a few of a hundred cases, the exception comes while pyzmq destroys a frame: pyzmq hands the
    exception to sys.unraisablehook, and the call goes on (see `send`).

    `limit` bounds the memory of tensors in several parts, as in `decode`. The parts themselves take memory in proportion to the bytes and
    the number of frames. libzmq bounds the bytes of a frame (`socket.maxmsgsize`), but not the number of frames.
    """
    check_limit(limit)  # before a message is taken
    require_library()
    state = _state(socket, "recv")
    first = 1 if state.type == _ROUTER else 0
    flags = int(flags)

    def receive(put: Callable[..., Any], take: Callable[..., Any], flags: int) -> Message:
        received = _receive(socket, put, take, state, flags)
        message = _decode(received, first, aligned, writable, message_only, join, limit)
        if state.type == _SERVER:
            message.routing_id = received[0].routing_id
        state.refused = False
        return message

    if state.futures is None:
        return receive(socket.send, socket.recv, flags)
    put, take = _plain_calls(socket, state)
    return _in_turn(socket, state, lambda: receive(put, take, flags | _DONTWAIT), flags, _POLLIN, _RCVTIMEO)


class _State:
    """The state of a socket between two calls.

    receiving: frames of a message that `recv` has begun may be left in the socket. RCVMORE is true then, and if it is not, none
        are. (Without the mark, RCVMORE means that the program has received the first frames itself.)
    sending: `send` has begun a message, and may not have sent its last frame. libzmq does not tell.
    refused: a REP may have received a request that no call has returned. The next one answers it.
    lost: the peer of a REQ went in the middle of the last request.
    relaxed: `send` has set ZMQ_REQ_RELAXED since, until a request is sent.
    looked: when `send` has last asked the socket for zmq.EVENTS, by time.monotonic.
    futures: the module of pyzmq whose sockets return futures, if this is one of them, or None.
    loop, locks: the running event loop, and its locks. Calls that receive wait in turn for one lock, and calls that send for another
        (on a ROUTER, one for each peer).
    """

    __slots__ = ("futures", "locks", "looked", "loop", "lost", "receiving", "refused", "relaxed", "sending", "type", "zmq")

    def __init__(self, zmq: Any, socket: Any) -> None:
        self.zmq, self.type = zmq, socket.type
        self.receiving = self.sending = self.refused = self.lost = self.relaxed = False
        modules = filter(None, map(sys.modules.get, ("zmq.asyncio", "zmq.eventloop.future")))
        self.futures: Any = next((module for module in modules if isinstance(socket, module.Socket)), None)
        self.looked = -math.inf
        self.loop: Any = None
        self.locks: weakref.WeakValueDictionary[tuple[int, bytes | None], Any] = weakref.WeakValueDictionary()


_states: weakref.WeakKeyDictionary[Any, _State] = weakref.WeakKeyDictionary()


def _state(socket: Any, what: str) -> _State:
    try:
        state = _states.get(socket)
    except TypeError:  # no weak reference to it
        state = None
    if state is None:
        zmq = sys.modules.get("zmq")
        if zmq is None or not isinstance(socket, zmq.Socket):
            raise TypeError(f"dlbridge: tens: {what}: a socket of pyzmq is required, not {type(socket)!r}")
        if socket.type in (_SERVER, _CLIENT) and not zmq.DRAFT_API:  # which can be made, but not used
            raise RuntimeError(
                f"dlbridge: tens: {what}: CLIENT and SERVER sockets need the draft API of libzmq, which this pyzmq lacks; "
                "ZMQ_PREFIX=… ZMQ_DRAFT_API=1 pip install --no-binary pyzmq pyzmq builds it against a libzmq that has it"
            )
        state = _states[socket] = _State(zmq, socket)
    return state


def _plain_calls(socket: Any, state: _State) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns the functions with which a socket of asyncio sends and receives a frame immediately."""
    plain = state.zmq.Socket
    return functools.partial(plain.send, socket), functools.partial(plain.recv, socket)


def _peer_id(state: _State, packed: bool, routing: Sequence[Any], routing_id: SupportsIndex) -> int:
    """Returns the routing id that the message gets, or 0 if the socket is not a SERVER."""
    peer = operator.index(routing_id)
    if state.type == _SERVER and not 0 < peer < 2**32:
        raise ValueError(
            f"dlbridge: tens: send: a SERVER sends to one CLIENT, but routing_id {peer} names no CLIENT; use "
            "Message.routing_id of a message from the CLIENT"
        )
    if state.type != _SERVER and peer != 0:
        raise ValueError("dlbridge: tens: send: only a SERVER socket accepts routing_id; use routing for a ROUTER")
    if state.type in (_SERVER, _CLIENT) and (routing or not packed):
        raise ValueError(
            "dlbridge: tens: send: a message of a CLIENT or SERVER socket has one frame; send it with packed=True, without routing"
        )
    return peer


def _addressed(put: Callable[..., Any], peer: int) -> Callable[..., Any]:
    """Returns the function that sends a frame, to one CLIENT if `peer` is not 0."""
    return functools.partial(put, routing_id=peer) if peer else put


def _refuse_inner_call(state: _State, what: str) -> None:
    """Raises RuntimeError if a signal handler, or a function that Python calls on its own, has interrupted a call on the socket."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code in _CALLS and frame.f_locals.get("state") is state:
            raise RuntimeError(
                f"dlbridge: tens: {what}: the call has interrupted another call on the socket, for example from a signal handler; "
                "let the handler set a flag, and test it after the other call"
            )
        frame = frame.f_back


def _receive(socket: Any, put: Callable[..., Any], take: Callable[..., Any], state: _State, flags: int) -> list[Any]:
    """Receives the frames of a message.

    When the first frame has arrived, all frames have, because libzmq hands messages over whole. But sockets such as SUB and ROUTER take
    the first frame when the program only asks whether there is a message. If the program then disconnects, libzmq drops the rest.
    """
    if state.receiving or state.sending:
        _refuse_inner_call(state, "recv")
    if state.receiving:
        _drop_rest(socket, take, state)
    if state.refused:
        _end_message(put, state)  # which libzmq refuses if the program has sent an answer, or no request was received
    state.refused = state.type == _REP
    while True:
        frames: list[Any] = []
        state.receiving = True
        try:
            frames.append(take(flags, copy=False))
            while frames[-1].more:
                frames.append(take(flags | _DONTWAIT, copy=False))
        except BaseException as error:
            if frames and isinstance(error, state.zmq.Again):
                continue  # with the next message
            if frames or not isinstance(error, state.zmq.ZMQError):
                _drop_rest(socket, take, state)
            state.receiving = False  # if libzmq has no first frame, nothing is begun
            if not frames and isinstance(error, state.zmq.ZMQError):
                state.refused = False
            if isinstance(error, state.zmq.ZMQError) and error.errno == state.zmq.EFSM and state.type in _OUT_OF_TURN:
                raise type(error)(error.errno, f"dlbridge: tens: recv: {error}: {_OUT_OF_TURN[state.type]}") from None
            raise
        state.receiving = False
        return frames


_OUT_OF_TURN = {
    _REQ: "a REQ socket must send a request before it receives an answer",
    _REP: "a REP socket must send an answer before it receives the next request",
}


def _drop_rest(socket: Any, take: Callable[..., Any], state: _State) -> None:
    """Drops the frames that are left of a message, if libzmq has not dropped them itself (see `_receive`)."""
    try:
        while socket.get(_RCVMORE):
            take(_DONTWAIT, copy=False)
    except state.zmq.Again:
        pass
    state.receiving = False


def _send(
    socket: Any,
    put: Callable[..., Any],
    take: Callable[..., Any],
    state: _State,
    frames: list[Any],
    flags: int,
    track: bool,
) -> list[Any]:
    """Sends the frames of a message, and returns what pyzmq returns for each."""
    if state.receiving or state.sending:
        _refuse_inner_call(state, "send")
    if state.type in _LOOKED_AT and state.futures is None and (now := time.monotonic()) - state.looked > _LOOK_EVERY:
        socket.get(_EVENTS)  # of asyncio, see `_step`
        state.looked = now
    if state.receiving:
        _drop_rest(socket, take, state)  # REQ and REP refuse to send before
    if state.sending and state.lost:
        try:
            put(b"", flags)  # the last frame of the request was refused, and there was no peer to take this one
        except state.zmq.ZMQError as error:
            if error.errno != state.zmq.EFSM:  # EFSM: an interrupted call has sent it already
                raise
        state.sending = False
    elif state.sending:
        _end_message(put, state)
    copy = max(map(len, frames)) < socket.copy_threshold or not _may_lend(state.zmq)
    trackers: list[Any] = []
    state.sending = len(frames) > 1
    rest = flags
    try:
        for frame in frames[:-1]:
            trackers.append(put(frame, rest | _SNDMORE, copy=copy, track=track))
            if state.type == _REQ:
                rest |= _DONTWAIT  # libzmq has room for the rest; a call that waits would not report that the peer has gone
        trackers.append(put(frames[-1], rest, copy=copy, track=track))
    except BaseException as error:
        refused = isinstance(error, state.zmq.ZMQError)
        if not copy and not refused:
            _forget(frames[len(trackers) :], error)
        # If libzmq has refused the first frame, there is no message to end. If it has refused the last frame, libzmq has ended the message
        # itself and dropped it, except on a REQ.
        done = refused and (not trackers or (len(trackers) == len(frames) - 1 and state.type != _REQ))
        ended = not state.sending or done or _end_message(put, state)
        state.sending = False
        if refused and trackers and state.type == _REQ and not ended:
            state.sending = state.lost = True
            raise
        if refused and state.type == _REQ and _is_request_lost(socket, state, error, bool(trackers)):
            return _send(socket, put, take, state, [memoryview(frame) for frame in frames], flags, track)  # see `_forget`
        raise
    state.sending = False
    if state.relaxed:
        socket.set(_REQ_RELAXED, 0)
    state.lost = state.relaxed = False
    return trackers


_CALLS = (_receive.__code__, _send.__code__)


def _is_request_lost(socket: Any, state: _State, error: Any, begun: bool) -> bool:
    """Reports whether a request that a REQ socket has refused must be sent once more.

    If the peer goes in the middle of a request, libzmq refuses the next frame. It then mistakes the frame of `_end_message` for the
    request, and would wait for an answer to it. ZMQ_REQ_RELAXED allows the next request all the same. The option cannot be read, but if
    the program has set it, libzmq does not refuse that request.
    """
    if begun and error.errno == state.zmq.EAGAIN:
        state.lost = True
        return True
    if state.lost and not state.relaxed and error.errno == state.zmq.EFSM:
        state.relaxed = True
        socket.set(_REQ_RELAXED, 1)
        return True
    return False


def _end_message(put: Callable[..., Any], state: _State) -> bool:
    """Ends a message that may lack its last frame with an empty frame, so that its receiver refuses it. Reports whether libzmq took it.

    libzmq refuses the frame only if the message, or its connection, has ended already.
    """
    try:
        put(b"", _DONTWAIT)
        taken = True
    except state.zmq.ZMQError:
        taken = False
    state.sending = False
    return taken


_collector: Any = None
"""The thread of pyzmq that `_guard_collector` has last guarded."""

_guarding = threading.Lock()


def _may_lend(zmq: Any) -> bool:
    """Reports whether libzmq may send from the memory of tensors.

    pyzmq keeps the memory it has lent to libzmq in a table. A thread of pyzmq removes an entry when libzmq has let go of it. If the thread
    seems to have ended, pyzmq begins an empty table, and memory is freed while libzmq sends it. Up to Python 3.12, an
    exception of a signal handler in Thread.is_alive makes a living thread seem so for ever (bpo-45274).
    """
    thread = _collector
    if thread is not None and sys.modules["zmq.utils.garbage"].gc.thread is thread and thread.is_alive():
        return True
    # Signal handlers run on the main thread only.
    guard = threading.Thread(target=_guard_collector, args=(zmq,), daemon=True)
    guard.start()
    guard.join()
    thread = _collector
    return thread is not None and bool(thread.is_alive())


def _guard_collector(zmq: Any) -> None:
    """Starts the thread of pyzmq, and gives it an is_alive that changes nothing, so that an exception in it does no harm."""
    global _collector
    from zmq.utils.garbage import gc

    with _guarding:
        _collector = None
        if gc.thread is not None and gc.pid == os.getpid() and not gc.is_alive():
            return  # it seems to have ended before it was guarded
        zmq.Frame(b"", copy=False)
        thread: Any = gc.thread
        lock = getattr(thread, "_tstate_lock", None)  # held while the thread runs; Python 3.13 has none, and needs no guard
        if lock is not None:
            thread.is_alive = lock.locked
        _collector = thread


def _forget(frames: list[Any], error: BaseException) -> None:
    """Removes the first frame from pyzmq's table if an exception came while pyzmq put it there.

    libzmq then has not received it, and will never report that it has let go. If there are several entries, it is the last.
    """
    garbage = sys.modules["zmq.utils.garbage"]
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != garbage.__file__:
        traceback = traceback.tb_next
    if traceback is None:
        return
    for key, reference in reversed(list(garbage.gc.refs.items())):
        if reference.obj is frames[0]:
            garbage.gc.refs.pop(key, None)
            return


async def _in_turn(
    socket: Any, state: _State, step: Callable[[], Any], flags: int, event: int, timeout_option: int, peer: bytes | None = None
) -> Any:
    """Returns the result of `step`, which sends or receives a message without waiting, once it does not raise zmq.Again.

    A task can be cancelled only where it waits. Nothing waits in `step` or after it, so no message is cut, and none is received and lost.
    Calls that send wait for earlier calls to the same `peer`, if the call names one. A REP or REQ socket never becomes ready to receive
    out of turn: therefore `step` comes first there, and raises the error.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    if state.loop is not loop:
        state.loop, state.locks = loop, weakref.WeakValueDictionary()
        if state.type in _LOOKED_AT:
            getattr(socket, "_get_loop", int)()  # from now on pyzmq has the loop look at the socket
    lock = state.locks.setdefault((event, peer), asyncio.Lock())
    milliseconds = 0 if flags & _DONTWAIT else socket.get(timeout_option)
    end = None if milliseconds < 0 else loop.time() + milliseconds / 1000
    if end is None:
        await lock.acquire()
    else:
        limit = asyncio.timeout_at(end)
        try:
            async with limit:
                await lock.acquire()
        except TimeoutError:
            if not limit.expired():
                raise
            socket.get(timeout_option)  # raises the error of a socket that was closed meanwhile
            raise state.zmq.Again() from None
    try:
        polled = False
        while True:
            if event == _POLLOUT or state.type in _OUT_OF_TURN or state.zmq.Socket.get(socket, _EVENTS) & event:
                try:
                    return _step(socket, state, step)
                except state.zmq.Again:
                    if polled:  # the socket has room, but not for this receiver
                        await asyncio.sleep(0.001)
            if end is not None and loop.time() >= end:
                return _step(socket, state, step)
            await _ready(socket, state, event, None if end is None else end - loop.time())
            polled = True
    finally:
        lock.release()


async def _ready(socket: Any, state: _State, event: int, seconds: float | None) -> None:
    """Waits until a socket seems ready to send or to receive, or for `seconds`."""
    import asyncio

    add = getattr(socket, "_add_recv_event" if event == _POLLIN else "_add_send_event", None)
    if seconds is None and add is not None:  # as pyzmq's poller does, without its cost, which is more than that of the rest
        future: Any = asyncio.Future()
        add("poll", future=future)
        await future
    else:
        poller = state.futures.Poller()
        poller.register(socket, event)
        await poller.poll(-1 if seconds is None else max(0.0, seconds) * 1000)


def _step(socket: Any, state: _State, step: Callable[[], Any]) -> Any:
    try:
        return step()
    finally:
        # `step` may have consumed the signal for tasks that wait for the socket, or for a peer that has gone. This read wakes these tasks.
        if state.type in _LOOKED_AT or getattr(socket, "_recv_futures", True) or getattr(socket, "_send_futures", True):
            socket.get(_EVENTS)


def _is_prefix(frame: Any) -> bool:
    """Reports whether a frame begins as the prefix of a message does."""
    head = bytes(frame[:4])
    return len(frame) >= 8 and head[:3] == b"ZIO" and b"0" <= head[3:] <= b"8"


def _is_packed(frame: Any) -> bool:
    """Reports whether a frame begins as a message in the packed form does, with the size of the prefix."""
    return _is_prefix(frame[5:] if len(frame) > 0 and frame[0] == 255 else frame[1:])


def _routing(frames: list[memoryview], first: int) -> int:
    """Returns the number of frames before the message."""
    for i in range(first, len(frames)):
        if _is_prefix(frames[i]):
            return i
    if len(frames) > 1 and _is_packed(frames[-1]):
        return len(frames) - 1
    return min(first, len(frames))


def _routing_frame(frame: Any) -> bytes:
    try:
        return bytes(memoryview(frame))
    except TypeError:
        raise TypeError(f"dlbridge: tens: send: routing has bytes-like objects, not {type(frame)!r}") from None


def _own(part: memoryview, aligned: bool, writable: bool) -> Any:
    """Returns a part, or a copy of it, as the receiver wants it."""
    if not aligned and not writable:
        return part.toreadonly() if part.nbytes >= _KEPT else bytes(part)
    if not writable and (part.nbytes == 0 or from_buffer(part).data_ptr % 256 == 0):
        return part.toreadonly()
    copy = memoryview(empty(part.nbytes, "uint8"))
    copy[:] = part
    return copy if writable else copy.toreadonly()


def _decode(
    received: list[Any], first: int, aligned: bool, writable: bool, message_only: bool, join: bool, limit: int
) -> Message:
    frames = [memoryview(frame) for frame in received]
    start = _routing(frames, first)
    routing, frames = [bytes(frame) for frame in frames[:start]], frames[start:]
    if len(frames) == 1:
        frames = decode_frames(frames[0])
    parts = [_own(part, aligned, writable) for part in frames[2:]]
    heads = [bytes(frame) for frame in frames[:2]]
    message = decode([*heads, *parts], message_only=message_only, join=join, limit=limit)
    message.routing = routing
    return message
