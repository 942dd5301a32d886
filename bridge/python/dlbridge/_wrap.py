"""Functions of C libraries as Python functions: `load` and `wrap`."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

from . import _core
from ._core import Tensor

_Pointer = type(ctypes.POINTER(ctypes.c_int))
_Function: Any = ctypes.CFUNCTYPE(None).__base__  # the base of the types of all function pointers
_Data: Any = _Function.__base__  # the base of all ctypes types
_Reference = type(ctypes.byref(ctypes.c_int()))  # the type of byref(), and of what from_param of most types returns
_BY_VALUE = (ctypes.Structure, ctypes.Union)
_PLAIN = ctypes.CFUNCTYPE(None)._flags_  # the flags of functions that are called without the GIL, and whose errno is not kept
_PYTHON_API = ctypes.PYFUNCTYPE(None)._flags_ & ~_PLAIN  # the flag of functions that may set an exception, which ctypes raises
_TENSOR, _NOTHING, _OTHER = 0, 1, 2  # C: RETURNS_TENSOR, …


@functools.cache
def _without_argtypes(flags: int) -> Any:
    """Returns the type of functions with these flags and without declared arguments."""
    return type(_Function)("Function", (_Function,), {"_flags_": flags})


def _probe(restype: Any) -> Any:
    """Returns a function that has no effect, whatever its arguments. It shows which values ctypes cannot pass or return."""
    probe = ctypes.pythonapi["Py_IsInitialized"]
    probe.restype = restype
    return probe


_OF_CTYPES = (ctypes.c_void_p.from_param, _Data, _Reference, _BY_VALUE, _probe(None))  # for calls by ctypes


def _is_managed(kind: Any) -> bool:
    """Reports whether a ctypes type is c_void_p or a pointer to a managed tensor."""
    pointed = getattr(kind, "_type_", None) if isinstance(kind, _Pointer) else None
    return kind is ctypes.c_void_p or (
        isinstance(pointed, type)
        and issubclass(pointed, ctypes.Structure)
        and pointed.__name__.lstrip("_") == "DLManagedTensorVersioned"
    )


def _kinds(args: Any) -> list[Any]:
    """Returns `args` of `wrap` as a list, after a check of its entries."""
    if isinstance(args, (str, bytes)) or not hasattr(args, "__iter__"):
        raise TypeError(f'dlbridge: wrap: args must be a list, such as ["tensor", "error"], not {args!r}')
    kinds: list[Any] = list(args)
    for i, kind in enumerate(kinds):
        if isinstance(kind, str):
            known = kind == "tensor" or (kind == "error" and i == len(kinds) - 1)
        else:
            known = hasattr(kind, "from_param")
        if not known:
            raise TypeError(
                f'dlbridge: wrap: args[{i}] is {kind!r}; it must be "tensor" for a managed tensor, a ctypes type, such as '
                'ctypes.c_float, or, as the last, "error" for a dlb_error *'
            )
    return kinds


def _name_of(kind: Any) -> str:
    """Returns the name of a type of an argument or a result."""
    return kind if isinstance(kind, str) else getattr(kind, "__name__", repr(kind))


def _help(name: str, args: list[Any], returns: Any, to: Any, takes_error: bool) -> tuple[str, inspect.Signature]:
    """Returns the docstring and the signature of a function that `wrap` makes."""
    tensors = [isinstance(kind, str) for kind in args]
    parameters = [
        inspect.Parameter(f"arg{i + 1}", inspect.Parameter.POSITIONAL_ONLY, annotation=_name_of(kind))
        for i, kind in enumerate(args)
    ]
    result = inspect.Signature.empty if to is not None else "Tensor" if isinstance(returns, str) else _name_of(returns)
    signature = inspect.Signature(parameters, return_annotation=result)
    text = [f"{name}{signature}\n\nCalls the C function {name}, of which dlbridge.wrap made this function."]
    if any(tensors):
        text.append("A tensor is any DLPack producer; its memory is shared with the C function until that calls the deleter.")
    if not all(tensors):
        text.append(f"ctypes converts the {'other ' if any(tensors) else ''}arguments.")
    if to is not None:
        text.append(f"Returns what {_name_of(to)} makes of the tensor that the C function returns.")
    text.append("Errors: TypeError for wrong arguments" + (", and those of from_dlpack." if any(tensors) else "."))
    if takes_error:
        text.append("An error that the C function reports is raised with its text.")
    return "\n".join(text), signature


def load(path: str | bytes | os.PathLike[Any]) -> ctypes.CDLL:
    """Loads a Go library that imports package `bridge/capi`, and returns it as a ctypes library, whose functions `wrap` accepts.

    The formats, such as `tens`, use this library from then on. A process can have only one, which is otherwise the library in
    this package or the one that the environment variable DLBRIDGE_LIBRARY names. It is never unloaded: restart Python to load
    it again after a build.

    The functions of a plain C library need no `load`: `wrap` takes those of a `ctypes.CDLL`.

    Errors: OSError if it cannot be loaded or is not such a library; RuntimeError if another one is loaded already, or if this process
    was forked while one was being loaded. In a forked child of a process that has loaded the library, `load` returns it, but the
    formats, and the functions that `wrap` makes of it, raise RuntimeError.
    """
    name = os.fsdecode(path)
    if os.path.exists(name):
        name = os.path.abspath(name)  # the loader looks elsewhere for a name without a slash
    _core.load(name)
    return ctypes.CDLL(name)


def wrap(
    cfunc: Any,
    to: Callable[[Tensor], Any] | None = None,
    *,
    args: Sequence[Any] | None = None,
    returns: Any = ...,
    device: tuple[int, int] | str | None = "cpu",
) -> Callable[..., Any]:
    """Makes a Python function of a C function whose arguments or result are managed tensors.

        >>> absolute = dlbridge.wrap(ctypes.CDLL(None).abs, args=[ctypes.c_int], returns=ctypes.c_int)
        >>> absolute(-3)
        3

    cfunc: a function of a `ctypes.CDLL`, or of the library that `load` returns.

    args: the types of all parameters of the C function, in order. Each is
        "tensor", for a `DLManagedTensorVersioned *`: the Python function takes any DLPack producer, such as an array;
        a ctypes type, such as `c_float` or `POINTER(c_double)`: ctypes converts the argument as usual;
        "error", as the last, for a `dlb_error *` of dlbridge.h: the Python function has no such parameter, and raises the
        error that the C function reports.

    returns: the type of the result: "tensor", a ctypes type, or None for a function without a result.

    to: a function that converts the `Tensor` that is returned, such as `torch.from_dlpack`.

    device: where the C function needs the memory of all its tensors, as in `from_dlpack`: "cpu", which is any memory that the host can
        read, "cuda:1", or a tuple (type, id). It is checked before each call. With None the function must check it itself. Memory of a
        device is ready on the default stream of the device, on which the function must work, or for which it must wait; that of
        `from_dlpack(x, stream=…)` on that stream. A tensor that the function returns may be on any device. It counts as ready on the
        default stream, also if it is memory of an argument that was tied to another: only the function knows where it has worked.

    Nothing can compare `args` with the C function. If `args` has too few types, the C function reads an undefined value, which can
    end the process; see the README for the case in which it reads NULL.

    Instead of by `args` and `returns`, the types can be declared by `cfunc.argtypes` and `cfunc.restype`, as ctypes has it. A
    `c_void_p`, and a pointer to a structure named DLManagedTensorVersioned, then stand for "tensor". A function whose types are
    declared in neither way is refused.

    The GIL is released during the call, unless `cfunc` belongs to a `ctypes.PyDLL`. help() and inspect.signature show the
    types of the new function.

    Ownership: the memory of each tensor is shared with the C function, which must call its deleter once; what it returns
    belongs to the caller. If an error occurs before the call, nothing is shared.

    Errors of `wrap`: TypeError for types that are not declared or that ctypes cannot pass; ValueError if `cfunc` is NULL, or for an unknown
    name of a device.

    Errors of the new function, before the call: those of `from_dlpack` for a tensor; BufferError if it is on another device;
    TypeError for another argument or a wrong number of them; ctypes.ArgumentError if ctypes has no memory left; RuntimeError for a
    function of a Go library in a forked child of the process that loaded it. After the call: the error that the C function
    reports, with its text; RuntimeError if it returns NULL for a tensor; ValueError if it returns an address that cannot be that of
    a managed tensor, or a tensor that was released or taken over before. The code of a reported error decides the exception:

        TypeError     a data type
        BufferError   a device, read-only memory, or a version of DLPack
        MemoryError   memory
        OSError       the operating system; ConnectionError if the other side of a connection is gone
        ValueError    a layout, or any other wrong value
        RuntimeError  a panic, or an error of the function's own

    A result that is returned with an error is ignored. A ctypes callback that returns a tensor must not raise, because its
    result is then undefined.
    """
    if not isinstance(cfunc, _Function):
        raise TypeError(f"dlbridge: wrap: cfunc must be a ctypes function, not {type(cfunc)!r}")
    if not cfunc:
        raise ValueError("dlbridge: wrap: the function is NULL")
    if to is not None and not callable(to):
        raise TypeError(f"dlbridge: wrap: to must be callable, not {type(to)!r}")
    if cfunc.errcheck is not None:
        raise TypeError("dlbridge: wrap: the function has an errcheck; pass the conversion as `to` instead")
    name = getattr(cfunc, "__name__", "function")
    if args is None:
        if cfunc.argtypes is None:
            raise TypeError(
                f"dlbridge: wrap: the argument types of {name} are not declared: declare them by wrap({name}, args=[...], "
                f'returns=...), where "tensor" stands for a managed tensor and "error" for a last dlb_error *, or by '
                f"{name}.argtypes = [...] and "
                f"{name}.restype = ..., where c_void_p does"
            )
        args = ["tensor" if _is_managed(kind) else kind for kind in cfunc.argtypes]
    elif returns is ... and cfunc.restype is ctypes.c_int:
        raise TypeError(
            f"dlbridge: wrap: the result type of {name} is not declared: add "
            'returns="tensor" for a managed tensor, returns=None for a function without a result, or a ctypes type, '
            "such as returns=ctypes.c_int"
        )
    args = _kinds(args)
    takes_error = bool(args) and args[-1] == "error"
    if takes_error:
        args.pop()
    if returns is ...:
        returns = "tensor" if _is_managed(cfunc.restype) else cfunc.restype
    tensors = [isinstance(kind, str) for kind in args]
    call = ctypes.cast(cfunc, _without_argtypes(type(cfunc)._flags_))  # keeps cfunc alive, which may be a callback
    try:  # ctypes reports types that it cannot pass here, not only in the call
        call.argtypes = [ctypes.c_void_p if tensor else kind for tensor, kind in zip(tensors, args)] + [ctypes.c_void_p] * takes_error
    except (TypeError, ctypes.ArgumentError) as error:
        raise TypeError(f"dlbridge: wrap: {error}") from error
    call.argtypes = None
    if isinstance(returns, str) and returns == "tensor":
        result, call.restype = _TENSOR, ctypes.c_void_p
    elif returns is None or (isinstance(returns, type) and issubclass(returns, _Data)):
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
            f'dlbridge: wrap: `to` takes a tensor, but {name} returns {returns!r}; returns="tensor" declares a tensor'
        )
    address = ctypes.cast(cfunc, ctypes.c_void_p).value or 0
    direct = type(cfunc)._flags_ == _PLAIN and result != _OTHER and all(tensors)
    converters = tuple(None if tensor else kind.from_param for tensor, kind in zip(tensors, args))
    kinds = tuple(None if tensor else kind for tensor, kind in zip(tensors, args))
    raises = type(cfunc)._flags_ & _PYTHON_API or hasattr(call.restype, "_check_retval_")
    refusal = None if raises else ctypes.ArgumentError
    made = _core.function(name, call, converters, kinds, to, _OF_CTYPES, refusal, address, direct, takes_error, result, device)
    made.__name__ = made.__qualname__ = name
    made.__wrapped__ = cfunc  # type: ignore[attr-defined]
    made.__doc__, made.__signature__ = _help(name, args, returns, to, takes_error)  # type: ignore[attr-defined]
    return made
