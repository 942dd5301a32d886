"""Tensors of Decthings in their binary form, and the rules that its methods put on them.

Numbers and booleans are `Tensor`s, which alias the bytes they were read from wherever these are aligned;
strings, binaries, images, audio and video are `Elements`. The published document and the clients that are in
use write elements of variable size differently, and the bytes do not always tell which was meant: `dialect` is
"doc" (the document), "py004" (the Python client up to 0.0.4 and the Rust crate up to 0.1.3) or "rs015" (the Rust
crate from 0.1.4). Numbers and booleans are the same in all.

The work is done by the Go library, loaded on first use (`dlbridge.load`). In a forked child of a process that
has loaded it, every function is a RuntimeError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import _core
from ._core import Tensor
from ._elements import LIMIT, Elements, limit_of
from .tens import _json

__all__ = ["Elements", "check", "decode", "encode", "iter"]

_DIALECTS = {"doc": 0, "py004": 1, "rs015": 2}


def _dialect(name: str) -> int:
    try:
        return _DIALECTS[name]
    except KeyError:
        raise ValueError(f"dlbridge: dialect {name!r} is none of {', '.join(_DIALECTS)}") from None
    except TypeError:
        raise TypeError(f"dlbridge: dialect must be a str, not {type(name)!r}") from None


def decode(data: Any, *, dialect: str = "doc", limit: int = LIMIT) -> Tensor | Elements:
    """Read the tensor that `data`, a bytes-like object, is.

    Elements may take 32 times the memory of `data`, and `limit` bytes beyond that: a small memoryview takes much
    more than its bytes.

    Ownership: the buffer is held until the result and everything made of it is gone. A Tensor lies on it if
    its elements are aligned there, else on a copy, and is read-only exactly when the buffer is. Errors:
    ValueError for malformed data, for bytes behind the tensor, and for elements that take more memory.
    """
    return _core.decthings_decode(data, _dialect(dialect), Elements, limit_of(limit))


def iter(data: Any, *, dialect: str = "doc", limit: int = LIMIT) -> Iterator[Tensor | Elements]:
    """Read the tensors that stand in `data`, a bytes-like object, one after another, each when it is asked for.

    Ownership, limit, errors: as `decode`, for each. Up to 128 tensors are read at a time. A malformed tensor, or one over
    the limit, is an error when its turn comes.
    """
    return _iterate(memoryview(data), _dialect(dialect), limit_of(limit))


def _iterate(data: memoryview, dialect: int, limit: int = LIMIT) -> Iterator[Tensor | Elements]:
    values, offset = _core.decthings_consume(data, 0, dialect, Elements, limit)
    while values:
        yield from values
        values, offset = _core.decthings_consume(data, offset, dialect, Elements, limit)


def encode(x: Any, *, dialect: str = "doc") -> bytes:
    """Write a tensor, of any DLPack producer in any layout, or Elements.

    Errors: BufferError for a data type that Decthings does not have, and for memory that the host cannot read;
    ValueError for elements that the type or the dialect cannot say.
    """
    return _core.decthings_encode(x, _dialect(dialect), Elements)


def check(rules: Mapping[str, Any], x: Any) -> None:
    """Check whether rules allow a tensor, of any DLPack producer, or Elements.

    `rules`: {"shape": [...], "allowedTypes": [...]}, and perhaps "annotations"; -1 in the shape stands for any
    size, and an empty list of types allows none. Only type and shape of `x` are looked at. Errors: ValueError,
    which names the rule that is broken or what is wrong with the rules; TypeError for what JSON cannot say.
    """
    _core.decthings_check(_json(rules, "rules"), x, Elements)
