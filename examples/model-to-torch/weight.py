"""Gives a weight of a model to NumPy, and to PyTorch where that is installed. Go opens the model; Python writes a small one first."""

import importlib.util
import sys
from ctypes import c_char_p

import numpy as np
import safetensors.numpy

import dlbridge

library, model = sys.argv[1:]
safetensors.numpy.save_file({"dense.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "dense.bias": np.ones(2, np.float16)}, model)

go = dlbridge.load(library)
weight = dlbridge.wrap(go.weight, args={"path": c_char_p, "name": c_char_p, "error": "error"}, returns="tensor")

w = weight(model.encode(), b"dense.weight")
print("NumPy  ", w.numpy().sum(axis=1), "read-only" if w.readonly else "writable")

if importlib.util.find_spec("torch"):
    import torch

    t = torch.from_dlpack(w)
    print("PyTorch", t.dtype, (t @ torch.ones(3)).tolist(), t.data_ptr() == w.data_ptr)

for wrong in [(model.encode(), b"dense.wieght"), (library.encode(), b"dense.weight")]:
    try:
        weight(*wrong)
    except ValueError as error:
        print(f"ValueError: {error}")
