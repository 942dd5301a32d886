"""Tensors in the binary form of Decthings, and the rules that its methods impose on them.

Numbers and booleans are `Tensor`s, which alias the decoded bytes if the elements are aligned there. Strings,
binaries, images, audio and video are `Elements`. Their elements are str (string), bytes-like (binary), or tuples (format, bytes-like)
(image, audio, video). Decoded bytes are memoryviews of the data. The published document and the clients write elements of variable
size differently, and the bytes do not always show which way was used. `dialect` selects the way: "doc" (the document),
"py004" (the Python client up to 0.0.4 and the Rust crate up to 0.1.3) or "rs015" (the Rust crate from 0.1.4).
Numbers and booleans are the same in all dialects.

The functions call the Go library, which is loaded on first use (see `dlbridge.load`). In a forked child of a
process that has loaded the library they raise RuntimeError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from . import _core
from ._core import Tensor
from ._elements import Buffer, Elements, copied, only_elements, only_tensor
from ._json import dumps

__all__ = ["Elements", "check", "decode", "decode_all", "decode_elements", "decode_tensor", "encode"]


def __dir__() -> list[str]:
    return __all__


Dialect = Literal["doc", "py004", "rs015"]
_DIALECTS = {"doc": 0, "py004": 1, "rs015": 2}


def _dialect(name: str) -> int:
    try:
        return _DIALECTS[name]
    except (KeyError, TypeError):  # TypeError: it has no hash
        if isinstance(name, str):
            raise ValueError(f"dlbridge: dialect {name!r} is not one of {', '.join(_DIALECTS)}") from None
        raise TypeError(f"dlbridge: dialect must be a str, not {type(name)!r}") from None


def decode(data: Buffer, *, dialect: Dialect = "doc", copy: bool | None = None) -> Tensor | Elements:
    """Decodes `data`, a bytes-like object that holds one tensor.

        >>> dlbridge.decthings.decode(dlbridge.decthings.encode(np.ones(2))).tolist()
        [1.0, 1.0]

    Ownership: the buffer is held until the result and everything made from it is gone. A Tensor aliases the buffer
    if its elements are aligned there, and is then read-only exactly when the buffer is. Otherwise it is a writable copy.
    `copy=False` raises BufferError instead of copying, so that writing to the tensor writes to `data`;
    `copy=True` always copies.

    Errors: ValueError for malformed data, and for bytes after the tensor.
    """
    return copied(_core.value_decode("decthings", data, _dialect(dialect), None, False, Elements), data, copy)


def decode_tensor(data: Buffer, *, dialect: Dialect = "doc", copy: bool | None = None) -> Tensor:
    """Decodes one tensor of numbers or booleans, as `decode` does.

        >>> dlbridge.decthings.decode_tensor(dlbridge.decthings.encode(np.ones(2))).tolist()
        [1.0, 1.0]

    Errors: those of `decode`; TypeError if the elements are strings, binaries or media.
    """
    return only_tensor(decode(data, dialect=dialect, copy=copy))


def decode_elements(data: Buffer, *, dialect: Dialect = "doc") -> Elements:
    """Decodes one tensor of strings, binaries or media, as `decode` does.

        >>> strings = dlbridge.Elements("string", (1,), ["hello"])
        >>> dlbridge.decthings.decode_elements(dlbridge.decthings.encode(strings)).values
        ['hello']

    Errors: those of `decode`; TypeError if the elements are numbers or booleans.
    """
    return only_elements(decode(data, dialect=dialect))


def decode_all(data: Buffer, *, dialect: Dialect = "doc") -> Iterator[Tensor | Elements]:
    """Returns an iterator that decodes the consecutive tensors in `data`, a bytes-like object.

        >>> data = dlbridge.decthings.encode(np.ones(2)) + dlbridge.decthings.encode(7)
        >>> [tensor.size for tensor in dlbridge.decthings.decode_all(data)]
        [2, 1]

    Ownership and errors of each tensor are those of `decode`. Up to 128 tensors are decoded at a time. A tensor that is malformed
    raises its error after all tensors before it have been returned.
    """
    return _iterate(memoryview(data), _dialect(dialect))


def _iterate(data: memoryview, dialect: int) -> Iterator[Tensor | Elements]:
    values, offset = _core.value_decode_batch("decthings", data, 0, dialect, False, Elements)
    while values:
        yield from values
        values, offset = _core.value_decode_batch("decthings", data, offset, dialect, False, Elements)


def encode(x: Any, *, dialect: Dialect = "doc") -> bytes:
    """Encodes Elements, or the tensor of any DLPack producer in any layout.

        >>> len(dlbridge.decthings.encode(np.ones(2, np.float32)))
        11

    Errors: BufferError for a data type that Decthings does not have, and for memory that the host cannot read;
    ValueError for elements that the type or the dialect cannot represent.
    """
    return _core.value_encode("decthings", x, _dialect(dialect), Elements)


def check(rules: Mapping[str, Any], x: Any) -> None:
    """Checks that rules allow Elements, or the tensor of any DLPack producer.

    `rules` is {"shape": [...], "allowedTypes": [...]}, optionally with "annotations". -1 in the shape allows any
    size, and an empty list of types allows none. Only the type and the shape of `x` are compared. Errors: ValueError
    if a rule is broken (the text names it), or if the rules are malformed; TypeError for a value that JSON cannot represent.

        >>> dlbridge.decthings.check({"shape": [-1], "allowedTypes": ["f64"]}, np.ones(2))
    """
    _core.value_check("decthings", dumps(rules, "rules"), x, Elements)
