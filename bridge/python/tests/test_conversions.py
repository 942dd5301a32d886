"""The table of bridge/README.md: each format is converted to each other format by one decode and one encode."""

from __future__ import annotations

import re

import numpy as np
import pytest
from conftest import ROOT, elements_of
from formats import FORMATS, VALUES

import dlbridge
from dlbridge import Elements

pytestmark = pytest.mark.usefixtures("nothing_left_alive_in_go")

WIDTHS = (8, 16, 32, 64)
ROWS = {
    "bool, int8 to int64, uint8 to uint64, float32, float64": ["bool", "float32", "float64"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in WIDTHS],
    "float16, complex64, complex128": ["float16", "complex64", "complex128"],
    "bfloat16": ["bfloat16"],
    "float8": [f"float8_{kind}" for kind in "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu".split()],
    "int2, int4, uint2, uint4, float4_e2m1fn": ["int2", "int4", "uint2", "uint4", "float4_e2m1fn"],
    "float6, complex32, handles, lanes": ["float6_e2m3fn", "float6_e3m2fn", "complex32", "handle64", "float32x2", "uint8x4"],
}


def table() -> dict[str, dict[str, str]]:
    _, section = (ROOT / "bridge" / "README.md").read_text().split("## What each format supports\n")
    lines = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(head, row)) for row in rows}


TABLE = table()


def says(row: str, name: str, dtype: str) -> bool:
    cell = TABLE[row][name]
    if cell.startswith("all but "):
        return dtype.removeprefix("float8_") not in cell.removeprefix("all but ").split(", ")
    assert re.match("yes|by an extension attribute|refused", cell)
    return cell != "refused"


def sample(dtype: str) -> dlbridge.Tensor:
    """Returns two rows of four elements with various bit patterns."""
    size = dlbridge.empty((2, 4), dtype).nbytes
    data = bytes((i * 37 + 1) % (2 if dtype == "bool" else 256) for i in range(size))
    return dlbridge.from_buffer(data, dtype, (2, 4))


def bits(tensor: dlbridge.Tensor, dtype: str) -> list[int]:
    """Returns the elements as integers of their width."""
    data = elements_of(tensor)
    width = int(re.search(r"\d+", dtype).group()) if dtype != "bool" else 8  # type: ignore[union-attr]
    if width >= 8:
        return list(data)
    if len(data) == tensor.size:
        return [b & (1 << width) - 1 for b in data]
    whole = int.from_bytes(data, "little")
    return [whole >> (i * width) & (1 << width) - 1 for i in range(tensor.size)]


each_source, each_target = (pytest.mark.parametrize(name, FORMATS, ids=str) for name in ("source", "target"))


@each_source
@each_target
@pytest.mark.parametrize(("row", "dtype"), [(row, dtype) for row, dtypes in ROWS.items() for dtype in dtypes])
def test_every_data_type_goes_from_each_format_to_each_other_or_is_refused(source, target, row, dtype):
    tensor = sample(dtype)
    expected = bits(tensor, dtype)
    for format in (source, target):
        if not says(row, format.title, dtype):
            with pytest.raises(BufferError, match=dtype):
                format.encode(tensor)
            return
        tensor = format.decode(format.encode(tensor))
        assert (tensor.dtype, tensor.shape) == (dtype, (2, 4))
        assert bits(tensor, dtype) == expected


@each_source
@each_target
def test_every_layout_goes_from_each_format_to_each_other(source, target):
    a = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for view in (a.transpose(2, 0, 1), a[:, ::-1], a[:, ::2], np.broadcast_to(a, (5, 2, 3, 4)), a[:0]):
        x = view
        for format in (source, target):
            x = format.decode(format.encode(x))
            np.testing.assert_array_equal(x.numpy(), view)


@each_source
@each_target
def test_elements_go_from_each_format_to_each_other_or_are_refused(source, target):
    for elements in source.elements:
        known = [other for other in target.elements if other.type == elements.type]
        if known:
            assert target.decode(target.encode(elements)) == known[0]
        else:
            with pytest.raises(ValueError if target.text else TypeError, match="dlbridge: " if target.text else None):
                target.encode(elements)


@pytest.mark.parametrize("format", VALUES, ids=str)
def test_what_is_no_text_is_refused_where_strings_are_text(format):
    elements = Elements("string", (1,), [b"\xff"])
    if format.text is bytes:
        assert format.decode(format.encode(elements)) == elements
    else:
        with pytest.raises(ValueError, match="dlbridge: "):
            format.encode(elements)
