"""Checks the code and the output in the README, compares results of Go and PyTorch, and checks what is refused."""

import ctypes
import math
import pathlib
import re
import subprocess

import pytest
import torch

import dlbridge

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def sort(tmp_path_factory):
    library = tmp_path_factory.mktemp("sort") / "libsort.so"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", library, "."], cwd=HERE, check=True)
    go = ctypes.CDLL(library)  # dlbridge.load takes only one library in a process
    return dlbridge.wrap(go.sort, torch.from_dlpack, args=["tensor", "error"], returns="tensor")


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = dlbridge.counters()
    yield
    assert dlbridge.counters() == before


def test_readme_shows_the_files_and_what_they_print(follow):
    follow(HERE, build=ROOT / "build")  # sort.py names build/libsort.so


@pytest.mark.parametrize("shape", [(1,), (1000,), (7, 5), (0, 3)])
def test_go_computes_what_torch_does_in_its_memory(sort, shape):
    memory = torch.randn(math.prod(shape) + 32, generator=torch.Generator().manual_seed(4))
    was = memory.clone()
    x = memory[16:-16].view(shape)
    want = x.flatten().sort().values.view(shape)
    y = sort(x)
    assert y.shape == x.shape and (y.data_ptr() == x.data_ptr() or not x.numel())
    torch.testing.assert_close(x, want, rtol=0, atol=0)
    torch.testing.assert_close(memory[:16], was[:16], rtol=0, atol=0)
    torch.testing.assert_close(memory[-16:], was[-16:], rtol=0, atol=0)


@pytest.mark.parametrize(
    "wrong, error, says",
    [
        (torch.ones(2, requires_grad=True), BufferError, "gradient"),
        (torch.ones(2, dtype=torch.complex64).conj(), BufferError, "conjugate"),
        (torch.ones(2, dtype=torch.complex64).conj().imag, BufferError, "negative"),
        (torch.ones(2).to_sparse(), BufferError, "layout"),
        (torch.ones(2, 2)[:, :1], ValueError, "strides [2 1] of shape [2 1]"),
        (torch.ones(2).double(), TypeError, "float64, want float32"),
    ],
)
def test_what_cannot_be_sorted_is_refused_and_given_back(sort, capfd, wrong, error, says):
    with pytest.raises(error, match=re.escape(says)):
        sort(wrong)
    assert capfd.readouterr().err == ""
