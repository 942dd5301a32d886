"""Tensors of Decthings: all vectors that the Decthings clients have written, and more."""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT, Lazy, count_ours, elements_of, exporter, on_threads, resident, run_python, vectors
from formats import BINARY, IMAGE, tensor

import dlbridge
from dlbridge import Elements, decthings

pytestmark = pytest.mark.usefixtures("nothing_left_alive_in_go")

MANIFEST = vectors("decthings")
DTYPES = {
    "f32": "float32", "f64": "float64", "boolean": "bool",
    **{f"{letter}{bits}": f"{kind}{bits}" for letter, kind in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
}  # fmt: skip
DIALECTS = ("doc", "py004", "rs015")
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def repeated(unit: str, size: int) -> bytes:
    unit = bytes.fromhex(unit)
    return (unit * (size // len(unit) + 1))[:size]


def item(kind: str, value):
    """Returns an element of a vector in the form that Elements uses."""
    if isinstance(value, str):
        return value if kind == "string" else bytes.fromhex(value)
    if "format" in value:
        content = bytes.fromhex(value["data_hex"]) if "data_hex" in value else repeated(value["data_repeat_hex"], value["data_len"])
        return value["format"], content
    data = repeated(value["repeat_hex"], value["len"])
    return data.decode() if kind == "string" else data


def contents(vector: dict) -> bytes:
    """Returns the elements of a vector of numbers."""
    if "data_hex" in vector:
        return bytes.fromhex(vector["data_hex"])
    p = vector["pattern"]
    return bytes((i * p["a"] + p["b"]) % p["mod"] for i in range(p["bytes"]))


def value_of(vector: dict):
    """Returns the argument of encode for a vector."""
    kind, shape = vector["type"], tuple(vector["shape"])
    if kind in DTYPES:
        return dlbridge.from_buffer(contents(vector), DTYPES[kind], shape)
    return Elements(kind, shape, [item(kind, value) for value in vector["items"]])


def check(got, vector: dict) -> None:
    kind = vector["type"]
    assert got.shape == tuple(vector["shape"])
    if kind in DTYPES:
        assert isinstance(got, dlbridge.Tensor)
        assert got.dtype == DTYPES[kind]
        assert elements_of(got) == contents(vector)
    else:
        assert isinstance(got, Elements)
        assert got == value_of(vector)
        for value in got.values:
            if kind == "string":
                assert type(value) is str
            else:
                content = value if kind == "binary" else value[1]
                assert type(content) is memoryview and content.format == "B" and content.readonly


def cases():
    for vector in MANIFEST["tensors"]:
        for dialect, name in vector["files"].items():
            yield pytest.param(vector, dialect, name, id=f"{vector['id']}-{dialect}")


def test_the_vectors_are_all_there():
    sections = ("tensors", "streams", "malformed", "ambiguous", "rules", "rules_json")
    assert [count_ours(MANIFEST[name]) for name in sections] == [100, 7, 41, 3, 5, 7]


@pytest.mark.parametrize(("vector", "dialect", "name"), list(cases()))
def test_every_vector_is_read_and_written_byte_for_byte(vector, dialect, name):
    data = vector.read(name)
    if "dim_over_int64" in vector.get("flags", ()):
        with pytest.raises(ValueError, match="overflow"):
            decthings.decode(data, dialect=dialect)
        return
    got = decthings.decode(data, dialect=dialect)
    check(got, vector)
    assert decthings.encode(got, dialect=dialect) == data
    assert decthings.encode(value_of(vector), dialect=dialect) == data
    assert len(list(decthings.decode_all(data, dialect=dialect))) == 1
    for n in range(min(len(data), 300)):
        with pytest.raises(ValueError, match="dlbridge: decthings: byte"):
            decthings.decode(data[:n], dialect=dialect)


@pytest.mark.parametrize("stream", MANIFEST["streams"], ids=lambda s: s["id"])
def test_streams_are_read_tensor_by_tensor(stream):
    by_id = {vector["id"]: vector for vector in MANIFEST["tensors"] if vector.folder == stream.folder}
    data, dialect = stream.read(stream["file"]), stream["dialect"]
    got = list(decthings.decode_all(data, dialect=dialect))
    assert len(got) == len(stream["tensors"])
    for value, name in zip(got, stream["tensors"]):
        check(value, by_id[name])
    assert b"".join(decthings.encode(value, dialect=dialect) for value in got) == data
    ends = itertools.accumulate(len(decthings.encode(value, dialect=dialect)) for value in got)
    assert list(ends) == stream["ends_at"]


@pytest.mark.parametrize(
    ("vector", "dialect"), [pytest.param(v, d, id=f"{v['id']}-{d}") for v in MANIFEST["malformed"] for d in v["dialects"]]
)
def test_malformed_vectors_are_refused(vector, dialect):
    data = vector.read(vector["file"])
    with pytest.raises(ValueError, match=r"dlbridge: decthings: byte \d+: "):
        decthings.decode(data, dialect=dialect)
    values = decthings.decode_all(data, dialect=dialect)
    if vector["expect"] == "trailing":
        first = next(values)
        assert decthings.encode(first, dialect=dialect) == data[: vector["value"]["consumed"]]
    elif vector["id"] == "empty":
        assert list(values) == []
    else:
        with pytest.raises(ValueError, match="dlbridge: decthings: byte"):
            next(values)


@pytest.mark.parametrize("vector", MANIFEST["ambiguous"], ids=lambda v: v["id"])
def test_the_dialect_is_never_guessed(vector):
    data = vector.read(vector["file"])
    for dialect, reading in vector["readings"].items():
        check(decthings.decode(data, dialect=dialect), reading)
    check(decthings.decode(data), vector["readings"]["doc"])


@pytest.mark.parametrize("vector", MANIFEST["rules"], ids=lambda v: v["id"])
def test_rules_are_checked(vector):
    for case in vector["cases"]:
        kind, shape = case["type"], case["shape"]
        if kind in DTYPES:
            x = dlbridge.empty(shape, DTYPES[kind])
        else:
            x = Elements(kind, shape, [None] * math.prod(shape))  # the values are not read
        if case["accepted"]:
            assert decthings.check(vector["rules"], x) is None
        else:
            with pytest.raises(ValueError, match={"shape": "shape not allowed", "data_type": "type not allowed"}[case["reason"]]):
                decthings.check(vector["rules"], x)


def test_rules_are_checked_on_any_producer():
    rules = {"shape": (2, -1), "allowedTypes": ("f32",), "annotations": []}
    decthings.check(rules, np.zeros((2, 0), np.float32))
    decthings.check(rules, dlbridge.empty((2, 3), "float32"))
    for x in (np.zeros((2, 0)), np.zeros((3, 2), np.float32), np.zeros(2, np.float32), np.zeros((2, 1), np.float16)):
        with pytest.raises(ValueError, match="dlbridge: decthings: "):
            decthings.check(rules, x)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({"shape": [-2], "allowedTypes": ["u8"]}, ValueError),
        ({"shape": [1], "allowedTypes": ["int"]}, ValueError),
        ({"shape": ["x"], "allowedTypes": ["u8"]}, ValueError),
        ({"shape": [1.5], "allowedTypes": ["u8"]}, ValueError),
        ({"shape": [True], "allowedTypes": ["u8"]}, ValueError),
        ({"shape": [2**63], "allowedTypes": ["u8"]}, ValueError),
        ({"shape": [float("nan")], "allowedTypes": ["u8"]}, ValueError),
        ({"shape": None, "allowedTypes": ["u8"]}, ValueError),
        ({"shape": [1], "allowedTypes": ["u8"], 1: 0, "1": 0}, ValueError),  # both names are equal in JSON
        ({"shape": [1]}, ValueError),
        ({"allowedTypes": []}, ValueError),
        ({}, ValueError),
        ({"shape": [{1}], "allowedTypes": []}, TypeError),
        ({"shape": [1], "allowedTypes": [b"u8"]}, TypeError),
        ([], TypeError),
        ("{}", TypeError),
        ("nope", TypeError),
        (1.5, TypeError),
        (len, TypeError),
        (object(), TypeError),
        (None, TypeError),
    ],
)
def test_malformed_rules_are_refused(rules, error):
    with pytest.raises(error, match="dlbridge: "):
        decthings.check(rules, np.zeros(1, np.uint8))


# ---- memory -------------------------------------------------------------------------------------------------


def address(buffer) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


def moved(data: bytes, shift: int) -> memoryview:
    """Returns a writable copy at an address with this offset from a multiple of 64."""
    room = bytearray(len(data) + 128)
    at = -address(room) % 64 + shift
    room[at : at + len(data)] = data
    return memoryview(room)[at : at + len(data)]


@pytest.mark.parametrize("dtype", sorted(DTYPES.values()))
def test_what_is_aligned_is_aliased_and_all_else_is_copied(dtype):
    size = np.dtype(dtype).itemsize
    a = np.ones((2, 3), dtype)
    data = decthings.encode(a)
    for shift in range(16):
        view = moved(data, shift)
        for given in (view, view.toreadonly()):
            tensor = decthings.decode(given)
            payload = address(view) + 4
            assert (tensor.data_ptr == payload) == (payload % size == 0)
            assert tensor.readonly == (given.readonly and tensor.data_ptr == payload)
            got = np.from_dlpack(tensor)
            np.testing.assert_array_equal(got, a)
            assert got.flags.writeable != tensor.readonly
            view[4:] = bytes(len(view) - 4)
            assert not got.any() if tensor.data_ptr == payload else got.all()
            view[4:] = data[4:]
            if not tensor.readonly:
                got[...] = 0
                assert not any(view[4:]) if tensor.data_ptr == payload else view[4:] == data[4:]
                view[4:] = data[4:]


def test_a_decoded_tensor_keeps_its_buffer():
    room = bytearray(decthings.encode(np.arange(4, dtype=np.int32).reshape(2, 2)))
    tensor = decthings.decode(room)
    with pytest.raises(BufferError):
        room.append(0)
    array = np.from_dlpack(tensor)
    tensor.close()
    with pytest.raises(BufferError):
        room.append(0)
    del array
    gc.collect()
    room.append(0)
    data = decthings.encode(np.arange(4, dtype=np.int32).reshape(2, 2))
    references = sys.getrefcount(data)
    tensor = decthings.decode(data)
    assert sys.getrefcount(data) > references
    del tensor
    assert sys.getrefcount(data) == references


def test_elements_are_those_of_the_bytes_that_were_read():
    data = decthings.encode(Elements("binary", (2,), [b"ab", b"cde"]))
    again = bytes(bytearray(data))
    assert [bytes(v) for v in decthings.decode(exporter([data, again])).values] == [b"ab", b"cde"]
    for other in [data[:-1], data[:-1] + b"f", data + b"g"]:
        with pytest.raises(ValueError, match="different bytes on each request"):
            decthings.decode(exporter([data, other]))
        with pytest.raises(ValueError, match="different bytes on each request"):
            list(decthings._iterate(exporter([data, other]), 0))


def test_copies_and_refusals_hold_nothing():
    room = bytearray(decthings.encode(np.arange(3.0)))  # after a header of three bytes
    tensor = decthings.decode(room)
    room.append(0)
    assert np.from_dlpack(tensor).tolist() == [0, 1, 2]
    for call in (decthings.decode, lambda data: list(decthings.decode_all(data))):
        with pytest.raises(ValueError):
            call(room)
        gc.collect()
        room.append(0)


@each_dialect
def test_elements_alias_their_buffer(dialect):
    room = bytearray(decthings.encode(Elements("binary", (2,), [b"abc", b""]), dialect=dialect))
    got = decthings.decode(room, dialect=dialect)
    room[room.index(b"b")] = ord("x")
    assert got.values == [b"axc", b""]
    got.values[0][0] = ord("y")  # writable, like the buffer
    assert b"yxc" in room
    assert decthings.decode(bytes(room), dialect=dialect).values[0].readonly
    with pytest.raises(BufferError):
        room.append(0)
    one = got.values[0]
    del got
    with pytest.raises(BufferError):
        room.append(0)
    del one
    room.append(0)
    media = decthings.encode(Elements("video", (), [("mp4", b"12")]), dialect=dialect)
    (fmt, content), = decthings.decode(media, dialect=dialect).values
    assert (type(fmt), fmt, content) == (str, "mp4", b"12")
    assert address(content) == address(media) + media.index(b"12")
    text = bytearray(decthings.encode(Elements("string", (1,), ["text"]), dialect=dialect))
    held = decthings.decode(text, dialect=dialect)
    text.append(0)  # a str does not alias the data
    assert held.values == ["text"]


def test_equal_values_share_one_object():
    texts = decthings.decode(decthings.encode(Elements("string", (4,), ["ab", "ab", "cd", "ab"]))).values
    assert texts == ["ab", "ab", "cd", "ab"]
    assert texts[0] is texts[1]
    empties = decthings.decode(tensor(BINARY, 3, b"\0\1x\0")).values
    assert [bytes(v) for v in empties] == [b"", b"x", b""]
    assert empties[0] is empties[2]
    images = decthings.decode(tensor(IMAGE, 3, b"\3png\3png\3jpg")).values
    assert [(f, bytes(v)) for f, v in images] == [("png", b""), ("png", b""), ("jpg", b"")]
    assert images[0] is images[1]


def test_views_of_different_memory_are_not_shared():
    data = bytearray(tensor(BINARY, 2, b"\1x\1x"))
    values = decthings.decode(data).values
    data[-1] = ord("y")
    assert [bytes(v) for v in values] == [b"x", b"y"]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, np.frombuffer])
def test_data_is_anything_with_contiguous_bytes(kind):
    data = decthings.encode(np.arange(6, dtype=np.int16).reshape(2, 3))
    given = kind(data, np.uint8) if kind is np.frombuffer else kind(data)
    assert np.from_dlpack(decthings.decode(given)).sum() == 15
    assert [np.from_dlpack(t).sum() for t in decthings.decode_all(given)] == [15]
    for wrong in (np.frombuffer(data, np.uint8)[::2], memoryview(data)[::-1]):
        with pytest.raises((BufferError, ValueError)):
            decthings.decode(wrong)
    words = np.frombuffer(data, np.uint32)
    assert np.from_dlpack(decthings.decode(words)).sum() == 15


# ---- writing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(DTYPES.values()))
@each_dialect
def test_tensors_are_written_in_any_layout(dtype, dialect):
    kind = {name: kind for kind, name in DTYPES.items()}[dtype]
    number = list(DTYPES).index(kind)
    a = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for view in (a, a.T, a[:, ::-1], a[::2, 1:, ::3], np.broadcast_to(a[0], (5, 3, 4)), a[0, 0, 1, ...], a[:0], np.asfortranarray(a)):
        data = decthings.encode(view, dialect=dialect)
        assert data[0] == (1, 2, 13, 3, 4, 5, 6, 7, 8, 9, 10)[number]
        assert data[1] == view.ndim
        assert data[2 : 2 + view.ndim] == bytes(view.shape)
        assert data[2 + view.ndim :] == view.tobytes()
        np.testing.assert_array_equal(np.from_dlpack(decthings.decode(data, dialect=dialect)), view)


def test_values_of_every_size_around_the_buffer_on_the_stack_are_whole():
    for size in range(480, 540):
        text = "x" * size
        data = decthings.encode(Elements("string", (), [text]))
        assert decthings.decode(data).values == [text]
        array = np.arange(size, dtype=np.uint8)
        assert decthings.encode(array).endswith(array.tobytes())


def test_large_tensors_are_written_where_they_stay():
    a = np.random.default_rng(1).random((300, 1000))
    for view in (a, a.T, a[::3, ::7]):
        assert decthings.encode(view).endswith(view.tobytes())


def test_elements_are_written_of_what_they_may_be():
    image = Elements("image", [2], [("png", bytearray(b"12")), ("jpg", memoryview(b"3"))])
    assert decthings.encode(image) == b"\x0e\x01\x02\x05png12\x04jpg3"
    assert decthings.encode(Elements("string", (), ["é"])) == b"\x0b\x00\x02\xc3\xa9"
    assert decthings.encode(Elements("string", (), ["é".encode()])) == b"\x0b\x00\x02\xc3\xa9"
    assert decthings.encode(Elements("binary", (3,), (b"", np.zeros(2, np.uint16), bytearray(b"x")))) == b"\x0c\x01\x03\0\x04\0\0\0\0\x01x"
    assert decthings.encode(Elements("binary", np.array([2, 0]), ())) == b"\x0c\x02\x02\0"
    many = Elements("string", (500, 2), [str(i) for i in range(1000)])
    assert decthings.decode(decthings.encode(many)) == many


def test_elements_are_compared_and_described():
    e = Elements("string", [2], ("a", "b"))
    assert e == Elements("string", (2,), ["a", "b"])
    assert e != Elements("binary", (2,), ["a", "b"])
    assert e != Elements("string", (1, 2), ["a", "b"])
    assert e != Elements("string", (2,), ["a", "c"])
    assert e != "string"
    assert repr(e).startswith("<dlbridge.Elements, string (2,): [")
    assert decthings.Elements is dlbridge.tensorflow.Elements is dlbridge.Elements
    with pytest.raises(TypeError):
        hash(e)


A = np.zeros(2, np.float32)
STRING = Elements("string", (1,), ["x"])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: decthings.decode("text"), TypeError),
        (lambda: decthings.decode(None), TypeError),
        (lambda: decthings.decode(b"\x0d\0\1", dialect=1), TypeError),
        (lambda: decthings.decode(b"\x0d\0\1", dialect=["doc"]), TypeError),
        (lambda: decthings.decode(b"\x0d\0\1", dialect="DOC"), ValueError),
        (lambda: decthings.decode_all("text"), TypeError),
        (lambda: decthings.decode_all(b"", dialect="json"), ValueError),
        (lambda: decthings.encode(STRING, dialect=""), ValueError),
        (lambda: decthings.encode([1, 2]), TypeError),
        (lambda: decthings.encode("text"), TypeError),
        (lambda: decthings.encode(A.astype(np.float16)), BufferError),
        (lambda: decthings.encode(A.astype(np.complex64)), BufferError),
        (lambda: decthings.encode(dlbridge.from_buffer(A, "bfloat16", (4,))), BufferError),
        (lambda: decthings.encode(dlbridge.from_buffer(A, "float16x2", (2,))), BufferError),
        (lambda: decthings.encode(dlbridge.from_buffer(b"\2", "bool")), ValueError),
        (lambda: decthings.encode(np.array(["text"])), BufferError),
        (lambda: decthings.encode(dlbridge.empty((1,) * 256, "int8")), ValueError),
        (lambda: decthings.encode(Elements("strings", (1,), ["x"])), TypeError),
        (lambda: decthings.encode(Elements("strings", (1,), [b"x"])), ValueError),
        (lambda: decthings.encode(Elements("f32", (1,), [b"1234"])), ValueError),
        (lambda: decthings.encode(Elements("string", (2,), ["x"])), ValueError),
        (lambda: decthings.encode(Elements("string", (-1,), [])), ValueError),
        (lambda: decthings.encode(Elements("string", (2**64, 0), [])), ValueError),
        (lambda: decthings.encode(Elements("string", (1.5,), ["x"])), TypeError),
        (lambda: decthings.encode(Elements("string", "1", ["x"])), TypeError),
        (lambda: decthings.encode(Elements("string", (1,), "x")), TypeError),
        (lambda: decthings.encode(Elements("string", (1,), [b"\xff"])), ValueError),
        (lambda: decthings.encode(Elements("string", (1,), ["\ud800"])), ValueError),
        (lambda: decthings.encode(Elements("string", (1,), [5])), TypeError),
        (lambda: decthings.encode(Elements("binary", (1,), ["x"])), TypeError),
        (lambda: decthings.encode(Elements("binary", (1,), [("png", b"x")])), ValueError),
        (lambda: decthings.encode(Elements("image", (1,), [b"x"])), TypeError),
        (lambda: decthings.encode(Elements("image", (1,), [("png", "x")])), TypeError),
        (lambda: decthings.encode(Elements("image", (1,), [("jpeg", b"x")])), ValueError),
        (lambda: decthings.encode(Elements("image", (2,), [("png", b"x"), b"y"])), TypeError),
        (lambda: decthings.encode(Elements("image", (2,), [b"y", ("png", b"x")])), TypeError),
        (lambda: decthings.encode(Elements(5, (1,), ["x"])), TypeError),
        (lambda: decthings.encode(Elements("binary", (1,), [np.zeros(4)[::2]])), (ValueError, BufferError)),
    ],
)
def test_wrong_arguments_raise_the_right_error(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize(
    ("elements", "error", "text"),
    [
        (Elements("image", (1,), ["a"]), TypeError, r"element 0 of type image must be a tuple \(format, bytes\)"),
        (Elements("video", (1,), [b"a"]), TypeError, r"element 0 of type video must be a tuple \(format, bytes\)"),
        (Elements("strin", (1,), ["a"]), TypeError, "type strin must be bytes-like, .*; only elements of type string"),
        (Elements("string", (1,), [1]), TypeError, "type string must be a str or bytes-like, not <class 'int'>"),
        (Elements("image", (1,), [("webp", b"")]), ValueError, 'must have 3, such as "png"; only rs015'),
    ],
)
def test_mistakes_say_what_is_wrong(elements, error, text):
    with pytest.raises(error, match=text):
        decthings.encode(elements)


def test_an_error_of_rules_is_a_value_error_and_its_cause():
    for make in (lambda: json.loads("{"), lambda: b"\xff".decode(), lambda: "\ud800".encode()):
        with pytest.raises(ValueError) as wrong:
            make()
        with pytest.raises(ValueError) as error:
            decthings.check(Lazy(make), np.zeros(2))
        assert str(error.value) == f"dlbridge: rules: {wrong.value}"
        assert type(error.value.__cause__) is wrong.type


def test_closed_tensors_are_refused():
    tensor = dlbridge.empty(3, "int8")
    tensor.close()
    for call in (decthings.encode, lambda t: decthings.check({"shape": [3], "allowedTypes": ["i8"]}, t)):
        with pytest.raises(ValueError, match="closed"):
            call(tensor)


# ---- streams ------------------------------------------------------------------------------------------------


def test_a_stream_goes_on_over_many_calls():
    rng = np.random.default_rng(7)
    arrays = [rng.integers(0, 100, rng.integers(0, 4, rng.integers(0, 4))).astype(name) for name in list(DTYPES.values()) * 60]
    arrays.append(rng.random(100_000))
    arrays += [np.uint8(7).reshape((1,) * 64)] * 20
    data = b"".join(map(decthings.encode, arrays))
    for got, a in itertools.zip_longest(decthings.decode_all(data), arrays):
        assert got.dtype == a.dtype.name
        np.testing.assert_array_equal(np.from_dlpack(got), a)


def test_copies_of_any_size_are_made():
    data = decthings.encode(np.zeros(65 << 19, np.uint16))
    shift = 1 - len(data) % 2  # so that the elements are at an odd address
    tensor = memoryview(bytes(shift) + data)[shift:]
    assert decthings.decode(tensor).nbytes == 65 << 20
    assert next(decthings.decode_all(tensor)).nbytes == 65 << 20


def test_iter_passes_on_what_interrupts_it(monkeypatch):
    """A signal handler may do that while Python code of the decoder runs."""
    made = 0
    init = Elements.__init__

    def interrupted(self, *args, **kwargs):
        nonlocal made
        made += 1
        if made == 5:
            raise KeyboardInterrupt
        init(self, *args, **kwargs)

    data = decthings.encode(Elements("string", (1,), ["x"])) * 10
    monkeypatch.setattr(Elements, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(decthings.decode_all(data))


def test_iter_reads_no_further_than_it_is_asked():
    good = decthings.encode(np.arange(4, dtype=np.int8))
    values = decthings.decode_all(good * 300 + b"\x0d\x00\x02" + good)
    for _ in range(300):
        assert np.from_dlpack(next(values)).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=rf"dlbridge: decthings: byte {300 * len(good) + 2}: element 0 of a bool tensor is 2"):
        next(values)
    assert list(values) == []


def test_iter_holds_its_buffer_until_it_ends():
    room = bytearray(decthings.encode(np.arange(4, dtype=np.int8)) * 3)
    values = decthings.decode_all(room)
    with pytest.raises(BufferError):
        room.append(0)
    first = next(values)
    del values
    gc.collect()
    with pytest.raises(BufferError):
        room.append(0)
    del first
    gc.collect()
    room.append(0)


def test_large_tensors_of_a_stream_are_copied_one_at_a_time():
    data = decthings.encode(np.zeros(1 << 18, np.float64)) * 16  # tensors of two megabytes, none of them aligned
    for n, _tensor in enumerate(decthings.decode_all(data), 1):
        assert dlbridge.counters()["imports"] <= 3
    assert n == 16


# ---- the library ----------------------------------------------------------------------------------------------


def test_threads_read_and_write():
    def work(n):
        a, e = np.full((50, 20), n, np.int32), Elements("binary", (2,), [b"x" * n, b""])
        for _ in range(100):
            data = decthings.encode(a.T) + decthings.encode(e)
            tensor, elements = decthings.decode_all(data)
            assert np.from_dlpack(tensor)[19, 49] == n and elements == e

    on_threads(8, work)


@pytest.mark.memory
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_values_and_refusals_do_not_leak():
    a = np.arange(500.0)
    elements = Elements("image", (2,), [("png", b"x" * 500), ("jpg", b"")])

    def work(times):
        for _ in range(times):
            data = decthings.encode(a) + decthings.encode(elements)
            assert len(list(decthings.decode_all(data))) == 2
            decthings.check({"shape": [-1], "allowedTypes": ["f64"]}, a)
            for refused in (
                lambda data=data: decthings.decode(data),
                lambda: decthings.encode(a.astype(np.float16)),
                lambda: decthings.encode(Elements("image", (2,), [("png", b"x"), ("jpg", 5)])),
                lambda: decthings.check({"shape": [-1], "allowedTypes": []}, elements),
            ):
                try:
                    refused()
                except (ValueError, BufferError, TypeError):
                    pass
                else:
                    raise AssertionError("taken")

    work(1000)
    before = resident()
    work(4000)
    assert resident() - before < 8 << 20


def test_calls_in_a_forked_child_raise_at_once():
    script = """
        import os, warnings
        import numpy as np
        from dlbridge import Elements, decthings, tensorflow
        data = decthings.encode(np.arange(4, dtype=np.int8))
        binary = decthings.encode(Elements("binary", (1,), [b"x"]))
        tensor, elements = decthings.decode(data), decthings.decode(binary)
        values = decthings.decode_all(data)
        warnings.simplefilter("ignore")  # later versions of Python warn of fork with threads
        child = os.fork()
        if child == 0:
            status = 1
            try:
                rules = {"shape": [4], "allowedTypes": ["i8"]}
                calls = [lambda: decthings.decode(data), lambda: decthings.encode(tensor), lambda: next(values),
                         lambda: decthings.check(rules, tensor), lambda: tensorflow.decode(data),
                         lambda: tensorflow.encode(elements)]
                for call in calls:
                    try:
                        call()
                    except RuntimeError as e:
                        assert "spawn" in str(e) and "forkserver" in str(e)
                    else:
                        raise AssertionError("no error")
                assert np.from_dlpack(tensor).tolist() == [0, 1, 2, 3]
                assert elements.values == [b"x"]
                del tensor, elements, values
                status = 0
            except BaseException as e:
                os.write(1, repr(e).encode())
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert len(list(values)) == 1
        print("ok")
    """
    assert run_python(script) == "ok\n"


def test_bfloat16_is_no_type_of_decthings():
    a = np.arange(6).astype(ml_dtypes.bfloat16)
    with pytest.raises(BufferError, match="dlbridge: decthings: bfloat16 is not a type of Decthings; convert the tensor to another type: data type not representable"):
        decthings.encode(dlbridge.from_buffer(a.view(np.uint16), "bfloat16", (6,)))


# ---- the clients ----------------------------------------------------------------------------------------------

VARIABLE = ("string", "binary", "image", "audio", "video")
ROUNDS = 20


def random_shape(rng) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(0, 5, rng.integers(0, 5)))


def random_array(rng, kind: str) -> np.ndarray:
    """Returns random bits, except for booleans."""
    shape, dtype = random_shape(rng), np.dtype(DTYPES[kind])
    if kind == "boolean":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype).reshape(shape)


def random_elements(rng, kind: str, dialect: str) -> Elements:
    shape = random_shape(rng)
    values = []
    for _ in range(int(np.prod(shape, dtype=int))):
        size = int(rng.choice([0, 1, 252, 253, 300, int(rng.integers(0, 70_000))], p=[0.2, 0.2, 0.15, 0.15, 0.29, 0.01]))
        content = rng.bytes(size)
        if kind == "string":
            values.append("".join(map(chr, rng.integers(32, 0xD7FF, size // 3).tolist())))
        elif kind == "binary":
            values.append(content)
        else:
            fmt = "webp" if dialect == "rs015" and size % 2 else str(rng.choice(["png", "mp3", "mp4"]))
            values.append((fmt, content))
    return Elements(kind, shape, values)


@pytest.fixture(scope="module")
def client():
    from test_peers import peer

    return peer("decthings_api.tensor")


@pytest.mark.peers
@pytest.mark.parametrize("kind", sorted(DTYPES))
def test_the_python_client_and_we_read_each_others_numbers(client, kind):
    rng = np.random.default_rng(sorted(DTYPES).index(kind))
    for _ in range(ROUNDS):
        a = random_array(rng, kind)
        theirs = client.DecthingsTensor(a, kind, list(a.shape)).serialize()
        assert decthings.encode(a, dialect="py004") == decthings.encode(a) == theirs
        got = decthings.decode(theirs, dialect="py004")
        assert (got.dtype, got.shape, elements_of(got)) == (a.dtype.name, a.shape, a.tobytes())
        read, size = client.DecthingsTensor.deserialize(decthings.encode(a[..., ::-1] if a.ndim else a))
        assert (read.type(), read.shape(), size) == (kind, list(a.shape), len(theirs))
        assert read.numpy().tobytes() == (a[..., ::-1] if a.ndim else a).tobytes()


@pytest.mark.peers
@pytest.mark.parametrize("kind", VARIABLE)
def test_the_python_client_and_we_read_each_others_elements(client, kind):
    rng = np.random.default_rng(VARIABLE.index(kind))
    of_media = {"image": client.DecthingsElementImage, "audio": client.DecthingsElementAudio, "video": client.DecthingsElementVideo}
    for _ in range(ROUNDS):
        e = random_elements(rng, kind, "py004")
        if kind in ("string", "binary", "image"):  # the client does not write audio and video
            items = np.empty(len(e.values), object)
            items[:] = [of_media[kind](*value) for value in e.values] if kind == "image" else e.values
            theirs = client.DecthingsTensor(items, kind, list(e.shape)).serialize()
            assert decthings.encode(e, dialect="py004") == theirs
            assert decthings.decode(theirs, dialect="py004") == e
        if kind != "binary":  # the client reads binaries, but refuses to write them
            data = decthings.encode(e, dialect="py004")
            read, size = client.DecthingsTensor.deserialize(data + b"more")
            assert (read.type(), read.shape(), size) == (kind, list(e.shape), len(data))
            values = read.numpy().reshape(-1).tolist()
            assert (values if kind == "string" else [(v.format(), v.data()) for v in values]) == e.values


@pytest.fixture(scope="module")
def rust():
    """Returns what the Rust client decodes from tensors, and how it encodes them."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    target = ROOT / "build" / "decthings-rs"
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(target)],
        cwd=ROOT / "bridge/decthings/testdata/rust",
        check=True,
    )

    def read(tensors: list[bytes]) -> list[str]:
        given = b"".join(b"%d\n%s" % (len(data), data) for data in tensors)
        done = subprocess.run([target / "release" / "decthings-rs"], input=given, capture_output=True, check=True, timeout=60)
        return done.stdout.decode().splitlines()

    return read


@pytest.mark.peers
def test_the_rust_client_and_we_read_each_others_tensors(rust):
    rng = np.random.default_rng(15)
    values = [random_array(rng, kind) for kind in DTYPES for _ in range(ROUNDS)]
    values += [random_elements(rng, kind, "rs015") for kind in VARIABLE for _ in range(ROUNDS)]

    def text(data) -> str:
        return bytes(data).hex() or "-"

    def element(value) -> str:
        if isinstance(value, tuple):
            return f"{text(value[0].encode())}:{text(value[1])}"
        return text(value.encode() if isinstance(value, str) else value)

    data = [decthings.encode(value, dialect="rs015") for value in values]
    said = rust(data)
    assert len(said) == len(values)
    kinds = {dtype: kind for kind, dtype in DTYPES.items()}
    for line, value, ours in zip(said, values, data):
        read, written = line.split(" | ")
        if isinstance(value, Elements):
            kind, items = value.type, [element(v) for v in value.values]
        else:
            kind, items = kinds[value.dtype.name], [text(v.tobytes()) for v in value.reshape(-1)]
        assert read == f"{kind} {list(value.shape)} {','.join(items)}"
        assert written == ours.hex()
        got = decthings.decode(bytes.fromhex(written), dialect="rs015")
        if isinstance(value, Elements):
            assert got == value
        else:
            assert elements_of(got) == value.tobytes()
