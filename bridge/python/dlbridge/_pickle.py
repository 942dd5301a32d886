"""What pickle writes for a Tensor, and how it reads it."""

from __future__ import annotations

from collections.abc import Callable
from pickle import PickleBuffer
from typing import Any

from . import _core
from ._core import Tensor


def reduce(tensor: Tensor, protocol: int) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """Returns the function that makes the tensor again, and its arguments."""
    dtype, shape, transposed = str(tensor.dtype), tensor.shape, False
    data, padded = _core.pickle_bytes(tensor)
    if data is None:
        data, _ = _core.pickle_bytes(tensor.T)
        transposed = data is not None
    if data is None:
        data, _ = _core.pickle_bytes(tensor.copy())
    assert data is not None  # a copy is row-major
    elements: Any = memoryview(data)
    if tensor.readonly:
        elements = elements.toreadonly()
    if protocol >= 5:
        elements = PickleBuffer(elements)
    else:
        elements = bytes(elements) if tensor.readonly else bytearray(elements)
    return load, (elements, dtype, shape, transposed, padded)


# Pickles name this function: it must be found here, and take these arguments, in later versions too.
def load(elements: Any, dtype: str, shape: tuple[int, ...], transposed: bool, padded: bool) -> Tensor:
    """Returns a tensor on the bytes of `elements`, which are in row-major order, or column-major if `transposed`."""
    size = memoryview(elements).nbytes
    tensor = _core.pickle_tensor(elements, dtype, tuple(shape)[::-1] if transposed else shape, padded)
    if tensor.nbytes != size:
        raise ValueError(f"dlbridge: pickle: the tensor has {tensor.nbytes} bytes, but the pickle has {size}")
    return tensor.T if transposed else tensor
