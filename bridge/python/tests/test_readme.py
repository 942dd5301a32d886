"""The table of consumers in bridge/README.md."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tvm_ffi
from conftest import ROOT
from test_peers import peer

import dlbridge

README = (ROOT / "bridge" / "README.md").read_text()


def jax_takes(tensor):
    jax = peer("jax")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    return jax.dlpack.from_dlpack(tensor)


def tensorflow_takes(tensor):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    return peer("tensorflow").experimental.dlpack.from_dlpack(tensor.__dlpack__())


TAKES = {
    "NumPy": np.from_dlpack,
    "TVM-FFI": tvm_ffi.from_dlpack,
    "PyTorch": lambda tensor: peer("torch").from_dlpack(tensor),
    "JAX": jax_takes,
    "TensorFlow": tensorflow_takes,
}
FLOAT8 = "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu".split()


def types(names: str) -> dict:
    return {name: dlbridge.empty((64,), name) for name in names.split()}


def strided(layout):
    array = np.from_dlpack(dlbridge.empty((64, 64), "float32"))
    return dlbridge.from_dlpack(layout(array))


ROWS = {
    "read-only memory": lambda: {"all": dlbridge.from_buffer(bytes(256), "float32")},
    "negative strides": lambda: {
        "rows": strided(lambda a: a[::-1]),
        "columns": strided(lambda a: a[:, ::-1]),
    },
    "gaps, broadcasts": lambda: {
        "gap": strided(lambda a: a[:, ::2]),
        "rows": strided(lambda a: a[:, :32]),
        "broadcast": strided(lambda a: np.lib.stride_tricks.as_strided(a, (8, 64), (0, 4))),
    },
    "column-major": lambda: {"all": strided(lambda a: a.T)},
    "bfloat16, float8": lambda: types("bfloat16 " + " ".join("float8_" + kind for kind in FLOAT8)),
    "float4, float6, int4": lambda: types("float4_e2m1fn float4_e2m1fnx2 float6_e2m3fn float6_e3m2fn int4 uint4"),
    "other lanes": lambda: types("float32x4 int8x2"),
    "complex64, complex128": lambda: types("complex64 complex128"),
}
# The accepted types, for cells that state neither that all are accepted nor that all are refused.
SOME = {
    "bfloat16": {"bfloat16"},
    "bfloat16, five float8": {"bfloat16"} | {"float8_" + k for k in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")},
    "float4 x2": {"float4_e2m1fnx2"},
}
ALL = {"yes", "carried", "read-only array", "ignores it and writes", "drops them silently"}
NONE = {"refused", "BufferError"}


def cells() -> dict[str, dict[str, str]]:
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in README.splitlines() if line.startswith("|")]
    (head,) = (i for i, row in enumerate(table) if row[1:2] == ["Go"] and "NumPy" in row)
    return {row[0]: dict(zip(table[head], row, strict=True)) for row in table[head + 2 :] if len(row) == len(table[head])}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    "consumer", [name if name in ("NumPy", "TVM-FFI") else pytest.param(name, marks=pytest.mark.peers) for name in TAKES]
)
def test_consumers_refuse_what_the_readme_says(consumer, row):
    tensors, cell = ROWS[row](), cells()[row][consumer]
    taken = set()
    for name, tensor in tensors.items():
        try:
            TAKES[consumer](tensor)
        except Exception:  # noqa: BLE001, each consumer has its own
            continue
        taken.add(name)
    expected = set(tensors) if cell in ALL else set() if cell in NONE else SOME[cell]
    assert taken == expected


def test_tvm_ffi_writes_to_read_only_memory():
    memory = bytearray(256)
    tensor = dlbridge.from_buffer(memoryview(memory).toreadonly(), "float32")
    assert tensor.readonly
    assert cells()["read-only memory"]["TVM-FFI"] == "ignores it and writes"
    np.from_dlpack(tvm_ffi.from_dlpack(tensor))[0] = 7
    assert memory[:4] == np.float32(7).tobytes()


@pytest.mark.peers
def test_torch_writes_to_read_only_memory():
    memory = bytearray(256)
    peer("torch").from_dlpack(dlbridge.from_buffer(memoryview(memory).toreadonly(), "float32"))[0] = 7
    assert cells()["read-only memory"]["PyTorch"] == "ignores it and writes"
    assert memory[:4] == np.float32(7).tobytes()


@pytest.mark.peers
def test_tensorflow_drops_lanes():
    assert cells()["other lanes"]["TensorFlow"] == "drops them silently"
    assert tensorflow_takes(dlbridge.empty((4,), "float32x4")).shape == (4,)


@pytest.mark.peers
def test_jax_copies_silently_what_is_not_aligned():
    memory = np.from_dlpack(dlbridge.empty((512,), "uint8"))
    tensor = dlbridge.from_buffer(memory[16:272], "float32")
    assert cells()["not 64-byte aligned"]["JAX"] == "copies silently"
    assert jax_takes(tensor).unsafe_buffer_pointer() != tensor.data_ptr
    aligned = dlbridge.from_buffer(memory[:256], "float32")
    assert jax_takes(aligned).unsafe_buffer_pointer() == aligned.data_ptr
