"""TENS messages as frames: all of `tens` except `send` and `recv`."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from pickle import PickleBuffer
from typing import Any, SupportsIndex

from . import _core
from ._core import Tensor
from ._elements import LIMIT, Buffer
from ._json import dumps, loads, name_only, object_of, read

_UNREAD: Any = object()

_SHOWN, _SHOWN_NAME = 8, 64
"""The most tensors, and the most characters of each name, that the text of a message has."""


class Message(Mapping[str, Tensor]):
    """A ZIO message. Its JSON is decoded on the first access to `label`, `metadata`, `tensor_metadata` or a name.

    If the metadata of a tensor have a text "name", it is the name of the tensor: `message["w"]` is the tensor with the name "w". The message
    is a mapping of names to tensors, with all reading methods of a dict: `keys`, `values`, `items`, `get`, `len`, `in`, iteration over the
    names, `dict(message)` and `f(**message)`. The mapping has only tensors with a name; the list `tensors` has all tensors. Unlike a dict,
    a message is true even without names, is equal only to itself, and can be hashed.

    Attributes:
        level: 0 to 8.
        form: four bytes, such as b"TENS". A shorter form is padded with spaces.
        label: the label as a dict. It is None if the label is not a JSON object, or has an integer with more digits
            than Python converts (sys.get_int_max_str_digits). A label with more than 256 levels of nesting raises
            ValueError.
        label_bytes: the label as it is in the message.
        origin, granule, seqno: unsigned 64-bit integers.
        parts: memoryviews of the payload parts. The parts of a decoded message alias its frames.
        routing: the frames that `recv` has received before the message, such as a routing id, as a list of bytes.
        routing_id: the routing id of the CLIENT from which a SERVER has received the message, never 0. For other sockets, it is 0.
        tensors: the tensors that the label describes, each on the memory of its part. A tensor is read-only exactly
            when the buffer of its frame is. The list has None in place of a tensor that cannot be read. (The type hint
            leaves this out.) This is a tensor whose packing in `label` is not "dense"; no version of the format defines
            another packing yet. It may also be a tensor that is only metadata (dtype "?", from the Wire-Cell Toolkit):
            `tensor_metadata` has the metadata. The list is empty for a message that was made from its fields, or was
            decoded with message_only=True.
        metadata: the attribute `metadata` of TENS, or None.
        tensor_metadata: a list with the metadata of each tensor, or None. `metadata` and `tensor_metadata` raise ValueError
            if an integer has too many digits.

    Decoding the label and the metadata needs little stack, even if they are deeply nested. If the stack has even less room,
    reading these attributes raises ValueError.

        >>> message = dlbridge.tens.decode(dlbridge.tens.encode([np.zeros(3)], metadata={"run": 7}))
        >>> message.metadata, message.tensors[0].shape
        ({'run': 7}, (3,))

    The tensors by their names:

        >>> message = dlbridge.tens.decode(dlbridge.tens.encode({"w": np.zeros((2, 3)), "b": np.ones(2)}))
        >>> message["b"].tolist(), "c" in message, list(message.keys())
        ([1.0, 1.0], False, ['w', 'b'])
        >>> {name: tensor.shape for name, tensor in message.items()}
        {'w': (2, 3), 'b': (2,)}
        >>> message
        <dlbridge.tens.Message, level 0, form b'TENS', seqno 0, 2 parts, 2 tensors: 'w' float64(2, 3), 'b' float64(2,)>
        >>> message.get("c") is None, len(message), list(message)
        (True, 2, ['w', 'b'])
    """

    __slots__ = (
        "_join",
        "_label",
        "_metadata",
        "_metadata_bytes",
        "_places",
        "_tensor_metadata",
        "_tensor_metadata_bytes",
        "form",
        "granule",
        "label_bytes",
        "level",
        "origin",
        "parts",
        "routing",
        "routing_id",
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
    routing: list[bytes]
    routing_id: int
    tensors: list[Tensor]
    _join: bool
    _label: Any
    _metadata: Any
    _metadata_bytes: bytes | None
    _places: dict[str, list[int]] | None
    _tensor_metadata: Any
    _tensor_metadata_bytes: list[bytes | None]

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
        self.level = _field("level", level, 8)
        self.form = _form(form)
        self.label_bytes = _label(label)
        self.origin = _field("origin", origin)
        self.granule = _field("granule", granule)
        self.seqno = _field("seqno", seqno)
        if isinstance(parts, (str, bytes, bytearray, memoryview)) or not isinstance(parts, Iterable):
            raise TypeError(f"dlbridge: Message: parts must be a sequence of bytes-like objects, not {type(parts)!r}")
        self.parts = [_bytes_view(part) for part in parts]
        self.routing = []
        self.routing_id = 0
        self.tensors = []
        self._join = False
        self._label = _UNREAD
        self._metadata = None
        self._places = None
        self._tensor_metadata = []

    @property
    def label(self) -> dict[str, Any] | None:
        if self._label is _UNREAD:
            self._label = read("label", lambda: object_of(self.label_bytes, bool(self.tensors)))
        label: dict[str, Any] | None = self._label
        return label

    @property
    def metadata(self) -> dict[str, Any] | None:
        if self._metadata is _UNREAD:
            self._metadata = read("metadata", lambda: loads(self._metadata_bytes))
        metadata: dict[str, Any] | None = self._metadata
        return metadata

    @property
    def tensor_metadata(self) -> list[dict[str, Any] | None]:
        if self._tensor_metadata is _UNREAD:
            self._tensor_metadata = read("tensor_metadata", lambda: list(map(loads, self._tensor_metadata_bytes)))
        tensor_metadata: list[dict[str, Any] | None] = self._tensor_metadata
        return tensor_metadata

    def _names(self) -> dict[str, list[int]]:
        """Returns the names of the tensors, and for each the indices of the tensors that have it."""
        if self._places is None:
            places: dict[str, list[int]] = {}
            for i, metadata in enumerate(self.tensor_metadata):
                name = _name_in(metadata)
                if name is not None:
                    places.setdefault(name, []).append(i)
            self._places = places
        return self._places

    def keys(self) -> KeysView[str]:
        """Returns the names of the tensors, in the order of the tensors. Only `tensors` has tensors without a name.

            >>> dlbridge.tens.decode(dlbridge.tens.encode({"w": np.zeros(3)})).keys()
            dict_keys(['w'])

        Errors: those of `tensor_metadata`.
        """
        return self._names().keys()

    def __iter__(self) -> Iterator[str]:
        """Returns an iterator over the names of the tensors."""
        return iter(self._names())

    def __len__(self) -> int:
        """Returns the number of names. len(message.tensors) is the number of tensors."""
        return len(self._names())

    def __bool__(self) -> bool:
        """Returns True, even for a message without names."""
        return True

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __contains__(self, name: object) -> bool:
        """Reports whether a tensor has the name."""
        return name in self._names()

    def __getitem__(self, name: str) -> Tensor:
        """Returns the tensor with the name, one of `tensors`.

        Errors: KeyError if no tensor has the name; ValueError if several have it, such as the pieces of a tensor that was encoded with
        `spread` and decoded without `join`; and those of `tensor_metadata`.
        """
        if not isinstance(name, str):
            raise TypeError(f"dlbridge: message[{name!r}]: a name must be a str, not {type(name)!r}; use message.tensors[i] for an index i")
        places = self._names().get(name, [])
        if len(places) == 1:
            return self.tensors[places[0]]
        if places:
            raise ValueError(
                f"dlbridge: message[{name!r}]: tensors {places[0]} and {places[1]} both have this name: message.tensors has them by index; "
                "if they are pieces of one tensor, decode with join=True"
            )
        names = [*map(repr, self._names())]
        have = f"the names are {', '.join([*names[:8], *['...'] * (len(names) > 8)])}" if names else "none has a name"
        raise KeyError(f"dlbridge: message[{name!r}]: no tensor has this name; {have}")

    def frames(self) -> list[memoryview]:
        """Returns the frames of the message, ready to be sent: prefix, header and parts. The parts are not copied.

            >>> message = dlbridge.tens.Message(form="TEXT", label="a label", parts=[b"payload"])
            >>> [bytes(frame) for frame in message.frames()][2:]
            [b'payload']
        """
        return _core.tens_encode_parts(self._header(), self.parts)

    def _header(self) -> tuple[int, bytes, bytes, int, int, int]:
        return self.level, _form(self.form), self.label_bytes, self.origin, self.granule, self.seqno

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        """Returns the frames, for pickle. Protocol 5 can send them without a copy."""
        frames: list[Any] = []
        for frame in self.frames():
            if operator.index(protocol) >= 5:
                frames.append(PickleBuffer(frame))
            else:
                frames.append(bytes(frame) if frame.readonly else bytearray(frame))
        return _of_frames, (frames, not self.tensors, self._join, self.routing, self.routing_id)

    def __repr__(self) -> str:
        others = sum(tensor is None for tensor in self.tensors)
        first = list(map(self._described, range(min(len(self.tensors), _SHOWN))))
        if len(self.tensors) > _SHOWN:
            first.append("...")
        none = f", {others} of them None: only metadata, or of an unknown packing" if others else ""
        return (
            f"<dlbridge.tens.Message, level {self.level}, form {self.form!r}, seqno {self.seqno}, "
            f"{len(self.parts)} parts, {len(self.tensors)} tensors{none}{': ' if first else ''}{', '.join(first)}>"
        )

    def _described(self, i: int) -> str:
        """Returns the name, data type and shape of a tensor, without its elements."""
        tensor: Any = self.tensors[i]
        text = "None" if tensor is None else "closed" if tensor.closed else f"{tensor.dtype}{tensor.shape}"
        try:
            name = (loads(self._tensor_metadata_bytes[i]) or {}).get("name")
        except (ValueError, RecursionError):  # `tensor_metadata` raises it
            name = None
        return f"{name[:_SHOWN_NAME]!r} {text}" if isinstance(name, str) and name else text


def decode(frames: Sequence[Buffer], *, message_only: bool = False, join: bool = False, limit: int = LIMIT) -> Message:
    """Decodes a message and its tensors. `frames` are bytes-like objects: prefix, header, payload parts.

    A message of the form TENS must have a label that describes tensors, or is null. The message has no tensors if its label is null, or if
    TENS in the label lacks the attribute tensors. Messages of other forms have tensors only if their labels describe tensors. With
    `message_only` the label is not decoded, and the message has no tensors.

    A tensor in several parts (see `encode`) becomes one tensor for each of its pieces, in the order of the parts.
    Therefore `tensors` may have more items than the label. With `join` the pieces become one tensor in new memory, which
    is row-major, writable and aligned to 256 bytes.

        >>> frames = dlbridge.tens.encode([np.arange(5, dtype=np.int8)], spread=2)
        >>> [tensor.tolist() for tensor in dlbridge.tens.decode(frames).tensors]
        [[0, 1], [2, 3], [4]]
        >>> dlbridge.tens.decode(frames, join=True).tensors[0].tolist()
        [0, 1, 2, 3, 4]

    The call takes at most 64 times the size of the frames, 2816 bytes for each frame, and `limit` bytes. Only the pieces and copies of
    tensors in several parts can need more: a piece counts as 1600 bytes, and 64 more for each dimension.

        >>> dlbridge.tens.decode(dlbridge.tens.encode([np.ones(3)])).tensors[0].tolist()
        [1.0, 1.0, 1.0]

    Ownership: the buffers of the frames are held until the parts and tensors, and everything exported from them, are
    gone. Errors: ValueError for a malformed message, for a data type that DLPack cannot carry, and for a message that needs
    more memory than this. After an error no buffer is held.
    """
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
    ) = _core.tens_decode(frames, message_only, join, limit)
    message._join = join
    message.routing = []
    message.routing_id = 0
    message._label = message._metadata = message._tensor_metadata = _UNREAD
    message._places = None
    return message


def encode(
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
) -> list[memoryview]:
    """Encodes tensors as a message, and returns its frames as memoryviews of format B.

    `tensors` are any DLPack producers, in a list or in a mapping by name, such as `{"w": a, "b": b}`. The receiver reads `message["w"]`,
    and errors have the name of the tensor: `encode: "w": …`. The message has the names in the metadata of the tensors, as "name". A tensor
    without gaps that is row-major, permuted or reversed is not copied: its memory becomes the payload part. Any other tensor is copied into
    a compact part. If `tensors` is a decoded message, the whole message is encoded, as by `encode(message.tensors, relay=message)`.

    `metadata` is a mapping that JSON can represent, or None. `tensor_metadata` is a list with a mapping or None for each tensor, or maps
    the names of some tensors to their metadata. Metadata of tensors must be scalars; lists and mappings belong in `metadata`. `label` is a
    JSON object with further attributes of the label. By default, `form` is "TENS", and the numbers of the header are 0.

    `spread` is a number of bytes. A larger tensor is cut along its slowest dimension, without copying. The pieces have at most this size,
    but at least one index. Each piece has its own part. Only dlbridge reads tensors in several parts. Other readers that compare sizes
    find a part that is too small.

        >>> len(dlbridge.tens.encode([np.ones(3), 7]))  # prefix, header, two parts
        4

    `relay` is a decoded message to send on, with the same tensors or other ones. Its header, metadata, names and further attributes are kept;
    unchanged values keep their bytes. `relay` may have metadata that `encode` otherwise refuses: lists and mappings in the metadata of
    tensors, and tensors that are only metadata. There must be as many `tensors` as in the label. If a tensor is None in `message.tensors`,
    pass None here too: its description and its part are kept. Pass a tensor in several parts as one tensor (`decode` with `join`). Payload
    parts without a tensor are kept. Other arguments replace the values of the message; None in `tensor_metadata` keeps the value.

        >>> message = dlbridge.tens.decode(dlbridge.tens.encode([np.ones(3)], metadata={"tags": ["gauss"]}, seqno=7))
        >>> message = dlbridge.tens.decode(dlbridge.tens.encode([np.zeros((2, 2))], relay=message))
        >>> message.tensors[0].shape, message.metadata, message.seqno
        ((2, 2), {'tags': ['gauss']}, 7)

    Ownership: the memory of a tensor is held while a frame on it is in use. Errors: BufferError for a tensor that the
    host cannot read; ValueError or TypeError for a value that JSON or the header cannot represent; ValueError for a name that is
    empty, that two tensors have, or that is not the name in `tensor_metadata`.
    """
    if isinstance(tensors, Message):
        relay, tensors = tensors if relay is None else relay, tensors.tensors
    names, producers = ((), tuple(tensors)) if type(tensors) in (list, tuple) else _named(tensors)
    if isinstance(tensor_metadata, (dict, Mapping)):
        tensor_metadata = _in_order(tensor_metadata, names if relay is None else [*map(_name_in, relay.tensor_metadata)])
    if relay is not None:
        if not isinstance(relay, Message):
            raise TypeError(f"dlbridge: encode: relay must be a decoded Message, not {type(relay)!r}")
        form, level = relay.form if form is None else form, relay.level if level is None else level
        origin, granule = relay.origin if origin is None else origin, relay.granule if granule is None else granule
        seqno = relay.seqno if seqno is None else seqno
        names = _relayed_names(names, relay)
    four = b"TENS" if form is None or form == "TENS" else _form(form)
    text = None if label is None else _label(label)
    whole = None if metadata is None else dumps(metadata, "metadata")
    size = 0
    if spread is not None:
        size = min(operator.index(spread), sys.maxsize)
        if size < 1:
            raise ValueError(f"dlbridge: encode: spread must be at least 1 byte, not {spread}")
    texts: tuple[bytes | None, ...]
    if tensor_metadata is not None:
        texts = tuple(
            None if item is None and name is None else dumps({} if item is None else item, f"tensor_metadata[{i}]", name)
            for i, (item, name) in enumerate(zip(tensor_metadata, itertools.chain(names, itertools.repeat(None))))
        )
    elif names:
        texts = tuple([name_only(name) for name in names])
    else:
        texts = (None,) * len(producers)
    sent = four if any(four) else b"TENS"  # in C a form of zeros means another one
    header = level or 0, sent, text, origin or 0, granule or 0, seqno or 0
    relayed = None if relay is None else (relay._header(), relay.parts)
    try:
        frames = _core.tens_encode(header, whole, producers, texts, min(size, sys.maxsize), relayed)
    except Exception as error:
        if names:
            _name_tensor(error, names)
        raise
    if four != sent:
        frames[0][4:8] = four
    return frames


def _name_in(metadata: Mapping[str, Any] | None) -> str | None:
    """Returns the name that the metadata of a tensor have, or None."""
    name = None if metadata is None else metadata.get("name")
    return name if isinstance(name, str) and name else None


def _relayed_names(names: tuple[str, ...], relay: Message) -> tuple[str, ...]:
    """Checks that the names equal those of the tensors of a message, so that they need not be written."""
    for i, (name, metadata) in enumerate(zip(names, relay.tensor_metadata)):
        have = _name_in(metadata)
        if have != name:
            raise ValueError(f"dlbridge: encode: the name of tensor {i} in the message to relay is {have!r}, not {name!r}")
    return ()


def _named(tensors: Iterable[Any] | Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Returns the names, if this is a mapping, and the tensors."""
    if not isinstance(tensors, (dict, Mapping)):  # dict, because it is found sooner
        if hasattr(tensors, "__dlpack__"):
            raise TypeError(f"dlbridge: encode takes a sequence of tensors, not a single {type(tensors)!r}; use encode([t]), or encode({{'name': t}})")
        if isinstance(tensors, (str, bytes)) or not isinstance(tensors, Iterable):
            raise TypeError(f"dlbridge: encode takes a sequence of tensors, not {type(tensors)!r}")
        return (), tuple(tensors)
    if type(tensors) is dict:  # the same as below, sooner
        names, producers = tuple(tensors), tuple(tensors.values())
    else:
        items = list(tensors.items())
        names, producers = tuple([name for name, _ in items]), tuple([producer for _, producer in items])
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"dlbridge: encode: the name of tensor {names.index(name)} must be a str, not {name!r}")
        if not name:
            raise ValueError(f"dlbridge: encode: the name of tensor {names.index(name)} is empty")
    if type(tensors) is not dict and len(set(names)) < len(names):
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f"dlbridge: encode: tensors {names.index(name)} and {i} are both named {name!r}")
    return names, producers


def _in_order(
    tensor_metadata: Mapping[str, Mapping[str, Any] | None], names: Sequence[str | None]
) -> list[Mapping[str, Any] | None] | None:
    """Returns the metadata of each tensor, from a mapping of their names. For an empty one this is None, also without names."""
    for name in tensor_metadata:
        if name not in names:
            have = ", ".join(repr(name) for name in names if name is not None)
            text = f"the names are {have}" if have else "the tensors have no names: encode({'w': a}, ...) gives them names"
            raise ValueError(f"dlbridge: encode: tensor_metadata[{name!r}]: no tensor has this name; {text}")
    return [None if name is None else tensor_metadata.get(name) for name in names] if tensor_metadata else None


def _name_tensor(error: Exception, names: tuple[str, ...], function: str = "encode") -> None:
    """Replaces the index of a tensor by its name, in the text and the notes of an error of a function."""
    import re

    def named(text: Any) -> Any:
        found = re.match(r"dlbridge: (?:\w+: )?(?:tensors\[|tensor )(\d+)\]?(?=: |\Z)", text) if isinstance(text, str) else None
        return text if found is None else f'dlbridge: {function}: "{names[int(found[1])]}"{text[found.end() :]}'

    error.args = tuple(map(named, error.args))
    if hasattr(error, "__notes__"):
        error.__notes__ = [*map(named, error.__notes__)]


def encode_frames(frames: Sequence[Buffer]) -> bytes:
    """Returns the packed form of the frames of a message.

        >>> data = dlbridge.tens.encode_frames(dlbridge.tens.encode([np.ones(3)]))
        >>> len(dlbridge.tens.decode_frames(data))
        3

    Errors: ValueError if the frames are not a message, and for a part that begins like the prefix of a message (see `decode_all`).
    """
    return _core.tens_encode_frames(frames)


def decode_frames(data: Buffer) -> list[memoryview]:
    """Returns the frames of a message in packed form. They alias `data`, a bytes-like object.

    All empty frames are the same memoryview. Errors: ValueError if `data` is not a message, or if another message follows
    (`decode_all` reads several messages).

        >>> data = dlbridge.tens.encode_frames(dlbridge.tens.encode([np.ones(3)]))
        >>> dlbridge.tens.decode(dlbridge.tens.decode_frames(data)).tensors[0].shape
        (3,)
    """
    return _core.tens_decode_frames(data)


def decode_all(
    data: Buffer, *, message_only: bool = False, join: bool = False, limit: int = LIMIT
) -> Iterator[Message]:
    """Returns an iterator that decodes the consecutive messages in `data`, a bytes-like object, each in packed form.

        >>> data = b"".join(dlbridge.tens.encode_frames(dlbridge.tens.encode([np.ones(n)])) for n in (2, 3))
        >>> [message.tensors[0].shape for message in dlbridge.tens.decode_all(data)]
        [(2,), (3,)]

    The packed form does not mark the end of a message. After the first two frames, a frame of at least 8 bytes that begins with
    `ZIO` and a digit from 0 to 8 is the prefix of the next message.

    Ownership, limit and errors of each message are those of `decode`. A message that is malformed, or exceeds the limit, raises its error
    after all messages before it have been returned.
    """
    _core.check_limit(limit)  # now, and not with the first message
    return _iterate(memoryview(data), message_only, join, limit)


def _iterate(data: memoryview, message_only: bool, join: bool, limit: int) -> Iterator[Message]:
    frames, offset = _core.tens_decode_next(data, 0)
    while frames:
        yield decode(frames, message_only=message_only, join=join, limit=limit)
        frames, offset = _core.tens_decode_next(data, offset)


# Pickles name this function.
def _of_frames(frames: Sequence[Buffer], message_only: bool, join: bool, routing: Sequence[bytes] = (), routing_id: int = 0) -> Message:
    """Returns a message that was pickled."""
    message = decode(frames, message_only=message_only, join=join)
    message.routing, message.routing_id = list(routing), routing_id
    return message


def _form(form: bytes | str) -> bytes:
    if isinstance(form, str):
        form = form.encode()
    if not isinstance(form, bytes):
        raise TypeError(f"dlbridge: form must be bytes or str, not {type(form)!r}")
    if len(form) > 4:
        raise ValueError(f"dlbridge: form {form!r} has more than four bytes")
    return form.ljust(4)


def _field(name: str, value: SupportsIndex, most: int = 2**64 - 1) -> int:
    """Checks the field `name` of a header, a number from 0 to `most`, and returns it as an int."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"dlbridge: {name} must be an int, not {value!r}")
    number = operator.index(value)
    if not 0 <= number <= most:
        raise ValueError(f"dlbridge: {name} {number} is not in 0..{'8' if most == 8 else '2**64-1'}")
    return number


def _label(label: bytes | str | Mapping[str, Any]) -> bytes:
    if isinstance(label, str):
        return label.encode()
    if isinstance(label, Mapping):
        return dumps(label, "label")
    if isinstance(label, (bytes, bytearray, memoryview)):
        return bytes(label)
    raise TypeError(f"dlbridge: label must be bytes, str or a mapping, not {type(label)!r}")


def _bytes_view(part: Any) -> memoryview:
    view = memoryview(part)
    if view.format == "B" and view.ndim == 1:
        return view
    return view.cast("B") if view.nbytes > 0 else memoryview(b"")  # cast refuses a shape with zeros
