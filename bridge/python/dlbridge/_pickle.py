"""Pickling of Tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pickle import PickleBuffer
from typing import Any

from . import _core
from ._core import Tensor


Reduced = tuple[Callable[..., Tensor], tuple[Any, ...]]
"""A function that makes a tensor again, and its arguments."""


def reduce(tensor: Tensor, protocol: int, offer: Callable[[Tensor], Reduced | None] = lambda _: None) -> Reduced:
    """Returns the result of `offer` for the tensor, or if that is None, a function that makes it from its elements.

    The thread of a queue of multiprocessing has no caller who could see an exception, and the rest of the item would be lost. There, a
    tensor that cannot be pickled is replaced by a tensor that raises when it is used. (No handler of a signal has raised the exception there:
    handlers run in the main thread only.)
    """
    try:
        return offer(tensor) or _by_elements(tensor, protocol)
    except Exception as error:
        if threading.current_thread().name != "QueueFeederThread":  # of multiprocessing.queues
            raise
        if isinstance(error, ValueError) and tensor.closed:
            return missing, ("it was closed before it was pickled; a queue pickles in a thread, later than put",)
        return missing, (str(error).removeprefix("dlbridge: the tensor was not handed over: ") or type(error).__name__,)


# Pickles name this function.
def missing(why: str) -> Tensor:
    """Returns a tensor that raises a ConnectionError with this text at each use."""
    return _core.pickle_missing(why)


def _by_elements(tensor: Tensor, protocol: int) -> Reduced:
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
