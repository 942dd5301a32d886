"""The methods of a Tensor: indexing, views, numbers, arrays and text, compared with NumPy."""

from __future__ import annotations

import array
import collections
import concurrent.futures
import copy
import ctypes
import decimal
import doctest
import enum
import fractions
import gc
import mmap
import operator
import os
import pickle
import re
import sys
import threading
import unittest.mock
import uuid
import weakref

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from conftest import MODULES, Producer, run_python

import dlbridge

ML_DTYPES = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu"
).split()
SMALL = "int2 int4 uint2 uint4 float4_e2m1fn float6_e2m3fn float6_e3m2fn".split()
NUMPY_DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
).split()


def numbers(shape, dtype="float32"):
    """Returns an array whose elements differ if the data type has enough values."""
    return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


def same(t: dlbridge.Tensor, a) -> None:
    """Asserts that a tensor is the same view as NumPy's of the same memory."""
    a = np.asarray(a)
    assert t.shape == a.shape
    np.testing.assert_array_equal(t.numpy(), a)


def same_memory(t: dlbridge.Tensor, a: np.ndarray) -> None:
    same(t, a)
    if a.size:
        assert t.data_ptr == a.ctypes.data
        assert [s * t.itemsize for s, n in zip(t.strides, t.shape) if n > 1] == [s for s, n in zip(a.strides, a.shape) if n > 1]


def outcome(function):
    """Returns the result of a function, or its exception."""
    try:
        return function()
    except Exception as error:
        return error


# ---- indexing --------------------------------------------------------------------------------------


def random_index(rng: np.random.Generator, rank: int):
    """Returns a random index expression. A small part of them is wrong."""

    def number(wide=5):
        return int(rng.integers(-wide, wide + 1))

    def part():
        kind = rng.random()
        if kind < 0.35:
            return number(3)
        if kind < 0.75:
            bound = lambda: [None, number(), number(8), 2**62 * number(1)][rng.integers(4)]  # noqa: E731
            step = [None, 1, 2, -1, -2, 3, number(), 2**62][rng.integers(8)]
            return slice(bound(), bound(), step)
        if kind < 0.85:
            return None
        if kind < 0.95:
            return ...
        return [1.5, "x", np.int8(number(3)), 2**70, np.float32(1), slice("x"), slice(None, None, 0)][rng.integers(7)]

    parts = tuple(part() for _ in range(rng.integers(0, rank + 3)))
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else parts


def random_array(rng: np.random.Generator) -> np.ndarray:
    a = numbers(tuple(int(n) for n in rng.integers(0 if rng.random() < 0.2 else 1, 5, rng.integers(0, 5))), "int16")
    a = a.transpose(rng.permutation(a.ndim))
    return a[(*(slice(None, None, int(rng.choice([1, 1, -1, 2]))) for _ in range(a.ndim)), ...)]


def test_views_follow_numpy_on_10000_random_indices():
    rng = np.random.default_rng(11)
    views, errors = 0, set()
    for _ in range(10_000):
        a = random_array(rng)
        t = dlbridge.from_dlpack(a)
        index = random_index(rng, a.ndim)
        want, got = outcome(lambda: a[index]), outcome(lambda: t[index])  # noqa: B023
        if isinstance(want, Exception):
            assert type(got) is type(want), (a.shape, index, want, got)
            errors.add(type(want))
            if "out of bounds" in str(want):
                assert str(got) == f"dlbridge: {want}"
            continue
        assert isinstance(got, dlbridge.Tensor), (a.shape, index, got)
        if isinstance(want, np.ndarray):
            same_memory(got, want)
        else:
            same(got, want)
            assert got.tolist() == want.item()
        views += 1
    assert views > 3000 and errors == {IndexError, ValueError, TypeError}


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (5, IndexError, "index 5 is out of bounds for axis 0 with size 3"),
        ((0, -5), IndexError, "index -5 is out of bounds for axis 1 with size 4"),
        ((..., 4), IndexError, "index 4 is out of bounds for axis 1 with size 4"),
        ((0, 0, 0), IndexError, "too many indices for tensor: tensor is 2-dimensional, but 3 were indexed"),
        ((0,) * 600, IndexError, "too many indices for tensor"),
        ((..., ...), IndexError, "an index can only have a single ellipsis"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        ((9, slice(None, None, 0)), IndexError, "index 9 is out of bounds for axis 0"),
        ((slice(None, None, 0), 9), ValueError, "slice step cannot be zero"),
        (slice("a"), TypeError, "slice indices must be integers or None"),
        (1.5, IndexError, "only integers, slices .* are valid indices, not <class 'float'>; tensor.numpy"),
        ("a", IndexError, "only integers, slices"),
        (True, IndexError, "only integers, slices"),
        ([0, 1], IndexError, "only integers, slices"),
        (np.array([0, 1]), IndexError, "only integers, slices"),
        (np.array(True), IndexError, "only integers, slices"),
        (2**70, IndexError, "cannot fit 'int' into an index-sized integer"),
        ((None,) * 300, ValueError, "ndim = 302 is not in 0..256"),
    ],
)
def test_errors_of_indices_name_axis_and_size(index, error, text):
    with pytest.raises(error, match=text):
        dlbridge.from_dlpack(numbers((3, 4)))[index]


def test_an_index_is_any_object_that_is_one():
    class Two:
        def __index__(self):
            return 2

    class Broken:
        def __index__(self):
            raise KeyError("mine")

    t = dlbridge.from_dlpack(numbers(4))
    assert [t[i].item() for i in (Two(), np.uint8(2), np.array(2), dlbridge.from_dlpack(np.array(2)))] == [2.0] * 4
    assert t[Two() :].tolist() == [2.0, 3.0]
    with pytest.raises(KeyError, match="mine"):
        t[Broken()]
    with pytest.raises(TypeError, match="does not support item deletion"):
        del t[0]


ASSIGNED = {
    "a number": (1, lambda x: 7),
    "a range": (slice(1, 3), lambda x: np.arange(4) * 10),
    "everything": (..., lambda x: 0.5),
    "a column": ((slice(None), 1), lambda x: np.array([7, 8, 9])),
    "one element": ((2, -1), lambda x: 99),
    "backwards": (slice(None, None, -1), lambda x: np.arange(12).reshape(3, 4) * 2.5),
    "repeated, with leading sizes of 1": (slice(0, 2), lambda x: np.ones((1, 1, 1, 4))),
    "another column": ((slice(None), 0), lambda x: x[:, 2]),
    "itself": (..., lambda x: x),
    "nothing": (slice(0, 0), lambda x: 5),
    "a bool": ((0, 0), lambda x: True),
}


@pytest.mark.parametrize("dtype", ["float32", "int16", "float64", "uint8"])
@pytest.mark.parametrize("case", ASSIGNED)
def test_assignment_writes_as_numpy_does(case, dtype):
    index, value = ASSIGNED[case]
    a, b = numbers((3, 4), dtype), numbers((3, 4), dtype)
    t = dlbridge.from_dlpack(b)
    a[index] = value(a)
    t[index] = value(t)
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize(
    ("value", "dtype"), [(256, "uint8"), (-1, "uint8"), (128, "int8"), (-129, "int8"), (2**63, "int64"), (-1, "uint64"), (8, "int4")]
)
def test_an_int_that_does_not_fit_is_not_assigned(value, dtype):
    t = dlbridge.empty(2, dtype)
    t[...] = 1
    with pytest.raises(OverflowError, match=f"{value} cannot be stored as {dtype}"):
        t[...] = value
    assert t.tolist() == [1, 1]
    t[...] = value - 1 if value > 0 else value + 1
    assert t.tolist() == [value - 1 if value > 0 else value + 1] * 2


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "bool"])
@pytest.mark.parametrize("value", [2**64, -(2**70), 2**63, -(2**63) - 1])
def test_an_int_of_more_than_64_bits_is_assigned_as_a_float(value, dtype):
    a, b = np.zeros(2, dtype), np.zeros(2, dtype)
    t = dlbridge.from_dlpack(b)
    with np.errstate(over="ignore"):
        a[:] = value
    t[:] = value
    np.testing.assert_array_equal(b, a)


class Large(enum.IntEnum):
    ONE = 1
    LARGE = 2**70


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(np.int64(300), "int8"), (np.uint64(2**63), "int64"), (np.int16(-129), "int8"), (np.uint8(200), "int8"), (np.int8(-1), "uint64"),
     (np.uint64(2**64 - 1), "int4"), (Large.LARGE, "int8"), (Large.LARGE, "uint64")],
)  # fmt: skip
def test_integers_of_numpy_and_subclasses_of_int_must_fit_too(value, dtype):
    t = dlbridge.empty(2, dtype)
    t[...] = np.int16(1)
    with pytest.raises(OverflowError, match=f"cannot be stored as {dtype}"):
        t[...] = value
    assert t.tolist() == [1, 1]
    t[...] = Large.ONE
    t[0] = np.uint8(7)
    assert t.tolist() == [7, 1]


@pytest.mark.parametrize("value", [np.int64(-(2**63)), np.uint64(2**64 - 1), np.uint64(2**63), np.int8(-3)])
def test_integers_of_numpy_that_fit_are_assigned(value):
    for dtype in ("int64" if value < 0 or value < 2**63 else "uint64", "float32", "bool"):
        t = dlbridge.empty(1, dtype)
        t[0] = value
        assert t.tolist() == [np.array(value).astype(dtype).item()]


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64", "bool"])
def test_a_large_subclass_of_int_is_assigned_as_a_float(dtype):
    t = dlbridge.empty(1, dtype)
    t[0] = Large.LARGE
    assert t.tolist() == [np.array(float(2**70)).astype(dtype).item()]


@pytest.mark.parametrize("kind", [int, np.int64])
def test_an_integer_that_is_a_producer_is_assigned_as_the_tensor_that_it_is(kind):
    class Producer(kind):
        def __dlpack__(self, **keywords):
            return np.array(300, "int16").__dlpack__()

    t = dlbridge.empty(1, "int8")
    for value in (Producer(1), Producer(300)):
        t[0] = value
        assert t.tolist() == [300 - 256]


def test_an_int_beyond_the_floats_is_not_assigned():
    for t in (dlbridge.from_dlpack(np.zeros(1)), dlbridge.from_dlpack(np.zeros(1, "complex128"))):
        with pytest.raises(OverflowError, match="int too large to convert to float"):
            t[0] = 2**2000
    for value in (2**64, -(2**63) - 1, 2**2000):
        with pytest.raises(OverflowError, match=f"{value} cannot be stored as int64"):
            dlbridge.from_dlpack(np.zeros(1, "int64"))[0] = value


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "uint8", "int4"])
def test_a_float_that_does_not_fit_is_not_assigned(dtype):
    bits, signed = int(dtype.lstrip("uint")), dtype[0] == "i"
    end = 2.0 ** (bits - signed)
    first = -end if signed else -0.75
    t = dlbridge.empty(1, dtype)
    t[0] = 3
    for value, error in [(np.nan, ValueError), (np.inf, OverflowError), (-np.inf, OverflowError), (end, OverflowError), (1e300, OverflowError),
                         (np.nextafter(first, -np.inf) if bits == 64 and signed else first - 1, OverflowError)]:  # fmt: skip
        for number in (float(value), np.float64(value)):
            with pytest.raises(error, match=f"assign: {re.escape(repr(number))} cannot be stored as {dtype}$"):
                t[0] = number
    assert t.tolist() == [3]
    for value in (first, np.nextafter(end, 0), 2.75):
        t[0] = float(value)
        assert t.tolist() == [int(value)]
    t[...] = np.array([np.inf])  # an element of an array is converted like astype does
    assert t.tolist() == dlbridge.from_dlpack(np.array([np.inf])).astype(dtype).tolist()


@pytest.mark.parametrize("dtype", ["float64", "int8"])
def test_a_complex_number_is_not_assigned_to_real_elements(dtype):
    t = dlbridge.from_dlpack(np.ones(1, dtype))
    for value in (1 + 2j, np.complex128(1 + 2j), np.complex64(1 + 2j)):
        with pytest.raises(TypeError, match=rf"assign: .*1\+2j\)+ cannot be stored as {dtype}$"):
            t[0] = value
    assert t.tolist() == [1]


@pytest.mark.parametrize("kind", [np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int4"])
def test_a_narrow_float_of_numpy_must_fit_too(kind, dtype):
    t = dlbridge.from_dlpack(np.array([3.0])).convert(dtype)
    for value, error in [(np.nan, ValueError), (np.inf, OverflowError), (256, OverflowError), (-256, OverflowError)]:
        with pytest.raises(error, match=f"assign: {re.escape(repr(kind(value)))} cannot be stored as {dtype}$"):
            t[0] = kind(value)
    assert t.tolist() == [3]
    t[0] = kind(2.5)
    assert t.tolist() == [2]
    t = dlbridge.empty(1, "float16")
    t[0] = kind(np.inf)
    assert t.tolist() == [np.inf]


def test_integers_of_ml_dtypes_must_fit_too():
    t = dlbridge.from_buffer(bytearray(1))
    with pytest.raises(OverflowError, match="cannot be stored as uint8"):
        t[0] = ml_dtypes.int4(-1)
    t[0] = ml_dtypes.int4(7)
    assert t.tolist() == [7]


@pytest.mark.parametrize("value", [np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 0]), np.ma.masked])
def test_masked_elements_are_not_assigned(value):
    """NumPy stores the masked value, or NaN."""
    a = numbers((3, 4))
    with pytest.raises(BufferError, match=r"masked, and a tensor has no mask; array\.filled\(value\)"):
        dlbridge.from_dlpack(a)[0] = value
    np.testing.assert_array_equal(a, numbers((3, 4)))
    dlbridge.from_dlpack(a)[0] = np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 0]).filled(9)
    assert a[0].tolist() == [1, 9, 3, 4]


@pytest.mark.parametrize("shape", [(1,), (0, 1), (3, 1), ()])
def test_an_int_that_is_a_producer_is_assigned_as_its_tensor(shape):
    values = dlbridge.empty(shape, "int8")
    values[...] = 7

    class Producer(int):
        def __dlpack__(self, **kwargs):
            return values.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return (1, 0)

    t = dlbridge.empty(shape, "uint8")
    t[...] = Producer(1000)
    assert t.tolist() == values.tolist()


def test_the_largest_ints_are_assigned():
    t = dlbridge.empty(1, "uint64")
    t[0] = 2**64 - 1
    assert t.tolist() == [2**64 - 1]


def test_an_element_and_columns_of_a_tensor_are_assigned_to_it():
    a = numbers((3, 4))
    t = dlbridge.from_dlpack(a.copy())
    t[:, 0] = t[::-1, 1]
    a[:, 0] = a[::-1, 1]
    np.testing.assert_array_equal(t, a)
    t[1] = t[1, 3]
    a[1] = a[1, 3]
    np.testing.assert_array_equal(t, a)


def test_assignment_refuses():
    a = numbers((3, 4))
    t = dlbridge.from_dlpack(a)
    with pytest.raises(ValueError, match="cannot be repeated to the shape"):
        t[0] = np.zeros(3)
    with pytest.raises(ValueError, match=r"source and destination may have memory in common; copy the source with copy\(\) first$"):
        t[1:] = t[:-1]
    with pytest.raises(IndexError, match="out of bounds"):
        t[3] = 1
    with pytest.raises(TypeError):
        t[0] = [1, 2, 3, 4]
    with pytest.raises(BufferError, match="must be numeric and have the same number of lanes"):
        t[0] = dlbridge.empty(4, "float32x2")
    with pytest.raises(BufferError, match=r"assign: the destination is read-only; copy\(\) makes a writable one$"):
        dlbridge.from_buffer(b"1234")[0] = 1
    with pytest.raises(BufferError, match="read-only"):
        t.broadcast_to((2, 3, 4))[0] = 1
    np.testing.assert_array_equal(a, numbers((3, 4)))
    closed = dlbridge.empty(1, "uint8")
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed[0] = 1
    with pytest.raises(ValueError, match="closed"):
        t[0] = closed


def test_elements_in_parts_of_a_byte_are_not_indexed():
    t = dlbridge.from_buffer(bytes(range(0x10, 0x14)), "uint4", 8)
    assert t.tolist() == [0, 1, 1, 1, 2, 1, 3, 1] == [t.item(i) for i in range(8)]
    assert t[2:].tolist() == t.tolist()[2:]
    with pytest.raises(ValueError, match="begins inside a byte"):
        t[1]
    with pytest.raises(ValueError, match="packed elements"):
        t[::2]


def test_length_and_iteration_go_along_the_first_dimension():
    a = numbers((3, 2))
    t = dlbridge.from_dlpack(a)
    assert len(t) == 3
    assert [row.tolist() for row in t] == a.tolist()
    assert [row.tolist() for row in reversed(t)] == a[::-1].tolist()
    first, *_ = t
    same_memory(first, a[0])
    assert list(dlbridge.empty((0, 3), "int8")) == [] and len(dlbridge.empty((0, 3), "int8")) == 0
    scalar = dlbridge.empty((), "int8")
    for use in (len, iter, list):
        with pytest.raises(TypeError, match="unsized|0 dimensions"):
            use(scalar)
    with pytest.raises(TypeError, match="`in` does not compare elements"):
        1.0 in t  # noqa: B015
    for use in (lambda: operator.concat(t, t), lambda: t * 2, lambda: t + t):
        with pytest.raises(TypeError):
            use()


# ---- views -----------------------------------------------------------------------------------------


def test_random_views_follow_numpy():
    rng = np.random.default_rng(5)
    shared = 0
    for _ in range(2000):
        a = random_array(rng)
        t = dlbridge.from_dlpack(a)
        order = tuple(int(d) for d in rng.permutation(a.ndim) - rng.integers(0, 2, a.ndim) * a.ndim)
        same_memory(t.transpose(order), a.transpose(order))
        same_memory(t.transpose(*order), a.transpose(*order))
        same_memory(t.T, a.T)
        axis = tuple(int(d) for d in rng.permutation(a.ndim)[: rng.integers(0, a.ndim + 1)])
        same_memory(t.flip(axis), np.flip(a, axis) if a.ndim else a)
        same_memory(t.flip(), np.flip(a) if a.ndim else a)
        same_memory(t.squeeze(), a.squeeze())
        ones = tuple(d for d, n in enumerate(a.shape) if n == 1 and rng.integers(0, 2))
        same_memory(t.squeeze(ones), a.squeeze(ones))
        same(t.ravel(), a.ravel())
        same(t.flatten(), a.flatten())
        if a.ndim:
            one, two = (int(d) for d in rng.integers(-a.ndim, a.ndim, 2))
            same_memory(t.swapaxes(one, two), a.swapaxes(one, two))
            count = int(rng.integers(0, a.ndim + 1))
            source, destination = ([int(d) for d in rng.permutation(a.ndim)[:count] - a.ndim] for _ in range(2))
            same_memory(t.moveaxis(source, destination), np.moveaxis(a, source, destination))
            same_memory(t.moveaxis(one, two), np.moveaxis(a, one, two))
        assert t.tobytes() == a.tobytes()
        shape = (*rng.integers(0, 3, rng.integers(0, 3)), *(n if n != 1 else 3 for n in a.shape))
        same_memory(t.broadcast_to(shape), np.broadcast_to(a, shape))
        shape = tuple(rng.permutation([n for n in (a.size // 6, 2, 3) if n] if a.size % 6 == 0 else [a.size, 1]))
        if np.prod(shape) != a.size:
            continue
        got, want = t.reshape(shape), a.reshape(shape)
        same(got, want)
        if np.shares_memory(want, a):
            same_memory(got, want)
            same_memory(t.reshape(*shape, copy=False), want)
            shared += 1
        same(t.reshape(shape, copy=True), want)
    assert shared > 300


ARGUMENTS = {
    "reshape": [(12,), ((12,),), (-1,), (2, -1), ([6, 2],), (3, 4, 1), (5,), (7, -1), (-1, -1), ("x",), (1.5,), ((2, "x"),)],
    "swapaxes": [(0, 1), (-1, 0), (1, 1), (0, 2), (-3, 0), ("x", 0), (0, None), ((0,), 1), (0.5, 1), (0,), (0, 1, 0)],
    "view": [
        *[(dtype,) for dtype in ("float32", "uint8", "int16", "complex64", "f8", np.int32, float, "complex128", "nope", 4)],
    ],
    "flatten": [(1, 2)],
    "transpose": [(), (None,), (1, 0), ((1, 0),), ([-1, -2],), (0, 0), (0,), ((),), (0, 2), ("x",), (0.5, 1), (2**40, 0)],
}


@pytest.mark.parametrize(("method", "args"), [(name, args) for name in ARGUMENTS for args in ARGUMENTS[name]], ids=repr)
def test_methods_take_arguments_as_numpy_does(method, args):
    a = numbers((3, 4))
    want, got = (outcome(lambda: getattr(x, method)(*args)) for x in (a, dlbridge.from_dlpack(a)))
    if isinstance(want, Exception):
        assert isinstance(got, ValueError if isinstance(want, ValueError) else type(want)), (want, got)
        assert not isinstance(want, np.exceptions.AxisError) or type(got) is ValueError
    else:
        same_memory(got, want)


MOVES = [
    *[(0, 1), (-1, 0), ((0, 1), (-1, 0)), ([1], [0]), ((), ()), (0, 2), (-3, 0), ((0, 0), (0, 1)), ((0, 1), (1, -1))],
    *[(0, (0, 1)), ((0, 1), (0,)), ("x", 0), (0, None), (0.5, 0)],
]


@pytest.mark.parametrize("move", MOVES, ids=repr)
def test_moveaxis_takes_axes_as_numpy_does(move):
    a = numbers((3, 4))
    want, got = outcome(lambda: np.moveaxis(a, *move)), outcome(lambda: dlbridge.from_dlpack(a).moveaxis(*move))
    if isinstance(want, Exception):
        assert type(got) is (ValueError if isinstance(want, ValueError) else TypeError), (want, got)
    else:
        same_memory(got, want)


def test_errors_of_axes_name_the_argument():
    t = dlbridge.zeros((3, 4), "int8")
    for call, text in {
        lambda: t.swapaxes(0, 2): "swapaxes: axis2 2 is out of bounds for a tensor of 2 dimensions",
        lambda: t[0].swapaxes(-2, 0): "swapaxes: axis1 -2 is out of bounds for a tensor of 1 dimension",
        lambda: t.swapaxes(2**40, 0): "swapaxes: axis1 2147483647 is out of bounds for a tensor of 2 dimensions",
        lambda: t.moveaxis(0, -3): "moveaxis: destination -3 is out of bounds for a tensor of 2 dimensions",
        lambda: t.moveaxis((1, -1), (0, 1)): "moveaxis: source has dimension 1 twice",
        lambda: t.moveaxis(0, (0, 1)): "moveaxis: source names 1 axes, but destination names 2; both must name the same number",
    }.items():
        with pytest.raises(ValueError, match=f"^dlbridge: {re.escape(text)}$"):
            call()
    for call, text in {
        lambda: t.swapaxes(0): "swapaxes: axis2 is missing",
        lambda: t.swapaxes((0,), 1): "swapaxes: axis1 must be an int, not <class 'tuple'>",
        lambda: t.moveaxis(0, 1.5): "moveaxis: destination must be an int or a sequence of ints, not <class 'float'>",
    }.items():
        with pytest.raises(TypeError, match=f"^dlbridge: {re.escape(text)}$"):
            call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: t[0].item(0, 0), "item: 2 indices given, but the tensor has 1 dimension"),
        (lambda t: t.item((0,)), "item: 1 index given, but the tensor has 2 dimensions"),
        (lambda t: t[0].transpose(()), "transpose: axes is empty, but the tensor has 1 dimension"),
        (lambda t: t.view("uint32"), "view: 1 element of size 8 is not a whole number of elements of size 32: shapes do not match"),
        (lambda t: dlbridge.from_buffer(b"a", "int16"), "from_buffer: the buffer has 1 byte, which is not a multiple of the 2 bytes"),
        (lambda t: dlbridge.from_buffer(b"", "int8", 1), "from_buffer: the tensor has 1 byte, but the buffer has 0"),
    ],
)
def test_one_is_no_plural_in_errors(call, text):
    with pytest.raises(ValueError, match=f"^dlbridge: {re.escape(text)}"):
        call(dlbridge.zeros((3, 1), "uint8"))


def test_flatten_copies_always():
    a = numbers((3, 4))
    t = dlbridge.from_dlpack(a)
    for x, want in ((t, a), (t.T, a.T), (t[1, 2], a[1, 2]), (t[:0], a[:0])):
        flat = x.flatten()
        same(flat, want.flatten())
        assert flat.data_ptr != x.data_ptr or want.size == 0
    assert dlbridge.from_buffer(bytes([0x21, 0x43]), "int4", (2, 2)).flatten().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("to", ["int8", "uint16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_view_reads_the_bytes_as_numpy_does(dtype, to):
    sizes = {np.dtype(dtype).itemsize, np.dtype(to).itemsize}
    base = np.frombuffer(np.random.default_rng(5).bytes(4096), np.uint8).view(dtype)[: 3 * 4 * 16].reshape(3, 4, 16)
    arrays = [base, base[:, :, :8], base[::-1, 1], base[0, 0, 3:4], base.T, base[..., ::2], base[..., :3], base[:0], base[0, 0, :1].reshape(()), base[..., :0]]
    refused = 0
    for a in arrays:
        want, got = outcome(lambda: a.view(to)), outcome(lambda: dlbridge.from_dlpack(a).view(to))  # noqa: B023
        if isinstance(want, Exception):
            assert type(got) is ValueError, (a.shape, a.strides, want, got)
            refused += 1
        else:
            assert got.shape == want.shape and got.tobytes() == want.tobytes() and got.data_ptr in (want.ctypes.data, 0)
    assert (refused == 0) == (len(sizes) == 1)


def test_view_reads_types_that_numpy_lacks():
    a = np.array([[1, -2.5, 3], [4, 5, 6]], np.float32).astype(ml_dtypes.bfloat16)
    t = dlbridge.from_dlpack(a)
    assert t.view("uint16").tolist() == a.view(np.uint16).tolist() and t.view("uint8").shape == (2, 6)
    assert bytes(memoryview(t.view("uint8"))) == t.tobytes()
    back = t.view("uint8").view("bfloat16")
    assert (back.dtype, back.shape, back.data_ptr, back.tolist()) == ("bfloat16", (2, 3), t.data_ptr, t.tolist())
    four = dlbridge.from_buffer(bytearray(32), "float32x4", 2)
    assert four.view("float32").shape == (8,) and four.view("float32").view("float32x4").shape == (2,)
    packed = dlbridge.from_buffer(bytes([0x21, 0x43]), "uint4", (2, 2))
    assert packed.view("uint8").tolist() == [[0x21], [0x43]] and packed.view("uint8").view("uint4").tolist() == [[1, 2], [3, 4]]
    assert packed.view("int4").tolist() == packed.tolist() and packed.readonly and packed.view("int8").readonly
    padded = dlbridge.from_dlpack(np.array([1, -2, 3], ml_dtypes.int4))
    assert padded.view("uint4").tolist() == [1, 14, 3] and padded.view("uint8").shape == (3,)
    with pytest.raises(ValueError, match="view: 3 elements of size 4 are not a whole number of elements of size 8"):
        dlbridge.from_buffer(bytes(2), "uint4", 3).view("uint8")
    with pytest.raises(ValueError, match=r"view: the last dimension has stride 3 instead of 1: needs a copy; contiguous\(\) makes one"):
        t.T.view("uint8")
    with pytest.raises(ValueError, match=r"view: strides\[0\] = 3 is not a multiple of 2: needs a copy; contiguous"):
        t[:, :2].view("uint32")
    with pytest.raises(ValueError, match=r"view: a tensor of 0 dimensions cannot change the size of its element; use t\[None\].view\(dtype\)"):
        t[0, 0].view("uint8")


@pytest.mark.parametrize("shape", [3, (2, 3), (), (0, 3), 1 << 20])
def test_zeros_are_zeros(shape):
    for dtype in ("float32", "bfloat16", "uint4", "bool"):
        kept = dlbridge.empty(shape, dtype)
        kept.close()
        t = dlbridge.zeros(shape, dtype)
        assert (t.shape, t.dtype, t.readonly) == (np.empty(shape, bool).shape, dtype, False) and t.data_ptr % 256 == 0
        assert not any(t.tobytes())


# ---- asarray ---------------------------------------------------------------------------------------

LISTS = [
    *[[1, 2], [True, False], [1.5, 2], [1j, 2], [True, 2, 3.5], [], [[], []], [[1, 2], [3, 4]], ((1.0, 2), [3, 4]), [[[1]], [[2]]]],
    *[[2**63, 1], [2**63, -1], [2**64 - 1], [np.float32(1), np.float32(2)], [np.int8(1)], [np.zeros(2), np.ones(2)], 3, 2.5, True, 1j],
    *[[[1], [2, 3]], [1, [2]], [[1, 2], 3], [300], [-1], [1.5], [float("nan")], [2.0**40], [2**70], [1 + 2j], [-129], [127, -128]],
    *[[np.zeros(2), np.zeros(3)], [np.float64(1.5), 2]],
]


@pytest.mark.parametrize("dtype", [None, "int8", "uint8", "int64", "uint64", "float32", "float64", "complex64", "bool"])
@pytest.mark.parametrize("x", LISTS, ids=repr)
def test_asarray_of_lists_is_that_of_numpy(x, dtype):
    with np.errstate(all="ignore"):
        want, got = outcome(lambda: np.asarray(x, dtype)), outcome(lambda: dlbridge.asarray(x, dtype))
    if isinstance(want, np.ndarray) and want.dtype == object:  # for ints of more than 64 bits
        assert isinstance(got, BufferError)
    elif isinstance(want, Exception):
        assert type(got) is type(want), (want, got)
    elif isinstance(got, Exception):  # NumPy wraps the number around to the range of the type; NumPy 1 does so with every integer
        reduced = [[2.0**40], [2**63, -1], [2**63, 1]]
        if np.__version__.startswith("1."):
            reduced += [[2**64 - 1], [300], [-1], [-129], [127, -128]]
        assert type(got) is OverflowError and x in reduced, (want, got)
    else:
        assert got.dtype == want.dtype and not got.readonly
        same(got, want)


def test_asarray_takes_what_has_elements_without_a_copy():
    a = numbers((3, 4))
    t = dlbridge.asarray(a)
    same_memory(t, a)
    assert dlbridge.asarray(t) is t and dlbridge.asarray(t, np.float32) is t
    assert dlbridge.asarray(t, "int8").tolist() == a.tolist()
    buffer = bytearray(b"abcd")
    shared = dlbridge.asarray(buffer)
    buffer[0] = 7
    assert shared.tolist() == [7, 98, 99, 100] and dlbridge.asarray(array.array("h", [1, 2])).dtype == "int16"
    small = a.astype(ml_dtypes.bfloat16)
    assert dlbridge.asarray(small).data_ptr == small.ctypes.data

    class Column:  # like a pandas.Series
        def __array__(self, dtype=None, copy=None):
            return a

    same_memory(dlbridge.asarray(Column()), a)
    assert dlbridge.asarray(np.float32(2.5)).tolist() == 2.5


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c16", ">u8"])
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[::2, ::-1], lambda a: a.T, lambda a: a[0, 0, ...]], ids=["whole", "strided", "T", "one"])
def test_asarray_copies_arrays_of_the_other_byte_order(dtype, view):
    a = view(np.arange(12).reshape(3, 4).astype(dtype))
    for t in (dlbridge.asarray(a), dlbridge.asarray(a, "complex128"), dlbridge.asarray([a])):
        assert np.array_equal(np.reshape(t.numpy(), a.shape), a) and t.data_ptr != a.ctypes.data and not t.readonly
    assert dlbridge.asarray(a).dtype == a.dtype.newbyteorder("=")
    for other in (np.zeros(2, ">M8[s]"), np.ma.array(np.zeros(2, ">f4"), mask=[0, 1])):
        with pytest.raises(BufferError):
            dlbridge.asarray(other)


@pytest.mark.parametrize("dtype", ["int16", "float32", "complex64", "complex128"])
def test_asarray_copies_what_c_cannot_read_where_it_lies(dtype):
    size = np.dtype(dtype).itemsize
    number = size // 2 if dtype.startswith("complex") else size
    memory = dlbridge.empty(4 * size, "uint8").numpy()
    memory[:] = 0
    for offset in range(1, 2 * number):
        a = memory[offset : offset + 2 * size].view(dtype)
        t = dlbridge.from_dlpack(a)
        assert dlbridge.asarray(t) is t and t.data_ptr == a.ctypes.data
        for x in (a, memoryview(a), tvm_ffi.from_dlpack(a)):
            assert (dlbridge.asarray(x).data_ptr == a.ctypes.data) == (offset % number == 0)
            assert dlbridge.asarray(x).data_ptr % number == 0 and dlbridge.asarray(x).tolist() == [0, 0]


def test_asarray_drops_no_imaginary_parts():
    for x in (np.array([1 + 2j]), np.array([1 + 0j], np.complex64), np.complex64(1), [np.array([1j])], dlbridge.asarray([1j])):
        for dtype in ("float64", "float32", "int8", "bfloat16", float):
            with pytest.raises(TypeError, match="x has complex.*, which is not .*drops the imaginary parts"):
                dlbridge.asarray(x, dtype)
        assert dlbridge.asarray(x, "complex64").dtype == "complex64" and dlbridge.asarray(x, bool).tolist() in (True, [True], [[True]])
    assert dlbridge.from_dlpack(np.array([1 + 2j])).convert("float32").tolist() == [1]


def test_asarray_makes_types_that_numpy_lacks():
    for dtype in ("bfloat16", "float8_e4m3fn", "float16"):
        assert dlbridge.asarray([[1, 2], [3.5, 4]], dtype).view("uint8").shape[0] == 2
    t = dlbridge.asarray([1, 7, -8], "int4")
    assert (t.dtype, t.tolist()) == ("int4", [1, 7, -8])
    assert dlbridge.asarray([1, 2.5], "float4_e2m1fn").tolist() == [1, 2]
    assert dlbridge.asarray([1, 2], "int4").nbytes == 1 and dlbridge.asarray([], "int4").shape == (0,)
    with pytest.raises(OverflowError, match="8 cannot be stored as int4"):
        dlbridge.asarray([1, 8], "int4")


def test_asarray_refuses():
    endless: list = []
    endless.append(endless)
    for x, error, text in [
        ([1, [2]], ValueError, "x has lists beside numbers or arrays at axis 1; all must be alike"),
        ([[1], [2, 3]], ValueError, "x has a list of 1 at axis 1, but also one of 2; all must be alike"),
        ([[1], 2], ValueError, "x has a list of 1 at axis 1, but also <class 'int'>; all must be alike"),
        ([np.zeros(2), np.zeros(3)], ValueError, "x has arrays of the shapes (2,) and (3,); all must have the same"),
        (endless, ValueError, "x has more than 64 lists in each other"),
        ([np.zeros(2), np.zeros(2, "int8")], TypeError, "x has both float64 and int8; use dtype= to choose the type of the tensor"),
        ({1: 2}, TypeError, "x must be an array, a buffer, a number, or a list of these, not <class 'dict'>"),
        (["1"], TypeError, "x must be an array, a buffer, a number, or a list of these, not <class 'str'>"),
        (np.float32, TypeError, "x must be an array, a buffer, a number, or a list of these, not <class 'type'>"),
    ]:
        with pytest.raises(error, match=f"^dlbridge: asarray: {re.escape(text)}$"):
            dlbridge.asarray(x)


@pytest.mark.parametrize("axis", [None, 0, -1, 1, (0, 1), (), [1], 2, (0, 0), "x", 0.5])
def test_flip_takes_axes_as_numpy_does(axis):
    a = numbers((3, 4))
    want = outcome(lambda: np.flip(a, tuple(axis) if isinstance(axis, list) else axis))
    got = outcome(lambda: dlbridge.from_dlpack(a).flip(axis=axis))
    if isinstance(want, Exception):
        assert isinstance(got, (ValueError, TypeError)), (want, got)
    else:
        same_memory(got, want)


@pytest.mark.parametrize("axis", [None, 0, -1, 1, (0, -1), (), 2, -4, (0, 0), "x", 0.5])
def test_squeeze_takes_axes_as_numpy_does(axis):
    a = numbers((1, 4, 1))
    want, got = (outcome(lambda: x.squeeze(axis=axis)) for x in (a, dlbridge.from_dlpack(a)))
    if isinstance(want, Exception):
        assert isinstance(got, ValueError if isinstance(want, ValueError) else TypeError), (want, got)
    else:
        same_memory(got, want)


@pytest.mark.parametrize("name", ML_DTYPES + SMALL)
def test_arrays_of_ml_dtypes_are_taken_as_they_are(name):
    a = np.ones((2, 4)).astype(getattr(ml_dtypes, name))[:, ::2]
    t = dlbridge.from_dlpack(a)
    assert (t.dtype, t.shape, t.strides, t.data_ptr) == (name, (2, 2), (4, 2), a.ctypes.data)
    assert t.convert("float32").tolist() == a.astype("float32").tolist()
    assert np.array_equal(np.asarray(t).astype("float32"), a.astype("float32"))
    assert not t.readonly and dlbridge.from_dlpack(a, copy=True).data_ptr != t.data_ptr
    a.flags.writeable = False
    assert dlbridge.from_dlpack(a, copy=False).readonly
    back = dlbridge.tens.decode(dlbridge.tens.encode([a])).tensors[0]
    assert back.dtype == name and back.convert("float32").tolist() == a.astype("float32").tolist()
    with pytest.raises(BufferError, match="native byte order|device|byte order"):
        dlbridge.from_dlpack(np.arange(3, dtype=">f4"))


def test_ravel_copies_only_if_it_must():
    t = dlbridge.from_dlpack(numbers((3, 4)))
    assert t.ravel().data_ptr == t.data_ptr
    assert t.T.ravel().tolist() == numbers((3, 4)).T.ravel().tolist()


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 4), 4, (5, 1, 3, 4), (0, 3, 4), (3, 5), (4, 4), (2, -1), "x", None, (1,) * 300])
def test_broadcast_to_takes_shapes_as_numpy_does(shape):
    a = numbers((3, 4))
    t = dlbridge.from_dlpack(a)
    want, got = outcome(lambda: np.broadcast_to(a, shape)), outcome(lambda: t.broadcast_to(shape))
    if isinstance(want, Exception):
        assert type(got) is (TypeError if shape is None or shape == "x" else ValueError), (want, got)
    else:
        same_memory(got, want)
        assert got.readonly == (want.size > a.size)


def test_reshape_copies_only_if_it_must_and_may():
    a = numbers((3, 4))
    t = dlbridge.from_dlpack(a)
    assert t.reshape(12).data_ptr == t.data_ptr
    assert t.reshape(12, copy=True).data_ptr != t.data_ptr
    copied = t.T.reshape(12)
    assert copied.tolist() == a.T.reshape(12).tolist()
    assert copied.data_ptr != t.data_ptr and not copied.readonly
    with pytest.raises(ValueError, match="only a copy can have this shape; use copy=None to allow a copy"):
        t.T.reshape(12, copy=False)
    with pytest.raises(TypeError, match="shape is missing"):
        t.reshape()
    with pytest.raises(TypeError, match="copy must be None or a bool"):
        t.reshape(12, copy=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'order'"):
        t.reshape(12, order="F")


def test_contiguous_copies_only_what_has_gaps():
    a = numbers((3, 4))
    t = dlbridge.from_dlpack(a)
    assert t.contiguous().data_ptr == t.data_ptr
    for view in (t.T, t[:, ::2], t.flip(), t.broadcast_to((2, 3, 4))):
        made = view.contiguous()
        assert made.data_ptr != view.data_ptr
        assert made.tolist() == view.tolist()
        assert not made.readonly
        assert memoryview(made).c_contiguous
    frozen = dlbridge.from_buffer(bytes(4))
    assert frozen.contiguous().readonly and not frozen.copy().readonly


def test_views_of_read_only_memory_are_read_only(c):
    a = numbers((3, 4))
    a.flags.writeable = False
    legacy = dlbridge.from_dlpack(c.new_capsule((3, 4), None, legacy=1))
    for t in (dlbridge.from_dlpack(a), legacy):
        views = [
            t[0], t[1:, ::-1], t[...], t[()], t[None], t[0, 0], next(iter(t)), t.T, t.transpose(), t.flip(), t.flip(0),
            t.squeeze(), t.ravel(), t.reshape(12), t.contiguous(), t.broadcast_to((1, 3, 4)), t.T[0].flip()[::2],
        ]  # fmt: skip
        for view in views:
            assert view.readonly
            assert not view.numpy().flags.writeable
            with pytest.raises(BufferError, match="read-only"):
                c.buffer(view, 1)
        for copied in (t.copy(), t.convert("float64"), t.reshape(12, copy=True), t.T.contiguous()):
            assert not copied.readonly and copied.numpy().flags.writeable


def test_views_keep_the_memory_alive(c):
    deletes = c.deletes()
    t = dlbridge.from_address(c.managed((3, 4), None))
    views = [t[0], t.T, t.flip(), t.reshape(-1), t.broadcast_to((2, 3, 4)), t.contiguous(), iter(t), t.numpy(), t[0, 0]]
    t.close()
    del t
    gc.collect()
    assert c.deletes() == deletes
    while views:
        assert c.deletes() == deletes
        if hasattr(views[-1], "tolist"):
            assert views[-1].tolist() is not None
        views.pop()
    gc.collect()
    assert c.deletes() == deletes + 1


def test_memory_of_a_device_is_viewed_and_not_read(c):
    t = dlbridge.from_address(c.managed((3, 4), None, device_type=2, byte_offset=8))
    view = t[1:, 2]
    assert view.device == (2, 0) and view.shape == (2,) and view.data_ptr == t.data_ptr + (4 + 2) * 4
    assert t.T.strides == (1, 4)
    assert "device (2, 0)" in repr(t) and ":" not in repr(t)
    reads = [t.tolist, t[0, 0].item, t.numpy, t.__array__, lambda: t.convert("int8"), lambda: float(t[0, 0]), lambda: bool(t[0, 0])]
    for read in reads:
        with pytest.raises(BufferError, match="memory is not in the host"):
            read()


# ---- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_tolist_and_item_are_those_of_numpy(dtype):
    a = numbers((2, 3, 4), dtype)
    for x in (a, a.T, a[::-1, :, 1::2], a[0, 0, 0], a[:0], a[:, :0]):
        x = np.asarray(x)
        t = dlbridge.from_dlpack(x)
        assert t.tolist() == x.tolist()
        assert [t.item(i) for i in range(x.size)] == [x.item(i) for i in range(x.size)]
        for index in np.ndindex(x.shape):
            assert t.item(*index) == t.item(index) == t[index].item() == x[index]
            assert type(t.item(*index)) is type(x.item(*index))


@pytest.mark.parametrize("dtype", ML_DTYPES)
def test_numbers_of_ml_dtypes_are_floats(dtype):
    a = np.frombuffer(bytes(range(256)), getattr(ml_dtypes, dtype))
    t = dlbridge.from_buffer(bytes(range(256)), dtype)
    np.testing.assert_array_equal(t.tolist(), a.astype(np.float64))


@pytest.mark.parametrize("args", [(), (12,), (-13,), (0, 0, 0), (3, 0), ((0, -5),), ("x",), (1.5,), (None,), (0, "x"), (2**70,)])
def test_errors_of_item_are_those_of_numpy(args):
    a = numbers((3, 4))
    want, got = outcome(lambda: a.item(*args)), outcome(lambda: dlbridge.from_dlpack(a).item(*args))
    assert isinstance(want, Exception) and type(got) in (type(want), IndexError if args == (2**70,) else type(want)), (want, got)


def test_a_tensor_of_one_element_is_a_number():
    t = dlbridge.from_dlpack(np.array([[2.5]]))
    assert (int(t), float(t), complex(t), bool(t)) == (2, 2.5, 2.5 + 0j, True)
    z = dlbridge.from_dlpack(np.array(1 + 2j))
    assert complex(z) == 1 + 2j and bool(z)
    for convert in (int, float):
        with pytest.raises(TypeError):
            convert(z)
    i = dlbridge.from_dlpack(np.array(3, np.uint8))
    assert "abcd"[i] == "d" and range(9)[i:] == range(3, 9)
    assert bytes(i) == bytes([3]) and bytes(t) == t.numpy().tobytes()
    for wrong in (t, t[0, 0], dlbridge.empty((), "float32x4"), dlbridge.from_dlpack(np.array([1]))):
        with pytest.raises(TypeError, match="only integer tensors of 0 dimensions"):
            operator.index(wrong)
    assert f"{t[0, 0]:.2f} {i:03d} {z:.1f}" == "2.50 003 1.0+2.0j" and f"{t}" == str(t) and f"{i}" == str(i)
    with pytest.raises(TypeError, match="format: '.2f' is for numbers, not for a tensor of 2 dimensions"):
        f"{t:.2f}"
    with pytest.raises(ValueError, match="Unknown format code 'd'"):
        f"{t[0, 0]:d}"
    many = dlbridge.from_dlpack(numbers(3))
    for convert in (int, float, complex):
        with pytest.raises(TypeError, match="only a tensor of 1 element can be converted to a number, but this tensor has 3"):
            convert(many)
    for wrong in (many, many[:0]):
        with pytest.raises(ValueError, match="truth value of a tensor of . elements is ambiguous"):
            bool(wrong)
    assert not dlbridge.from_dlpack(np.zeros(1))


@pytest.mark.parametrize("dtype", ["float32x4", "handle64"])
def test_what_is_no_number_is_not_converted(dtype):
    t = dlbridge.empty(1, dtype)
    for use in (t.tolist, t.item, lambda: int(t), lambda: bool(t), lambda: t.convert("int8")):
        with pytest.raises(BufferError, match="not single numbers|must be numeric and have the same number of lanes"):
            use()
    assert repr(t) == f"<dlbridge.Tensor, {dtype}(1,)>"


@pytest.mark.parametrize("to", [*NUMPY_DTYPES, *ML_DTYPES])
def test_convert_makes_a_tensor_of_any_other_type(to):
    a = np.array([[0, 1, 2], [3, 4, 5]], np.int16).T
    made = dlbridge.from_dlpack(a).convert(to)
    assert (made.dtype, made.shape, made.readonly) == (to, (3, 2), False)
    assert memoryview(made.convert("float64")).c_contiguous
    want = a.astype(getattr(ml_dtypes, to) if to in ML_DTYPES else to).astype(np.complex128)
    np.testing.assert_array_equal(made.convert("complex128").numpy(), want)


def test_convert_takes_lanes_and_large_tensors():
    pairs = dlbridge.from_buffer(np.arange(4, dtype=np.float32), "float32x2").convert("int8x2")
    assert (pairs.shape, bytes(ctypes.string_at(pairs.data_ptr, 4))) == ((2,), bytes([0, 1, 2, 3]))
    large = numbers(1 << 18)
    np.testing.assert_array_equal(dlbridge.from_dlpack(large).convert("float64").numpy(), large.astype(np.float64))
    with pytest.raises(TypeError, match="convert: dtype is missing"):
        pairs.convert()
    with pytest.raises(TypeError, match="convert: dtype is missing"):
        pairs.convert(out=None)


OUTS = {
    "an array": lambda dtype: np.ones((3, 4), dtype),
    "columns of an array": lambda dtype: np.ones((4, 6), dtype)[:, ::2].T,
    "a tensor": lambda dtype: dlbridge.from_dlpack(np.ones((3, 4), dtype)),
    "a view": lambda dtype: dlbridge.from_dlpack(np.ones((2, 4, 3), dtype))[1].T.flip(0),
    "a producer": lambda dtype: producer(np.ones((3, 4), dtype)),
    "large": lambda dtype: np.ones((3, 4, 5000), dtype),
}


def producer(array, **asked):
    t = dlbridge.from_dlpack(array)
    return Producer(lambda: t.__dlpack__(**{"max_version": (1, 3), **asked}))


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("case", OUTS)
def test_convert_writes_to_out(case, dtype):
    out = OUTS[case](dtype)
    written = dlbridge.from_dlpack(out)
    t = dlbridge.from_dlpack(numbers(written.shape, "float64"))
    for name in ((), (dtype,), (np.dtype(dtype),), (None,)):
        written[...] = 0
        assert t.convert(*name, out=out) is out
        np.testing.assert_array_equal(written, t.convert(dtype))


def test_convert_writes_types_of_ml_dtypes_to_out():
    t = dlbridge.from_dlpack(numbers((3, 4)))
    for name in ML_DTYPES:
        array = np.zeros((3, 4), getattr(ml_dtypes, name))
        assert t.convert(name, out=array) is array
        assert array.tobytes() == t.convert(name).tobytes()
    packed = dlbridge.empty(12, "int4")
    assert t.reshape(12).convert(out=packed).tolist() == t.reshape(12).convert("int4").tolist()
    pairs = dlbridge.from_buffer(np.arange(4, dtype=np.float32), "float32x2")
    assert pairs.convert(out=dlbridge.empty(2, "int8x2")).tobytes() == bytes([0, 1, 2, 3])


def test_convert_into_out_allocates_no_elements():
    t, out = dlbridge.from_dlpack(numbers(1 << 20)), dlbridge.empty(1 << 20, "int32")
    address, before = out.data_ptr, dlbridge.counters()
    t.convert(out=out)
    assert out.data_ptr == address and dlbridge.counters() == before
    one = dlbridge.from_dlpack(np.arange(4.0))
    assert one[3:].convert(out=one[:1]).tolist() == [3] and one.convert("float64", out=one).tolist() == [3, 1, 2, 3]


# float64 and wide integers are computed in float64, all others in float32, like a * scale + shift in NumPy with these types.
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "int32", "uint64", "float64"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_convert_scales_and_shifts(dtype, axis):
    a = numbers((2, 4, 3), dtype)
    computed = np.float64 if dtype in ("int32", "uint64", "float64") else np.float32
    size, along = a.shape[axis], [1, 1, 1]
    along[axis] = size
    scale, shift = np.arange(1, size + 1) / 255, -np.arange(size) / 3
    want = a.astype(computed) * scale.astype(computed).reshape(along) + shift.astype(computed).reshape(along)
    t = dlbridge.from_dlpack(a)
    for scales, shifts in ((scale, shift), (scale.tolist(), tuple(shift)), (dlbridge.from_dlpack(scale), shift.astype("float64"))):
        got = t.convert("float32", scale=scales, shift=shifts, axis=axis)
        np.testing.assert_array_equal(got.numpy(), want.astype("float32"))
    out = np.zeros((2, 4, 3))
    assert t.T.convert(out=out.T, scale=scale, shift=shift, axis=2 - axis % 3) is not None
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(t.convert("float64", scale=0.1).numpy(), a.astype(computed) * computed(0.1))
    np.testing.assert_array_equal(t.convert("float64", shift=np.float64(0.1), axis=9).numpy(), a.astype(computed) + computed(0.1))
    np.testing.assert_array_equal(t.convert("float64", scale=np.array(2), shift=None).numpy(), a.astype(computed) * 2)


def test_convert_refuses_scales():
    a = numbers((3, 4), "float32")
    t = dlbridge.from_dlpack(a)
    for arguments, error, text in (
        ({"scale": [1, 2, 3]}, ValueError, "convert: 3 scales for axis -1 of size 4, want one for each index or one for all"),
        ({"shift": [1, 2, 3, 4], "axis": 0}, ValueError, "convert: 4 shifts for axis 0 of size 3"),
        ({"shift": [1, 2], "axis": 2}, ValueError, "convert: 2 shifts for axis 2, but the tensor has 2 dimensions"),
        ({"scale": [1, 2], "axis": -3}, ValueError, "convert: 2 scales for axis -3, but the tensor has 2 dimensions"),
        ({"scale": []}, ValueError, "convert: scale has no numbers"),
        ({"scale": "12"}, TypeError, "convert: scale must be a number or a sequence of numbers, not '12'"),
        ({"shift": [1, None, 2, 3]}, TypeError, "convert: shift must be a number or a sequence of numbers"),
        ({"shift": {1: 2}}, TypeError, "convert: shift must be a number or a sequence of numbers"),
        ({"shift": 1j}, TypeError, "convert: shift must be a number or a sequence of numbers"),
        ({"scale": 1, "axis": 0.5}, TypeError, "float"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            t.convert("float64", **arguments)
        with pytest.raises(error, match=re.escape(text)):
            t.convert(out=np.zeros((3, 4)), **arguments)
    with pytest.raises(ValueError, match="may have memory in common"):
        t.convert(out=a, scale=2)
    for dtype, out in (("complex64", "float32"), ("float32", "complex64")):
        with pytest.raises(BufferError, match=r"convert: complex numbers cannot be scaled; astype\(\) makes them real$"):
            dlbridge.empty(3, dtype).convert(out, scale=2)
    with pytest.raises(BufferError, match="read-only"):
        t.convert(out=dlbridge.from_buffer(bytes(48), "float32", (3, 4)), scale=2)
    np.testing.assert_array_equal(a, numbers((3, 4), "float32"))


def test_convert_refuses_an_out():
    a = numbers((3, 4))
    t = dlbridge.from_dlpack(a)
    for shape in ((4, 3), (12,), (1, 3, 4), (3, 1), ()):
        with pytest.raises(ValueError, match=re.escape(f"convert: out has the shape {shape}, but the tensor has (3, 4);")):
            t.convert(out=np.zeros(shape, "int8"))
    with pytest.raises(ValueError, match=r"but the tensor has \(1,\); reshape"):  # an assignment would broadcast it
        t[0, :1].convert(out=np.zeros(4))
    with pytest.raises(TypeError, match="convert: out must have the data type that dtype names"):
        t.convert("int16", out=np.zeros((3, 4), "int8"))
    with pytest.raises(TypeError, match="dtype 'nope' is not known"):
        t.convert("nope", out=np.zeros((3, 4)))
    fixed = np.zeros((3, 4))
    fixed.flags.writeable = False
    for out in (fixed, dlbridge.from_dlpack(fixed), dlbridge.from_dlpack(np.zeros(4)).broadcast_to((3, 4)), producer(np.zeros((3, 4)), max_version=None)):
        with pytest.raises(BufferError, match="convert: the destination is read-only"):
            t.convert(out=out)
    line = np.zeros(4)
    with pytest.raises(ValueError, match="convert: elements of the destination overlap each other"):
        t.convert(out=np.lib.stride_tricks.as_strided(line, (3, 4), (0, 8)))
    with pytest.raises(ValueError, match=r"convert: source and destination may have memory in common; copy the source with copy\(\) first$"):
        t[1:].convert(out=t[:-1])
    with pytest.raises(ValueError, match="may have memory in common"):
        t.convert(out=a.view("int32"))
    with pytest.raises(BufferError, match="copy=False"):
        t.convert(out=producer(np.zeros((3, 4)), copy=True))
    with pytest.raises(BufferError, match="masked"):
        t.convert(out=np.ma.array(np.zeros((3, 4)), mask=True))
    with pytest.raises(BufferError, match="convert: the data types must be numeric and have the same number of lanes"):
        t.convert(out=dlbridge.empty((3, 4), "float32x2"))
    for out in (1.0, np.float32(1), [[0] * 4] * 3, bytearray(12), "int8", a.__dlpack__(), Producer):
        with pytest.raises((TypeError, BufferError)):
            t.convert(out=out)
    with pytest.raises(TypeError, match="convert: out must be a tensor or an array with __dlpack__, not <class 'float'>"):
        t.convert(out=1.0)
    with pytest.raises(TypeError, match="takes 1 positional argument, but 2 were given"):
        t.convert("float64", np.zeros((3, 4)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        t.astype("float64", out=np.zeros((3, 4)))
    closed = dlbridge.empty((3, 4), "int8")
    closed.close()
    for use in (lambda: t.convert(out=closed), lambda: closed.convert(out=t), lambda: closed.convert(out=1)):
        with pytest.raises(ValueError, match="the tensor is closed"):
            use()
    np.testing.assert_array_equal(a, numbers((3, 4)))
    assert not line.any()


def test_convert_reads_and_writes_memory_of_the_host_only(c):
    t, far = dlbridge.empty((3, 4), "int8"), dlbridge.from_address(c.managed((3, 4), None, device_type=2))
    for use in (lambda: t.convert(out=far), lambda: far.convert(out=t)):
        with pytest.raises(BufferError, match="convert: the memory of the (destination|source) is on device type 2, which the host cannot use"):
            use()


# ---- arrays ----------------------------------------------------------------------------------------


def test_numpy_is_from_dlpack_of_numpy():
    a = numbers((3, 4))
    for t, x in ((dlbridge.from_dlpack(a), a), (dlbridge.from_dlpack(a)[::2].T, a[::2].T)):
        array = t.numpy()
        assert array.ctypes.data == x.ctypes.data and array.strides == x.strides and array.flags.writeable
    array[0, 0] = 42
    assert a[0, 0] == 42
    with pytest.raises(TypeError):
        dlbridge.empty(3, "int8").numpy(1)


@pytest.mark.parametrize("dtype", ML_DTYPES)
@pytest.mark.parametrize("make", [lambda t: t.numpy(), np.asarray, lambda t: np.array(t, copy=False), lambda t: t.__array__()])
def test_arrays_of_types_that_numpy_lacks_are_those_of_ml_dtypes(dtype, make):
    t = dlbridge.from_buffer(bytearray(range(24)), dtype)[::2]
    a = make(t)
    assert a.dtype == getattr(ml_dtypes, dtype) and a.ctypes.data == t.data_ptr and a.flags.writeable
    np.testing.assert_array_equal(a.astype(np.float64), t.tolist())
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    assert np.array(t, copy=True).ctypes.data != t.data_ptr
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        t.__array__(np.float32, copy=False)
    assert not make(dlbridge.from_buffer(bytes(8), dtype)).flags.writeable


@pytest.mark.parametrize("dtype", SMALL)
def test_packed_elements_are_copied_into_arrays(dtype):
    t = dlbridge.from_buffer(bytes(range(9, 33)), dtype)
    a = np.asarray(t)
    assert a.dtype == getattr(ml_dtypes, dtype)
    np.testing.assert_array_equal(a.astype(np.float64), np.array(t.tolist(), np.float64))
    for refused in (t.numpy, lambda: np.array(t, copy=False)):
        with pytest.raises(ValueError, match="Unable to avoid copy: several elements share a byte"):
            refused()


def test_padded_elements_are_those_of_ml_dtypes_without_a_copy(c):
    t = dlbridge.from_dlpack(c.new_capsule((4,), (1,), code=0, bits=4, flags=4))
    a = t.numpy()
    assert a.dtype == ml_dtypes.int4 and a.ctypes.data == t.data_ptr


def test_a_missing_ml_dtypes_is_named():
    script = """
        import sys
        sys.modules["ml_dtypes"] = None
        import dlbridge, numpy as np
        t = dlbridge.from_buffer(bytes(4), "bfloat16")
        for use in (t.numpy, lambda: np.asarray(t), lambda: np.array([t, t])):
            try:
                print(use())
            except BufferError as error:
                print(error)
    """
    line = (
        "dlbridge: NumPy has bfloat16 only with the package ml_dtypes, which is not installed; "
        "astype('float32') makes a tensor of a type that NumPy has\n"
    )
    assert run_python(script) == line * 3


def test_tensors_are_used_without_numpy():
    script = """
        import sys
        sys.modules["numpy"] = None
        import dlbridge
        t = dlbridge.from_buffer(b"abcd", shape=(2, 2))
        print(t[1].tolist(), t.T.item(1, 0), t, t.convert("float32").tolist())
        try:
            t.numpy()
        except ImportError as error:
            print(type(error).__name__)
    """
    assert run_python(script) == (
        "[99, 100] 98 <dlbridge.Tensor, uint8(2, 2), read-only:\n[[ 97,  98],\n [ 99, 100]]> [[97.0, 98.0], [99.0, 100.0]]\n"
        "ModuleNotFoundError\n"
    )


# ---- text, references, identity --------------------------------------------------------------------


def repr_without_numpy(t):
    with unittest.mock.patch.dict(sys.modules, {"numpy": None}):
        return repr(t)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_repr_without_numpy_writes_each_float_as_numpy_does(dtype):
    rng = np.random.default_rng(3)
    info = np.finfo(dtype)
    special = [0, -0.0, 1, -1, 0.1, 1e-4, 9.9e-5, 0.3, 2 / 3, 1e15, 1e16, 123456, np.nan, np.inf, -np.inf, info.max, info.tiny, info.eps]
    special += [0.999999999999, 9.9999999999e-5, 0.000123456789123, 123456.789123456]
    with np.errstate(over="ignore"):
        values = [*np.array(special).astype(dtype), *(rng.standard_normal(300) * 10.0 ** rng.integers(-6, 18, 300)).astype(dtype)]
    for value in values:
        size = abs(value)
        plain = not np.isfinite(value) or size == 0 or type(size)(1e-4) <= size < (1e16 if dtype != "float16" else np.inf)
        write = np.format_float_positional if plain else np.format_float_scientific
        text = repr_without_numpy(dlbridge.from_dlpack(np.array([value])))
        assert text == f"<dlbridge.Tensor, {dtype}(1,): [{write(value, trim='.', precision=8)}]>"


SHOWN = [numbers((2, 3, 2)), numbers(()), numbers((0, 3)), numbers(300), numbers((40, 30)), numbers((5, 20, 20)), numbers((2, 1, 8, 100))]


def elements_of(t, shape, write=repr):
    head, _, elements = write(t).removesuffix(">").partition(":")
    assert head == f"<dlbridge.Tensor, {t.dtype}{shape}"
    assert elements[0] == ("\n" if "\n" in elements[1:] else " ")
    return elements[1:]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint64", "float32", "complex64"])
def test_repr_without_numpy_lays_elements_out_as_numpy_does(dtype):
    for a in (a.astype(dtype) for a in SHOWN):
        with np.printoptions(floatmode="unique", suppress=True, linewidth=10_000):
            want = np.array2string(a, separator=", ")
        got = elements_of(dlbridge.from_dlpack(a), a.shape, repr_without_numpy)
        assert got.replace(" ", "") == want.replace(" ", "")
        if a.ndim > 1 and a.size and dtype != "complex64":  # NumPy aligns both parts of complex numbers
            assert [len(line) for line in got.split("\n")] == [len(line) for line in want.split("\n")]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_repr_is_that_of_numpy_with_its_options(dtype):
    rng = np.random.default_rng(1)
    for a in (*(a.astype(dtype) for a in SHOWN), (100 * rng.standard_normal((3, 4))).astype(dtype)):
        t = dlbridge.from_dlpack(a)
        assert elements_of(t, a.shape) == np.array2string(a, separator=", ")
        with np.printoptions(precision=2, threshold=10, edgeitems=1, linewidth=40):
            assert elements_of(t, a.shape) == np.array2string(a, separator=", ")


def test_repr_shows_what_numpy_cannot(monkeypatch):
    def fails(*args, **kwargs):
        raise ValueError

    t = dlbridge.asarray([[1, 2], [3, 4]])
    for function in (fails, lambda *args, **kwargs: 3):
        monkeypatch.setattr(np, "array2string", function)
        assert repr(t) == "<dlbridge.Tensor, int64(2, 2):\n[[1, 2],\n [3, 4]]>"

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "array2string", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repr(t)
    monkeypatch.undo()
    deep = dlbridge.zeros((1,) * 70, "int8")
    assert repr(deep).endswith(":" + " " + "[" * 70 + "0" + "]" * 70 + ">")


@pytest.mark.parametrize("write", [repr, repr_without_numpy])
@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "uint4"])
def test_repr_reads_the_edges_only(dtype, write):
    """The pages between are protected: an access would end the process."""
    rows, row = 100, 16 * mmap.PAGESIZE
    memory = mmap.mmap(-1, rows * row)
    t = dlbridge.from_buffer(memory, dtype, (rows, row * 8 // {"int8": 8, "bfloat16": 16, "uint4": 4}[dtype]))
    between = [(3 * row, (rows - 6) * row), *((k * row + mmap.PAGESIZE, row - 2 * mmap.PAGESIZE) for k in (0, 1, 2, -3, -2, -1))]
    protect = ctypes.CDLL(None).mprotect
    for start, size in between:
        assert protect(ctypes.c_void_p(t.data_ptr + start % (rows * row)), ctypes.c_size_t(size), 0) == 0
    assert len(re.findall(r"\b0\b", elements_of(t, t.shape, write))) == 36
    t.close()
    memory.close()


def test_repr_of_types_that_numpy_lacks_has_lines_too():
    t = dlbridge.from_dlpack(np.array([0.1, 1 / 3, 3.14159])).convert("bfloat16")
    assert repr(t) == "<dlbridge.Tensor, bfloat16(3,): [0.1, 0.334, 3.14]>"
    assert repr(dlbridge.asarray([[1, -2.5], [3, 4]], "bfloat16")) == "<dlbridge.Tensor, bfloat16(2, 2):\n[[  1., -2.5],\n [  3.,   4.]]>"
    assert repr(dlbridge.from_buffer(bytes([0x21, 0x43]), "int4", (2, 2))) == "<dlbridge.Tensor, int4(2, 2), read-only:\n[[1, 2],\n [3, 4]]>"


def test_repr_without_numpy_shows_a_byte_that_is_no_bool():
    assert repr_without_numpy(dlbridge.from_buffer(bytes([2]), "bool")) == "<dlbridge.Tensor, bool(1,), read-only: [?]>"


def test_weak_references_do_not_keep_memory():
    loans = dlbridge.counters()["loans"]
    t = dlbridge.from_buffer(bytearray(4))
    dead = []
    first, second = weakref.ref(t, dead.append), weakref.ref(t[1:], dead.append)
    assert first() is t and second() is None and dead == [second]
    known = weakref.WeakKeyDictionary({t: "mine"})
    assert known[t] == "mine"
    del t
    assert first() is None and len(known) == 0 and dead == [second, first]
    assert dlbridge.counters()["loans"] == loans


def test_tensors_are_equal_by_identity():
    t = dlbridge.from_buffer(bytes(4))
    other = t[...]
    assert t == t and t != other and len({t, t, other}) == 2  # noqa: PLR0124


CLOSED = {
    "len": len,
    "iter": iter,
    "index": lambda t: t[0],
    "slice": lambda t: t[1:],
    "contains": lambda t: 1 in t,
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "operator.index": operator.index,
    **{
        name: operator.methodcaller(name)
        for name in (
            "transpose flip squeeze ravel flatten view contiguous copy tolist tobytes item numpy __array__ __dlpack__".split()
        )
    },
    "T": lambda t: t.T,
    "reshape": lambda t: t.reshape(4),
    "swapaxes": lambda t: t.swapaxes(0, 0),
    "moveaxis": lambda t: t.moveaxis(0, 0),
    "the view of another type": lambda t: t.view("uint8"),
    "broadcast_to": lambda t: t.broadcast_to((2, 4)),
    "convert": lambda t: t.convert("int8"),
    "astype": lambda t: t.astype("int8"),
    "memoryview": memoryview,
    "asarray": np.asarray,
    "from_dlpack": np.from_dlpack,
    "on_release": lambda t: t.on_release(len),
}


@pytest.mark.parametrize("use", CLOSED)
def test_a_closed_tensor_refuses_every_method_with_the_same_error(use):
    t = dlbridge.empty(4, "int8")
    t.close()
    with pytest.raises(ValueError, match="^dlbridge: the tensor is closed$"):
        CLOSED[use](t)
    assert t == t and hash(t) == hash(t) and weakref.ref(t)() is t  # noqa: PLR0124
    iterator = iter(other := dlbridge.empty(4, "int8"))
    next(iterator)
    other.close()
    with pytest.raises(ValueError, match="^dlbridge: the tensor is closed$"):
        next(iterator)


# ---- threads and documentation ---------------------------------------------------------------------


def test_a_tensor_is_used_in_eight_threads():
    a = numbers((64, 32), "int32")
    t = dlbridge.from_dlpack(a)
    start = threading.Barrier(8)

    def work(seed: int) -> int:
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(300):
            i, j = int(rng.integers(64)), int(rng.integers(32))
            assert t[i, j].item() == t.T[j].tolist()[i] == i * 32 + j
            assert t.reshape(-1)[i * 32 : i * 32 + 3].numpy()[0] == i * 32
            assert t.flip(0)[0].contiguous().item(0) == 63 * 32
            assert len(repr(t)) > 100 and sum(1 for _ in t) == 64
            assert t.convert("float64")[i].copy().shape == (32,)
            assert weakref.ref(t)() is t
        return seed

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(work, range(8))) == list(range(8))


def test_a_tensor_that_a_thread_closes_is_whole_or_closed_for_the_others():
    for _ in range(200):
        t = dlbridge.from_buffer(bytearray(b"abcdefgh"))
        start = threading.Barrier(8)

        def work(index: int, t=t, start=start):
            start.wait()
            return t.close() if index == 0 else outcome(lambda: t[2:].flip().tolist())

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for result in list(pool.map(work, range(8)))[1:]:
                assert result == [104, 103, 102, 101, 100, 99] or str(result) == "dlbridge: the tensor is closed"


def public_attributes():
    return [name for name in dir(dlbridge.Tensor) if not name.startswith("_")]


@pytest.mark.parametrize("name", public_attributes())
def test_every_method_and_attribute_is_documented(name):
    text = getattr(dlbridge.Tensor, name).__doc__
    assert text and text.splitlines()[0].endswith(".")
    if callable(getattr(dlbridge.Tensor, name)):
        assert ">>> " in text


OF_THE_README = {"load"}  # it needs a library that only the README builds


def public_functions():
    for module in MODULES:
        for name in module.__all__:
            if callable(getattr(module, name)) and name not in OF_THE_README:
                yield f"{module.__name__}.{name}", getattr(module, name)


@pytest.mark.parametrize(("name", "function"), list(public_functions()))
def test_every_function_has_an_example(name, function):
    assert ">>> " in function.__doc__, name


def test_the_examples_in_the_documentation_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    runner = doctest.DocTestRunner()
    names = {"ctypes": ctypes, "dlbridge": dlbridge, "np": np, "os": os}
    examples = [dlbridge.Tensor, type(dlbridge.empty(1, "int8").dtype), *(getattr(dlbridge.Tensor, name) for name in dir(dlbridge.Tensor)), dlbridge.tens.Message.frames]
    for module in MODULES:
        examples += (getattr(module, name) for name in module.__all__)
    tried = 0
    for thing in examples:
        text = getattr(thing, "__doc__", None)
        if isinstance(text, str) and ">>> " in text and not isinstance(thing, type(sys)):
            test = doctest.DocTestParser().get_doctest(text, dict(names), str(thing), None, 0)
            tried += runner.run(test).attempted
    assert tried > 25 and runner.failures == 0


# ---- operations that a Tensor lacks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "compute",
    [
        lambda t: t + 1, lambda t: 2 - t, lambda t: t * t, lambda t: t / 2.0, lambda t: t // 2, lambda t: t % 2, lambda t: t @ t,
        lambda t: t**2, lambda t: -t, abs, lambda t: t < 3, lambda t: 3j + t, lambda t: True <= t, lambda t: t >= t,
    ],
)  # fmt: skip
def test_arithmetic_is_refused_with_the_way_out(compute):
    with pytest.raises(TypeError, match=r"neither arithmetic nor ordering \(<, >\); tensor.numpy\(\) returns an array on the same memory"):
        compute(dlbridge.from_dlpack(numbers((3, 3))))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "dot", "argmax", "cumsum", "clip", "real", "flat", "flags"])
def test_what_only_arrays_have_is_named_with_the_way_out(name):
    t = dlbridge.from_dlpack(numbers((3, 3)))
    text = rf"a dlbridge.Tensor has no {name}; t.numpy\(\) returns an array on the same memory, which has it: t.numpy\(\).{name}"
    call = r"\(...\)" if callable(getattr(np.ndarray, name)) else ""
    with pytest.raises(AttributeError, match=f"{text}{call}$"):
        getattr(t, name)
    assert not hasattr(t, name) and hasattr(t.numpy(), name) and name not in dir(t)
    t.close()
    with pytest.raises(ValueError, match="closed"):
        getattr(t, name)


def test_functions_of_numpy_that_try_a_method_first_take_a_tensor():
    a = numbers((3, 3))
    t = dlbridge.from_dlpack(a)
    for f in (np.sum, np.mean, np.max, np.argmax, np.std, np.sort, np.cumsum, np.real, np.round):
        assert np.array_equal(f(t), f(a))
    assert np.dot(t, t).tolist() == a.dot(a).tolist() and np.clip(t, 1, 2).tolist() == a.clip(1, 2).tolist()


@pytest.mark.parametrize("name", ["form_numpy", "T_", "requires_grad", "append", "items"])
def test_attributes_that_arrays_lack_too_have_the_text_of_python(name):
    with pytest.raises(AttributeError, match=f"^'dlbridge.Tensor' object has no attribute '{name}'$"):
        getattr(dlbridge.from_dlpack(numbers((3, 3))), name)


IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.imatmul, operator.ipow,
    operator.ilshift, operator.irshift, operator.iand, operator.ior, operator.ixor,
]  # fmt: skip


@pytest.mark.parametrize("compute", IN_PLACE)
def test_arithmetic_in_place_is_refused_and_does_not_replace_the_tensor(compute):
    """Python would otherwise assign the array that NumPy computes, and the memory of the tensor would stay as it was."""
    a = np.ones((3, 3), np.int64)
    t = dlbridge.from_dlpack(a)
    for other in (np.ones((3, 3), np.int64), np.int64(2), t, 1, [1], "text"):
        with pytest.raises(TypeError, match=r"no arithmetic in place; after `a = tensor.numpy\(\)`, `a \+= ...` changes the memory"):
            compute(t, other)
    with pytest.raises(TypeError, match=r"its memory is read-only, and tensor.copy\(\).numpy\(\) returns an array on a writable copy"):
        compute(dlbridge.from_buffer(bytes(4)), np.ones(4, np.uint8))
    assert (a == 1).all()
    b = t.numpy()
    b += np.ones((3, 3), np.int64)
    assert (a == 2).all()
    a += t
    assert (t.numpy() == 4).all()


def test_numpy_computes_with_an_array_on_the_other_side():
    a = numbers((2, 3))
    t = dlbridge.from_dlpack(a)
    for got in (t + a, a + t, np.add(t, a), np.float64(0) + t + a):
        np.testing.assert_array_equal(got, a + a)
    np.testing.assert_array_equal(a > t, np.zeros((2, 3), bool))
    with pytest.raises(TypeError, match="unsupported operand"):
        t + "text"


class OldSequence:
    """A sequence without __iter__."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return range(3)[index]


class ArrayOnly:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


class InterfaceOnly:
    __array_interface__ = np.arange(3.0).__array_interface__


class ProducerOnly:
    def __dlpack__(self, **_):
        return np.arange(3.0).__dlpack__()


HAVE_ELEMENTS = [
    1, 1.5, True, 1j, enum.IntEnum("Number", ["ONE"]).ONE, decimal.Decimal(1), fractions.Fraction(1), [0, 1, 2], (0, 1, 2), range(3), {0, 1},
    frozenset(), {0: 1}, {}.keys(), collections.deque([1]), collections.UserList([1]), array.array("d", [0, 1, 2]), bytearray(24),
    memoryview(bytes(24)), (ctypes.c_double * 3)(), mmap.mmap(-1, 24), OldSequence(), ArrayOnly(), InterfaceOnly(), ProducerOnly(),
]  # fmt: skip


@pytest.mark.parametrize("x", HAVE_ELEMENTS, ids=lambda x: type(x).__name__)
def test_elements_are_not_compared_silently(x):
    t = dlbridge.from_dlpack(np.arange(3.0))
    pairs = [(t, x)]
    if not isinstance(x, (bytearray, memoryview)):  # on the left, these two compare the buffer of the tensor themselves
        pairs.append((x, t))
    for compare in (operator.eq, operator.ne):
        for pair in pairs:
            with pytest.raises(TypeError, match=r"does not compare its elements with .*; compare t.item\(\), t.tolist\(\) or t.numpy\(\) instead"):
                compare(*pair)


@pytest.mark.parametrize(
    "x",
    ["text", b"text", b"", None, object(), Ellipsis, NotImplemented, float, len, np.float32, np.dtype("f8"), uuid.UUID(int=1), iter([1])],
    ids=repr,
)
def test_what_has_no_elements_is_unequal(x):
    t = dlbridge.from_dlpack(np.arange(3.0))
    assert (t == x) is False and (x == t) is False and (t != x) is True and (x != t) is True
    assert t == unittest.mock.ANY and t not in [x, None, other_tensor()]


def other_tensor() -> dlbridge.Tensor:
    return dlbridge.from_dlpack(np.arange(3.0))


@pytest.mark.parametrize(
    "x", [np.arange(3.0), np.ma.array(np.arange(3.0)), np.arange(3.0).view(np.matrix), np.float64(1), np.int8(1), np.bool_(True)], ids=repr
)
def test_numpy_compares_elements(x):
    t = dlbridge.from_dlpack(np.arange(3.0))
    for compare in (operator.eq, operator.ne):
        np.testing.assert_array_equal(compare(t, x), compare(np.arange(3.0), x))
        np.testing.assert_array_equal(compare(x, t), compare(x, np.arange(3.0)))


def test_tensors_are_equal_and_hashed_by_identity():
    t = dlbridge.from_dlpack(numbers(3))
    other = dlbridge.from_dlpack(t)
    assert t == t and t != other and len({t, other, t}) == 2  # noqa: PLR0124
    with pytest.raises(TypeError, match="use from_dlpack for an array, from_buffer for bytes"):
        dlbridge.Tensor([1])


def test_dtype_is_equal_to_what_names_the_type():
    t = dlbridge.empty(1, "float32")
    for same in ("float32", "<f4", "f", "single", np.float32, np.dtype("f4")):
        assert t.dtype == same and same == t.dtype and not t.dtype != same
    for other in ("float64", "<f8", "no type", float, np.float64, np.dtype(">f4"), None, 3, t):
        assert t.dtype != other and not t.dtype == other
    assert {t.dtype: 1}["float32"] == 1 and isinstance(t.dtype, str)
    assert type(copy.copy(t.dtype)) is str and repr(t.dtype) == "'float32'"
    assert t.dtype < "float64" and pickle.loads(pickle.dumps(t.dtype)) == "float32"
    assert dlbridge.empty(1, "bfloat16").dtype == ml_dtypes.bfloat16


def test_an_interrupted_comparison_of_a_dtype_is_an_interrupt():
    class Interrupted:
        @property
        def name(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dlbridge.empty(1, "float32").dtype == Interrupted()  # noqa: B015
