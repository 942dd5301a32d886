"""Has Go compute on PyTorch's memory, and compares with what PyTorch computes."""

import ctypes
import sys

import torch

import dlbridge

go = ctypes.CDLL(sys.argv[1])
go.standardise.argtypes, go.standardise.restype = [ctypes.c_void_p], ctypes.c_void_p
standardise = dlbridge.wrap(go.standardise, to=torch.from_dlpack)

x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [40.0, 20.0, 30.0, 10.0]])
want = torch.nn.functional.layer_norm(x, (4,), eps=0)
y = standardise(x)
print(x)
print("y is x's memory:", y.data_ptr() == x.data_ptr(), "and as PyTorch has it:", torch.allclose(y, want))

for name, wrong in {
    "a parameter": torch.nn.Parameter(x),
    "a conjugate view": torch.ones(2, 2, dtype=torch.complex64).conj(),
    "a negative view": torch.ones(2, 2, dtype=torch.complex64).conj().imag,
    "a column": x[:, :1],
    "float64": x.double(),
}.items():
    try:
        standardise(wrong)
    except (BufferError, RuntimeError) as error:
        print(f"{name}: {type(error).__name__}: {error}")

print("with detach:", standardise(torch.nn.Parameter(x).detach()).shape)
del x, y
counts = dlbridge.counters()
print("still shared:", counts["exports"] + counts["imports"])
