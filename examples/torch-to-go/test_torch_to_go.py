"""The example prints what its README says; Go computes what PyTorch does in PyTorch's memory, and refuses the rest."""

import ctypes
import pathlib
import subprocess

import pytest
import torch

import dlbridge

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def standardise(tmp_path_factory):
    library = tmp_path_factory.mktemp("standardise") / "libstandardise.so"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", library, "."], cwd=HERE, check=True)
    go = ctypes.CDLL(library)
    go.standardise.argtypes, go.standardise.restype = [ctypes.c_void_p], ctypes.c_void_p
    return dlbridge.wrap(go.standardise, to=torch.from_dlpack)


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = dlbridge.counters()
    yield
    assert dlbridge.counters() == before


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)


@pytest.mark.parametrize("shape", [(1, 2), (7, 5), (64, 1000), (0, 3), (3, 0)])
def test_go_computes_what_torch_does_in_its_memory(standardise, shape):
    memory = torch.randn(shape[0] * shape[1] + 32, generator=torch.Generator().manual_seed(4))
    was = memory.clone()
    x = memory[16:-16].view(shape)
    want = torch.nn.functional.layer_norm(x, (shape[1],), eps=0) if x.numel() else x.clone()
    y = standardise(x)
    assert y.shape == x.shape and (y.data_ptr() == x.data_ptr() or not x.numel())
    torch.testing.assert_close(x, want, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(memory[:16], was[:16], rtol=0, atol=0)
    torch.testing.assert_close(memory[-16:], was[-16:], rtol=0, atol=0)


@pytest.mark.parametrize(
    "wrong, error, says",
    [
        (torch.ones(2, 2, requires_grad=True), BufferError, "gradient"),
        (torch.ones(2, 2, dtype=torch.complex64).conj(), BufferError, "conjugate"),
        (torch.ones(2, 2, dtype=torch.complex64).conj().imag, BufferError, "negative"),
        (torch.ones(2, 2).to_sparse(), BufferError, "layout"),
        (torch.ones(2, 2)[:, :1], RuntimeError, "strides [2 1] of shape [2 1]"),
        (torch.ones(2, 2).double(), RuntimeError, "float64, asked for float32"),
        (torch.ones(4), RuntimeError, "shape [4] is not the shape of a matrix"),
    ],
)
def test_what_cannot_be_computed_is_refused_and_given_back(standardise, capfd, wrong, error, says):
    with pytest.raises(error) as refused:
        standardise(wrong)
    assert says in str(refused.value) + capfd.readouterr().err
