"""Checks the output in the README, and that a weight lies in the mapping of its file, which ends with it."""

import ctypes
import gc
import importlib.util
import pathlib

import numpy as np
import pytest
import safetensors.numpy

import dlbridge

HERE = pathlib.Path(__file__).parent
CONSUMERS = {"numpy": dlbridge.Tensor.numpy}
if importlib.util.find_spec("torch"):
    import torch

    CONSUMERS["torch"] = torch.from_dlpack


def test_example_prints_what_the_readme_says(follow, build):
    absent = () if "torch" in CONSUMERS else ("PyTorch",)

    def plain(text):
        return [line for line in text.replace(f"{build}/", "build/").splitlines() if not line.startswith(absent)]

    follow(HERE, plain=plain)


@pytest.mark.parametrize("to", CONSUMERS.values(), ids=CONSUMERS)
def test_a_weight_lies_in_the_mapping_of_its_file(run, build, tmp_path, to):
    ran = run("go build -buildmode=c-shared -o build/libmodel-here.so ./examples/model-to-torch")
    assert ran.returncode == 0, ran.stderr
    go = ctypes.CDLL(build / "libmodel-here.so")  # dlbridge.load takes only one library in a process
    weight = dlbridge.wrap(go.weight, to, args=[ctypes.c_char_p, ctypes.c_char_p, "error"], returns="tensor")
    model = tmp_path / "model.safetensors"
    want = {f"layer.{i}": np.arange(i, i + 12, dtype=dtype).reshape(3, 4) for i, dtype in enumerate(("f2", "f4", "f8", "i8", "u1"))}
    safetensors.numpy.save_file(want, model)

    def mapped():
        lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
        return [range(*(int(n, 16) for n in line.split()[0].split("-"))) for line in lines if line.endswith(str(model))]

    assert not mapped()
    for name, array in want.items():
        w = weight(bytes(model), name.encode())
        [pages] = mapped()
        assert (w.data_ptr() if to is not dlbridge.Tensor.numpy else w.ctypes.data) in pages
        np.testing.assert_array_equal(np.asarray(w), array, strict=True)
        del w
        gc.collect()
        assert not mapped()
