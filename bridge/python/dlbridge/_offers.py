"""Handles of segments, for any transport: the functions `offer`, `fetch`, `offer_parts` and `fetch_parts` of `shm`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil, prod
from typing import Any

from . import _core, tens
from ._core import Tensor, from_buffer
from ._elements import Buffer

_PACKING = "shm"  # Go: shm.Packing


def checked(tensor: Any, what: str) -> Tensor:
    """Returns an argument that must be a Tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"dlbridge: shm: {what} needs a dlbridge.Tensor, not {type(tensor)!r}; use shm.copy to copy any array into a Tensor")
    return tensor


def _seconds(timeout: float, what: str) -> float:
    value = float(timeout)
    if not value > 0:
        raise ValueError(f"dlbridge: shm: {what}: timeout must be more than 0 seconds, not {timeout!r}")
    return value


def milliseconds_of(timeout: float, what: str) -> int:
    """Returns a timeout in seconds, which must be more than 0, as milliseconds."""
    return ceil(min(_seconds(timeout, what), 1e9) * 1000)


def offer(tensor: Tensor, /, *, timeout: float = 30.0, readonly: bool = True) -> dict[str, Any]:
    """Offers the segment of a tensor to one other process of the same user, for `timeout` seconds. Returns a dict, the handle, that the
    other process passes to `fetch`. As JSON, the dict has less than 200 bytes. Any transport can carry it to a process on the same
    machine and in the same network namespace.

    The dict has the name of an abstract Unix socket, a token that works once, the offset of the tensor and the size of the segment in
    bytes, and whether the segment is read-only. The caller must also send the data type and the shape. The tensor must be
    row-major, and elements smaller than a byte must be packed, because `fetch` reads them packed. `readonly` is as in `send`.

    Ownership: the caller keeps the tensor, and may close it. This process must live until the segment has been fetched; when it ends, it
    waits for the receiver (`exit_timeout`). Errors: those of `send`; BufferError for a tensor that is not row-major, and for padded
    elements smaller than a byte, as in arrays of ml_dtypes.int4; ValueError for a tensor without elements, and for a timeout of 0 or
    less.

        >>> h = dlbridge.shm.offer(dlbridge.shm.copy(np.arange(3)))
        >>> dlbridge.shm.fetch(h, 3, "int64")
        <dlbridge.Tensor, int64(3,), read-only: [0, 1, 2]>
    """
    milliseconds = milliseconds_of(timeout, "offer")
    name, token, offset, size = _core.shm_offer(checked(tensor, "offer"), not readonly, milliseconds)
    return {"socket": name, "token": token, "offset": offset, "size": size, "readonly": bool(readonly)}


def fetch(
    handle: Mapping[str, Any], shape: int | Sequence[int], dtype: Any, /, *, timeout: float = 5.0, copy_unsealed: int = 0
) -> Tensor:
    """Returns a row-major Tensor in the segment of a handle. `offer`, Go's shm.Offer or C's dlb_shm_offer makes the handle, in another
    process or this one. Elements smaller than a byte are read as packed.

    `timeout` is in seconds. The handle is checked against the kernel. A shape that does not fit the size in the handle is an error, but
    the handle can still be used afterwards. `copy_unsealed` is as in `recv`.

    Ownership: the mapping of the segment ends with the last share of the Tensor. Errors: LookupError if the handle was used before, its
    time is over, or its process has ended or is in another network namespace; TimeoutError; PermissionError for the socket of another
    user; ValueError for a handle or a shape that does not fit the segment; OSError. After an error nothing is mapped, and no descriptor is
    open.

        >>> h = dlbridge.shm.offer(dlbridge.shm.copy(np.eye(2)))
        >>> dlbridge.shm.fetch(h, (2, 2), "float64").tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    h = _Handle(handle)
    return h.fetch(shape, dtype, timeout, copy_unsealed)


class _Handle:
    """A handle that was checked."""

    def __init__(self, fields: Any) -> None:
        if not isinstance(fields, Mapping):
            raise TypeError(f"dlbridge: shm: a handle is a mapping, not {type(fields)!r}")
        self.socket, self.token = (self._text(fields, name) for name in ("socket", "token"))
        self.offset, self.size = self._number(fields, "offset"), self._number(fields, "size")
        if self.offset > self.size:
            raise ValueError(f"dlbridge: shm: handle: offset {self.offset} is outside of the segment of {self.size} bytes")
        self.readonly = fields.get("readonly") is not False

    @staticmethod
    def _text(fields: Mapping[str, Any], name: str) -> str:
        value = fields.get(name)
        if not isinstance(value, str):
            raise ValueError(f"dlbridge: shm: handle: {name} {value!r:.100} is not a string")
        return value

    @staticmethod
    def _number(fields: Mapping[str, Any], name: str) -> int:
        value = fields.get(name)
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise ValueError(f"dlbridge: shm: handle: {name} {value!r:.100} is not a number of bytes")
        return value

    def check(self, size: int) -> None:
        """Raises the errors that `fetch` of `size` bytes would raise before it uses up the handle."""
        _core.shm_check_handle(self.socket, self.token, self.offset, self.size, size)

    def fetch(self, shape: int | Sequence[int], dtype: Any, timeout: float, copy_unsealed: int) -> Tensor:
        seconds = _seconds(timeout, "fetch")
        return _core.shm_fetch(
            self.socket, self.token, self.offset, self.size, shape, dtype, not self.readonly, seconds, copy_unsealed
        )


def offer_parts(frames: Sequence[Buffer], /, *, timeout: float = 30.0, readonly: bool = True) -> list[memoryview]:
    """Takes the payload parts in segments out of a TENS message, and offers them to one receiver, as `offer` does. Returns the other frames.

    frames are those of `tens.encode`, for example. The offer ends after `timeout` seconds. The returned message has some hundred bytes,
    and stands for tensors of any size.

    In the label, a tensor without its part has the packing "shm" and the attribute "shm", which is its handle. The receiver calls
    `fetch_parts`, or in Go shm.FetchTensors. Other readers refuse the tensor. Tensors in several parts (spread) keep their parts. The
    rest of the label does not change.

    Ownership: as with `offer`. Errors: those of `tens.decode` for frames that are not a message; those of `offer`, before anything is
    offered.

        >>> frames = dlbridge.tens.encode([dlbridge.shm.copy(np.arange(100_000))])
        >>> frames = dlbridge.shm.offer_parts(frames)
        >>> sum(frame.nbytes for frame in frames) < 500
        True
        >>> dlbridge.tens.decode(dlbridge.shm.fetch_parts(frames)).tensors[0].shape
        (100000,)
    """
    message = tens.decode(frames)
    label = _Label(message)
    milliseconds = milliseconds_of(timeout, "offer_parts")
    segments: dict[int, Tensor] = {}  # the tensors that are offered, by their indexes
    left_out: set[int] = set()  # their parts
    for i, tensor in enumerate(label.tensors):
        if _is_dense(tensor) and "parts" not in tensor:
            (number,) = _part_numbers(tensor, i)
            part = message.parts[number]
            if part.nbytes > 0 and _core.shm_is_shared(whole := from_buffer(part)):
                _core.shm_check(whole, not readonly)
                segments[i] = whole
                left_out.add(number)
    for i, tensor in enumerate(label.tensors):
        if i not in segments and tensor.get("packing") != _PACKING:
            left_out.difference_update(_part_numbers(tensor, i))  # other tensors need these parts
    gone = list(accumulate((i in left_out for i in range(len(message.parts))), initial=0))  # the parts that are left out before each part
    for i, tensor in enumerate(label.tensors):
        if i in segments:
            name, token, offset, size = _core.shm_offer(segments[i], not readonly, milliseconds)
            text = f'{{"socket":"{name}","token":"{token}","offset":{offset},"size":{size},"readonly":{"true" if readonly else "false"}}}'
            label.change(i, {"packing": f'"{_PACKING}"', _PACKING: text})
        elif (numbers := _part_numbers(tensor, i)) and (before := gone[min(numbers[0], len(message.parts))]):
            label.change(i, {"part": str(numbers[0] - before)})
    parts = [part for i, part in enumerate(message.parts) if i not in left_out]
    return _frames(message, label, parts)


def fetch_parts(frames: Sequence[Buffer], /, *, timeout: float = 5.0, copy_unsealed: int = 0) -> list[memoryview]:
    """Fetches the tensors that `offer_parts` or Go's shm.Offers has offered. Returns the frames of the TENS message, in which each of these
    tensors has a payload part on the memory of its segment. `tens.decode` reads this message like any other.

    In the label, only the descriptions of these tensors change. `timeout` (in seconds) and `copy_unsealed` (as in `recv`) apply to each
    tensor. Errors: those of `tens.decode`, and those of `fetch` with a note that has the index of the tensor. All handles are checked
    first. If a tensor cannot be fetched, the tensors before it have been fetched, and cannot be fetched again.

        >>> frames = dlbridge.shm.offer_parts(dlbridge.tens.encode([dlbridge.shm.copy(np.arange(3))]))
        >>> dlbridge.tens.decode(dlbridge.shm.fetch_parts(frames)).tensors[0].tolist()
        [0, 1, 2]
    """
    message = tens.decode(frames)
    label = _Label(message)
    parts: list[Any] = list(message.parts)
    _seconds(timeout, "fetch_parts")
    handles: dict[int, tuple[_Handle, int]] = {}  # with the sizes of the tensors, by their indexes
    i = 0
    try:
        for i, tensor in enumerate(label.tensors):
            if tensor.get("packing") == _PACKING:
                fields = tensor.get(_PACKING)
                if not isinstance(fields, dict):
                    raise ValueError(f"dlbridge: shm: the attribute {_PACKING} is {fields!r:.100}, not a handle")
                handles[i] = h, size = _Handle(fields), _size(tensor)
                h.check(size)
        for i, (h, size) in handles.items():
            part = h.fetch(size, "uint8", timeout, copy_unsealed)
            label.change(i, {"packing": None, _PACKING: None, "part": str(len(parts))})
            parts.append(part)
    except (BufferError, LookupError, MemoryError, OSError, ValueError) as error:
        error.add_note(f"dlbridge: tensors[{i}] of the message")
        raise
    return _frames(message, label, parts)


class _Label:
    """The text of a label whose tensors can be changed. The rest of the text stays as it is, because json would write other numbers
    than it has read.
    """

    def __init__(self, message: tens.Message) -> None:
        self._text = message.label_bytes
        self._places: list[tuple[int, int]] = []  # of the tensors in the text
        self._changed: dict[int, bytes] = {}
        self.tensors: list[dict[str, Any]] = []
        if message.tensors:  # the Go library has checked the label
            begin, _ = self._find(len(self._text) - len(self._text.lstrip()), "TENS")
            begin, end = self._find(begin, "tensors")
            self._places = [(at, to) for _, at, _, to in _core.tens_label_children(self._text, begin)]
            self.tensors = _read(self._text[begin:end].decode())
        elif not isinstance(message.label, dict) or "TENS" not in message.label:
            raise ValueError("dlbridge: shm: the label of the message describes no tensors")

    def _find(self, at: int, wanted: str) -> tuple[int, int]:
        """Returns where the value of the member with this name begins and ends, in the object that begins at `at`."""
        return next((value, end) for name, _, value, end in _core.tens_label_children(self._text, at) if _name(name) == wanted)

    def change(self, i: int, changes: Mapping[str, str | None]) -> None:
        """Sets attributes of a tensor to JSON text, and removes those that are None."""
        text, (begin, end) = self._text, self._places[i]
        members = [text[begin + 1 : end - 1]]
        if changes.keys() & self.tensors[i].keys():
            members = [text[at:to] for name, at, _, to in _core.tens_label_children(text, begin) if _name(name) not in changes]
        members += [f'"{name}":{value}'.encode() for name, value in changes.items() if value is not None]
        self._changed[i] = b"{" + b",".join(members) + b"}"

    def encode(self) -> bytes:
        pieces, done = [], 0
        for i, changed in sorted(self._changed.items()):
            begin, end = self._places[i]
            pieces += [self._text[done:begin], changed]
            done = end
        return b"".join([*pieces, self._text[done:]])


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # Python does not convert an integer of thousands of digits, which is in the metadata
        return json.loads(text, parse_int=lambda text: int(text) if len(text) < 20 else float(text))


def _name(text: str | None) -> str | None:
    return json.loads(f'"{text}"') if text is not None and "\\" in text else text


def _is_dense(tensor: Mapping[str, Any]) -> bool:
    return tensor.get("packing", "dense") == "dense" and tensor.get("dtype") != "?"  # a tensor with "?" is only metadata


def _part_numbers(tensor: Mapping[str, Any], i: int) -> range:
    """Returns the numbers of the parts that tensor i of a message names. `tens.decode` checks them only for dense tensors."""
    first = tensor.get("part", i)
    if type(first) is not int or first < 0:
        return range(0)
    return range(first, first + (tensor.get("parts", 1) if _is_dense(tensor) else 1))


def _frames(message: tens.Message, label: _Label, parts: list[Any]) -> list[memoryview]:
    text = label.encode()
    return tens.Message(message.level, message.form, text, message.origin, message.granule, message.seqno, parts).frames()


def _size(tensor: Mapping[str, Any]) -> int:
    """Returns the size in bytes of the part that a tensor with this description would have. `tens.decode` checks the rest of it later."""
    shape, word, data_type = tensor.get("shape"), tensor.get("word"), tensor.get("dlpack")
    bits = 8 * word if type(word) is int else 0
    if isinstance(data_type, list) and len(data_type) == 3:  # code, bits, lanes: elements without padding
        bits = prod(n for n in data_type[1:] if type(n) is int)
    if not isinstance(shape, list) or not all(type(n) is int and 0 < n < 1 << 63 for n in shape) or bits < 1:
        raise ValueError("dlbridge: the description of a tensor in a segment needs a valid shape and a valid word (element size)")
    for n in shape:
        bits *= n
        if bits >= 1 << 66:  # here, so that the product of a long list takes no time
            raise ValueError(f"dlbridge: shape {shape!r:.200} has more than 2**63-1 bytes")
    return (bits + 7) // 8
