"""Tensors across Python, C and Go on one memory: the DLPack protocol and the tensor messages of ZIO.

A *producer* owns memory and describes it, a *consumer* reads it. A `Tensor` is a view of memory and a
hold on it: it is made of any DLPack producer (`from_dlpack`), of what a C function returned
(`from_address`), of any buffer (`from_buffer`), or of new memory (`empty`), always without copying, and
any DLPack consumer takes it. `tens` reads and writes messages with tensors in them; `decthings` and
`tensorflow` the tensors of those two, with `Elements` for what DLPack has no type for.

Errors, everywhere: `BufferError` for what DLPack cannot carry, `ValueError` for malformed data (the
text says where), `TypeError` for wrong arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from . import decthings, tens, tensorflow
from ._core import (
    Tensor,
    counters,
    empty,
    from_address,
    from_buffer,
    from_dlpack,
    function,
    load,
    to_address,
)
from ._elements import Elements

__all__ = [
    "Elements",
    "Tensor",
    "counters",
    "decthings",
    "empty",
    "from_address",
    "from_buffer",
    "from_dlpack",
    "load",
    "tens",
    "tensorflow",
    "to_address",
    "wrap",
]
__version__ = "0.1.0"

_Pointer = type(ctypes.POINTER(ctypes.c_int))
_Function = ctypes.CFUNCTYPE(None).__base__  # of every function pointer
_Data = _Function.__base__  # of every ctypes type
_PLAIN = ctypes.CFUNCTYPE(None)._flags_  # functions that are called without errno and without the GIL
_TENSOR, _NOTHING, _OTHER = 0, 1, 2  # C: RETURNS_TENSOR, …


def _is_pointer(kind: Any) -> bool:
    return kind is ctypes.c_void_p or isinstance(kind, _Pointer)


def wrap(cfunc: Any, to: Callable[[Tensor], Any] | None = None) -> Callable[..., Any]:
    """Make a Python function on any DLPack producers of a C function on managed tensors.

    `cfunc` is a ctypes function that takes `DLManagedTensorVersioned *` arguments, and owns them from
    then on, and returns one, which the caller owns. Where it has `argtypes`, only pointers among them
    are tensors and other arguments are passed as they are; without `argtypes` all are tensors. A
    `restype` that is no pointer (nor ctypes' default, c_int) is returned as it is.

    The result is a `Tensor`, or `to(tensor)`: `wrap(lib.scale, to=torch.from_dlpack)`. The GIL is let go
    during the call, unless `cfunc` is of a `ctypes.PyDLL`.

    Ownership: each argument's memory is shared with the C function until it calls the deleter. After an
    error before the call nothing is shared. Errors: those of `from_dlpack` for arguments that are refused
    (PyTorch's that require a gradient, and its conjugate and negative views, among them), TypeError for other
    arguments, RuntimeError when the function returns NULL.
    """
    if not isinstance(cfunc, _Function):
        raise TypeError(f"dlbridge: wrap: takes a ctypes function, not {type(cfunc)!r}")
    if not cfunc:
        raise ValueError("dlbridge: wrap: the function is NULL")
    if to is not None and not callable(to):
        raise TypeError(f"dlbridge: wrap: to must be callable, not {type(to)!r}")
    argtypes, restype = cfunc.argtypes, cfunc.restype
    if cfunc.errcheck is not None or not (restype is None or isinstance(restype, type) and issubclass(restype, _Data)):
        raise TypeError("dlbridge: wrap: errcheck, and a restype that is no ctypes type, belong into `to`")
    name = getattr(cfunc, "__name__", "function")
    call = ctypes.cast(cfunc, type(cfunc))  # keeps cfunc alive, which may be a callback
    tensors = None
    if argtypes is not None:
        tensors = bytes(_is_pointer(kind) for kind in argtypes)
        call.argtypes = [ctypes.c_void_p if t else kind for t, kind in zip(tensors, argtypes)]
    returns = _NOTHING if restype is None else _OTHER
    if restype is ctypes.c_int or _is_pointer(restype):
        returns, restype = _TENSOR, ctypes.c_void_p
    call.restype = restype
    direct = None
    if type(cfunc)._flags_ == _PLAIN and returns != _OTHER and all(tensors or b""):
        direct = ctypes.cast(cfunc, ctypes.c_void_p).value
    made = function(name, call, tensors, to, ctypes.ArgumentError, ctypes.c_void_p, direct or 0, returns)
    made.__name__ = made.__qualname__ = name
    made.__wrapped__ = cfunc
    return made
