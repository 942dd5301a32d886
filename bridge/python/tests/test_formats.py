"""The table of formats is complete and true."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest
from formats import FORMATS, VALUES

import dlbridge


def test_every_format_of_the_package_has_a_row():
    names = [name for _, name, _ in pkgutil.iter_modules(dlbridge.__path__) if not name.startswith("_")]
    found = {name for name in names if {"decode", "encode"} <= set(dir(importlib.import_module(f"dlbridge.{name}")))}
    assert found == {format.name for format in FORMATS}, (
        "each module of dlbridge with decode and encode has a row in FORMATS of tests/formats.py: its name, its column in "
        "bridge/README.md, what a decoded string is, Elements of each kind, data types that it lacks, its further functions, and "
        "data that takes much memory for its size; encode and decode if they do not take one tensor and bytes"
    )


@pytest.mark.parametrize("format", VALUES, ids=str)
def test_a_row_says_what_its_format_does(format):
    assert format.elements[0].type == "string" and type(format.elements[0].values[0]) is format.text
    for elements in format.elements:
        assert format.decode(format.encode(elements)) == elements
        assert format.module.decode_elements(format.encode(elements)) == elements
    assert format.hostile
    for name in format.lacks:
        with pytest.raises(BufferError, match=name):
            format.encode(np.zeros(1, name))


@pytest.mark.parametrize(
    ("function", "name", "arguments", "list_"),
    [("value_decode_batch", "decode_all", (b"", 0, 0, False), "STREAMS"), ("value_check", "check", (b"", np.zeros(1)), "RULES")],
)
def test_a_function_that_a_format_lacks_is_named(function, name, arguments, list_):
    without = [format.name for format in VALUES if not hasattr(format.module, name)]
    assert without
    for format in without:
        with pytest.raises(ValueError, match=f"{format} is not in {list_}"):
            getattr(dlbridge._core, function)(format, *arguments, None)


# ---- Elements as arrays ----------------------------------------------------------------------------

SHAPES = [(3,), (2, 3), (2, 1, 3), (), (0,), (2, 0), (0, 2)]
INDICES = [
    *[0, -1, 1, slice(1, None), slice(None, None, -1), slice(5, 1), (), (0,), (-1, slice(None)), (slice(None), 1), (0, 0), (1, 0, 2)],
    *[(slice(None, None, 2), slice(-2, None)), np.int8(1), 7, -9, (0, 9), (0, 0, 0, 0)],
]


def elements_of(shape):
    return dlbridge.Elements("string", shape, [f"{i}" * (i + 1) for i in range(int(np.prod(shape)))])


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_elements_are_indexed_as_arrays(shape, index):
    e = elements_of(shape)
    a = np.array(e)
    try:
        want = a[index]
    except IndexError:
        with pytest.raises(IndexError, match=r"^dlbridge: Elements: (index -?\d is out of bounds for axis \d with size|too many indices: Elements are \d-dimensional, but \d were indexed)"):
            e[index]
        return
    got = e[index]
    if isinstance(want, np.ndarray) and not (shape == () and index == ()):
        assert (type(got), got.type, got.shape, list(got.values)) == (dlbridge.Elements, "string", want.shape, list(want.reshape(-1)))
    else:
        assert got == (want if shape else e.values[0]) and type(got) is str


@pytest.mark.parametrize("index", [1.5, "a", None, ..., True, [0], (0, None)], ids=repr)
def test_elements_have_plain_indices_only(index):
    with pytest.raises(IndexError, match="^dlbridge: Elements: an index must be an int or a slice, not <class '"):
        elements_of((2, 2))[index]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_elements_are_listed_as_arrays(shape):
    e = elements_of(shape)
    a = np.array(e)
    assert (a.dtype, a.shape, a.tolist()) == (object, shape, e.tolist())
    assert np.array(e, str).shape == shape and bool(e) == (a.size > 0)
    if shape:
        assert len(e) == len(a) and [x if isinstance(x, str) else x.tolist() for x in e] == a.tolist()
        return
    for use in (len, iter):
        with pytest.raises(TypeError, match=r"0 dimensions; e\[\(\)\] is the element"):
            use(e)


def test_arrays_of_elements_hold_the_objects():
    values = [("png", b"a\0"), ("png", memoryview(b"b"))]
    e = dlbridge.Elements("image", (2, 1), values)
    a = np.asarray(e)
    assert a.shape == (2, 1) and a[0, 0] is values[0] and a[1, 0] is values[1] and e[1, 0] is values[1]
    assert np.array(dlbridge.Elements("string", (1,), ["a\0"])).tolist() == ["a\0"]  # strings of NumPy would drop the NUL
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        e.__array__(copy=False)
