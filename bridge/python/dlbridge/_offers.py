"""Handles of segments, which travel over any transport: the functions `handle`, `fetch`, `offer_parts` and `fetch_parts` of `shm`.

A process that has made a handle listens on an abstract Unix socket, and gives the descriptor of a segment to whoever sends its token.
The protocol is that of the Go package bridge/shm: the client sends the 16 bytes of the token, and receives one byte with the
descriptor (SCM_RIGHTS).
"""

from __future__ import annotations

import array
import atexit
import os
import re
import secrets
import socket as sockets
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from . import _core, tens
from ._core import Tensor, from_buffer
from ._elements import Buffer

_TOKEN = 16  # bytes
_ANSWER = 1.0  # seconds in which a process that has connected must send its token
_SOCKET = re.compile(r"dlbridge-shm-[0-9a-f]{32}")
_PACKING = "shm"  # Go: shm.Packing


class _Offers:
    """The offers of this process. A thread answers those who fetch, and another ends the offers whose time is over."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: dict[bytes, tuple[int, float]] = {}  # token: descriptor, and its end by time.monotonic
        self.listener: sockets.socket | None = None
        self.name = ""

    def add(self, file: int, timeout: float) -> tuple[str, bytes]:
        """Takes over a descriptor. Returns the name of the socket and the token. After an error the caller keeps the descriptor."""
        token = secrets.token_bytes(_TOKEN)
        with self.changed:
            if self.listener is None:
                self._listen()
            self.waiting[token] = file, time.monotonic() + timeout
            self.changed.notify()
        return self.name, token

    def take(self, token: bytes) -> int | None:
        """Ends an offer, and returns its descriptor, which the caller closes; None if there is no such offer."""
        with self.changed:
            return self.waiting.pop(token, (None,))[0]

    def _listen(self) -> None:
        name = "dlbridge-shm-" + secrets.token_hex(16)
        listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            listener.bind("\0" + name)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        self.listener, self.name = listener, name
        threading.Thread(target=self._accept, args=(listener,), name="dlbridge-shm", daemon=True).start()
        threading.Thread(target=self._expire, name="dlbridge-shm-time", daemon=True).start()

    def _accept(self, listener: sockets.socket) -> None:
        while self.listener is listener:
            try:
                connection, _ = listener.accept()
            except OSError:
                time.sleep(0.01)  # no descriptor is left: wait until others are closed
                continue
            if not _is_of_this_user(connection):
                connection.close()
                continue
            threading.Thread(target=self._give, args=(connection,), name="dlbridge-shm-give", daemon=True).start()

    def _give(self, connection: sockets.socket) -> None:
        with connection:
            try:
                connection.settimeout(_ANSWER)
                token = b""
                while len(token) < _TOKEN:
                    some = connection.recv(_TOKEN - len(token))
                    if not some:
                        return
                    token += some
                file = self.take(token)
                if file is None:
                    return
                try:
                    connection.sendmsg([b"\1"], [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, array.array("i", [file]))])
                finally:
                    os.close(file)
            except OSError:
                pass  # the other process sees that the connection ends

    def _expire(self) -> None:
        with self.changed:
            while self.listener is not None:
                now = time.monotonic()
                for token in [token for token, (_, end) in self.waiting.items() if end <= now]:
                    os.close(self.waiting.pop(token)[0])
                ends = [end for _, end in self.waiting.values()]
                self.changed.wait(min(min(ends) - now, threading.TIMEOUT_MAX) if ends else None)

    def close(self) -> None:
        """Ends all offers."""
        with self.changed:
            listener, self.listener = self.listener, None
            for file, _ in self.waiting.values():
                os.close(file)
            self.waiting.clear()
            self.changed.notify()
        if listener is not None:
            try:
                listener.shutdown(sockets.SHUT_RDWR)  # ends accept
            except OSError:
                pass
            listener.close()


_offers = _Offers()


def _after_fork() -> None:
    """Closes what a forked child has inherited: the offers stay those of its parent."""
    global _offers
    inherited, _offers = _offers, _Offers()  # another thread of the parent may hold the lock of the old ones
    for file, _ in inherited.waiting.values():
        os.close(file)
    if inherited.listener is not None:
        inherited.listener.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _offers.close())


def _is_of_this_user(connection: sockets.socket) -> bool:
    """Reports whether the other process has the user id of this one: the names of abstract sockets have no owners."""
    credentials = connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", credentials)[1]
    return user == os.geteuid()


def checked(tensor: Any, what: str) -> Tensor:
    """Returns an argument that must be a Tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"dlbridge: shm: {what} takes a dlbridge.Tensor, not {type(tensor)!r}; shm.copy makes one of any array")
    return tensor


def _is_row_major(tensor: Tensor) -> bool:
    step = 1
    for n, stride in zip(reversed(tensor.shape), reversed(tensor.strides)):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _seconds(timeout: float, what: str) -> float:
    value = float(timeout)
    if not value > 0:
        raise ValueError(f"dlbridge: shm: {what}: timeout must be more than 0 seconds, not {timeout!r}")
    return value


def handle(tensor: Tensor, /, *, timeout: float = 30.0, readonly: bool = True) -> dict[str, Any]:
    """Offers the segment of a tensor to one other process of the same user, for `timeout` seconds, and returns what that process
    passes to `fetch`: a dict that JSON can represent, of less than 200 bytes, which travels over any transport on the machine.

    The dict has the name of an abstract Unix socket, a token, which works once, the offset of the tensor and the size of the segment in
    bytes, and whether the segment is read-only. The data type and the shape travel by other means. The tensor must be row-major.
    `readonly` is that of `send`.

    Ownership: the tensor stays the caller's, who may close it; this process must live until the segment has been fetched. Errors: those
    of `send`; BufferError for a tensor that is not row-major; ValueError for a timeout that is not more than 0.

        >>> h = dlbridge.shm.handle(dlbridge.shm.copy(np.arange(3)))
        >>> dlbridge.shm.fetch(h, 3, "int64")
        <dlbridge.Tensor, int64(3,), read-only: [0, 1, 2]>
    """
    seconds = _seconds(timeout, "handle")
    if not _is_row_major(checked(tensor, "handle")):
        raise BufferError("dlbridge: shm: handle: the tensor is not row-major; shm.copy makes a copy that is")
    file, offset = _core.shm_place(tensor, not readonly)
    try:
        size = os.fstat(file).st_size
        name, token = _offers.add(file, seconds)
    except BaseException:
        os.close(file)
        raise
    return {"socket": name, "token": token.hex(), "offset": offset, "size": size, "readonly": bool(readonly)}


def fetch(
    handle: Mapping[str, Any], shape: int | Sequence[int], dtype: Any, /, *, timeout: float = 5.0, copy_unsealed: int = 0
) -> Tensor:
    """Returns a row-major Tensor in the segment of a handle, which `handle` or Go's shm.Offer has made, in another process or this one.

    `timeout` is in seconds. What the handle says is checked against what the kernel says. `copy_unsealed` is that of `recv`.

    Ownership: the mapping of the segment ends with the last share of the Tensor. Errors: LookupError if the handle was used before, its
    time is over, or its process has ended; TimeoutError; PermissionError for the socket of another user; ValueError for a handle or
    a shape that does not fit the segment; OSError. After an error nothing is mapped, and no descriptor is open.

        >>> h = dlbridge.shm.handle(dlbridge.shm.copy(np.eye(2)))
        >>> dlbridge.shm.fetch(h, (2, 2), "float64").tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    h = _Handle(handle)
    return from_buffer(h.fetch(h.size - h.offset, timeout, copy_unsealed), dtype, shape)


class _Handle:
    """A handle that was checked."""

    def __init__(self, fields: Any) -> None:
        if not isinstance(fields, Mapping):
            raise TypeError(f"dlbridge: shm: a handle is a mapping, not {type(fields)!r}")
        socket, token = fields.get("socket"), fields.get("token")
        if not isinstance(socket, str) or not _SOCKET.fullmatch(socket):
            raise ValueError(f"dlbridge: shm: handle: the socket {socket!r:.100} is not one that handle makes")
        self.socket = socket
        if not isinstance(token, str) or not re.fullmatch("[0-9a-fA-F]{32}", token):
            raise ValueError(f"dlbridge: shm: handle: the token {token!r:.100} is not of 32 hexadecimal digits")
        self.token = bytes.fromhex(token)
        self.offset, self.size = self._number(fields, "offset"), self._number(fields, "size")
        if self.offset > self.size:
            raise ValueError(f"dlbridge: shm: handle: offset {self.offset} is outside of the segment of {self.size} bytes")
        self.readonly = fields.get("readonly") is not False

    @staticmethod
    def _number(fields: Mapping[str, Any], name: str) -> int:
        value = fields.get(name)
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise ValueError(f"dlbridge: shm: handle: {name} {value!r:.100} is not a number of bytes")
        return value

    def fetch(self, size: int, timeout: float, copy_unsealed: int) -> Tensor:
        """Returns `size` bytes of the segment, from the offset of the handle on, as a Tensor of uint8."""
        file = self._descriptor(_seconds(timeout, "fetch"))
        return _core.shm_open_bytes(file, self.offset, size, not self.readonly, copy_unsealed, False)

    def _descriptor(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            try:
                connection.connect("\0" + self.socket)
                if not _is_of_this_user(connection):
                    raise PermissionError("dlbridge: shm: handle: its socket is that of another user")
                connection.sendall(self.token)
                connection.settimeout(max(end - time.monotonic(), 1e-6))
                data, files, _, _ = sockets.recv_fds(connection, 1, 8)
            except ConnectionRefusedError:
                raise LookupError("dlbridge: shm: handle: its process has ended") from None
            except (BrokenPipeError, ConnectionResetError):
                data, files = b"", []
            except TimeoutError:
                raise TimeoutError(f"dlbridge: shm: fetch: no answer within {timeout:g} seconds") from None
        if data and len(files) == 1:
            os.set_inheritable(files[0], False)
            return files[0]
        for file in files:
            os.close(file)
        raise LookupError("dlbridge: shm: handle: it was used before, or its time is over")


def offer_parts(frames: Sequence[Buffer], /, *, timeout: float = 30.0, readonly: bool = True) -> list[memoryview]:
    """Returns the frames of a TENS message, such as those of `tens.encode`, without the payload parts that lie in segments. These parts
    are offered to one receiver, as by `handle`, for `timeout` seconds, so that a message of some hundred bytes carries tensors of any
    size.

    In the label, a tensor without its part has the packing "shm" and the attribute "shm", its handle. The receiver calls `fetch_parts`,
    or in Go shm.FetchTensors; readers that know neither refuse the tensor. Tensors in several parts (spread) keep their parts.

    Ownership: as `handle`. Errors: those of `tens.decode` for frames that are not a message; those of `handle`.

        >>> frames = dlbridge.tens.encode([dlbridge.shm.copy(np.arange(100_000))])
        >>> frames = dlbridge.shm.offer_parts(frames)
        >>> sum(frame.nbytes for frame in frames) < 500
        True
        >>> dlbridge.tens.decode(dlbridge.shm.fetch_parts(frames)).tensors[0].shape
        (100000,)
    """
    message = tens.decode(frames)
    parts: list[Any] = []
    for tensor in _tensors(message):
        if tensor.get("packing", "dense") != "dense" or "parts" in tensor:
            first = tensor.get("part", 0)
            count = tensor.get("parts", 1) if tensor.get("packing", "dense") == "dense" else 0
            parts, tensor["part"] = [*parts, *message.parts[first : first + count]], len(parts)
            continue
        part = message.parts[tensor["part"]]
        tensor["part"] = len(parts)
        if part.nbytes > 0 and _core.shm_is_shared(whole := from_buffer(part)):
            tensor["packing"], tensor[_PACKING] = _PACKING, handle(whole, timeout=timeout, readonly=readonly)
        else:
            parts.append(part)
    return _frames(message, parts)


def fetch_parts(frames: Sequence[Buffer], /, *, timeout: float = 5.0, copy_unsealed: int = 0) -> list[memoryview]:
    """Returns the frames of a TENS message whose tensors were left in segments, by `offer_parts` or by Go's shm.Offers, with a payload
    part for each of them, on the memory of its segment. `tens.decode` then reads the message as any other.

    `timeout` is in seconds, for each tensor; `copy_unsealed` is that of `recv`, for each tensor. Errors: those of `fetch`, with a note
    that has the index of the tensor. The tensors before it have then been fetched, and cannot be fetched again.

        >>> frames = dlbridge.shm.offer_parts(dlbridge.tens.encode([dlbridge.shm.copy(np.arange(3))]))
        >>> dlbridge.tens.decode(dlbridge.shm.fetch_parts(frames)).tensors[0].tolist()
        [0, 1, 2]
    """
    message = tens.decode(frames)
    parts: list[Any] = list(message.parts)
    for i, tensor in enumerate(_tensors(message)):
        if tensor.get("packing") != _PACKING:
            continue
        try:
            h = _Handle(tensor.pop(_PACKING, None))
            part = h.fetch(_size(tensor), timeout, copy_unsealed)
        except (LookupError, OSError, TypeError, ValueError) as error:
            error.add_note(f"dlbridge: tensors[{i}] of the message")
            raise
        del tensor["packing"]
        tensor["part"] = len(parts)
        parts.append(part)
    return _frames(message, parts)


def _tensors(message: tens.Message) -> list[dict[str, Any]]:
    """Returns the descriptions of the tensors of a message, which lie in its label."""
    try:
        tensors = message.label["TENS"]["tensors"]  # type: ignore[index]
    except (KeyError, TypeError):
        tensors = None
    if not isinstance(tensors, list) or not all(isinstance(tensor, dict) for tensor in tensors):
        raise ValueError("dlbridge: shm: the label of the message describes no tensors")
    return tensors


def _frames(message: tens.Message, parts: list[Any]) -> list[memoryview]:
    return tens.Message(
        message.level, message.form, message.label or {}, message.origin, message.granule, message.seqno, parts
    ).frames()


def _size(tensor: Mapping[str, Any]) -> int:
    """Returns the size in bytes of the part that a tensor with this description would have. `tens.decode` checks the rest of it later."""
    shape, word, data_type = tensor.get("shape"), tensor.get("word"), tensor.get("dlpack")
    bits = 8 * word if type(word) is int else 0
    if isinstance(data_type, list) and len(data_type) == 3:  # code, bits, lanes: elements without padding
        bits = prod(n for n in data_type[1:] if type(n) is int)
    if not isinstance(shape, list) or len(shape) > 64 or not all(type(n) is int and 0 < n < 1 << 63 for n in shape) or bits < 1:
        raise ValueError("dlbridge: the description of a tensor in a segment has no valid shape and word")
    size = (prod(shape) * bits + 7) // 8
    if size >= 1 << 63:
        raise ValueError(f"dlbridge: shape {shape} has more than 2**63-1 bytes")
    return size
