"""Elements: tensors of types that DLPack lacks."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any

from ._core import Tensor, from_buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer
else:
    Buffer = Any  # collections.abc has it from Python 3.12 on

__all__ = ["Buffer", "Elements"]

LIMIT = 64 << 20
"""The default of the argument `limit` of decoders, in bytes: see "How much memory a decoder takes" in bridge/README.md."""


class Elements:
    """A tensor of strings, binaries, media, handles or quantised numbers.

    Attributes:
        type: the name of the element type in the format, such as "string", "image" or "qint8".
        shape: a tuple of ints, empty for a scalar.
        values: the elements in row-major order. Their number is the product of the shape.

    Errors: TypeError or ValueError for arguments of another form. The elements are checked when they are encoded.

    The format and the type decide whether an element is a str, bytes-like, or a tuple (format, bytes-like): see the module of the format.
    A decoded element that equals the one before it is the same object, and all empty memoryviews are the same object.

        >>> e = dlbridge.Elements("string", (2, 2), ["a", "b", "c", "d"])
        >>> e
        <dlbridge.Elements, string (2, 2): ['a', 'b', 'c', 'd']>

    Length, iteration and indices are those of an array: an index is an int or slice, or a tuple of these. With an int for each
    dimension, the result is the element. Otherwise the result is new Elements with the same objects.

        >>> e[1, 0], e[:, 1].values, e.tolist()
        ('c', ['b', 'd'], [['a', 'b'], ['c', 'd']])

    numpy.array(e) is an array of the objects, and numpy.array(e, str) is an array of strings.
    """

    __slots__ = ("shape", "type", "values")

    type: str
    shape: tuple[int, ...]
    values: Sequence[Any]

    def __init__(self, type: str, shape: int | Sequence[int], values: Sequence[Any]) -> None:
        if not isinstance(type, str):
            raise TypeError(f"dlbridge: Elements: type must be the name of an element type, such as 'string', not {type!r}")
        if hasattr(shape, "__index__") and not isinstance(shape, Iterable):
            shape = (operator.index(shape),)
        if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
            raise TypeError(f"dlbridge: Elements: shape must be a sequence of ints, not {shape!r}")
        sizes = tuple(shape)
        for size in sizes:
            if not hasattr(size, "__index__"):
                raise TypeError(f"dlbridge: Elements: shape must be a sequence of ints, but has {size!r}")
        if isinstance(values, (str, bytes)) or not isinstance(values, Sized):
            raise TypeError(f"dlbridge: Elements: values must be a list of the elements, not {values!r}")
        self.type = type
        self.shape = tuple(operator.index(size) for size in sizes)
        self.values = values
        if len(values) != math.prod(self.shape) or min(self.shape, default=0) < 0:
            raise ValueError(f"dlbridge: Elements: the shape {self.shape} does not match the {len(values)} elements of values")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Elements):
            return NotImplemented
        return (self.type, self.shape, list(self.values)) == (other.type, other.shape, list(other.values))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns what pickle and the module copy need: type, shape and values, with bytes instead of memoryviews."""
        return Elements, (self.type, self.shape, [_without_views(value) for value in self.values])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("dlbridge: Elements: len() of 0 dimensions; e[()] is the element")
        return self.shape[0]

    def __bool__(self) -> bool:
        return len(self.values) > 0

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("dlbridge: Elements: iteration over 0 dimensions; e[()] is the element")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > len(self.shape):
            raise IndexError(f"dlbridge: Elements: too many indices: Elements are {len(self.shape)}-dimensional, but {len(parts)} were indexed")
        places, shape = [0], []
        for axis, size in enumerate(self.shape):
            part = parts[axis] if axis < len(parts) else slice(None)
            if isinstance(part, slice):
                steps: Sequence[int] = range(size)[part]
                shape.append(len(steps))
            elif isinstance(part, bool) or not hasattr(part, "__index__"):
                raise IndexError(f"dlbridge: Elements: an index must be an int or a slice, not {type(part)!r}")
            else:
                at = operator.index(part)
                if not -size <= at < size:
                    raise IndexError(f"dlbridge: Elements: index {at} is out of bounds for axis {axis} with size {size}")
                steps = (at % size,)
            places = [place * size + step for place in places for step in steps]
        if len(shape) == 0:
            return self.values[places[0]]
        return Elements(self.type, shape, [self.values[place] for place in places])

    def tolist(self) -> Any:
        """Returns the elements as nested lists; with 0 dimensions, the element itself."""
        rows: list[Any] = list(self.values)
        for d in range(len(self.shape) - 1, 0, -1):
            size = self.shape[d]
            rows = [rows[i * size : (i + 1) * size] for i in range(math.prod(self.shape[:d]))]
        return rows if self.shape else rows[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Returns a NumPy array of the objects, converted by numpy if dtype is given. It is always a copy."""
        import numpy

        if copy is False:
            raise ValueError("dlbridge: Elements: Unable to avoid copy: the elements are Python objects; numpy.array(elements) copies them")
        flat = numpy.empty(len(self.values), object)
        for i, value in enumerate(self.values):
            flat[i] = value
        array = flat.reshape(self.shape)
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"<dlbridge.Elements, {self.type} {self.shape}: {reprlib.repr(list(self.values))}>"


def _without_views(value: Any) -> Any:
    if isinstance(value, tuple):  # (format, bytes)
        return tuple(map(_without_views, value))
    return bytes(value) if isinstance(value, memoryview) else value


def copied(value: Tensor | Elements, data: Buffer, copy: bool | None) -> Tensor | Elements:
    """Applies the argument `copy` of a decoder: returns a Tensor on the memory of `data`, or a copy.

    Elements are returned as they are. BufferError if `copy` is False and the value is a copy already; TypeError or, as in NumPy,
    ValueError for texts, if `copy` is neither None nor a bool.
    """
    if copy is not None and not isinstance(copy, bool):
        raise (ValueError if isinstance(copy, str) else TypeError)(f"dlbridge: copy must be None or a bool, not {copy!r}")
    if copy is None or not isinstance(value, Tensor) or value.size == 0:
        return value
    memory = from_buffer(data)
    aliases = memory.data_ptr <= value.data_ptr < memory.data_ptr + memory.nbytes
    if copy:
        return value.copy() if aliases else value
    if not aliases:
        raise BufferError(
            f"dlbridge: the elements are {value.dtype}, but not aligned or not stored as this type in the data, so only a copy is "
            "possible; use copy=None to allow it"
        )
    return value


def only_tensor(value: Tensor | Elements) -> Tensor:
    """Returns a decoded value that must be a Tensor, for decode_tensor. TypeError for Elements."""
    if isinstance(value, Elements):
        raise TypeError(
            f"dlbridge: decode_tensor: the data has elements of type {value.type}, which DLPack lacks; "
            "decode_elements returns them"
        )
    return value


def only_elements(value: Tensor | Elements) -> Elements:
    """Returns a decoded value that must be Elements, for decode_elements. TypeError for a Tensor."""
    if not isinstance(value, Elements):
        raise TypeError(f"dlbridge: decode_elements: the data has a tensor of {value.dtype}; decode_tensor returns it")
    return value
