"""Tensors as TensorFlow serializes them: TensorProto, without TensorFlow.

Whatever DLPack has a type for is a `Tensor`, which aliases the message wherever the elements are aligned in it
and lie there as they do in memory; strings, resources, variants and quantised numbers are `Elements` of bytes.
Elements below a byte have bytes of their own.

The work is done by the Go library, loaded on first use (`dlbridge.load`). In a forked child of a process that
has loaded it, every function is a RuntimeError.
"""

from __future__ import annotations

from typing import Any

from . import _core
from ._core import Tensor
from ._elements import LIMIT, Elements, limit_of

__all__ = ["Elements", "decode", "encode"]


def decode(data: Any, *, limit: int = LIMIT) -> Tensor | Elements:
    """Read the TensorProto that `data`, a bytes-like object, is.

    Ownership: the buffer is held until the result and everything made of it is gone. A Tensor lies on it if
    its elements are aligned there, else on a copy, and is read-only exactly when the buffer is.

    A tensor of which values are left out, because they repeat the last one, may take `limit` bytes. An element of
    `Elements` counts as 24 bytes beside its own; all of them together may take 32 times the memory of `data`, and
    `limit` bytes beyond that. Errors: ValueError for malformed data, and for a tensor that takes more memory.
    """
    return _core.tensorflow_decode(data, Elements, limit_of(limit))


def encode(x: Any, *, fields: bool = False, pad: bool = False) -> bytes:
    """Write a tensor, of any DLPack producer in any layout, or Elements.

    By default the elements are in tensor_content, and those of variable size in their field; with `fields` all
    are in the field of their type. The bytes are those that TensorFlow writes, unless `pad` places the elements
    at a multiple of 64 bytes from the beginning: in a file that is mapped, for one, they are then aligned.

    Errors: BufferError for a data type that TensorFlow does not have, and for memory that the host cannot read;
    ValueError for elements that the type cannot say.
    """
    return _core.tensorflow_encode(x, fields, pad, Elements)
