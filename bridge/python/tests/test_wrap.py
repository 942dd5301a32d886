"""`wrap`, which turns C functions on managed tensors into Python functions on any producers; and producers with their own C
exchange API."""

from __future__ import annotations

import copy
import ctypes
import functools
import gc
import inspect
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import textwrap
import threading
import weakref
from array import array

import numpy as np
import pytest
import tvm_ffi
from conftest import ROOT, Producer, on_threads, run_python
from test_peers import peer

import dlbridge

ADDRESS = ctypes.c_void_p
ONE, TWO = ({"args": ["tensor"] * count, "returns": "tensor"} for count in (1, 2))


@pytest.fixture(scope="module")
def torch():
    return peer("torch")


@pytest.fixture(scope="module")
def jax():
    module = peer("jax")
    module.config.update("jax_platforms", "cpu")
    return module


@pytest.fixture
def lib(c):
    """The functions of fixture.c, as new ctypes functions for each test."""
    return ctypes.CDLL(str(c.path))


def declared(function, restype, *argtypes):
    function.restype, function.argtypes = restype, argtypes
    return function


def floats(*values) -> np.ndarray:
    return np.array(values, dtype=np.float32)


# ---- calls --------------------------------------------------------------------------------------------


def test_a_c_function_becomes_a_python_function(lib):
    add = dlbridge.wrap(lib.fixture_add, **TWO)
    x, y = floats(0, 1, 2, 3), floats(10, 10, 10, 10)
    result = add(x, y)
    assert isinstance(result, dlbridge.Tensor)
    assert result.data_ptr == x.ctypes.data
    assert x.tolist() == [10, 11, 12, 13]
    del result
    assert dlbridge.counters()["exports"] == 0
    converted = dlbridge.wrap(lib.fixture_add, **TWO, to=np.from_dlpack)(x, tvm_ffi.from_dlpack(y))
    assert isinstance(converted, np.ndarray) and converted.ctypes.data == x.ctypes.data


def test_arguments_that_are_no_tensors_are_passed_as_ctypes_passes_them(lib):
    x = floats(0, 1, 2, 3)
    scale = dlbridge.wrap(declared(lib.fixture_scale, ADDRESS, ADDRESS, ctypes.c_float))
    assert np.from_dlpack(scale(x, 2.5)).tolist() == [0, 2.5, 5, 7.5]
    scale = dlbridge.wrap(lib.fixture_scale, args=["tensor", ctypes.c_float], returns="tensor")
    assert np.from_dlpack(scale(x, 2)).tolist() == [0, 5, 10, 15]
    assert dlbridge.wrap(declared(lib.fixture_sum, ctypes.c_double, ADDRESS))(x) == 30
    assert dlbridge.wrap(lib.fixture_sum, args=["tensor"], returns=ctypes.c_double)(x) == 30


class DLManagedTensorVersioned(ctypes.Structure):
    pass


class DLManagedTensor(ctypes.Structure):
    pass


def test_pointers_to_managed_tensors_are_tensors_and_other_pointers_are_not(lib):
    x, managed = floats(1, 2), ctypes.POINTER(DLManagedTensorVersioned)
    assert dlbridge.wrap(declared(lib.fixture_add, managed, managed, managed))(x, x).data_ptr == x.ctypes.data
    for other in (ctypes.POINTER(DLManagedTensor), ctypes.POINTER(ctypes.c_float), ctypes.POINTER(managed)):
        with pytest.raises(TypeError, match="fixture_sum: argument 1"):
            dlbridge.wrap(declared(lib.fixture_sum, ctypes.c_double, other))(x)


NDPOINTER = np.ctypeslib.ndpointer(np.float64, shape=(2,))


@pytest.mark.parametrize("kind", [ctypes.POINTER(ctypes.c_double), ctypes.c_double * 2, NDPOINTER], ids=str)
@pytest.mark.parametrize("how", ["args", "argtypes"])
def test_arrays_for_results_are_written(lib, kind, how):
    least_and_largest = np.zeros(2) if kind is NDPOINTER else (ctypes.c_double * 2)()
    if how == "args":
        extent = dlbridge.wrap(lib.fixture_range, args=["tensor", kind], returns=None)
    else:
        extent = dlbridge.wrap(declared(lib.fixture_range, None, ADDRESS, kind))
    assert extent(floats(3, -1, 7), least_and_largest) is None
    assert list(least_and_largest) == [-1, 7]
    if kind is ctypes.POINTER(ctypes.c_double):
        extent(floats(5), ctypes.cast(least_and_largest, kind))
        assert list(least_and_largest) == [5, 5]
        with pytest.raises(TypeError, match="argument 2, declared as LP_c_double, cannot be of type CArgObject: expected LP_c_double"):
            extent(floats(5), ctypes.byref(ctypes.c_int()))


class Handle(ctypes.c_void_p):
    pass


@pytest.mark.parametrize("number", [0, 1, 4096, 0x10000, 0x7FFFFFF8, -1, -8])
@pytest.mark.parametrize(
    "kind", [ctypes.c_int, ctypes.c_int32, ctypes.c_long, ctypes.c_int64, ctypes.c_ulong, Handle], ids=str
)
def test_a_number_that_is_returned_is_no_address(lib, kind, number):
    name = "fixture_int" if kind in (ctypes.c_int, ctypes.c_int32) else "fixture_long"
    number_type = ctypes.c_int if name == "fixture_int" else ctypes.c_long
    want = Handle(number).value if kind is Handle else kind(number).value
    by_restype = dlbridge.wrap(declared(getattr(lib, name), kind, ADDRESS, number_type))
    by_args = dlbridge.wrap(getattr(lib, name), args=["tensor", number_type], returns=kind)
    for returned in (by_restype(floats(1), number), by_args(floats(1), number)):
        assert (returned.value if kind is Handle else returned) == want


def test_a_restype_that_was_never_set_is_an_int(lib):
    lib.fixture_int.argtypes = [ADDRESS, ctypes.c_int]
    assert dlbridge.wrap(lib.fixture_int)(floats(1), 0x10000) == 0x10000
    with pytest.raises(TypeError, match='`to` needs a tensor, but .*; use returns="tensor" to declare a tensor'):
        dlbridge.wrap(lib.fixture_int, to=np.from_dlpack)


def test_a_result_must_be_declared_with_the_arguments(lib):
    x = floats(1, 2)
    with pytest.raises(TypeError, match='result type of fixture_add is not declared: add returns="tensor"'):
        dlbridge.wrap(lib.fixture_add, args=["tensor", "tensor"])
    lib.fixture_add.restype = ADDRESS
    assert dlbridge.wrap(lib.fixture_add, args=["tensor", "tensor"])(x, x).data_ptr == x.ctypes.data
    lib.fixture_note_gil.restype = None
    assert dlbridge.wrap(lib.fixture_note_gil, args=["tensor"])(x) is None


def test_args_and_returns_say_more_than_argtypes_and_restype(lib):
    x = floats(1, 2)
    function = declared(lib.fixture_add, ctypes.c_int, ctypes.c_int)
    assert dlbridge.wrap(function, **TWO)(x, x).data_ptr == x.ctypes.data
    assert (function.restype, function.argtypes) == (ctypes.c_int, (ctypes.c_int,))  # unchanged
    address = dlbridge.to_address(x)
    same = dlbridge.wrap(declared(lib.fixture_return, ADDRESS, ADDRESS), args=[ADDRESS], returns=ADDRESS)
    assert same(address) == address
    dlbridge.from_address(address)


def test_every_producer_is_shared_where_it_lies(lib, c):
    add = dlbridge.wrap(lib.fixture_add, **TWO)
    array = floats(1, 2, 3, 4)
    for x in (
        array,
        dlbridge.from_dlpack(array),
        tvm_ffi.from_dlpack(array),
        array.__dlpack__(max_version=(1, 0)),
        Producer(lambda: array.__dlpack__(max_version=(1, 0))),
    ):
        before = array.copy()
        assert add(x, floats(1, 1, 1, 1)).data_ptr == array.ctypes.data
        assert array.tolist() == (before + 1).tolist()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17])
@pytest.mark.parametrize("with_argtypes", [True, False])
@pytest.mark.parametrize("result", [ADDRESS, None])
def test_any_number_of_arguments_arrives_in_order(count, with_argtypes, result):
    seen, spare = [], floats(-1)

    def takes(*addresses):
        tensors = [dlbridge.from_address(address) for address in addresses]
        seen.extend(t.data_ptr for t in tensors)
        return dlbridge.to_address((tensors or [spare])[-1]) if result is not None else None

    cfunc = ctypes.CFUNCTYPE(result, *[ADDRESS] * count)(takes)
    declared_by = {} if with_argtypes else {"args": ["tensor"] * count, "returns": result and "tensor"}
    arrays = [floats(i) for i in range(count)]
    returned = dlbridge.wrap(cfunc, **declared_by)(*arrays)
    assert seen == [a.ctypes.data for a in arrays]
    if result is None:
        assert returned is None
    else:
        assert returned.data_ptr == (arrays or [spare])[-1].ctypes.data


def test_the_same_tensor_may_be_passed_twice(lib):
    x = floats(1, 2)
    assert np.from_dlpack(dlbridge.wrap(lib.fixture_add, **TWO)(x, x)).tolist() == [2, 4]


def test_results_of_other_types_are_returned_as_they_are(lib):
    note = dlbridge.wrap(declared(lib.fixture_note_gil, None, ADDRESS))
    assert note(floats(5)) is None


# ---- the GIL ------------------------------------------------------------------------------------------


def test_the_gil_is_let_go_during_the_call(lib, c):
    for wait in (
        dlbridge.wrap(lib.fixture_wait, **ONE),
        dlbridge.wrap(ctypes.CDLL(str(c.path), use_errno=True).fixture_wait, **ONE),
    ):
        x = floats(1)
        opener = threading.Timer(0.05, c.open)
        opener.start()
        assert wait(x).data_ptr == x.ctypes.data  # it returns a tensor only if another thread could run meanwhile
        opener.join()


def test_the_gil_is_kept_where_ctypes_keeps_it(c):
    for library, held in ((ctypes.CDLL, 0), (ctypes.PyDLL, 1)):
        x = floats(7)
        dlbridge.wrap(library(str(c.path)).fixture_note_gil, args=["tensor"], returns=None)(x)
        assert x[0] == held


def test_arguments_may_end_on_threads_that_the_call_waits_for(lib):
    """NumPy's deleter takes the GIL."""
    end = dlbridge.wrap(declared(lib.fixture_delete_elsewhere, None, ADDRESS, ADDRESS))
    for make in (lambda: floats(1, 2), lambda: tvm_ffi.from_dlpack(floats(1, 2)), lambda: dlbridge.empty(2, "int8")):
        for _ in range(20):
            end(make(), make())


def test_threads_call_one_function_at_once(lib):
    add = dlbridge.wrap(lib.fixture_add, **TWO)

    def work(_):
        x, one = np.zeros(4, np.float32), np.ones(4, np.float32)
        for _ in range(500):
            add(x, one)
        assert x.tolist() == [500] * 4

    on_threads(8, work)


# ---- errors -------------------------------------------------------------------------------------------


def test_what_was_shared_before_a_refused_argument_is_given_back(lib):
    x = floats(0, 1, 2, 3)
    references = sys.getrefcount(x)
    scale = declared(lib.fixture_scale, ADDRESS, ADDRESS, ctypes.c_float)
    with pytest.raises(TypeError, match="^dlbridge: fixture_add: argument 2: <class 'list'> has no __dlpack__"):
        dlbridge.wrap(lib.fixture_add, **TWO)(x, [1, 2])
    with pytest.raises(TypeError, match="fixture_scale: argument 2, declared as c_float, cannot be of type str: ") as raised:
        dlbridge.wrap(scale)(x, "two")
    assert isinstance(raised.value.__cause__, TypeError)
    with pytest.raises(TypeError, match=r"^fixture_scale\(\) takes no keyword arguments; pass args to wrap as a dict"):
        dlbridge.wrap(scale)(x, factor=2)
    nine = ctypes.CFUNCTYPE(None, *[ADDRESS] * 9)(lambda *_: None)
    with pytest.raises(TypeError, match="argument 9: <class 'NoneType'> has no __dlpack__"):
        dlbridge.wrap(nine)(*[x] * 8, None)
    closed = dlbridge.from_dlpack(x)
    closed.close()
    with pytest.raises(ValueError, match="fixture_add: argument 2: .*closed"):
        dlbridge.wrap(lib.fixture_add, **TWO)(x, closed)
    unwilling = Producer(lambda: (_ for _ in ()).throw(BufferError("mine")))
    with pytest.raises(BufferError, match="^dlbridge: fixture_add: argument 1: mine$") as raised:
        dlbridge.wrap(lib.fixture_add, **TWO)(unwilling, x)
    assert raised.value.__cause__.args == ("mine",)
    assert dlbridge.counters()["exports"] == 0
    assert sys.getrefcount(x) == references


NAMED = {"args": {"x": "tensor", "factor": ctypes.c_float}, "returns": "tensor"}


def test_arguments_with_names_are_given_by_position_or_by_name(lib):
    scale = dlbridge.wrap(lib.fixture_scale, **NAMED)
    x = floats(0, 1, 2, 3)
    for call in (lambda: scale(x, 2), lambda: scale(x, factor=2), lambda: scale(factor=2, x=x), lambda: scale(**{"x": x, "factor": 2})):
        x[:] = 0, 1, 2, 3
        assert call().tolist() == [0, 2, 4, 6]
    add = dlbridge.wrap(lib.fixture_add, args={"x": "tensor", "y": "tensor"}, returns="tensor")  # called without ctypes
    assert add(y=x, x=floats(1, 1, 1, 1)).tolist() == [1, 3, 5, 7]
    assert dlbridge.wrap(lib.fixture_int, args={"x": "tensor", "error": ctypes.c_int}, returns=ctypes.c_int)(x, error=7) == 7
    nothing = dlbridge.wrap(ctypes.CDLL(None).getpid, args={}, returns=ctypes.c_int)
    assert nothing() == os.getpid()
    with pytest.raises(TypeError, match=r"^getpid\(\) got an unexpected keyword argument 'x'"):
        nothing(x=1)


class Same(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        return other in ("x", "factor")


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((), {}), ((1,), {}), ((1, 2, 3), {}), ((), {"factor": 2}), ((1, 2), {"factor": 3}), ((1,), {"factor": 2, "scale": 3}), ((1,), {"scale": 3}),
        ((1, 2, 3), {"x": 3}), ((1,), {Same("factor"): 2, Same("x"): 2, Same("y"): 2}), ((1, 2), {"a\0\ud800": 3}), ((1, 2), {3: 4}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_a_wrong_call_raises_what_python_raises(lib, args, keywords, named):
    if named:
        def fixture_scale(x, factor): ...
    else:
        def fixture_scale(arg1, arg2, /): ...
        keywords = {}
        if len(args) == 2:
            args = ()
    fixture_scale.__qualname__ = "fixture_scale"
    kinds = list(NAMED["args"].values())
    function = dlbridge.wrap(lib.fixture_scale, args=NAMED["args"] if named else kinds, returns="tensor")
    with pytest.raises(TypeError) as wanted:
        fixture_scale(*args, **keywords)
    with pytest.raises(TypeError) as raised:
        function(*args, **keywords)
    assert raised.value.args == wanted.value.args or 3 in keywords  # the message then names the C function differently


def test_names_and_functions_may_be_of_a_derived_type(lib):
    class Name(str):
        __slots__ = ()

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n)
    function.__name__ = Name("f")
    f = dlbridge.wrap(function, args={Name("x"): ctypes.c_int}, returns=ctypes.c_int)
    with pytest.raises(TypeError, match=r"^f\(\) missing 1 required positional argument: 'x'$"):
        f()


class Mode(ctypes.c_ubyte):
    pass


INTEGERS = [
    *(getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong, ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_ssize_t, Mode),
]


@pytest.mark.parametrize("kind", INTEGERS, ids=lambda kind: kind.__name__)
def test_an_integer_out_of_the_range_of_its_type_is_an_overflow_error(kind):
    of = ctypes.CFUNCTYPE(kind, kind)(lambda n: n.value if isinstance(n, kind) else n)
    f = dlbridge.wrap(of, args={"n": kind}, returns=kind)
    bits = 8 * ctypes.sizeof(kind)
    low = 0 if kind(-1).value > 0 else -(1 << bits - 1)
    high = low + (1 << bits) - 1
    for n in (low, high, 0, True, np.int8(7), np.array(7), kind(7), Parameter(7), Parameter(Parameter(kind(7)))):
        result = f(n)
        assert getattr(result, "value", result) == (7 if isinstance(n, (kind, Parameter)) else n)
    for n in (low - 1, high + 1, 1 << 70, -(1 << 70)):
        for given in (n, Parameter(n), Parameter(Parameter(n))):
            with pytest.raises(OverflowError) as raised:
                f(n=given)
            assert str(raised.value).endswith(f": argument 'n', declared as {kind.__name__}: {n} is not in {low}..{high}")
    with pytest.raises(OverflowError, match=f"an int of 40001 bits is not in {low}"):
        f(1 << 40000)
    for wrong in (2.5, "2", None, np.zeros(2), object()):
        with pytest.raises(TypeError, match="argument 'n', declared as"):
            f(wrong)


def test_addresses_may_be_signed_and_a_type_may_convert_integers_itself():
    f = dlbridge.wrap(ctypes.CFUNCTYPE(ADDRESS, ADDRESS)(lambda p: p), args=[ADDRESS], returns=ADDRESS)
    assert [f(n) for n in (-1, 2**64 - 1, -(2**63), 0, None)] == [2**64 - 1, 2**64 - 1, 2**63, None, None]
    for n in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError, match=f"argument 1, declared as c_void_p: {n} is not in"):
            f(n)
    with pytest.raises(TypeError, match="cannot be of type int64"):
        f(np.int64(1))

    class Low(ctypes.c_uint8):
        @classmethod
        def from_param(cls, value):
            return ctypes.c_uint8(value & 15)

    low = dlbridge.wrap(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint8)(lambda n: n), args=[Low], returns=ctypes.c_int)
    assert low(0x123) == 3


def test_errors_name_the_argument(lib):
    scale = dlbridge.wrap(lib.fixture_scale, **NAMED)
    x = floats(0, 1, 2, 3)
    references = sys.getrefcount(x)

    for call, text in {
        (lambda: scale(x, "two")): "argument 'factor', declared as c_float, cannot be of type str: ",
        (lambda: scale(factor=2, x=[1])): "argument 'x': <class 'list'> has no __dlpack__",
    }.items():
        with pytest.raises(TypeError, match=f"^dlbridge: fixture_scale: {text}"):
            call()
    with pytest.raises(BufferError, match="fixture_scale: argument 'x': mine"):
        scale(Producer(lambda: (_ for _ in ()).throw(BufferError("mine"))), 2)
    assert dlbridge.counters()["exports"] == 0
    assert sys.getrefcount(x) == references


@pytest.mark.parametrize("others", [{}, {"factor": ctypes.c_float}], ids=["directly", "by ctypes"])
def test_a_converted_argument_is_copied_only_if_it_has_another_type_or_layout(c, lib, others):
    def wrapped(*dtype, **how):
        function = lib.fixture_scale if others else lib.fixture_return
        f = dlbridge.wrap(function, args={"x": dlbridge.converted(*dtype, **how), **others}, returns="tensor")
        return lambda x: f(x, *[1] * len(others))

    single, row_major, any_of_them = wrapped("float32"), wrapped(np.float32, contiguous=True), wrapped()
    for x in ([1, 2, 3], (1.0, 2, 3), [np.float64(1), 2, np.int8(3)], np.array([1, 2, 3]), np.array([1, 2, 3], np.float16), array("h", [1, 2, 3])):
        for f in (single, row_major):
            with f(x) as t:
                assert (t.dtype, t.tolist(), t.readonly) == ("float32", [1, 2, 3], False)
    assert any_of_them(2.5).dtype == "float64" and single(2.5).dtype == "float32" and single(2).shape == ()
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    for x in (matrix, dlbridge.from_dlpack(matrix), tvm_ffi.from_dlpack(matrix), memoryview(matrix), matrix.T):
        assert single(x).data_ptr == matrix.ctypes.data
    for x in (matrix, dlbridge.from_dlpack(matrix)):
        assert row_major(x).data_ptr == matrix.ctypes.data
    unaligned = np.zeros(13, np.uint8)[1:].view(np.float32)
    for x in (unaligned, dlbridge.from_dlpack(unaligned), memoryview(unaligned), np.arange(3, dtype=">f4"), np.arange(3, dtype=">f4")[::-1]):
        for f in (single, row_major, any_of_them):
            with f(x) as t:
                assert t.data_ptr % 4 == 0 and not t.readonly and t.tolist() == np.asarray(x).tolist()
    with row_major(matrix.T) as t:
        assert t.data_ptr != matrix.ctypes.data and t.strides == (2, 1) and t.tolist() == matrix.T.tolist()
    capsule = matrix.__dlpack__(max_version=(1, 0))
    assert single(capsule).data_ptr == matrix.ctypes.data


def test_what_cannot_be_converted_is_refused_before_the_call(c, lib):
    x = floats(1)
    add = dlbridge.wrap(lib.fixture_add, args={"x": "tensor", "y": dlbridge.converted("int8")}, returns="tensor")
    for y, error, text in (
        (np.array([1 + 0j]), TypeError, "x has complex128, which is not int8; .*drops the imaginary parts"),
        (["1"], TypeError, "x must be an array"),
        ([[1], [2, 3]], ValueError, "a list of"),
        ([1000], OverflowError, ""),
        (object(), TypeError, "x must be an array"),
        (c.new_capsule(device_type=2), BufferError, "the memory is not in the host"),
    ):
        with pytest.raises(error, match=f"^dlbridge: fixture_add: argument 'y': .*{text}") as raised:
            add(x, y)
        assert type(raised.value.__cause__) is error
    assert dlbridge.counters()["exports"] == 0
    on_device = dlbridge.wrap(lib.fixture_return, args=[dlbridge.converted("float32")], returns="tensor", device="cuda:1")
    assert on_device(c.new_capsule(device_type=2, device_id=1)).device == (2, 1)
    with pytest.raises(BufferError, match="but the function accepts only device"):
        on_device([1.0])
    for dtype, error in (("float33", (ValueError, TypeError)), (3, TypeError), (np.dtype(">f4"), BufferError)):
        with pytest.raises(error):
            dlbridge.converted(dtype)


def test_a_converted_argument_is_shown_and_pickled(lib):
    kind = dlbridge.converted(np.float32, contiguous=True)
    assert [repr(kind), repr(dlbridge.converted())] == ["converted('float32', contiguous=True)", "converted()"]
    add = dlbridge.wrap(lib.fixture_add, args={"x": kind, "y": "tensor"}, returns="tensor")
    assert str(inspect.signature(add)).replace('"', "") == f"(x: {kind!r}, y: 'tensor') -> 'Tensor'" and "a list" in add.__doc__
    assert pickle.loads(pickle.dumps(add))([1, 2], floats(1, 1)).tolist() == [2, 3]


class Empty(ctypes.Structure):
    _fields_ = ()


class Pair(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_float))


class AsItIs(ctypes.c_void_p):
    @classmethod
    def from_param(cls, value):
        return value


class Parameter:
    def __init__(self, value):
        self._as_parameter_ = value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (AsItIs, "a\0b"),
        (Empty, Empty()),
        (AsItIs, Parameter(Empty())),
    ],
    ids=["text with a NUL", "empty structure", "parameter"],
)
def test_what_ctypes_refuses_in_the_call_is_refused_before_it(lib, kind, value):
    x = floats(0, 1, 2, 3)
    scale = dlbridge.wrap(lib.fixture_scale, args=["tensor", kind], returns="tensor")
    with pytest.raises(TypeError, match="fixture_scale: argument 2, declared as .*: from_param returned .*, which ctypes cannot pass"):
        scale(x, value)
    assert dlbridge.counters()["exports"] == 0
    assert x.tolist() == [0, 1, 2, 3]


def test_1024_arguments_are_the_most(lib):
    """With more arguments, ctypes refuses each call before the C function gets the tensors. The error counts as an argument."""
    x = floats(0, 1, 2, 3)
    numbers = [ctypes.c_int] * 1022
    dlbridge.wrap(lib.fixture_refuse, args=["tensor", *numbers, "error"], returns=None)(x, *range(1022))
    dlbridge.wrap(lib.fixture_refuse, args=["tensor", ctypes.c_int, *numbers], returns=None)(x, *range(1023))
    for args in (["tensor", ctypes.c_int, *numbers, "error"], ["tensor"] * 1024 + ["error"]):
        with pytest.raises(TypeError, match="too many arguments"):
            dlbridge.wrap(lib.fixture_refuse, args=args, returns=None)
    assert dlbridge.counters()["exports"] == 0


def test_a_call_that_ctypes_refuses_for_lack_of_memory_shares_nothing(lib):
    nomemory = pytest.importorskip("_testcapi").set_nomemory
    x = floats(0, 1, 2, 3)
    consume = dlbridge.wrap(lib.fixture_refuse, args=["tensor", AsItIs, ctypes.c_int], returns=None)
    number = ctypes.c_int(3)
    errors = []
    for allocation in range(1, 30):
        try:
            nomemory(allocation, allocation + 1)
            consume(x, "text", number)
        except Exception as error:
            errors.append(type(error))
        finally:
            sys.modules["_testcapi"].remove_mem_hooks()
        assert dlbridge.counters()["exports"] == 0, (allocation, errors[-1:])
    assert {MemoryError, ctypes.ArgumentError} <= set(errors)
    assert x.tolist() == [0, 1, 2, 3]


def test_an_argument_error_after_the_call_leaves_the_arguments_to_the_function(lib, c):
    """The conversion of a result, and a function of a PyDLL, may raise the same exception as ctypes when it refuses a call."""

    class Status(ctypes.c_int):
        def _check_retval_(self):
            raise ctypes.ArgumentError("a status")

    x, taken = floats(0, 1, 2, 3), []
    take = ctypes.CFUNCTYPE(ctypes.c_int, ADDRESS)(lambda address: taken.append(dlbridge.from_address(address)) or 1)
    with pytest.raises(ctypes.ArgumentError, match="a status"):
        dlbridge.wrap(take, args=["tensor"], returns=Status)(x)
    assert taken.pop().tolist() == [0, 1, 2, 3]
    raises = dlbridge.wrap(ctypes.PyDLL(str(c.path)).fixture_raise, args=["tensor", ctypes.py_object], returns="tensor")
    with pytest.raises(ctypes.ArgumentError):
        raises(x, ctypes.ArgumentError)
    assert dlbridge.counters()["exports"] == 0


def test_structures_and_text_arrive():
    got = []
    given = ctypes.CFUNCTYPE(None, ADDRESS, Pair, ctypes.c_wchar_p)(
        lambda tensor, pair, text: got.append((dlbridge.from_address(tensor).shape, pair.x, pair.y, text))
    )
    dlbridge.wrap(given, args=["tensor", Pair, ctypes.c_wchar_p], returns=None)(floats(0, 1), Pair(2, 3), "text")
    assert got == [((2,), 2, 3, "text")]


def test_a_structure_that_ctypes_cannot_return_is_refused(lib):
    with pytest.raises(TypeError, match="ctypes cannot return"):
        dlbridge.wrap(lib.fixture_scale, args=["tensor"], returns=Empty)


def test_errors_after_the_call_leave_the_arguments_to_the_function(lib, c):
    x = floats(0, 1, 2, 3)
    references = sys.getrefcount(x)
    with pytest.raises(RuntimeError, match="fixture_refuse returned no tensor"):
        dlbridge.wrap(lib.fixture_refuse, **ONE)(x)
    with pytest.raises(RuntimeError, match="returned no tensor"):
        dlbridge.wrap(ctypes.CDLL(str(c.path), use_errno=True).fixture_refuse, **ONE)(x)
    with pytest.raises(BufferError):
        dlbridge.wrap(lib.fixture_add, **TWO, to=lambda t: t.__dlpack__(dl_device=(2, 0)))(x, x)
    with pytest.raises(ctypes.ArgumentError):
        dlbridge.wrap(lib.fixture_add, **TWO, to=lambda t: (_ for _ in ()).throw(ctypes.ArgumentError("mine")))(x, x)
    assert dlbridge.counters()["exports"] == 0
    assert sys.getrefcount(x) == references


def test_a_malformed_result_is_released_once(c):
    before = c.deletes()
    makes = ctypes.CFUNCTYPE(ADDRESS)(lambda: c.managed(ndim=-1))
    with pytest.raises(ValueError, match="wrap: ndim = -1"):
        dlbridge.wrap(makes)()
    assert c.deletes() == before + 1
    newer = ctypes.CFUNCTYPE(ADDRESS)(lambda: c.managed(major=2))
    with pytest.raises(BufferError, match="version 2"):
        dlbridge.wrap(newer)()
    assert c.deletes() == before + 2


@pytest.mark.parametrize("status", [1, 4095, 2**64 - 1, 0x10001])
def test_a_status_in_place_of_an_address_is_not_touched(status):
    with pytest.raises(ValueError, match="there can be no managed tensor"):
        dlbridge.wrap(ctypes.CFUNCTYPE(ADDRESS)(lambda: status))()


@pytest.mark.parametrize("what", [3, "x", None, len, lambda: 0, ctypes.c_void_p(8)], ids=repr)
def test_what_is_no_c_function_is_a_type_error(what):
    with pytest.raises(TypeError, match="cfunc must be a ctypes function"):
        dlbridge.wrap(what)


def test_what_cannot_be_wrapped_is_refused(lib):
    with pytest.raises(ValueError, match="NULL"):
        dlbridge.wrap(ctypes.CFUNCTYPE(ADDRESS, ADDRESS)(0))
    with pytest.raises(TypeError, match="to must be callable"):
        dlbridge.wrap(lib.fixture_add, **TWO, to="numpy")
    lib.fixture_add.errcheck = lambda *_: None
    with pytest.raises(TypeError, match="errcheck"):
        dlbridge.wrap(lib.fixture_add, **TWO)
    lib.fixture_sum.argtypes, lib.fixture_sum.restype = [ADDRESS], lambda status: status
    with pytest.raises(TypeError, match="restype"):
        dlbridge.wrap(lib.fixture_sum)


def test_a_function_of_which_nobody_says_what_it_takes_is_refused(lib):
    for function in (lib.fixture_scale, ctypes.CDLL(None).getpid):
        function.restype = ADDRESS
        with pytest.raises(TypeError) as raised:
            dlbridge.wrap(function)
        for way in ("args=[...]", "returns=...", f"{function.__name__}.argtypes", f"{function.__name__}.restype"):
            assert way in str(raised.value)


@pytest.mark.parametrize(
    "declaration, error",
    [
        ({"args": ["tensors"], "returns": None}, r"args\[0\] is .*; it must be \"tensor\" .*, a ctypes type, .* \"error\""),
        ({"args": ["tensor", "tensr"], "returns": None}, r"args\[1\] is 'tensr'"),
        ({"args": "tensor", "returns": None}, r"args must be a list, such as .*, not 'tensor'"),
        ({"args": {"x": "tensors"}, "returns": None}, r"args\['x'\] is 'tensors'; it must be"),
        ({"args": {"error": "error", "x": "tensor"}, "returns": None}, r"args\['error'\] is 'error'; it must be .* as the last"),
        *(
            ({"args": {name: "tensor"}, "returns": None}, "has the name .*, which no parameter of a Python function can have")
            for name in ("", "2x", "a b", "lambda", "a\0", 3, None)
        ),
        ({"args": [float], "returns": None}, r"args\[0\] is .*; it must be \"tensor\" .*, a ctypes type, .* \"error\""),
        ({"args": [None], "returns": None}, r"args\[0\] is .*; it must be \"tensor\" .*, a ctypes type, .* \"error\""),
        ({"args": [ctypes.c_int(1)], "returns": None}, r"args\[0\] is .*; it must be \"tensor\" .*, a ctypes type, .* \"error\""),
        ({"args": ["tensor"] * 1025, "returns": None}, "too many"),
        ({"args": 3, "returns": None}, "args must be a list, such as .*, not 3"),
        ({"args": []}, 'fixture_add is not declared: add returns="tensor" .*, returns=None .*, or a ctypes type'),
        ({"args": [], "returns": "tensors"}, "returns"),
        ({"args": [], "returns": int}, "returns"),
        ({"args": [], "returns": ["tensor"]}, "returns"),
        ({"args": [], "returns": ctypes.c_int, "to": len}, "needs a tensor"),
        ({"args": [], "returns": None, "to": len}, "needs a tensor"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_declaration_that_says_nothing_is_refused(lib, declaration, error):
    with pytest.raises(TypeError, match=error):
        dlbridge.wrap(lib.fixture_add, **declaration)


# ---- hostile callers ----------------------------------------------------------------------------------

# Each runs in its own process, so that the test detects a crash.
HOSTILE = {
    "no argtypes and no arguments": """
        for f in (lib.fixture_scale, lib.fixture_add, lib.fixture_int):
            refused(TypeError, lambda: dlbridge.wrap(f)())
            f.restype = pointer
            refused(TypeError, lambda: dlbridge.wrap(f)())
    """,
    "wrong numbers of arguments": """
        add, scale = dlbridge.wrap(lib.fixture_add, **two), dlbridge.wrap(lib.fixture_scale, **scaling)
        for f in (add, scale):
            for args in ((), (x,), (x, x, x), (x,) * 100):
                refused(TypeError, f, *args)
    """,
    "a status that could be an address": """
        for status in (0x10000, 0x7fffff00):
            f = lib.fixture_int
            f.argtypes, f.restype = [pointer, ctypes.c_int], ctypes.c_int
            assert dlbridge.wrap(f)(x, status) == status
            f.restype = ctypes.c_int32
            assert dlbridge.wrap(f)(x, status) == status
    """,
    "numbers that cannot be addresses": """
        f = dlbridge.wrap(lib.fixture_long, args=["tensor", ctypes.c_long], returns="tensor")
        for status in (1, 8, 4095, 0x10001, -1, -8, -4096):
            refused(ValueError, f, x, status)
        refused(RuntimeError, f, x, 0)
    """,
    "arrays for results": """
        f = lib.fixture_range
        f.argtypes, f.restype = [pointer, ctypes.POINTER(ctypes.c_double)], None
        out = (ctypes.c_double * 2)()
        dlbridge.wrap(f)(x, out)
        assert list(out) == [0, 3]
    """,
    "keywords": """
        scale = dlbridge.wrap(lib.fixture_scale, **scaling)
        refused(TypeError, lambda: scale(x, factor=2))
        refused(TypeError, lambda: scale(**{"": x}))
        refused(TypeError, lambda: dlbridge.wrap(lib.fixture_scale, arguments=[]))
    """,
    "arguments that are no tensors": """
        add = dlbridge.wrap(lib.fixture_add, **two)
        closed = dlbridge.from_dlpack(x)
        closed.close()
        address = dlbridge.to_address(x)
        capsule = x.__dlpack__(max_version=(1, 0))
        dlbridge.from_dlpack(capsule)
        for bad in (None, "x", b"x", [x], (), {}, object(), ctypes.c_void_p(address), np.datetime64(1, "s"),
                    ctypes.py_object(x), closed, capsule, np.zeros(2, object), type, dlbridge, add):
            refused((TypeError, ValueError, BufferError), add, x, bad)
            refused((TypeError, ValueError, BufferError), add, bad, x)
        dlbridge.from_address(address)
    """,
    "one capsule twice": """
        add = dlbridge.wrap(lib.fixture_add, **two)
        capsule = x.__dlpack__(max_version=(1, 0))
        refused(ValueError, add, capsule, capsule)
    """,
    "producers that raise": """
        class Producer:
            def __init__(self, error):
                self.error = error
            def __dlpack__(self, **keywords):
                raise self.error
        add = dlbridge.wrap(lib.fixture_add, **two)
        for error in (ctypes.ArgumentError, KeyboardInterrupt, SystemExit, MemoryError, RecursionError, TypeError("mine")):
            refused((error if isinstance(error, type) else TypeError), add, x, Producer(error))
    """,
    "converters that raise": """
        class Kind:
            error = value = None
            @classmethod
            def from_param(cls, value):
                if cls.error is not None:
                    raise cls.error
                return cls.value
        scale = dlbridge.wrap(lib.fixture_scale, args=["tensor", Kind], returns="tensor")
        for Kind.error in (ctypes.ArgumentError("mine"), KeyboardInterrupt(), MemoryError(), RecursionError(), TypeError("mine")):
            refused(type(Kind.error), scale, x, 2)
        Kind.error = None
        class Itself:
            @property
            def _as_parameter_(self):
                return self
        class Raises:
            @property
            def _as_parameter_(self):
                raise ctypes.ArgumentError("mine")
        for Kind.value in (1.5, object(), [], {}, 2**64, -(2**63) - 1, x, dlbridge.from_dlpack(x), Itself()):
            refused(TypeError, scale, x, 2)
        Kind.value = Raises()
        refused(ctypes.ArgumentError, scale, x, 2)
        class Factor:
            _as_parameter_ = ctypes.c_float(2)
        for Kind.value in (ctypes.c_float(2), ctypes.c_float.from_param(2), Factor()):
            x[:] = 1
            assert np.from_dlpack(scale(x, None)).tolist() == [2] * 4
        take = dlbridge.wrap(lib.fixture_long, args=["tensor", Kind], returns=ctypes.c_long)
        for Kind.value in (0, -1, 2**31 - 1, True):
            assert take(x, None) & 0xffffffff == int(Kind.value) & 0xffffffff
        for Kind.value in (None, b"bytes", "text", ctypes.byref(ctypes.c_int())):
            take(x, None)
    """,
    "converters and converted results that raise after the call": """
        class Status(ctypes.c_int):
            @staticmethod
            def _check_retval_(status):
                raise ctypes.ArgumentError("mine")
        refused(ctypes.ArgumentError, dlbridge.wrap(lib.fixture_int, args=["tensor", ctypes.c_int], returns=Status), x, 2)
        wrapped = dlbridge.wrap(lib.fixture_add, **two, to=lambda t: 1 / 0)
        refused(ZeroDivisionError, wrapped, x, x)
    """,
    "a function that keeps its argument and raises what ctypes raises before a call": """
        python = ctypes.PyDLL(path)
        keep = dlbridge.wrap(python.fixture_keep_and_raise, args=["tensor", ctypes.py_object], returns=ctypes.py_object)
        refused(ctypes.ArgumentError, keep, dlbridge.from_dlpack(x), ctypes.ArgumentError("mine"))
        assert dlbridge.counters()["exports"] == 1
        lib.fixture_end_kept()
    """,
    # Only control blocks of dlbridge, which pass a Tensor, show that they were released or taken over. An array is
    # passed in NumPy's own memory, which the function must not use after it has released it.
    "results that are no tensors of the function's": """
        released = dlbridge.wrap(lib.fixture_return_released, args=["tensor"], returns="tensor")
        for _ in range(100):
            refused(ValueError, released, dlbridge.from_dlpack(x))
        same = []
        back = ctypes.CFUNCTYPE(pointer, pointer)(lambda address: same.append(address) or same[0])
        twice = dlbridge.wrap(back)
        first = twice(dlbridge.from_dlpack(x))
        refused(ValueError, twice, dlbridge.from_dlpack(x))
        dlbridge.from_address(same[1])
        assert np.from_dlpack(first).ctypes.data == x.ctypes.data
        nothing = dlbridge.wrap(lib.fixture_refuse, args=["tensor"], returns=ctypes.c_char_p)
        assert nothing(x) is None
        first.close()
    """,
    "callbacks that raise": """
        sys.unraisablehook = lambda raised: None
        def fail(address):
            dlbridge.from_address(address).close()
            raise ctypes.ArgumentError("mine")
        dlbridge.wrap(ctypes.CFUNCTYPE(None, pointer)(fail))(x)
    """,
    "calls within calls": """
        add = dlbridge.wrap(lib.fixture_add, **two)
        class Producer:
            depth = 0
            def __dlpack__(self, **keywords):
                Producer.depth += 1
                if Producer.depth < 50:
                    add(x, self)
                return x.__dlpack__(**keywords)
        x[:] = 0
        add(x, Producer())
        def again(address):
            inner = dlbridge.from_address(address)
            return dlbridge.to_address(wrapped(inner) if len(seen) < 50 and not seen.append(0) else inner)
        seen = []
        wrapped = dlbridge.wrap(ctypes.CFUNCTYPE(pointer, pointer)(again))
        assert wrapped(x).data_ptr == x.ctypes.data
        endless = dlbridge.wrap(lib.fixture_add, **two, to=lambda t: endless(t, x))
        refused(RecursionError, endless, x, x)
    """,
    "threads that share a function, arguments and a capsule": """
        import threading
        add, scale = dlbridge.wrap(lib.fixture_add, **two), dlbridge.wrap(lib.fixture_scale, **scaling)
        capsules, taken = [x.__dlpack__(max_version=(1, 0)) for _ in range(100)], []
        tensor = dlbridge.from_dlpack(x)
        def work():
            for capsule in capsules:
                scale(tensor, 1)
                refused(TypeError, scale, x, "two")
                try:
                    add(capsule, x)
                    taken.append(capsule)
                except ValueError:
                    pass
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(taken) == 100
        tensor.close()
    """,
    "declarations that change their mind": """
        class Kinds(list):
            def __iter__(self):
                yield from (self.pop() for _ in range(len(self)))
        add = dlbridge.wrap(lib.fixture_add, args=Kinds(["tensor", "tensor"]), returns="tensor")
        assert add(x, x).data_ptr == x.ctypes.data
        f = lib.fixture_add
        f.argtypes, f.restype = [pointer, pointer], pointer
        add = dlbridge.wrap(f)
        f.argtypes, f.restype = [ctypes.c_int], ctypes.c_int
        assert add(x, x).data_ptr == x.ctypes.data
        kinds = ["tensor", ctypes.c_float]
        scale = dlbridge.wrap(lib.fixture_scale, args=kinds, returns="tensor")
        kinds.clear()
        assert scale(x, 1).data_ptr == x.ctypes.data
    """,
    "functions that the collector has cleared": """
        def at_the_end_of_a_capsule(run):
            new = ctypes.pythonapi.PyCapsule_New
            new.restype, new.argtypes = ctypes.py_object, [pointer, ctypes.c_char_p, destructor]
            return new(8, b"any", run)
        destructor = ctypes.PYFUNCTYPE(None, pointer)
        called = []
        @destructor
        def call_all(_):
            for cleared in gc.get_objects():
                if type(cleared) is kind and cleared is not kept:
                    called.append(kind)
                    refused(RuntimeError, cleared, x)
        kept = dlbridge.wrap(lib.fixture_add, **two)
        kind = type(kept)
        gc.disable()
        for more in ([], [ctypes.c_int]):
            callback = ctypes.CFUNCTYPE(None, pointer, *more)(lambda *args: None)
            f = dlbridge.wrap(callback, args=["tensor", *more], returns=None)
            f.__wrapped__ = None # which leaves the callback to f
            f.cycle = cycle = [f, at_the_end_of_a_capsule(call_all)] # the capsule ends after f was cleared
            cycle.append(cycle)
            del f, callback, cycle
            gc.collect()
        assert len(called) == 2
    """,
    "functions that are not made by wrap": """
        from dlbridge import _core
        add = dlbridge.wrap(lib.fixture_add, **two)
        refused(TypeError, type(add))
        refused(TypeError, lambda: type("Mine", (type(add),), {}))
        refused(TypeError, lambda: setattr(type(add), "__call__", None))
        refused(TypeError, lambda: object.__new__(type(add)))
        refused(TypeError, _core.function, "name", lib.fixture_add, None, None, None, None, None, 0, 0)
    """,
    "pickles of functions whose types lie": """
        import pickle
        class Kind:
            _type_ = _length_ = 3
            from_param = staticmethod(lambda x: x)
        class Pointer(ctypes.POINTER(ctypes.c_int)):
            pass
        for kind in (Kind, Kind(), Pointer, type("unknown", (ctypes.c_int,), {}), ctypes.CFUNCTYPE(None)):
            f = dlbridge.wrap(lib.fixture_scale, args=["tensor", kind], returns="tensor")
            if kind is Pointer or kind is Kind or isinstance(kind, Kind):
                assert pickle.loads(pickle.dumps(f)).__name__ == "fixture_scale"
            else:
                refused((pickle.PicklingError, AttributeError), pickle.dumps, f)
    """,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_caller_ends_no_interpreter(c, case):
    prelude = f"""
        import ctypes, gc, sys
        import numpy as np
        import dlbridge

        path, pointer = {str(c.path)!r}, ctypes.c_void_p
        lib = ctypes.CDLL(path)
        two, scaling = ({{"args": ["tensor", kind], "returns": "tensor"}} for kind in ("tensor", ctypes.c_float))
        x = np.arange(4, dtype=np.float32)

        def refused(kinds, call, *args):
            try:
                call(*args)
            except kinds:
                return
            raise AssertionError(f"{{call}}{{args}} is not refused")
    """
    ending = """
        gc.collect()
        assert dlbridge.counters() == dict.fromkeys(dlbridge.counters(), 0), dlbridge.counters()
        print("done")
    """
    assert run_python("".join(textwrap.dedent(part) for part in (prelude, HOSTILE[case], ending))) == "done\n"


# ---- Go functions and reported errors -----------------------------------------------------------------


def refusal(kind, value) -> str:
    """Returns the error with which ctypes refuses a value. Its text depends on the version of Python."""
    with pytest.raises(TypeError) as raised:
        kind.from_param(value)
    return str(raised.value)


TEXT = "é: 100%s of %d"  # the text of all errors of served.go that have a cause
SERVED = {
    **{
        f"cause {index}": (f'fail("tensor")(x, {index})', f"{kind}: {TEXT}")
        for index, kind in enumerate(["TypeError"] + ["ValueError"] * 7 + ["BufferError"] * 3 + ["MemoryError", "RuntimeError"])
    },
    "an error in a function without a result": ("fail(None)(x, 1)", f"ValueError: {TEXT}"),
    "an error in a function with a pointer as result": ("fail(ctypes.c_void_p)(x, 1)", f"ValueError: {TEXT}"),
    "a panic": ("one(go.throw)(x)", "RuntimeError: panic: oh %s"),
    "a panic of the Go runtime": (
        "one(go.throw_nil_pointer)(x)",
        "RuntimeError: panic: runtime error: invalid memory address or nil pointer dereference",
    ),
    "no tensor": (
        "one(go.nothing)(x)",
        "RuntimeError: dlbridge: nothing returned no tensor (returns=None declares a function without a result)",
    ),
    "no tensor, and none declared": ("one(go.nothing, None)(x)", "None"),
    "its argument": ("np.from_dlpack(one(go.same)(x)).ctypes.data == x.ctypes.data", "True"),
    "memory of a device that it does not take": (
        "one(go.same)(on_cuda())",
        "BufferError: dlbridge: same: argument 1: the memory is on device (2, 3), but the function accepts only device (1, 0); the argument "
        "device= of wrap changes this",
    ),
    "memory of the device that it takes": ("one(go.same, device='cuda:3')(on_cuda()).device", "(2, 3)"),
    "memory of any device, which it does not read": (
        "dlbridge.wrap(go.add_scaled, args=['tensor', ctypes.c_double, 'tensor', 'error'], returns=None, device=None)(on_cuda(), 1, y)",
        "BufferError: tensor argument 1: memory on cuda:3 cannot be read; its producer can copy it to the CPU",
    ),
    "its read-only argument": ("memoryview(one(go.same)(fixed)).readonly", "True"),
    "a tensor and an error": ("one(go.both)(x)", "RuntimeError: both"),
    "nine arguments": ("np.from_dlpack(nine(*many)).ctypes.data == many[8].ctypes.data", "True"),
    "one argument too few": ("nine(*many[1:])", "TypeError: last_of_nine() missing 1 required positional argument: 'arg9'"),
    "a number among nine arguments": ("np.from_dlpack(nine(*many[1:], 3)).item()", "3"),
    "an argument of nine that is no tensor": (
        "nine(*many[1:], '3')",
        "TypeError: dlbridge: last_of_nine: argument 9: <class 'str'> has no __dlpack__; "
        "use dlbridge.asarray for lists and other collections of numbers",
    ),
    "tensors and a number": ("add(x, 2.0, y), y.tolist()", "(None, [1.0, 3.0, 5.0, 7.0])"),
    "text for a number": (
        "add(x, 'two', y)",
        f"TypeError: dlbridge: add_scaled: argument 2, declared as c_double, cannot be of type str: {refusal(ctypes.c_double, 'two')}",
    ),
    "a read-only array": ("add(x, 2.0, fixed)", "BufferError: tensor argument 2: the tensor is read-only; copy() makes a writable one"),
    "another data type": (
        "add(x, 2.0, np.ones(4))",
        "TypeError: tensor argument 2: the tensor has float64, want float32; astype() makes a copy of that type",
    ),
    "another data type of an argument with a name": (
        "named(x, 2.0, np.ones(4))",
        "TypeError: argument 'y': the tensor has float64, want float32; astype() makes a copy of that type",
    ),
    "a name, and more tensors than are declared": ("dlbridge.wrap(go.second, args={'x': 'tensor', 'error': 'error'}, returns=None)(x)", "None"),
    "no elements that are read past their end": (
        "add(x[:1], 2.0, y)", "RuntimeError: panic: runtime error: index out of range [1] with length 1"
    ),
    "its error argument left out": ("np.from_dlpack(without(go.same)(x)).ctypes.data == x.ctypes.data", "True"),
    "its error argument left out, and an error": (
        "without(go.throw)(x)",
        "RuntimeError: dlbridge: throw returned no tensor (add \"error\" to args if the function reports errors)",
    ),
    "a tensor and its error argument left out": (
        "without(go.second)(x)",
        "RuntimeError: dlbridge: second returned no tensor (add \"error\" to args if the function reports errors)",
    ),
    "a tensor left out": (
        "one(go.second)(x)",
        "RuntimeError: dlbridge: second returned no tensor (returns=None declares a function without a result)",
    ),
    "a slice of Go, which is pinned while it has an export": ("pinned(), [forty(), pinned()][1], pinned()", "(0, 40, 0)"),
}  # fmt: skip


@pytest.fixture(scope="module")
def served(served_library) -> dict[str, str]:
    """The result of each call of SERVED. One process makes all calls, and nothing is open afterwards."""
    calls = {name: call for name, (call, _) in SERVED.items()}
    return json.loads(
        run_python(f"""
        import ctypes, gc, json
        import numpy as np
        import dlbridge

        go = dlbridge.load({served_library!r})
        fail = lambda returns: dlbridge.wrap(go.fail, args=["tensor", ctypes.c_int32, "error"], returns=returns)
        one = lambda f, returns="tensor", **options: dlbridge.wrap(f, args=["tensor", "error"], returns=returns, **options)

        def on_cuda():
            address = dlbridge.to_address(x)
            for offset, number in ((40, 2), (44, 3)):  # the offsets of device_type and device_id
                ctypes.c_int32.from_address(address + offset).value = number
            return dlbridge.from_address(address)

        without = lambda f: dlbridge.wrap(f, args=["tensor"], returns="tensor")
        nine = dlbridge.wrap(go.last_of_nine, args=["tensor"] * 9 + ["error"], returns="tensor")
        forty = dlbridge.wrap(go.forty_pinned_bytes, args=["error"], returns="tensor")
        pinned = lambda: dlbridge._core.library_counters()["pinned_bytes"]
        add = dlbridge.wrap(go.add_scaled, args=["tensor", ctypes.c_double, "tensor", "error"], returns=None)
        named = dlbridge.wrap(go.add_scaled, args={{"x": "tensor", "k": ctypes.c_double, "y": "tensor", "error": "error"}}, returns=None)
        x, fixed, many = np.arange(4, dtype=np.float32), np.ones(4, np.float32), [np.ones(i) for i in range(9)]
        fixed.flags.writeable = False
        ends = dict()
        for name, call in {calls!r}.items():
            y = np.ones(4, np.float32)
            try:
                ends[name] = repr(eval(call))
            except Exception as error:
                ends[name] = type(error).__name__ + ": " + str(error)
                *frames, note = getattr(error, "__notes__", ["reported by the function "])
                assert note.startswith("reported by the function ") and bool(frames) == str(error).startswith("panic: "), error.__notes__
        gc.collect()
        assert not any(dlbridge.counters().values()), dlbridge.counters()
        print(json.dumps(ends))
        """)
    )


@pytest.mark.parametrize("name", SERVED)
def test_a_go_function_that_is_served_ends_as_it_reports(served, name):
    assert served[name] == SERVED[name][1]


def test_a_panic_has_notes_with_the_frames_of_go(served_library):
    run_python(f"""
        import ctypes, gc, re, sys, traceback
        import numpy as np
        import dlbridge

        go = dlbridge.load({served_library!r})
        throw = dlbridge.wrap(go.throw_deep, args=["tensor", ctypes.c_int32, ctypes.c_int64, "error"], returns=None)

        def notes(levels, size):
            try:
                throw(np.ones(4), levels, size)
            except RuntimeError as error:
                assert re.fullmatch("panic: ö+" + "…" * (size > 240), str(error)) and len(str(error).encode()) < 260, error
                assert all(note in "".join(traceback.format_exception(error)) for note in error.__notes__)
                *frames, last = error.__notes__
                assert last == "reported by the function throw_deep"
                return [re.sub(r" [(]tests/served[.]go:[1-9]\\d*[)]$", "", frame) for frame in frames]

        frames = ["in main.inner", "in main.outer", "in main.throw_deep.func1"]
        assert notes(0, 20) == frames
        assert notes(0, 1 << 20) == frames
        *many, more = notes(5000, 20)
        assert set(many) == {{"in main.inner"}} and 5 < len(many) <= 16 and more == "…", (many, more)
        gc.collect()
        assert not any(dlbridge.counters().values()), dlbridge.counters()
    """)


def test_load_finds_a_library_in_the_current_folder(served_library):
    run_python(f"""
        import os
        import dlbridge

        folder, name = os.path.split({served_library!r})
        os.chdir(folder)
        assert dlbridge.wrap(dlbridge.load(name).nothing, args=["tensor", "error"], returns=None)(dlbridge.empty((), "int8")) is None
    """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_go_function_raises_at_once_in_a_forked_child(served_library):
    script = f"""
        import ctypes, os, sys, warnings
        import numpy as np
        import dlbridge

        go = dlbridge.load({served_library!r})
        x = np.ones(4, np.float32)
        calls = [
            lambda f=dlbridge.wrap(go.nothing, args=["tensor", "error"], returns=None): f(x),
            lambda f=dlbridge.wrap(go.fail, args=["tensor", ctypes.c_int32, "error"], returns=None): f(x, 0),
            lambda: dlbridge.wrap(go.nothing, args=["tensor", "error"], returns=None)(x),
        ]
        calls[0]()
        of_c = dlbridge.wrap(ctypes.CDLL(None).getpid, args=[], returns=ctypes.c_int)
        warnings.simplefilter("ignore")  # later versions of Python warn of fork with threads
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for call in calls:
                    try:
                        call()
                    except RuntimeError as error:
                        assert "spawn" in str(error) and "forkserver" in str(error)
                    else:
                        raise AssertionError("no error")
                assert not any(dlbridge.counters().values())
                assert of_c() == os.getpid()
                status = 0
            except BaseException as error:
                os.write(1, repr(error).encode())
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        calls[0]()
        print("ok")
        """
    assert run_python(script) == "ok\n"


class Reported(ctypes.Structure):
    """The dlb_error of dlbridge.h."""

    _fields_ = [("code", ctypes.c_int32), ("message", ctypes.c_ubyte * 508)]


def reporting(code: int, text: bytes, *others, name="function"):
    """A wrapped C function that reports an error. The arguments before the error have other types."""

    @ctypes.CFUNCTYPE(None, *others, ctypes.POINTER(Reported))
    def report(*values):
        error = values[-1].contents
        error.code = code
        ctypes.memmove(error.message, text, len(text))

    report.__name__ = name
    return dlbridge.wrap(report, args=[*others, "error"], returns=None)


def test_the_dlb_error_is_known_by_its_kind_and_not_by_its_name():
    @ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.POINTER(Reported))
    def report(number, error):
        error.contents.code = number

    f = dlbridge.wrap(report, args={"error": ctypes.c_int, "e": "error"}, returns=None)
    with pytest.raises(ValueError, match="has reported the error code 11 without a text"):
        f(error=11)


def test_the_way_out_in_an_error_of_a_c_function_is_in_words_of_python():
    header = pathlib.Path(__file__).parents[2] / "internal/errtext/remedies.h"
    strings = re.findall(r'"((?:[^"\\]|\\.)*)"', re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S))
    in_c = [text.replace('\\"', '"') for text in strings[1::3]]
    assert len(in_c) > 30
    for text in in_c:
        with pytest.raises(ValueError) as raised:
            reporting(5, f"{text} é".encode() + b"\0")()
        assert not re.search("dlb_|DLB_", str(raised.value)) and str(raised.value).endswith(" é")
    with pytest.raises(TypeError, match=re.escape("int8; astype() makes a copy, copy() makes another")):
        reporting(3, b"int8; dlb_tensor_convert makes a copy, dlb_tensor_copy makes another\0")()


@pytest.mark.parametrize("others", [(), (ctypes.c_int,) * 9], ids=["directly", "by ctypes"])
@pytest.mark.parametrize(
    "code, text, kind, message",
    [
        (99, b"no such code\0", RuntimeError, "no such code"),
        (-1, b"negative\0", RuntimeError, "negative"),
        (-(2**31), b"\0", RuntimeError, "dlbridge: function has reported the error code -2147483648 without a text"),
        (11, b"x" * 508, ValueError, "x" * 507),
        (3, b"\xff\xc3\0", TypeError, "\ufffd\ufffd"),
        (7, b"%s%n%d\0", BufferError, "%s%n%d"),
        (9, b"memory\0", MemoryError, "memory"),
        (13, b"internal\0", RuntimeError, "internal"),
        (16, b"no more files\0", OSError, "no more files"),
        (17, b"gone\0", ConnectionError, "gone"),
    ],
)
def test_an_error_of_a_c_function_is_raised_whatever_it_holds(code, text, kind, message, others):
    with pytest.raises(kind) as raised:
        reporting(code, text, *others)(*range(len(others)))
    assert type(raised.value) is kind
    assert str(raised.value) == message


@pytest.mark.parametrize("name, message", [("f", "bad"), ("g", "f: bad"), ("f\ud800", "f: bad"), ("f\0f", "f: bad")])
def test_the_name_of_the_function_is_left_out_of_the_text(name, message):
    with pytest.raises(ValueError) as raised:
        reporting(11, b"f: bad\0", name=name)()
    assert str(raised.value) == message


def test_a_text_without_a_code_is_no_error():
    assert reporting(0, b"nothing happened\0")() is None


@pytest.mark.parametrize("args", [["error", "tensor"], ["error", "error"], ["tensor", "error", "error"], ["Error"]])
def test_an_error_that_is_not_the_last_argument_is_refused(lib, args):
    with pytest.raises(TypeError, match=r"args\[[01]\] is '[eE]rror'; it must be .* as the last, \"error\""):
        dlbridge.wrap(lib.fixture_add, args=args, returns="tensor")


# ---- the function that is made ------------------------------------------------------------------------


def test_the_function_is_kept_as_long_as_what_is_made_of_it():
    back = ctypes.CFUNCTYPE(ADDRESS, ADDRESS)(lambda address: address)
    gone = weakref.ref(back)
    wrapped = dlbridge.wrap(back)
    del back, wrapped.__wrapped__  # as functools.wraps does
    gc.collect()
    assert gone() is not None
    assert wrapped(np.zeros(3)).shape == (3,)
    del wrapped
    gc.collect()
    assert gone() is None


def test_a_cycle_through_it_is_collected():
    wrapped = dlbridge.wrap(ctypes.CFUNCTYPE(ADDRESS, ADDRESS)(lambda address: address), to=lambda t: wrapped)
    gone = weakref.ref(wrapped)
    wrapped.itself = wrapped
    assert wrapped(np.zeros(3)) is wrapped
    del wrapped
    gc.collect()
    assert gone() is None


def test_it_looks_like_a_function(lib):
    add = dlbridge.wrap(lib.fixture_add, **TWO)
    assert (add.__name__, add.__wrapped__) == ("fixture_add", lib.fixture_add)
    assert "fixture_add" in repr(add) and callable(add)

    @functools.wraps(add)
    def other(*args):
        return add(*args)

    assert other.__name__ == "fixture_add"
    with pytest.raises(TypeError):
        type(add)()


def in_another_process(call: str, *values) -> object:
    """Returns the result of an expression of the values v, in a process that reads their pickle."""
    script = f"import pickle, sys, numpy as np; v = pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps({call}))"
    done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(values), stdout=subprocess.PIPE, timeout=120, check=True, cwd="/")
    return pickle.loads(done.stdout)


def test_it_is_pickled_by_the_library_and_the_name(c, lib, monkeypatch):
    scale = dlbridge.wrap(lib.fixture_scale, np.from_dlpack, **NAMED)
    x = floats(0, 1, 2, 3)
    assert in_another_process("v[0](v[1], factor=2).tolist()", scale, x) == [0, 2, 4, 6]
    for copied in (copy.copy(scale), copy.deepcopy(scale), *(pickle.loads(pickle.dumps(scale, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1))):
        assert isinstance(copied(x, factor=1), np.ndarray) and inspect.signature(copied) == inspect.signature(scale)
    monkeypatch.chdir(c.path.parent)
    relative = ctypes.CDLL(f"./{c.path.name}")
    extent = dlbridge.wrap(relative.fixture_range, args=["tensor", ctypes.c_double * 2], returns=None, device=(1, 0))
    by_pointer = dlbridge.wrap(relative.fixture_range, args=["tensor", ctypes.POINTER(ctypes.c_double), "error"], returns=None)
    call = "[(f(v[2], p := (v[3] * 2)()), list(p))[1] for f in v[:2]]"
    assert in_another_process(call, extent, by_pointer, floats(3, -1), ctypes.c_double) == [[-1, 3]] * 2
    kept = ctypes.PyDLL(str(c.path), use_errno=True)
    again = pickle.loads(pickle.dumps(dlbridge.wrap(kept.fixture_note_gil, args=["tensor"], returns=None))).__wrapped__
    assert type(again)._flags_ == type(kept.fixture_note_gil)._flags_ != type(lib.fixture_note_gil)._flags_
    absolute = dlbridge.wrap(declared(ctypes.CDLL(None).abs, ctypes.c_int, ctypes.c_int))
    assert in_another_process("v[0](-3)", absolute) == 3


def test_what_another_process_cannot_find_is_not_pickled(lib):
    of_python = ctypes.CFUNCTYPE(ADDRESS, ADDRESS)(lambda address: address)
    moved = ctypes.cast(lib.fixture_add, ctypes.CFUNCTYPE(ADDRESS, ADDRESS, ADDRESS))
    named = lib["fixture_add"]
    named.__name__ = "fixture_scale"
    for function in (of_python, moved, named):
        with pytest.raises(TypeError, match="cannot be pickled or copied: it is not a function of a library"):
            pickle.dumps(dlbridge.wrap(function, **TWO))


def test_a_function_of_a_go_library_is_loaded_by_the_process_that_reads_the_pickle(served_library):
    run_python(f"""
        import pickle, subprocess, sys
        import dlbridge

        nothing = dlbridge.wrap(dlbridge.load({served_library!r}).nothing, args=["tensor", "error"], returns=None)
        data = pickle.dumps(nothing)
        script = '''if True:
            import pickle, sys, dlbridge
            f = pickle.load(sys.stdin.buffer)
            assert f(dlbridge.empty((), "int8")) is None
            dlbridge.tens.encode([])
            try:
                dlbridge.load(dlbridge._core.__file__)
            except RuntimeError as error:
                assert {served_library!r} + " is loaded already" in str(error), error
            else:
                raise AssertionError
        '''
        subprocess.run([sys.executable, "-c", script], input=data, check=True)
    """)


@pytest.mark.parametrize("by_callback", [False, True])
@pytest.mark.parametrize(("device", "taken"), [("cpu", (1, 0)), ("cuda:1", (2, 1)), ((99, -3), (99, -3)), ("tpu", (19, 0)), (None, None)])
def test_the_device_of_a_tensor_is_checked_before_the_call(c, lib, by_callback, device, taken):
    called = []

    @ctypes.CFUNCTYPE(ADDRESS, ADDRESS)
    def callback(managed):
        called.append(c.describe(managed)["device"])
        return managed

    function = callback if by_callback else lib.fixture_return
    call = dlbridge.wrap(function, args=["tensor"], returns="tensor", device=device)
    devices = [(1, 0), (1, 2), (2, 0), (2, 1), (3, 0), (11, 0), (13, 0), (19, 0), (20, 0), (99, -3)]
    for kind, number in devices:
        on_cpu = kind in (1, 3, 11)
        before, live = c.deletes(), dlbridge.counters()
        make = lambda: c.new_capsule(device_type=kind, device_id=number)
        for argument in (make(), Producer(make), dlbridge.from_dlpack(make())):
            called.clear()
            if taken is None or taken == (kind, number) or (taken == (1, 0) and on_cpu):
                given = (1, 0) if taken == (1, 0) and kind != 1 else (kind, number)
                with call(argument) as back:
                    assert back.device == given
                assert called == [given] * by_callback
            else:
                expected = rf"argument 1: the memory is on device \({kind}, {number}\), but the function accepts only device \({taken[0]}, {taken[1]}\)"
                with pytest.raises(BufferError, match=expected):
                    call(argument)
                assert not called
        del argument
        gc.collect()
        assert (c.deletes(), dlbridge.counters()) == (before + 3, live)


def test_a_c_function_gets_memory_that_is_ready_on_the_stream_of_its_caller(c, lib):
    p = Producer(lambda: c.new_capsule(device_type=2), (2, 0))
    same = dlbridge.wrap(lib.fixture_return, **ONE, device="cuda")
    with same(dlbridge.from_dlpack(p, stream=7)) as back:
        assert (back.device, p.calls) == ((2, 0), [{"max_version": (1, 3), "stream": 7}])
        assert back.__dlpack__(max_version=(1, 0)) is not None  # the result of a function is ready on the default stream
        with pytest.raises(BufferError, match="ready on the default stream"):
            back.__dlpack__(max_version=(1, 0), stream=7)


def test_a_wrong_device_of_one_argument_releases_the_others(c, lib):
    before = c.deletes()
    for returns in ("tensor", ctypes.c_void_p):  # without and with ctypes
        add = dlbridge.wrap(lib.fixture_add, args=["tensor", "tensor"], returns=returns)
        with pytest.raises(BufferError, match="argument 2: the memory is on device"):
            add(c.new_capsule(), c.new_capsule(device_type=2))
        before += 2
        assert c.deletes() == before


@pytest.mark.parametrize(("device", "error"), [("gpu", ValueError), (1, TypeError), ((1, "0"), TypeError), ((2**40, 0), BufferError)])
def test_wrap_refuses_what_is_no_device(lib, device, error):
    with pytest.raises(error, match="wrap: device"):
        dlbridge.wrap(lib.fixture_return, **ONE, device=device)


# ---- producers with a C exchange API of their own ------------------------------------------------------------


def exchanging(c, make, *, fails=0, table_major=1, name=b"dlpack_exchange_api", **fields):
    """A producer whose type has a C exchange API that makes tensors as described. Its __dlpack__ calls make."""

    class Exchanging(Producer):
        __dlpack_c_exchange_api__ = c.table(ctypes.byref(c.description(**fields)), name, fails, table_major)

    return Exchanging(make)


def refuse():
    raise BufferError("asked for a capsule")


@pytest.mark.parametrize("major", [1, 2])
def test_a_types_table_is_used(c, major):
    producer = exchanging(c, refuse, table_major=major)
    before = c.deletes()
    assert memoryview(dlbridge.from_dlpack(producer)).tolist() == [0, 1, 2, 3]
    assert (c.table_calls(), producer.calls) == (1, [])
    assert c.deletes() == before + 1
    read_only = exchanging(c, refuse, flags=1)
    assert dlbridge.from_dlpack(read_only).readonly


@pytest.mark.parametrize(("stream", "asked"), [(0, []), (2, ["__dlpack__"]), (0x7F00, ["__dlpack__"]), (-1, ["__dlpack__"])])
def test_the_table_is_used_for_a_device_if_its_producer_works_on_the_default_stream(c, stream, asked):
    """The C exchange API waits for no stream, but __dlpack__ does."""
    calls = []

    def make():
        calls.append("__dlpack__")
        return c.new_capsule(device_type=2, device_id=1)

    producer = exchanging(c, make, device_type=2, device_id=1)
    c.table_works_on(stream)
    before = c.deletes()
    with dlbridge.from_dlpack(producer) as t:
        assert (t.device, calls, c.table_calls()) == ((2, 1), asked, 1)
    assert c.deletes() == before + 1 + len(asked)
    assert producer.calls == [{"max_version": (1, 3)} for _ in asked]  # no stream means the default stream
    with dlbridge.from_dlpack(producer, stream=9):
        assert (c.table_calls(), producer.calls[-1]) == (1, {"max_version": (1, 3), "stream": 9})


@pytest.mark.parametrize(
    "how",
    [
        {"fails": 1},
        {"device_type": 2},
        {"name": b"another"},
    ],
    ids=str,
)
def test_dlpack_is_asked_where_a_table_does_not_serve(c, how):
    array = floats(9, 8)
    producer = exchanging(c, lambda: array.__dlpack__(max_version=(1, 0)), **how)
    deletes, made = c.deletes(), c.made()
    assert dlbridge.from_dlpack(producer).data_ptr == array.ctypes.data
    assert len(producer.calls) == 1
    assert c.deletes() - deletes == c.made() - made
    with pytest.raises(BufferError, match="asked for a capsule"):
        dlbridge.from_dlpack(exchanging(c, refuse, **how))


def test_dlpack_is_asked_about_device_and_copy(c):
    array = floats(9, 8)
    producer = exchanging(c, lambda: array.__dlpack__(max_version=(1, 0)))
    assert dlbridge.from_dlpack(producer, copy=False).data_ptr == array.ctypes.data
    assert dlbridge.from_dlpack(producer, device="cpu").data_ptr == array.ctypes.data
    assert c.table_calls() == 0


def test_a_type_that_inherits_a_table_is_asked(c):
    """The __dlpack__ of a subclass may do more than the inherited C exchange API."""
    array = floats(9, 8)
    producer = type("Inherits", (type(exchanging(c, refuse)),), {})(lambda: array.__dlpack__(max_version=(1, 0)))
    assert dlbridge.from_dlpack(producer).data_ptr == array.ctypes.data
    assert c.table_calls() == 0


def test_what_a_table_makes_is_checked_and_released_once(c):
    before = c.deletes()
    for fields, error in (({"ndim": -1}, ValueError), ({"code": 99}, BufferError), ({"major": 2}, BufferError)):
        with pytest.raises(error):
            dlbridge.from_dlpack(exchanging(c, refuse, **fields))
        before += 1
        assert c.deletes() == before


def test_more_types_than_are_remembered(c):
    array = floats(9, 8)
    producers = [exchanging(c, refuse, table_major=1 + i % 2) for i in range(40)]
    plain = [type("Plain", (Producer,), {})(lambda: array.__dlpack__(max_version=(1, 0))) for _ in range(40)]
    for _ in range(3):
        for with_table, without in zip(producers, plain):
            assert dlbridge.from_dlpack(with_table).shape == (4,)
            assert dlbridge.from_dlpack(without).data_ptr == array.ctypes.data


class Lazy:
    """A producer whose tensors can be lazy views, like the tensors of PyTorch."""

    def __init__(self, array, **says):
        self.array, self.says = array, says

    requires_grad = property(lambda self: self.answer("requires_grad"))

    def answer(self, name):
        value = self.says.get(name, False)
        if isinstance(value, BaseException):
            raise value
        return value

    def is_conj(self):
        return self.answer("is_conj")

    def is_neg(self):
        return self.answer("is_neg")

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)


def refuse_export(self, **keywords):
    raise BufferError("not exported")


def test_views_that_are_yet_to_be_computed_are_looked_for():
    array = floats(1, 2)
    assert dlbridge.from_dlpack(Lazy(array)).data_ptr == array.ctypes.data
    with pytest.raises(BufferError, match="negative bit"):
        dlbridge.from_dlpack(Lazy(array, is_neg=True))
    refused = type("Refused", (Lazy,), {"__dlpack__": refuse_export})
    with pytest.raises(BufferError, match=r"conjugate bit set; use tensor.resolve_conj\(\)"):
        dlbridge.from_dlpack(refused(array, is_conj=True))
    for says in (False, KeyError("mine")):  # the error of __dlpack__ has another cause
        with pytest.raises(BufferError, match="not exported"):
            dlbridge.from_dlpack(refused(array, is_conj=says))
    for says in (True, KeyError("mine")):  # __dlpack__ handles these cases
        for name in ("is_conj", "requires_grad"):
            assert dlbridge.from_dlpack(Lazy(array, **{name: says})).data_ptr == array.ctypes.data
    assert dlbridge.from_dlpack(Lazy(array, is_neg=KeyError("do not ask"))).data_ptr == array.ctypes.data
    for kind, name in ((Lazy, "is_neg"), (refused, "is_conj")):
        with pytest.raises(KeyboardInterrupt):
            dlbridge.from_dlpack(kind(array, **{name: KeyboardInterrupt()}))


def test_a_table_is_not_used_for_what_dlpack_may_refuse(c):
    """A float32 tensor cannot be conjugate, so that is_conj is not called."""
    complex64 = {"code": 5, "bits": 64}
    for fields, says, calls in (
        ({}, {}, 1),
        ({}, {"is_conj": True}, 1),
        ({}, {"requires_grad": True}, 0),
        ({}, {"requires_grad": KeyError("mine")}, 0),
        (complex64, {}, 1),
        (complex64, {"is_conj": True}, 1),
        (complex64, {"is_conj": KeyError("mine")}, 1),
        ({}, {"is_neg": KeyError("mine")}, 0),
    ):
        table = c.table(ctypes.byref(c.description(**fields)), b"dlpack_exchange_api", 0, 1)
        kind = type("LazyExchanging", (Lazy,), {"__dlpack_c_exchange_api__": table})
        array = floats(1, 2)
        deletes, made = c.deletes(), c.made()
        used = dlbridge.from_dlpack(kind(array, **says)).data_ptr != array.ctypes.data
        assert c.table_calls() == calls, says
        assert used == (calls == 1 and (not says or not fields)), says
        assert c.deletes() - deletes == c.made() - made == calls
        for name in ("requires_grad", "is_conj") if fields else ("requires_grad",):
            with pytest.raises(KeyboardInterrupt):
                dlbridge.from_dlpack(kind(array, **{name: KeyboardInterrupt()}))


# ---- with PyTorch and JAX ---------------------------------------------------------------------------------


@pytest.mark.peers
def test_arguments_of_all_libraries_mix(lib, torch, jax):
    total = dlbridge.wrap(declared(lib.fixture_sum, ctypes.c_double, ADDRESS))
    add = dlbridge.wrap(lib.fixture_add, **TWO, to=torch.from_dlpack)
    x = torch.arange(4.0)
    others = (torch.ones(4), np.ones(4, np.float32), jax.numpy.ones(4, "float32"), tvm_ffi.from_dlpack(floats(1, 1, 1, 1)))
    for i, y in enumerate(others, 1):
        result = add(x, y)
        assert isinstance(result, torch.Tensor) and result.data_ptr() == x.data_ptr()
        assert x.tolist() == [i, 1 + i, 2 + i, 3 + i]
        assert total(y) == 4


@pytest.mark.peers
def test_torch_arguments_come_by_its_table(lib, torch, monkeypatch):
    x = torch.arange(4.0)
    references = sys.getrefcount(x)

    def asked(*_, **__):
        raise AssertionError("__dlpack__ was called")

    monkeypatch.setattr(torch.Tensor, "__dlpack__", asked)
    total = dlbridge.wrap(declared(lib.fixture_sum, ctypes.c_double, ADDRESS))
    assert total(x) == 6
    t = dlbridge.from_dlpack(x[1:])
    assert (t.data_ptr, t.shape, t.readonly) == (x.data_ptr() + 4, (3,), False)
    del t
    assert sys.getrefcount(x) == references
    with pytest.raises(AssertionError):
        dlbridge.from_dlpack(x, copy=True)


@pytest.mark.peers
def test_torch_tensors_whose_numbers_are_elsewhere_are_refused(lib, torch):
    add = dlbridge.wrap(lib.fixture_add, **TWO)
    x = torch.ones(3)
    z = torch.tensor([1 + 2j, 3 + 4j, 5 + 6j])
    tensor_of = {
        "gradient": torch.ones(3, requires_grad=True),
        "conjugate": z.conj(),
        "negative": z.conj().imag,
        "layout": torch.ones(3).to_sparse(),
    }
    before = dlbridge.counters()
    for says, bad in tensor_of.items():
        for call in (lambda bad=bad: add(x, bad), lambda bad=bad: dlbridge.from_dlpack(bad)):
            with pytest.raises(BufferError, match=says):
                call()
    with pytest.raises(BufferError, match="negative"):
        dlbridge.from_dlpack(z.conj().imag, copy=False)
    with pytest.raises(BufferError, match="gradient"):
        dlbridge.from_dlpack(torch.nn.Parameter(torch.ones(3)))
    assert dlbridge.counters() == before
    assert x.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(np.from_dlpack(dlbridge.from_dlpack(z.conj().imag.resolve_neg())), [-2, -4, -6])
    np.testing.assert_array_equal(np.from_dlpack(dlbridge.from_dlpack(z.conj().resolve_conj())), z.numpy().conj())
    assert dlbridge.from_dlpack(torch.nn.Parameter(torch.ones(3), requires_grad=False)).shape == (3,)


@pytest.mark.peers
def test_torch_arguments_may_end_on_threads_that_the_call_waits_for(lib, torch):
    end = dlbridge.wrap(declared(lib.fixture_delete_elsewhere, None, ADDRESS, ADDRESS))
    for _ in range(50):
        end(torch.ones(2), torch.ones(2))


@pytest.mark.peers
def test_torch_read_only_wrappers_stay_read_only(torch):
    x = torch.ones(3)
    t = dlbridge.from_dlpack(torch.utils.dlpack.ReadOnlyTensorWrapper(x))
    assert t.readonly and t.data_ptr == x.data_ptr()


@pytest.mark.peers
def test_torch_tensors_that_answer_no_questions_are_looked_at(lib, torch):
    total = dlbridge.wrap(declared(lib.fixture_sum, ctypes.c_double, ADDRESS))
    hide = torch.utils.dlpack.ReadOnlyTensorWrapper
    z = torch.tensor([1 + 2j, 3 + 4j])
    before = dlbridge.counters()
    for says, bad in {"gradient": torch.ones(3, requires_grad=True), "conjugate": z.conj(), "negative": z.conj().imag}.items():
        for call in (lambda bad=bad: total(hide(bad)), lambda bad=bad: dlbridge.from_dlpack(hide(bad))):
            with pytest.raises(BufferError, match=says):
                call()
        with pytest.raises(RuntimeError):  # as before: no other caller gets an answer
            hide(bad).is_neg()
    assert dlbridge.counters() == before
    assert np.from_dlpack(dlbridge.from_dlpack(hide(z.conj().imag.resolve_neg()))).tolist() == [-2, -4]
    assert z.conj().imag.is_neg()


def test_chains_of_functions_end_on_a_small_stack(lib):
    """Each function converts the results of the previous function."""
    ended = []
    weakref.finalize(first := dlbridge.wrap(lib.fixture_add, **TWO), ended.append, 1)
    last = first
    for _ in range(20_000):
        last = dlbridge.wrap(lib.fixture_add, **TWO, to=last)
    del first
    functions = [last]
    del last
    threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=functions.clear)
        thread.start()
    finally:
        threading.stack_size(0)
    thread.join()
    assert ended == [1]


# ---- the types of Go ----------------------------------------------------------------------------------


def types_of_go():
    """Yields each Go type in the table of bridge/python/README.md, and its ctypes type."""
    text = (ROOT / "bridge" / "python" / "README.md").read_text()
    table = text.partition("<!-- Tests call a function with each row of this table. -->\n\n")[2].partition("\n\n<!--")[0]
    for line in table.splitlines()[2:]:
        go, args = (cell.strip() for cell in line.split("|")[1:3])
        if "ctypes" in args:
            yield from ((each.strip(" `"), args.strip("`")) for each in go.split(","))


def test_each_type_of_go_is_passed_by_the_ctypes_type_of_the_readme(tmp_path):
    """One Go function, with other parameters around the value, returns the value. Another returns its text and size."""
    types = list(types_of_go())
    functions = "".join(
        f"//export f{i}\nfunc f{i}(before int8, x {go}, after float32) {go} {{ if before != -3 || after != 0.5 {{ panic(0) }}; return x }}\n"
        f'//export text{i}\nfunc text{i}(x {go}) *C.char {{ return C.CString(fmt.Sprintf("%d %v", unsafe.Sizeof(x), x)) }}\n'
        for i, (go, _) in enumerate(types)
    )
    source = f'package main\n\n// #include <stddef.h>\nimport "C"\nimport (\n"fmt"\n"unsafe"\n)\n\n{functions}\nfunc main() {{}}\n'
    (tmp_path / "main.go").write_text(source)
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", tmp_path / "types.so", tmp_path / "main.go"], check=True)
    calls = "\n".join(f"check(library.f{i}, library.text{i}, {args})" for i, (_, args) in enumerate(types))
    run_python(VALUES_FOR_GO + f"library = ctypes.CDLL({str(tmp_path / 'types.so')!r})\n{calls}")
    assert len(types) > 20


VALUES_FOR_GO = """
import ctypes, dlbridge

array = (ctypes.c_double * 2)(1.5, 2.5)

def values(kind):
    size = 8 * ctypes.sizeof(kind)
    if kind is ctypes.c_char_p: return [b"abc"]
    if kind is ctypes.c_void_p: return [ctypes.addressof(array)]
    if kind is ctypes.c_bool: return [True, False]
    if kind in (ctypes.c_float, ctypes.c_double): return [-1.5, 1000.25]
    if kind(-1).value == -1: return [-1, -1 << size - 1, (1 << size - 1) - 1]
    return [1, (1 << size) - 1]

def check(f, text, kind):
    f = dlbridge.wrap(f, args=[ctypes.c_int8, kind, ctypes.c_float], returns=kind)
    text = dlbridge.wrap(text, args=[kind], returns=ctypes.c_char_p)
    is_pointer = issubclass(kind, (ctypes._Pointer, ctypes.c_void_p, ctypes.c_char_p))
    for value in [array] if issubclass(kind, ctypes._Pointer) else values(kind):
        assert f(-3, value, 0.5)[1] == 2.5 if value is array else f(-3, value, 0.5) == value, (kind, value)
        size, seen = text(value).decode().split()
        assert int(size) == ctypes.sizeof(kind), (kind, size)
        assert is_pointer or seen == str(value).lower() or float(seen) == value, (kind, value, seen)

"""
