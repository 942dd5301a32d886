"""Tensors whose elements DLPack has no type for."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

__all__ = ["Elements"]

LIMIT = 64 << 20
"""The limit of decoders where none is given, in bytes."""


def limit_of(limit: int) -> int:
    """A limit as the core takes it."""
    value = operator.index(limit)
    if value < 0:
        raise ValueError(f"dlbridge: limit = {value} is negative")
    return min(value, (1 << 47) - 1)


class Elements:
    """A tensor of strings, binaries, media, handles or quantised numbers.

    Attributes:
        type: the format's own name of the element type, such as "string", "image" or "qint8".
        shape: a tuple of ints, empty for a scalar.
        values: the elements, flat and row-major: as many as the product of the shape.

    Elements of Decthings are str (string), bytes-like (binary) or tuples (format, bytes-like) (image, audio,
    video), and those that were read are memoryviews on what they were read from. Elements of TensorFlow are
    bytes; for writing its strings may be str, too. Elements that were read and are equal to the one before them are
    the same object, and so are empty memoryviews.
    """

    __slots__ = ("shape", "type", "values")

    type: str
    shape: tuple[int, ...]
    values: Sequence[Any]

    def __init__(self, type: str, shape: Sequence[int], values: Sequence[Any]) -> None:
        self.type = type
        self.shape = tuple(shape)
        self.values = values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Elements):
            return NotImplemented
        return (self.type, self.shape, list(self.values)) == (other.type, other.shape, list(other.values))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<dlbridge.Elements, {self.type} {self.shape}>"
