"""Checks the output in the README, and compares results of the kernels and PyTorch, on PyTorch's memory too."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    file = tmp_path_factory.mktemp("tvm") / "kernels.so"
    subprocess.run([sys.executable, HERE / "kernels.py", file], check=True)
    return file


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)


def test_the_same_kernel_runs_on_torch_tensors(kernels):
    import torch
    import tvm_ffi

    x, y, z = torch.rand(56, 56), torch.rand(56, 56), torch.empty(56, 56)
    tvm_ffi.load_module(str(kernels)).fmm(x, y, z)
    torch.testing.assert_close(z, x.mm(y))
