"""The same module on tensors of PyTorch and JAX."""

import gc

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
