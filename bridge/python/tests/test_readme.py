"""The Python code of README.md, and its table of peers."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tvm_ffi
from conftest import ROOT
from test_peers import peer

import dlbridge
from dlbridge import tens

README = (ROOT / "README.md").read_text()

# libyours.so of README.md.
YOURS = """
#include <dlpack/dlpack.h>
DLManagedTensorVersioned *scale(DLManagedTensorVersioned *t) {
  ((float *)t->dl_tensor.data)[0] *= 2;
  return t;
}
"""

# libkernels.so of the package's README.
KERNELS = """
#include <dlpack/dlpack.h>
DLManagedTensorVersioned *scale(DLManagedTensorVersioned *t, float factor) {
  ((float *)t->dl_tensor.data)[0] *= factor;
  return t;
}
void extent(DLManagedTensorVersioned *t, double *out) {
  out[0] = ((float *)t->dl_tensor.data)[0];
  t->deleter(t);
}
int count(DLManagedTensorVersioned *t) {
  int count = (int)t->dl_tensor.shape[0];
  t->deleter(t);
  return count;
}
"""


def build(source, folder, library) -> None:
    (folder / "source.c").write_text(source)
    subprocess.run(
        [*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", f"-I{ROOT / 'include'}", "source.c", "-o", library],
        cwd=folder,
        check=True,
    )


def tell(tmp_path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    build(YOURS, tmp_path, "libyours.so")
    received = [bytearray(f) for f in tens.encode([np.arange(6, dtype=np.float32).reshape(2, 3) + 1])]
    names = {"frames": received}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    place = np.frombuffer(received[2], np.uint8).ctypes.data
    assert names["message"].tensors[0].data_ptr == names["mine"].data_ptr == names["x"].ctypes.data == place
    assert names["frames"][2:] == [received[2]] * 2
    for seen in (names["t"], names["y"], *names["frames"][2:]):
        assert np.asarray(seen).ctypes.data == place
    assert np.frombuffer(received[2], np.float32).tolist() == [2, 2, 3, 4, 5, 6]


def test_g87_story_of_the_readme_is_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", np)  # this environment has no PyTorch; the code only needs from_dlpack
    tell(tmp_path)


@pytest.mark.peers
def test_g87_story_of_the_readme_is_true_of_pytorch(tmp_path, monkeypatch):
    peer("torch")
    monkeypatch.chdir(tmp_path)
    tell(tmp_path)


def test_g87_examples_of_the_package_are_true(tmp_path, monkeypatch):
    build(KERNELS, tmp_path, "libkernels.so")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "bridge" / "python" / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    names: dict = {}
    for block in blocks:
        exec(compile(block, "bridge/python/README.md", "exec"), names)  # noqa: S102
    assert names["a"][0, 0] == 7
    places = [np.frombuffer(frame, np.uint8).ctypes.data for frame in names["frames"][2:]]
    assert places == [names["a"].ctypes.data] * 2
    x, out = np.array([3, 4, 5], np.float32), (ctypes.c_double * 1)()
    assert names["scale"](x, 2).data_ptr == x.ctypes.data
    assert (names["extent"](x, out), out[0], names["count"](x)) == (None, 6, 3)


# ---- who refuses what --------------------------------------------------------------------------------------


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
def test_g33_consumers_refuse_what_the_readme_says(consumer, row):
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


def test_g16_tvm_ffi_writes_to_read_only_memory():
    memory = bytearray(256)
    tensor = dlbridge.from_buffer(memoryview(memory).toreadonly(), "float32")
    assert tensor.readonly
    assert cells()["read-only memory"]["TVM-FFI"] == "ignores it and writes"
    np.from_dlpack(tvm_ffi.from_dlpack(tensor))[0] = 7
    assert memory[:4] == np.float32(7).tobytes()


@pytest.mark.peers
def test_g16_torch_writes_to_read_only_memory():
    memory = bytearray(256)
    peer("torch").from_dlpack(dlbridge.from_buffer(memoryview(memory).toreadonly(), "float32"))[0] = 7
    assert cells()["read-only memory"]["PyTorch"] == "ignores it and writes"
    assert memory[:4] == np.float32(7).tobytes()


@pytest.mark.peers
def test_tensorflow_drops_lanes():
    assert cells()["other lanes"]["TensorFlow"] == "drops them silently"
    assert tensorflow_takes(dlbridge.empty((4,), "float32x4")).shape == (4,)


@pytest.mark.peers
def test_g37_jax_copies_silently_what_is_not_aligned():
    memory = np.from_dlpack(dlbridge.empty((512,), "uint8"))
    tensor = dlbridge.from_buffer(memory[16:272], "float32")
    assert cells()["not 64-byte aligned"]["JAX"] == "copies silently"
    assert jax_takes(tensor).unsafe_buffer_pointer() != tensor.data_ptr
    aligned = dlbridge.from_buffer(memory[:256], "float32")
    assert jax_takes(aligned).unsafe_buffer_pointer() == aligned.data_ptr
