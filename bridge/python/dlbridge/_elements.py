"""Tensors whose elements DLPack has no type for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Elements"]


class Elements:
    """A tensor of strings, binaries, media, handles or quantised numbers.

    Attributes:
        type: the format's own name of the element type, such as "string", "image" or "qint8".
        shape: a tuple of ints, empty for a scalar.
        values: the elements, flat and row-major: as many as the product of the shape.

    Elements of Decthings are str (string), bytes-like (binary) or tuples (format, bytes-like) (image, audio,
    video), and those that were read are memoryviews on what they were read from. Elements of TensorFlow are
    bytes; for writing its strings may be str, too.
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
