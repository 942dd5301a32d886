"""Checks the output in the README, and that the functions write to the memory of the arrays."""

import importlib.util
import pathlib
import subprocess

import numpy as np
import pytest
import tvm_ffi

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    file = tmp_path_factory.mktemp("kernels") / "libkernels.so"
    flags = f"-extldflags=-Wl,--version-script={HERE}/kernels.map"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-ldflags", flags, "-o", file, "."], cwd=HERE, check=True)
    return file


def test_example_prints_what_the_readme_says(follow):
    absent = tuple(name for name, module in {"PyTorch": "torch", "JAX": "jax"}.items() if not importlib.util.find_spec(module))
    follow(HERE, plain=lambda text: [line for line in text.splitlines() if not line.startswith(absent)])


def test_go_computes_what_numpy_does(library):
    kernels = tvm_ffi.load_module(str(library))
    rng = np.random.default_rng(7)
    for rows, columns in [(1, 1), (7, 5), (64, 1000), (3, 0), (0, 3)]:
        x = rng.normal(size=(rows, columns)).astype(np.float32)
        y = rng.normal(size=(rows, columns)).astype(np.float32)
        want = np.float32(1.5) * x + y
        kernels.axpy(1.5, x, y)
        np.testing.assert_allclose(y, want, rtol=1e-6)
        got = np.from_dlpack(kernels.softmax(x))
        assert got.shape == x.shape
        if columns:
            e = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
            np.testing.assert_allclose(got, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_library_exports_its_functions_alone(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    assert sorted(line.split()[2] for line in out.splitlines()) == ["__tvm_ffi_axpy", "__tvm_ffi_softmax"]
