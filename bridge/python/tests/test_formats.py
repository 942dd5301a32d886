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
