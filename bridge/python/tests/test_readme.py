"""Sentences of the READMEs that `python -m dlbridge` cannot measure: what consumers do with the memory of a tensor."""

from __future__ import annotations

import importlib
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


# ---- consumers that do not ask for DLPack -----------------------------------------------------------


def calls() -> list[list[str]]:
    """Returns the rows of the table of bridge/python/README.md: a package, a call, its result, and the alternative call."""
    text = (tables.ROOT / "bridge" / "python" / "README.md").read_text()
    table = text.partition("<!-- Tests run this table. -->\n\n")[2].partition("\n\n<!--")[0]
    return [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def sum_of(x):
    return x.sum()


def numbers_of(package: str, result) -> np.ndarray:
    return next(iter(peer(package).load(result).values())) if isinstance(result, bytes) else np.asarray(result).reshape(-1)


@pytest.mark.peers
@pytest.mark.parametrize(("package", "call", "expected", "instead"), calls(), ids=lambda text: text)
def test_consumers_do_with_a_tensor_what_the_table_says(package, call, expected, instead, tmp_path):
    t = dlbridge.empty(64, "float32")
    a = t.numpy()
    a[:] = np.arange(64)
    peer(package)
    root = package.partition(".")[0]
    names = {root: importlib.import_module(root), "t": t, "path": tmp_path / "t", "sum_of": sum_of}

    def run(text):
        return eval(text, names)

    assert (expected == "refuses") == (instead != "")
    if expected == "refuses":
        with pytest.raises(Exception):  # noqa: B017, PT011 # of any type: each package has its own
            run(call)
    result = run(instead or call)
    before = numbers_of(package, result).tolist()
    assert before in (a.tolist(), [a.sum()])
    a[1] = -5
    if not instead:
        assert numbers_of(package, result)[1] == (-5 if expected == "shares" else 1)
    del names["t"], t, a  # numba keeps the exception, and so the variables of this function
    assert numbers_of(package, result)[-1] == before[-1]


@pytest.mark.peers
@pytest.mark.parametrize("call", [instead or call for package, call, _, instead in calls() if package.startswith("torch")])
def test_torch_keeps_the_shape_of_a_matrix(call):
    torch, t = peer("torch"), dlbridge.empty((2, 3), "float32")
    assert eval(call, {"torch": torch, "t": t}).shape[-2:] == (2, 3)
    assert torch.asarray(t).shape == (6,)


def test_no_address_is_offered_that_close_leaves_dangling():
    assert not hasattr(dlbridge.Tensor, "__array_interface__") and not hasattr(dlbridge.Tensor, "__array_struct__")
