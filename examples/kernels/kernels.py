"""Calls Go functions with NumPy arrays, and with tensors of PyTorch and JAX where these are installed."""

import importlib.util
import sys

import numpy as np
import tvm_ffi

kernels = tvm_ffi.load_module(sys.argv[1])

x, y = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
kernels.axpy(2.0, x, y)
print("NumPy   axpy   ", y)

rows = np.array([[0, 0, 0, 0], [1, 2, 3, 4]], np.float32)
p = np.from_dlpack(kernels.softmax(rows))
print("NumPy   softmax", p[0], p[1].round(3))

for wrong in [(2.0, x.astype(np.float64), y), (2.0, x, y[::2]), (2.0, x, y[:5]), (2.0, x)]:
    try:
        kernels.axpy(*wrong)
    except (TypeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")

if importlib.util.find_spec("torch"):
    import torch

    t = torch.ones(6)
    kernels.axpy(2.0, torch.arange(6, dtype=torch.float32), t)
    print("PyTorch axpy   ", t.numpy())
    q = torch.from_dlpack(kernels.softmax(torch.from_numpy(rows)))
    print("PyTorch softmax", q.numpy()[0], q.numpy()[1].round(3))

if importlib.util.find_spec("jax"):
    import jax

    q = np.from_dlpack(kernels.softmax(jax.numpy.asarray(rows)))
    print("JAX     softmax", q[0], q[1].round(3))
