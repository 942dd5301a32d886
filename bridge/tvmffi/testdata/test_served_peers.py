"""The same module on tensors of PyTorch and JAX."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch


def address(text):
    return int(text.rsplit(" ", 1)[1])


def test_torch_tensors_are_written_in_place(served):
    x, y = torch.arange(100, dtype=torch.float32), torch.zeros(100)
    served.scale(x, y, 0.5)
    assert torch.equal(y, 0.5 * x)
    assert address(served.describe(y)) == y.data_ptr()
    made = served.make(10, False)
    assert torch.equal(torch.from_dlpack(made), torch.arange(10, dtype=torch.float32))
    assert served.describe(y[::2]).startswith("float32[50][2]")
    assert served.describe(torch.zeros(3, dtype=torch.bfloat16)).startswith("bfloat16[3]")
    kept = torch.ones(1000)
    served.keep(kept)
    del kept
    gc.collect()
    assert served.let_go() == 1000
    with pytest.raises(TypeError, match="argument 0: the tensor has float64"):
        served.scale(x.double(), y, 0.5)
    again = served.echo(y)
    assert type(again) is torch.Tensor, "tensors come back as what came in"
    assert again.data_ptr() == y.data_ptr()


def test_jax_arrays_are_read_in_place(served):
    x, y = jnp.arange(100, dtype=jnp.float32), np.zeros(100, np.float32)
    served.scale(x, y, 2)
    assert (y == 2 * np.asarray(x)).all()
    assert address(served.describe(x)) == x.unsafe_buffer_pointer()


def test_odd_torch_tensors_are_refused_or_described_as_they_are(served):
    x = torch.ones(10)
    for bad in (x.to_sparse(), torch.ones(3, device="meta")):
        with pytest.raises(RuntimeError):
            served.describe(bad)
    for bad, error, text in [
        (torch.ones(1).expand(10), ValueError, "not row-major without gaps"),
        (torch.ones(20)[::2], ValueError, "not row-major without gaps"),
        (x.bfloat16(), TypeError, "the tensor has bfloat16"),
        (x.to(torch.complex64), TypeError, "the tensor has complex64"),
    ]:
        for arguments in ((bad, x, 1), (x, bad, 1)):
            with pytest.raises(error, match=text):
                served.scale(*arguments)
    served.scale(torch.ones(0), torch.ones(0), 1)
    assert served.describe(torch.tensor(1.0)).startswith("float32[][]")
    for rank in (64, 65, 200):
        y = torch.ones((1,) * rank)
        assert served.describe(y).startswith("float32[1" + " 1" * (rank - 1) + "]")
    for dtype, name in [(torch.float8_e4m3fn, "float8_e4m3fn"), (torch.bool, "bool"), (torch.uint16, "uint16")]:
        assert served.describe(torch.ones(2).to(dtype)).startswith(f"{name}[2][1]")
    odd = torch.frombuffer(bytearray(44), dtype=torch.float32, offset=4)
    assert served.describe(odd).endswith(f" {odd.data_ptr()}")
    served.scale(x, odd, 3)
    assert (odd == 3).all(), "Go needs no more than an element's alignment"


# What TVM-FFI does not tell, no function of its can know; the package says so.
def test_what_tvm_ffi_does_not_tell_a_function(served):
    z = torch.tensor([1 + 2j])
    y = np.zeros(1, np.float32)
    served.scale(z.conj().imag, y, 1)
    assert y == 2, "a negative view: PyTorch would say -2"
    served.scale(z.conj().imag.resolve_neg(), y, 1)
    assert y == -2
    x = torch.zeros(3)
    served.scale(torch.ones(3, requires_grad=True), torch.utils.dlpack.ReadOnlyTensorWrapper(x), 1)
    assert (x == 1).all(), "it was read-only"
    with pytest.raises(jax.errors.JAXTypeError):
        jax.jit(lambda a: served.describe(a))(jnp.ones(3))
