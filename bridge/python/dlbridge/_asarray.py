"""asarray: makes Tensors of lists, numbers, arrays and buffers."""

from __future__ import annotations

from array import array
from typing import Any

from ._core import Tensor, aligned, dtype_of, empty, from_buffer, from_dlpack

__all__ = ["asarray"]

_DEPTH = 64
"""The limit of nested lists. A list that contains itself would never end."""


def asarray(x: Any, dtype: Any = None) -> Tensor:
    """Returns a Tensor of an array, a buffer, a number, or lists of these. The Tensor is on the same memory if possible.

    x is a Tensor, a DLPack producer, a bytes-like object, an object with `__array__`, a number, or a list of these. The
    items of a list or tuple are tensors, arrays, numbers or nested lists, all of one shape. If x is a Tensor and dtype does not differ,
    the result is x. Lists and numbers are copied. Their data type is bool, int64, uint64, float64 or complex128, as in NumPy. Lists of
    arrays have the data type of the arrays. Arrays of NumPy in the other byte order, such as ">f4", are copied. So are arrays and buffers
    whose elements are not aligned to the size of a number, as in a packed structure.

    dtype is a name or a type, as in from_buffer. If x has another type, the elements are converted into new memory. Elements of arrays
    are converted as by convert(). Numbers must fit, as in `t[index] = number`. Complex elements do not become real: t.convert(dtype) drops
    their imaginary parts.

        >>> dlbridge.asarray([[1, 2], [3, 4.5]]).tolist()
        [[1.0, 2.0], [3.0, 4.5]]
        >>> dlbridge.asarray([1, 2], "bfloat16").dtype
        'bfloat16'

    Ownership: without a copy, as with from_dlpack or from_buffer; otherwise the Tensor owns new memory. Errors: ValueError for lists of
    different lengths or depths, and for NaN if dtype is an integer type; OverflowError for a number that dtype lacks; TypeError for any
    other x, for complex elements if dtype is real, and for a list of arrays of different types if dtype is None; BufferError as for
    from_dlpack.
    """
    if isinstance(x, (list, tuple, int, float, complex)):
        return _of_list(x, dtype)
    t = _of_array(x)
    if dtype is not None and t.dtype != dtype:
        _keep_imaginary_parts(t, dtype_of(dtype))
        return t.convert(dtype)
    return t if t is x else aligned(t)


def _keep_imaginary_parts(t: Tensor, dtype: str) -> None:
    """Raises TypeError for complex elements that would become real ones."""
    if t.dtype.startswith("complex") and not dtype.startswith(("complex", "bool")):
        raise TypeError(f"dlbridge: asarray: x has {t.dtype}, which is not {dtype}; from_dlpack(x).convert({dtype!r}) drops the imaginary parts")


def _of_array(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if not hasattr(x, "__dlpack__"):
        try:
            memoryview(x)
        except TypeError:
            pass
        else:
            return from_buffer(x)
        if not isinstance(x, type) and (hasattr(x, "__array__") or hasattr(x, "__array_interface__")):
            import numpy

            return from_dlpack(numpy.asarray(x))
    try:
        return from_dlpack(x)
    except AttributeError:
        raise TypeError(f"dlbridge: asarray: x must be an array, a buffer, a number, or a list of these, not {type(x)!r}") from None
    except BufferError:
        if getattr(getattr(x, "dtype", None), "isnative", True):
            raise
        return from_dlpack(x.astype(x.dtype.newbyteorder("=")))


def _of_list(x: Any, dtype: Any) -> Tensor:
    """Returns a Tensor of numbers, arrays, or lists of them, in new memory."""
    shape, items = _flat(x)
    name = None if dtype is None else empty(0, dtype).dtype
    to_integer = name is not None and name.startswith(("int", "uint"))
    t = _of_numbers(items, to_integer)
    if t is not None:
        if to_integer:  # OverflowError or ValueError for a number that does not fit
            one = empty((), name)
            for number in (min(items), max(items)) if items and t.dtype == int else items:
                one[...] = number
        return t.convert(name or t.dtype).reshape(shape)
    parts = [item if isinstance(item, (int, float, complex)) else _of_array(item) for item in items]
    inner = {part.shape if isinstance(part, Tensor) else () for part in parts}
    if len(inner) > 1:
        first, second, *_ = sorted(inner)
        raise ValueError(f"dlbridge: asarray: x has arrays of the shapes {first} and {second}; all must have the same")
    t = empty((len(parts), *inner.pop()), name or _common_type(parts))
    for i, part in enumerate(parts):
        if isinstance(part, Tensor):
            _keep_imaginary_parts(part, t.dtype)
        t[i] = part
    return t.reshape((*shape, *t.shape[1:]))


def _flat(x: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Returns the shape of nested lists, and what they contain, in row-major order."""
    shape: list[int] = []
    first = x
    while isinstance(first, (list, tuple)):
        shape.append(len(first))
        if len(shape) > _DEPTH:
            raise ValueError(f"dlbridge: asarray: x has more than {_DEPTH} lists in each other")
        if not first:
            break
        first = first[0]
    items = [x]
    for axis, size in enumerate(shape):
        for row in items:
            if not isinstance(row, (list, tuple)) or len(row) != size:
                found = f"one of {len(row)}" if isinstance(row, (list, tuple)) else repr(type(row))
                raise ValueError(f"dlbridge: asarray: x has a list of {size} at axis {axis}, but also {found}; all must be alike")
        items = [item for row in items for item in row]
    if any(isinstance(item, (list, tuple)) for item in items):
        raise ValueError(f"dlbridge: asarray: x has lists beside numbers or arrays at axis {len(shape)}; all must be alike")
    return tuple(shape), items


def _of_numbers(items: list[Any], to_integer: bool) -> Tensor | None:
    """Returns a Tensor of one dimension if a single type of Python's numbers holds all items, and they lose nothing."""
    kinds = set(map(type, items))
    try:
        if kinds == {bool}:
            return from_buffer(bytearray(items), bool)
        if kinds == {int}:
            return from_buffer(array("q", items))
        if not kinds or kinds == {float} or (kinds <= {int, float} and not to_integer):
            return from_buffer(array("d", items))
    except OverflowError:  # an int of more than 63 bits
        pass
    return None


def _common_type(parts: list[Any]) -> str:
    types = {str((part if isinstance(part, Tensor) else from_dlpack(part)).dtype) for part in parts}
    if len(types) == 1:
        return types.pop()
    if any(isinstance(part, Tensor) for part in parts):
        first, second, *_ = sorted(types)
        raise TypeError(f"dlbridge: asarray: x has both {first} and {second}; use dtype= to choose the type of the tensor")
    if types == {"int64", "uint64"}:
        return "float64"  # as in NumPy
    return max(types, key=["bool", "int64", "uint64", "float64", "complex128"].index)
