"""Comparison of tensors in tests, without NumPy.

Each function takes tensors, other producers, numbers, and nested lists of numbers. Data types are not compared: compare `t.dtype`.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ._core import Tensor, from_dlpack

__all__ = ["assert_allclose", "assert_equal"]


def __dir__() -> list[str]:
    return __all__


_SHOWN = 5  # differing elements in the text of an error


def assert_equal(actual: Any, desired: Any) -> None:
    """Asserts that `actual` has the shape and the elements of `desired`. NaN equals NaN, and 0 equals -0.

        >>> dlbridge.testing.assert_equal(dlbridge.from_buffer(b'ab'), [97, 99])
        Traceback (most recent call last):
        AssertionError: 1 of 2 elements differ:
        [1]: 98, not 99

    Errors: AssertionError, with the number of elements that differ, and the index and values of the first five; TypeError and
    BufferError as `from_dlpack`; ValueError for nested lists whose lengths differ.
    """
    _compare(actual, desired, lambda a, d: a == d or (a != a and d != d), "differ")


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 0) -> None:
    """Asserts that `actual` has the shape of `desired`, and that their elements differ by at most `atol + rtol * abs(desired)`.

    NaN is close to NaN, and an infinity to the same infinity; a complex number with a part that is NaN counts as NaN.

        >>> dlbridge.testing.assert_allclose(dlbridge.from_dlpack(0.1 + 0.2), 0.3)

    Errors: as `assert_equal`.
    """

    def close(a: Any, d: Any) -> bool:
        if a == d or (a != a and d != d):
            return True
        if not (cmath.isfinite(a) and cmath.isfinite(d)):
            return False
        if type(a) is not type(d) and not isinstance(a + d, complex):
            a, d = Fraction(a), Fraction(d)  # a float cannot hold every integer
        apart = a - d
        return math.hypot(apart.real, apart.imag) <= atol + math.hypot(rtol * d.real, rtol * d.imag)

    _compare(actual, desired, close, f"differ by more than {atol} + {rtol} * abs(desired)")


def _compare(actual: Any, desired: Any, same: Any, how: str) -> None:
    a, d = _tensors(actual), _tensors(desired)
    shape, wanted = _shape(a), _shape(d)
    if shape != wanted:
        raise AssertionError(f"the shape is {shape}, not {wanted}")
    count, different = 0, 0
    lines: list[str] = []
    for (index, x), (_, y) in zip(_elements(a), _elements(d)):
        count += 1
        if not same(x, y):
            different += 1
            if len(lines) < _SHOWN:
                lines.append(f"{list(index)}: {x}, not {y}")
    if different > _SHOWN:
        lines.append("...")
    if different:
        raise AssertionError("\n".join([f"{different} of {count} elements {how}:", *lines]))


def _tensors(value: Any) -> Any:
    """Returns a Tensor, or nested lists of Tensors."""
    if isinstance(value, (list, tuple)):
        return [_tensors(item) for item in value]
    return from_dlpack(value)


def _shape(value: Any) -> tuple[int, ...]:
    if isinstance(value, Tensor):
        return value.shape
    shapes = {_shape(item) for item in value}
    if len(shapes) > 1:
        raise ValueError(f"dlbridge: testing: the items of a list have the shapes {sorted(shapes)}")
    return (len(value), *(shapes.pop() if shapes else ()))


def _elements(value: Any, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yields the index and the value of each number."""
    if isinstance(value, Tensor):
        value = value.tolist()
    if not isinstance(value, list):
        yield index, value
        return
    for i, item in enumerate(value):
        yield from _elements(item, (*index, i))
