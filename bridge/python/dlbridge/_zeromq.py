"""TENS messages over the sockets of pyzmq: `tens.send` and `tens.recv`. Nothing here imports pyzmq."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import tens
from ._core import empty, from_buffer

if TYPE_CHECKING:
    from typing import TypeAlias

    import zmq
    import zmq.asyncio

    Socket: TypeAlias = zmq.Socket[Any]
    AsyncSocket: TypeAlias = zmq.asyncio.Socket
else:
    Socket = AsyncSocket = Any

_ROUTER = 6  # zmq.ROUTER
_KEPT = 16 << 10
"""The size in bytes from which on a received part stays in libzmq's memory. Smaller parts are copied, because several of
them may lie in one buffer of 8 KiB, which each would keep alive."""


@overload
def send(
    socket: AsyncSocket,
    tensors: Iterable[Any],
    *,
    metadata: Mapping[str, Any] | None = ...,
    tensor_metadata: Iterable[Mapping[str, Any] | None] | None = ...,
    form: bytes | str = ...,
    level: int = ...,
    label: bytes | str | Mapping[str, Any] | None = ...,
    origin: int = ...,
    granule: int = ...,
    seqno: int = ...,
    spread: int | None = ...,
    packed: bool = ...,
    routing: Sequence[Any] = ...,
    flags: int = ...,
) -> Awaitable[object]: ...
@overload
def send(
    socket: Socket,
    tensors: Iterable[Any],
    *,
    metadata: Mapping[str, Any] | None = ...,
    tensor_metadata: Iterable[Mapping[str, Any] | None] | None = ...,
    form: bytes | str = ...,
    level: int = ...,
    label: bytes | str | Mapping[str, Any] | None = ...,
    origin: int = ...,
    granule: int = ...,
    seqno: int = ...,
    spread: int | None = ...,
    packed: bool = ...,
    routing: Sequence[Any] = ...,
    flags: int = ...,
) -> None: ...
def send(
    socket: Any,
    tensors: Iterable[Any],
    *,
    metadata: Mapping[str, Any] | None = None,
    tensor_metadata: Iterable[Mapping[str, Any] | None] | None = None,
    form: bytes | str = "TENS",
    level: int = 0,
    label: bytes | str | Mapping[str, Any] | None = None,
    origin: int = 0,
    granule: int = 0,
    seqno: int = 0,
    spread: int | None = None,
    packed: bool = False,
    routing: Sequence[Any] = (),
    flags: int = 0,
) -> Any:
    """Encodes tensors, as `encode` does, and sends the message on a socket of pyzmq.

    libzmq sends each part of at least `socket.copy_threshold` bytes (64 KiB) from the memory of its tensor, and holds that memory until
    the part is sent; nobody should write to it before. Smaller parts are copied, which is cheaper. With `packed` the message is one
    frame, the single-part form, which is a copy. `routing` has frames to send before the message: those of `Message.routing`, on a
    ROUTER. `flags` are those of the socket, such as zmq.DONTWAIT. On a socket of zmq.asyncio, the result must be awaited.

        >>> import zmq
        >>> with zmq.Context() as context, context.socket(zmq.PAIR) as a, context.socket(zmq.PAIR) as b:
        ...     port = a.bind_to_random_port("tcp://127.0.0.1")
        ...     with b.connect(f"tcp://127.0.0.1:{port}"):
        ...         dlbridge.tens.send(a, [np.arange(3)], metadata={"run": 7})
        ...         message = dlbridge.tens.recv(b)
        >>> message.metadata, message.tensors[0].tolist()
        ({'run': 7}, [0, 1, 2])

    Errors: those of `encode`, and those of the socket, such as zmq.Again.
    """
    _check_socket(socket, "send")
    frames: list[Any] = tens.encode(
        tensors,
        metadata=metadata, tensor_metadata=tensor_metadata, form=form, level=level, label=label,
        origin=origin, granule=granule, seqno=seqno, spread=spread,
    )  # fmt: skip
    if packed:
        frames = [tens.encode_frames(frames)]
    sent = socket.send_multipart([*routing, *frames], flags=flags, copy=False)
    return sent if isinstance(sent, Awaitable) else None


@overload
def recv(
    socket: AsyncSocket,
    *,
    aligned: bool = ...,
    writable: bool = ...,
    message_only: bool = ...,
    join: bool = ...,
    limit: int | None = ...,
    flags: int = ...,
) -> Awaitable[tens.Message]: ...
@overload
def recv(
    socket: Socket,
    *,
    aligned: bool = ...,
    writable: bool = ...,
    message_only: bool = ...,
    join: bool = ...,
    limit: int | None = ...,
    flags: int = ...,
) -> tens.Message: ...
def recv(
    socket: Any,
    *,
    aligned: bool = False,
    writable: bool = False,
    message_only: bool = False,
    join: bool = False,
    limit: int | None = None,
    flags: int = 0,
) -> Any:
    """Receives a message on a socket of pyzmq, in several frames or in the single-part form, and decodes it, as `decode` does.

    Parts of at least 16 KiB stay in libzmq's memory, which the tensors keep alive, and smaller ones are copied. libzmq aligns parts to 8
    bytes at most, and often not at all: `aligned` copies those that do not begin at a multiple of 256 bytes. Tensors are read-only
    without `writable`, which copies, because the memory may be the sender's (inproc) or shared by several receivers.

    The frames before the message, such as the routing id on a ROUTER, are in `routing` of the result: all before the first that begins
    as a message does ("ZIO", a digit, a form). `flags` are those of the socket, such as zmq.DONTWAIT. On a socket of zmq.asyncio the
    result must be awaited. A SUB socket compares its subscriptions with the first frame, such as b"ZIO0TENS".

        >>> import zmq
        >>> with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        ...     dlbridge.tens.recv(pull, flags=zmq.DONTWAIT)
        Traceback (most recent call last):
          ...
        zmq.error.Again: Resource temporarily unavailable

    Ownership: the tensors hold the memory of their parts, also after the socket is closed. Errors: those of `decode` for a message that
    is not valid, which is dropped whole; and those of the socket.
    """
    _check_socket(socket, "recv")
    first = 1 if socket.type == _ROUTER else 0

    def message(frames: list[Any]) -> tens.Message:
        return _decode(frames, first, aligned, writable, message_only, join, limit)

    received = socket.recv_multipart(flags=flags, copy=False)
    return message(received) if isinstance(received, list) else _later(received, message)


async def _later(received: Awaitable[list[Any]], message: Any) -> Any:
    return message(await received)


def _is_prefix(frame: Any) -> bool:
    """Reports whether a frame begins as the prefix of a message does."""
    head = bytes(frame[:4])
    return len(frame) >= 8 and head[:3] == b"ZIO" and b"0" <= head[3:] <= b"8"


def _is_packed(frame: Any) -> bool:
    """Reports whether a frame begins as a message in the single-part form does, with the size of the prefix."""
    return _is_prefix(frame[5:] if len(frame) > 0 and frame[0] == 255 else frame[1:])


def _routing(frames: list[memoryview], first: int) -> int:
    """Returns the number of frames before the message."""
    for i in range(first, len(frames)):
        if _is_prefix(frames[i]):
            return i
    if len(frames) > 1 and _is_packed(frames[-1]):
        return len(frames) - 1
    return min(first, len(frames))


def _check_socket(socket: Any, what: str) -> None:
    if not hasattr(socket, "recv_multipart"):
        raise TypeError(f"dlbridge: tens: {what}: a socket of pyzmq is required, not {type(socket)!r}")


def _own(part: memoryview, aligned: bool, writable: bool) -> Any:
    """Returns a part, or a copy of it, as the receiver wants it."""
    if not aligned and not writable:
        return part.toreadonly() if part.nbytes >= _KEPT else bytes(part)
    if part.nbytes == 0 or (not writable and from_buffer(part).data_ptr % 256 == 0):
        return part.toreadonly()
    copy = memoryview(empty(part.nbytes, "uint8"))
    copy[:] = part
    return copy if writable else copy.toreadonly()


def _decode(
    received: list[Any], first: int, aligned: bool, writable: bool, message_only: bool, join: bool, limit: int | None
) -> tens.Message:
    frames = [memoryview(frame) for frame in received]
    start = _routing(frames, first)
    routing, frames = [bytes(frame) for frame in frames[:start]], frames[start:]
    if len(frames) == 1:
        frames = [memoryview(frame) for frame in tens.decode_frames(frames[0])]
    parts = [_own(part, aligned, writable) for part in frames[2:]]
    heads = [bytes(frame) for frame in frames[:2]]
    message = tens.decode([*heads, *parts], message_only=message_only, join=join, limit=limit)
    message.routing = routing
    return message
