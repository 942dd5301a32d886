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
import functools
from collections.abc import Callable, Sequence
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
_Reference = type(ctypes.byref(ctypes.c_int()))  # also of what most types make of an argument
_BY_VALUE = (ctypes.Structure, ctypes.Union)
_PLAIN = ctypes.CFUNCTYPE(None)._flags_  # functions that are called without errno and without the GIL
_TENSOR, _NOTHING, _OTHER = 0, 1, 2  # C: RETURNS_TENSOR, …
_AS_RESTYPE: Any = object()


@functools.cache
def _without_argtypes(flags: int) -> Any:
    """The type of functions with these flags that take any arguments."""
    return type(_Function)("Function", (_Function,), {"_flags_": flags})


def _probe(restype: Any) -> Any:
    """A function that does nothing, whatever it is called with: it shows what ctypes cannot pass or return."""
    probe = ctypes.pythonapi["Py_IsInitialized"]
    probe.restype = restype
    return probe


def _is_managed(kind: Any) -> bool:
    """Reports whether a ctypes type is a pointer to anything, or to a managed tensor."""
    pointed = getattr(kind, "_type_", None) if isinstance(kind, _Pointer) else None
    return kind is ctypes.c_void_p or (
        isinstance(pointed, type)
        and issubclass(pointed, ctypes.Structure)
        and pointed.__name__.lstrip("_") == "DLManagedTensorVersioned"
    )


def _is_type(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, _Data)


def wrap(
    cfunc: Any,
    to: Callable[[Tensor], Any] | None = None,
    *,
    args: Sequence[Any] | None = None,
    returns: Any = _AS_RESTYPE,
) -> Callable[..., Any]:
    """Make a Python function on any DLPack producers of a C function on managed tensors.

    `cfunc` is a ctypes function. It owns each managed tensor that it is called with, and its caller owns the one
    that it returns.

    `args` lists what it takes: "tensor" for a `DLManagedTensorVersioned *`, else a ctypes type, such as `c_float` or
    `POINTER(c_double)`, whose arguments are passed as ctypes passes them. `returns` says what it returns: "tensor",
    a ctypes type, or None for nothing. Without them `argtypes` and `restype` of `cfunc` count, in which `c_void_p`
    and a pointer to a structure named DLManagedTensorVersioned are tensors. A `restype` that was never set is c_int.

    The result is a `Tensor`, or `to(tensor)`: `wrap(lib.scale, torch.from_dlpack, args=["tensor"], returns="tensor")`.
    The GIL is released during the call, unless `cfunc` is of a `ctypes.PyDLL`.

    Ownership: each argument's memory is shared with the C function until it calls the deleter. After an
    error before the call nothing is shared. Errors: those of `from_dlpack` for arguments that are refused
    (PyTorch's that require a gradient, and its conjugate and negative views, among them), TypeError for other
    arguments, for a wrong number of them, and for a function of which nobody has said what it takes; RuntimeError
    when the function returns NULL, ValueError when it returns no managed tensor of its own. A callback of ctypes that
    raises returns whatever its memory holds, and must therefore not raise where it returns a tensor. Where ctypes has no memory
    for the address of what the function returned, that is MemoryError, and the tensor is lost.
    """
    if not isinstance(cfunc, _Function):
        raise TypeError(f"dlbridge: wrap: takes a ctypes function, not {type(cfunc)!r}")
    if not cfunc:
        raise ValueError("dlbridge: wrap: the function is NULL")
    if to is not None and not callable(to):
        raise TypeError(f"dlbridge: wrap: to must be callable, not {type(to)!r}")
    if cfunc.errcheck is not None:
        raise TypeError("dlbridge: wrap: errcheck belongs into `to`")
    name = getattr(cfunc, "__name__", "function")
    if args is None:
        if cfunc.argtypes is None:
            raise TypeError(
                f"dlbridge: wrap: it is not known what {name} takes: declare it by wrap({name}, args=[...], "
                f'returns=...), where "tensor" is a managed tensor, or by {name}.argtypes = [...] and '
                f"{name}.restype = ..., where c_void_p is one"
            )
        args = ["tensor" if _is_managed(kind) else kind for kind in cfunc.argtypes]
    args = list(args)
    if returns is _AS_RESTYPE:
        returns = "tensor" if _is_managed(cfunc.restype) else cfunc.restype
    tensors = [isinstance(kind, str) and kind == "tensor" for kind in args]
    call = ctypes.cast(cfunc, _without_argtypes(type(cfunc)._flags_))  # keeps cfunc alive, which may be a callback
    try:  # ctypes refuses what it cannot pass here, and not when it is called
        call.argtypes = [ctypes.c_void_p if tensor else kind for tensor, kind in zip(tensors, args)]
    except (TypeError, ctypes.ArgumentError) as error:
        raise TypeError(f'dlbridge: wrap: args must be "tensor" or ctypes types: {error}') from error
    call.argtypes = None
    if isinstance(returns, str) and returns == "tensor":
        result, call.restype = _TENSOR, ctypes.c_void_p
    elif returns is None or _is_type(returns):
        result, call.restype = _NOTHING if returns is None else _OTHER, returns
    else:
        raise TypeError(f'dlbridge: wrap: returns, or restype, must be "tensor", a ctypes type or None, not {returns!r}')
    if result == _OTHER and issubclass(returns, _BY_VALUE):
        try:
            _probe(returns)()
        except (RuntimeError, TypeError) as error:
            raise TypeError(f"dlbridge: wrap: ctypes cannot return {returns!r}: {error}") from error
    if to is not None and result != _TENSOR:
        raise TypeError(
            f'dlbridge: wrap: {name} returns {returns!r}, and `to` takes a tensor: returns="tensor" declares one'
        )
    direct = None
    if type(cfunc)._flags_ == _PLAIN and result != _OTHER and all(tensors):
        direct = ctypes.cast(cfunc, ctypes.c_void_p).value
    converters = tuple(None if tensor else kind.from_param for tensor, kind in zip(tensors, args))
    pointer = ctypes.c_void_p.from_param
    made = function(name, call, converters, to, pointer, _Data, _Reference, _BY_VALUE, _probe(None), direct or 0, result)
    made.__name__ = made.__qualname__ = name
    made.__wrapped__ = cfunc
    return made
