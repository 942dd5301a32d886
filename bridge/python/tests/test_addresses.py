"""The addresses that are accepted: every function that accepts a tensor or bytes runs the cases of package dlpack."""

from __future__ import annotations

import ctypes
import json

import pytest
from conftest import ROOT
from formats import READERS

import dlbridge

CASES = json.loads((ROOT / "dlpack" / "testdata" / "addresses.json").read_text())
ADDRESS = ctypes.c_void_p
WILD = [(1, 1), (8, 16), (4095, 2), (2**63 - 8, 9), (2**63, 1), (2**64 - 8, 7)]


def bytes_at(address: int, size: int) -> ctypes.Array:
    return (ctypes.c_uint8 * size).from_address(address)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("way", ["address", "capsule", "legacy capsule", "wrap"])
def test_data_lies_where_memory_can_be(c, case, way):
    fields = {"data_at": int(case["data"], 0), "byte_offset": int(case["offset"], 0)}
    ways = {
        "address": lambda: dlbridge.from_address(c.managed(case["shape"], case["strides"], **fields)),
        "capsule": lambda: dlbridge.from_dlpack(c.new_capsule(case["shape"], case["strides"], **fields)),
        "legacy capsule": lambda: dlbridge.from_dlpack(c.new_capsule(case["shape"], case["strides"], legacy=1, **fields)),
        "wrap": lambda: dlbridge.wrap(
            ctypes.CFUNCTYPE(ADDRESS)(lambda: c.managed(case["shape"], case["strides"], **fields))
        )(),
    }
    before = c.deletes()
    if case["good"]:
        tensor = ways[way]()
        empty = 0 in case["shape"]
        assert tensor.data_ptr == (0 if empty else fields["data_at"] + fields["byte_offset"])
        assert c.deletes() == before
        tensor.close()
    else:
        with pytest.raises(ValueError, match="leads outside the address space"):
            ways[way]()
    assert c.deletes() == before + 1


@pytest.mark.parametrize(("address", "size"), WILD)
def test_a_buffer_lies_where_memory_can_be(address, size):
    with pytest.raises(ValueError, match="outside the address space"):
        dlbridge.from_buffer(bytes_at(address, size))
    assert dlbridge.from_buffer(bytes_at(4096, 1)).data_ptr == 4096
    assert dlbridge.from_buffer(bytes_at(8, 0)).data_ptr == 0


@pytest.mark.parametrize(("address", "size"), WILD)
@pytest.mark.parametrize("decode", [lambda frame: dlbridge.tens.decode([frame]), *READERS.values()], ids=["frame", *READERS])
def test_a_frame_lies_where_memory_can_be(decode, address, size):
    with pytest.raises(ValueError, match="outside the address space"):
        decode(bytes_at(address, size))
