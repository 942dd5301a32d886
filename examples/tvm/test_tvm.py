"""The example prints what its README says; what it calls computes what PyTorch does, on PyTorch's memory too."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    file = tmp_path_factory.mktemp("tvm") / "kernels.so"
    subprocess.run([sys.executable, HERE / "kernels.py", file], check=True)
    return file


def test_example_prints_what_the_readme_says(kernels, tmp_path):
    subprocess.run(["go", "build", "-o", tmp_path / "tvm", "."], cwd=HERE, check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DLBRIDGE_")}
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    ran = subprocess.run([tmp_path / "tvm", kernels], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    _, expected = re.findall(r"```\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    assert ran.stdout == expected


def test_the_same_kernel_runs_on_torch_tensors(kernels):
    import torch
    import tvm_ffi

    x, y, z = torch.rand(56, 56), torch.rand(56, 56), torch.empty(56, 56)
    tvm_ffi.load_module(str(kernels)).fmm(x, y, z)
    torch.testing.assert_close(z, x.mm(y))
