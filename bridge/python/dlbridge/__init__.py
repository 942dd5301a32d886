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
    load,
    release_address,
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


def _is_pointer(kind: Any) -> bool:
    return kind is ctypes.c_void_p or isinstance(kind, _Pointer)


def wrap(cfunc: Any, to: Callable[[Tensor], Any] | None = None) -> Callable[..., Any]:
    """Make a Python function on any DLPack producers of a C function on managed tensors.

    `cfunc` is a ctypes function that takes `DLManagedTensorVersioned *` arguments, and owns them from
    then on, and returns one, which the caller owns. Where it has `argtypes`, only pointers among them
    are tensors and other arguments are passed as they are; without `argtypes` all are tensors. A
    `restype` that is no pointer (nor ctypes' default, c_int) is returned as it is.

    The result is a `Tensor`, or `to(tensor)`: `wrap(lib.scale, to=torch.from_dlpack)`.

    Ownership: each argument's memory is shared with the C function until it calls the deleter. After an
    error before the call nothing is shared. Errors: RuntimeError when the function returns NULL.
    """
    if not isinstance(cfunc, _Function):
        raise TypeError(f"dlbridge: wrap: takes a ctypes function, not {type(cfunc)!r}")
    if not cfunc:
        raise ValueError("dlbridge: wrap: the function is NULL")
    argtypes = cfunc.argtypes
    returns_tensor = cfunc.restype is ctypes.c_int or _is_pointer(cfunc.restype)
    call = ctypes.cast(cfunc, type(cfunc))  # keeps cfunc alive, which may be a callback
    call.restype = ctypes.c_void_p if returns_tensor else cfunc.restype
    tensors: list[bool] | None = None
    if argtypes is not None:
        tensors = [_is_pointer(kind) for kind in argtypes]
        call.argtypes = [ctypes.c_void_p if t else kind for t, kind in zip(tensors, argtypes)]
    name = getattr(cfunc, "__name__", "function")

    def function(*args: Any) -> Any:
        if tensors is not None and len(args) != len(tensors):
            raise TypeError(f"dlbridge: {name} takes {len(tensors)} arguments, not {len(args)}")
        passed: list[Any] = []
        owned: list[int] = []
        try:
            for i, arg in enumerate(args):
                if tensors is None or tensors[i]:
                    owned.append(to_address(arg))
                    arg = ctypes.c_void_p(owned[-1])
                passed.append(arg)
        except BaseException:
            for shared in owned:
                release_address(shared)
            raise
        try:
            result = call(*passed)
        except ctypes.ArgumentError as error:  # before the call
            for shared in owned:
                release_address(shared)
            raise TypeError(f"dlbridge: {name}: {error}") from error
        if not returns_tensor:
            return result
        if not result:
            raise RuntimeError(f"dlbridge: {name} returned no tensor")
        tensor = from_address(result)
        return tensor if to is None else to(tensor)

    function.__name__ = function.__qualname__ = name
    function.__wrapped__ = cfunc  # type: ignore[attr-defined]
    return function
