"""What bridge/README.md says of consumers and `python -m dlbridge` cannot see: what they do with the memory that they were given."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tables
import tvm_ffi
from test_peers import peer

import dlbridge


def cell(consumer: str, column: str) -> str:
    """Returns a cell of the table of consumers."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in tables.parts(tables.ROOT / "bridge" / "README.md")[1].splitlines()]
    (at,) = (i for i, head in enumerate(rows[0]) if head.partition(" ")[0] == consumer)
    return next(row[at] for row in rows if row[0] == tables.ROWS[column])


def writes_to_read_only_memory(consumer: str, take) -> None:
    memory = bytearray(256)
    tensor = dlbridge.from_buffer(memoryview(memory).toreadonly(), "float32")
    assert tensor.readonly and cell(consumer, "read-only") == "ignored"
    take(tensor)[0] = 7
    assert memory[:4] == np.float32(7).tobytes()


def test_tvm_ffi_writes_to_read_only_memory():
    writes_to_read_only_memory("tvm_ffi", lambda tensor: np.from_dlpack(tvm_ffi.from_dlpack(tensor)))


@pytest.mark.peers
def test_torch_writes_to_read_only_memory():
    writes_to_read_only_memory("torch", peer("torch").from_dlpack)


@pytest.mark.peers
def test_a_copy_of_jax_is_an_alias():
    jax = peer("jax")
    tensor = dlbridge.empty(64, "float32")
    memoryview(tensor)[0] = 1
    copied = jax.dlpack.from_dlpack(tensor, copy=True)
    assert copied[0] == 1 and cell("jax", "copy=True") == "alias"
    memoryview(tensor)[0] = 2
    assert copied[0] == 2


@pytest.mark.peers
def test_tensorflow_drops_lanes():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tensor = dlbridge.empty((4,), "float32x4")
    x = peer("tensorflow").experimental.dlpack.from_dlpack(tensor.__dlpack__())
    assert (x.dtype.name, x.shape, cell("tensorflow", "lanes")) == ("float32", (4,), "changed")


@pytest.mark.peers
def test_jax_copies_what_is_not_aligned():
    from_dlpack = peer("jax").dlpack.from_dlpack
    memory = np.from_dlpack(dlbridge.empty((512,), "uint8"))
    tensor = dlbridge.from_buffer(memory[16:272], "float32")
    assert cell("jax", "unaligned") == "copies"
    assert from_dlpack(tensor).unsafe_buffer_pointer() != tensor.data_ptr
    aligned = dlbridge.from_buffer(memory[:256], "float32")
    assert from_dlpack(aligned).unsafe_buffer_pointer() == aligned.data_ptr
