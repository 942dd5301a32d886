"""ZIO messages and the tensors in them (the TENS form).

A message is a sequence of frames: a prefix (level, form, label), a header (origin, granule, seqno) and
payload parts. A label that is a JSON object with the attribute TENS describes tensors, whose elements
are the parts. Nothing here copies a payload on the way in: tensors alias the frames.

The work is done by the Go library, loaded on first use (`dlbridge.load`). In a forked child of a
process that has loaded it, every function is a RuntimeError.
"""

from __future__ import annotations

import json
import json.decoder
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _core
from ._core import Tensor
from ._elements import LIMIT, limit_of

__all__ = ["Message", "decode", "encode", "pack", "parse", "unpack"]


_UNREAD: Any = object()
_MAX_DEPTH = 256  # Go: tens.MaxDepth
_TOO_DEEP = f"dlbridge: label: arrays and objects are nested more than {_MAX_DEPTH} levels deep"
_NO_STACK = "dlbridge: {}: the caller has left no stack to read it: read it before the recursion"


class Message:
    """A ZIO message. What is JSON in it is read when it is first asked for.

    Attributes:
        level: 0 to 8.
        form: four bytes, such as b"TENS"; given shorter, it is padded with spaces.
        label: the label as a dict, or None where it is no JSON object (or has an integer of more digits
            than Python reads, sys.get_int_max_str_digits). ValueError where it is nested more than 256 levels deep.
        label_bytes: the label as it is in the message.
        origin, granule, seqno: unsigned numbers of 64 bits.
        parts: memoryviews of the payload parts. Those of a message that was read alias its frames.
        tensors: the tensors of the label, each on the memory of its part, read-only exactly when that
            frame's buffer is. Empty for a message that was made of its fields, or only parsed.
        metadata: the attribute `metadata` of TENS, None where absent.
        tensor_metadata: that of each tensor. Both are a ValueError where an integer has too many digits.

    Reading label and metadata takes little stack, however deep they are nested; a caller that has less is told by a
    ValueError.
    """

    __slots__ = (
        "_label",
        "_metadata",
        "_metadata_bytes",
        "_tensor_metadata",
        "_tensor_metadata_bytes",
        "form",
        "granule",
        "label_bytes",
        "level",
        "origin",
        "parts",
        "seqno",
        "tensors",
    )

    level: int
    form: bytes
    label_bytes: bytes
    origin: int
    granule: int
    seqno: int
    parts: list[memoryview]
    tensors: list[Tensor]

    def __init__(
        self,
        level: int = 0,
        form: bytes | str = b"TENS",
        label: bytes | str | Mapping[str, Any] = b"",
        origin: int = 0,
        granule: int = 0,
        seqno: int = 0,
        parts: Sequence[Any] = (),
    ) -> None:
        self.level = operator.index(level)
        self.form = _form(form)
        self.label_bytes = _label(label)
        self.origin = operator.index(origin)
        self.granule = operator.index(granule)
        self.seqno = operator.index(seqno)
        self.parts = [_bytes_view(part) for part in parts]
        self.tensors = []
        self._label = _UNREAD
        self._metadata = None
        self._tensor_metadata = []

    @property
    def label(self) -> dict[str, Any] | None:
        if self._label is _UNREAD:
            try:
                self._label = _object(self.label_bytes, bool(self.tensors))
            except RecursionError:
                raise ValueError(_NO_STACK.format("label")) from None
        return self._label

    @property
    def metadata(self) -> dict[str, Any] | None:
        if self._metadata is _UNREAD:
            try:
                self._metadata = _loads(self._metadata_bytes)
            except RecursionError:
                raise ValueError(_NO_STACK.format("metadata")) from None
        return self._metadata

    @property
    def tensor_metadata(self) -> list[dict[str, Any] | None]:
        if self._tensor_metadata is _UNREAD:
            try:
                self._tensor_metadata = [_loads(text) for text in self._tensor_metadata_bytes]
            except RecursionError:
                raise ValueError(_NO_STACK.format("tensor_metadata")) from None
        return self._tensor_metadata

    def frames(self) -> list[memoryview]:
        """Frames of the message, ready to be sent: prefix, header, and the parts, which alias ours."""
        return _core.message_make(
            self.level, self.form, self.label_bytes, self.origin, self.granule, self.seqno, self.parts
        )

    def __repr__(self) -> str:
        return (
            f"<dlbridge.tens.Message, level {self.level}, form {self.form!r}, seqno {self.seqno}, "
            f"{len(self.parts)} parts, {len(self.tensors)} tensors>"
        )


def decode(frames: Sequence[Any]) -> Message:
    """Read a message and its tensors. `frames`: bytes-like objects, prefix and header first.

    The tensors take at most 40 times the memory of the label, and the parts 32 times that of the frames,
    each of which counts as 44 bytes beside its own.

    Under the form TENS the label must describe tensors; under any other form a message whose label does
    not has none.

    Ownership: the frames' buffers are held until the parts and tensors made of them, and everything
    exported from those, are gone. Errors: ValueError for a malformed message,
    and for a data type that DLPack cannot carry; no frame is held then.
    """
    return _message(_core.message_decode(frames, False))


def parse(frames: Sequence[Any]) -> Message:
    """Read a message without looking at its label: it has no tensors. Otherwise as `decode`."""
    return _message(_core.message_decode(frames, True))


def encode(
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
) -> list[memoryview]:
    """Write tensors as a message: its frames, memoryviews of format B.

    `tensors`: any DLPack producers. Row-major, permuted and reversed ones without gaps are not copied:
    their memory is the payload part; others are compacted. `metadata` and `tensor_metadata` (one for
    each tensor, or None) are what JSON can say. `label`: further attributes of the label, a JSON object.

    Ownership: the tensors' memory is held while a frame on it is in use. Errors: BufferError for
    tensors that the host cannot read, ValueError or TypeError for what JSON or the header cannot say.
    """
    if hasattr(tensors, "__dlpack__"):
        raise TypeError(f"dlbridge: encode takes a sequence of tensors, not one {type(tensors)!r}: put it in a list")
    producers = list(tensors)
    each = [None] * len(producers) if tensor_metadata is None else list(tensor_metadata)
    four = _form(form)
    frames = _core.message_encode(
        operator.index(level),
        four,
        None if label is None else _label(label),
        operator.index(origin),
        operator.index(granule),
        operator.index(seqno),
        None if metadata is None else _json(metadata),
        tuple(producers),
        tuple(None if item is None else _json(item) for item in each),
    )
    if four == bytes(4):  # which stands for "TENS" in C
        frames[0][4:8] = four
    return frames


def pack(frames: Sequence[Any]) -> bytes:
    """The single-part form of a message's frames. Errors: ValueError where they are no message."""
    return _core.message_pack(frames)


def unpack(data: Any, *, limit: int = LIMIT) -> list[memoryview]:
    """The frames of a message in single-part form; payloads alias `data`, a bytes-like object.

    The memoryviews may take 32 times the memory of `data`, and `limit` bytes beyond that. Those of empty frames are
    the same object. Errors: ValueError where `data` is no message, or has frames that take more memory.
    """
    return _core.message_unpack(data, limit_of(limit))


def _message(read: tuple[Any, ...]) -> Message:
    message = Message.__new__(Message)
    (
        message.level,
        message.form,
        message.label_bytes,
        message.origin,
        message.granule,
        message.seqno,
        message.parts,
        message.tensors,
        message._metadata_bytes,
        message._tensor_metadata_bytes,
    ) = read
    message._label = message._metadata = message._tensor_metadata = _UNREAD
    return message


def _form(form: bytes | str) -> bytes:
    if isinstance(form, str):
        form = form.encode()
    if not isinstance(form, bytes):
        raise TypeError(f"dlbridge: form must be bytes or str, not {type(form)!r}")
    if len(form) > 4:
        raise ValueError(f"dlbridge: form {form!r} has more than four bytes")
    return form.ljust(4)


def _json(value: Mapping[str, Any], what: str = "metadata or label") -> bytes:
    if not isinstance(value, Mapping):
        raise TypeError(f"dlbridge: {what} must be a mapping, not {type(value)!r}")
    try:
        return json.dumps(dict(value), allow_nan=False, separators=(",", ":")).encode()
    except RecursionError:
        raise ValueError(f"dlbridge: {what} is nested too deep, or the caller has left no stack to write it") from None
    except (TypeError, ValueError) as error:  # or of a class of theirs, which may not take a text
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"dlbridge: {what}: {error}") from error


def _label(label: bytes | str | Mapping[str, Any]) -> bytes:
    if isinstance(label, str):
        return label.encode()
    if isinstance(label, Mapping):
        return _json(label)
    if isinstance(label, (bytes, bytearray, memoryview)):
        return bytes(label)
    raise TypeError(f"dlbridge: label must be bytes, str or a mapping, not {type(label)!r}")


def _bytes_view(part: Any) -> memoryview:
    view = memoryview(part)
    if view.format == "B" and view.ndim == 1:
        return view
    return view.cast("B") if view.nbytes > 0 else memoryview(b"")  # cast refuses a shape with zeros


def _loads(text: bytes | None) -> Any:
    """What metadata says, which the codec has checked. Python does not read integers of any length."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except RecursionError:
        return _read_value(text.decode())
    except ValueError as error:
        raise ValueError(f"dlbridge: metadata: {error}") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate name")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _DeepError(ValueError):
    pass


def _object(label: bytes, checked: bool) -> dict[str, Any] | None:
    """The JSON object that a label is, as strictly as the codec reads it, or has if checked; None for anything else."""
    try:
        text = label.decode()
        deep = text.count("[") + text.count("{") > _MAX_DEPTH
        try:
            value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        except (RecursionError, ValueError) as error:
            if isinstance(error, ValueError) and not deep:
                return None
            value = _read_value(text)  # which says whether a label is nested too deep before it goes wrong
        if not checked:
            if deep:
                _check_depth(value)
            if any(escape[1] for escape in _ESCAPE.finditer(text)):
                return None
    except _DeepError:
        raise
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)")
"""An escape, or two of a pair of surrogates. A surrogate without the other is a group; other readers refuse it."""


def _check_depth(value: Any) -> None:
    containers = [iter((value,))]  # that are open, without lists of what is in them
    while containers:
        for item in containers[-1]:
            if isinstance(item, (dict, list)):
                if len(containers) > _MAX_DEPTH:
                    raise _DeepError(_TOO_DEEP)
                containers.append(iter(item.values() if isinstance(item, dict) else item))
                break
        else:
            containers.pop()


_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:([][{}:,"])|(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|(true|false|null)|\Z)"""
)
_WORDS = {"true": True, "false": False, "null": None}


def _read_value(text: str) -> Any:
    """What a JSON text says, read without recursion, for callers with little stack left; json.loads is faster."""
    containers: list[list[Any]] = []  # that are open: the elements of an array, or names and values by turns
    marks = []  # what closes each of them
    at, value, expected = 0, None, "value"
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"character {at} is not JSON")
        mark, integer, fraction, word = match.groups()
        at = match.end()
        if expected in ("value", "value or end") and (mark in ("[", "{", '"') or integer or word):
            if mark in ("[", "{"):
                if len(containers) == _MAX_DEPTH:
                    raise _DeepError(_TOO_DEEP)
                containers.append([])
                marks.append("]" if mark == "[" else "}")
                expected = "value or end" if mark == "[" else "name or end"
                continue
            if mark:
                value, at = json.decoder.scanstring(text, at, True)
            elif word:
                value = _WORDS[word]
            else:
                value = float(integer + fraction) if fraction else int(integer)
        elif expected in ("name", "name or end") and mark == '"':
            name, at = json.decoder.scanstring(text, at, True)
            containers[-1].append(name)
            expected = "colon"
            continue
        elif expected == "colon" and mark == ":":
            expected = "value"
            continue
        elif expected == "comma or end" and mark == ",":
            expected = "value" if marks[-1] == "]" else "name"
            continue
        elif expected.endswith("end") and marks and mark == marks[-1]:
            value = containers.pop()
            if marks.pop() == "}":
                value = _no_duplicates(list(zip(value[::2], value[1::2])))
        elif expected == "end" and match.group().strip(" \t\n\r") == "":
            return value
        else:
            raise ValueError(f"character {at} is not JSON")
        if not containers:
            expected = "end"
        else:
            containers[-1].append(value)
            expected = "comma or end"
