"""Functions of C libraries as Python functions: `load` and `wrap`."""

from __future__ import annotations

import ctypes
import functools
import inspect
import keyword
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinMethodType, EllipsisType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from . import _core
from ._asarray import asarray
from ._core import Tensor

_Result = TypeVar("_Result")
_Args = Sequence[Any] | Mapping[str, Any] | None
_Device = tuple[int, int] | str | None

_Simple: Any = type(ctypes.c_int)
_Pointer = type(ctypes.POINTER(ctypes.c_int))
_Array = type(ctypes.c_int * 1)
_Function: Any = ctypes.CFUNCTYPE(None).__base__  # the base of the types of all function pointers
_Data: Any = _Function.__base__  # the base of all ctypes types
_Reference = type(ctypes.byref(ctypes.c_int()))  # the type of byref(), and of what from_param of most types returns
_BY_VALUE = (ctypes.Structure, ctypes.Union)
_PLAIN = ctypes.CFUNCTYPE(None)._flags_  # the flags of functions that are called without the GIL, and whose errno is not kept
_PYTHON_API = ctypes.PYFUNCTYPE(None)._flags_ & ~_PLAIN  # the flag of functions that may set an exception, which ctypes raises
_KEEPS_ERRNO = ctypes.CFUNCTYPE(None, use_errno=True)._flags_ & ~_PLAIN
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


class converted:
    """A kind of argument for `wrap`: `asarray` makes a tensor of the argument, such as a list, a number or an array.

        >>> same = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda tensor: tensor)
        >>> f = dlbridge.wrap(same, args=[dlbridge.converted("float32", contiguous=True)], returns="tensor")
        >>> f([1, 2]).dtype
        'float32'

    dtype: the data type that the C function gets, a name or a type as in `from_buffer`. None keeps the type of the argument.

    contiguous: whether the C function gets the elements without gaps, in row-major order.

    The C function shares the memory of an argument that has this type and layout, and elements that are aligned to the size of a number.
    It gets a copy of any other argument, such as an array of NumPy in the other byte order. Elements that it writes to the copy are lost,
    unless it returns the tensor. Read-only memory that is not copied stays read-only. Complex elements do not become real.

    Errors: those of `from_buffer` for a data type. Errors of the call: those of `asarray`; BufferError for memory of a device that needs
    a conversion.
    """

    def __init__(self, dtype: Any = None, *, contiguous: bool = False) -> None:
        self.dtype = None if dtype is None else _core.dtype_of(dtype)
        self.contiguous = contiguous

    def __call__(self, x: Any, /) -> Tensor:
        """Returns the tensor that the C function gets for an argument."""
        tensor = _core.aligned(asarray(x, self.dtype))
        return tensor.contiguous() if self.contiguous else tensor

    def __repr__(self) -> str:
        of = [repr(self.dtype)] * (self.dtype is not None) + ["contiguous=True"] * self.contiguous
        return f"converted({', '.join(of)})"


def _is_tensor(kind: Any) -> bool:
    return isinstance(kind, (str, converted))


def _parameters(args: Any) -> tuple[list[str] | None, list[Any]]:
    """Returns the names and the types that `args` of `wrap` has, after a check of both. A list has no names."""
    names: list[str] | None = None
    if isinstance(args, Mapping):
        declared = dict(args)
        names, args = list(declared), list(declared.values())
    if isinstance(args, (str, bytes)) or not hasattr(args, "__iter__"):
        raise TypeError(f'dlbridge: wrap: args must be a list, such as ["tensor", "error"], or a dict with names, not {args!r}')
    for name in names or ():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise TypeError(f"dlbridge: wrap: args has the name {name!r}, which no parameter of a Python function can have")
    kinds: list[Any] = list(args)
    for i, kind in enumerate(kinds):
        if isinstance(kind, str):
            known = kind == "tensor" or (kind == "error" and i == len(kinds) - 1)
        else:
            known = isinstance(kind, converted) or hasattr(kind, "from_param")
        if not known:
            raise TypeError(
                f'dlbridge: wrap: args[{names[i] if names else i!r}] is {kind!r}; it must be "tensor" for a managed tensor, dlbridge.converted(...), a ctypes '
                'type, such as ctypes.c_float, or, as the last, "error" for a dlb_error *'
            )
    return names, kinds


def _name_of(kind: Any) -> str:
    """Returns the name of a type of an argument or a result."""
    return kind if isinstance(kind, str) else getattr(kind, "__name__", repr(kind))


def _help(
    name: str, names: list[str], positional_only: bool, args: list[Any], returns: Any, to: Any, takes_error: bool
) -> tuple[str, inspect.Signature]:
    """Returns the docstring and the signature of a function that `wrap` makes."""
    tensors = list(map(_is_tensor, args))
    how = inspect.Parameter.POSITIONAL_ONLY if positional_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(shown, how, annotation=_name_of(kind)) for shown, kind in zip(names, args)]
    result = inspect.Signature.empty if to is not None else "Tensor" if isinstance(returns, str) else _name_of(returns)
    signature = inspect.Signature(parameters, return_annotation=result)
    text = [f"{name}{signature}\n\nCalls the C function {name}. dlbridge.wrap made this function."]
    if any(tensors):
        text.append("A tensor is any DLPack producer; its memory is shared with the C function until that calls the deleter.")
    if any(isinstance(kind, converted) for kind in args):
        text.append("What is declared as converted(...) may be a list, a number or another array; what is written to a copy is lost.")
    if not all(tensors):
        text.append(f"ctypes converts the {'other ' if any(tensors) else ''}arguments.")
    if to is not None:
        text.append(f"Returns what {_name_of(to)} makes of the tensor that the C function returns.")
    text.append("Errors: TypeError for wrong arguments" + (", and those of from_dlpack." if any(tensors) else "."))
    if takes_error:
        text.append("An error that the C function reports is raised with its text.")
    return "\n".join(text), signature


def _nothing() -> None:
    pass


def _like(name: str, names: list[str], positional_only: bool) -> Callable[..., None]:
    """Returns a Python function with this name and these parameters, which has no effect. A wrong call of it raises Python's TypeError."""
    name, *parameters = map(str.__str__, (name, *names))  # of str itself, as code needs them
    count = len(parameters)
    code = _nothing.__code__.replace(
        co_name=name,
        co_qualname=name,
        co_varnames=tuple(parameters),
        co_nlocals=count,
        co_argcount=count,
        co_posonlyargcount=count * positional_only,
    )
    return FunctionType(code, {})


def _letter(kind: Any) -> str:
    """Returns the letter of a ctypes type whose high bits ctypes would drop (an integer or address), or "."."""
    letter = getattr(kind, "_type_", ".") if isinstance(kind, _Simple) else "."
    return letter if letter in "bBhHiIlLqQP" and isinstance(kind.from_param, BuiltinMethodType) else "."


def _address_of(cfunc: Any) -> int:
    return ctypes.cast(cfunc, ctypes.c_void_p).value or 0


class _GoLibrary(ctypes.CDLL):
    """A library of `load`."""


_Origin = tuple[Callable[..., ctypes.CDLL], str | None, bool]
"""How another process opens a library: the function that opens it, its path, and whether ctypes keeps errno."""


def _origin_of(cfunc: Any, name: str) -> _Origin | None:
    """Returns how another process opens the library that has a function by this name, or None if it was not looked up in one."""
    for library in (cfunc._objects or {}).values():
        if type(library) not in (ctypes.CDLL, ctypes.PyDLL, _GoLibrary) or not isinstance(cfunc, library._FuncPtr):
            continue
        if not hasattr(library, name) or _address_of(library[name]) != _address_of(cfunc):  # its __name__ was set
            continue
        path = None if library._name is None else os.fsdecode(library._name)
        if path is not None and "/" in path:  # otherwise the loader searches
            path = os.path.abspath(path)
        return load if type(library) is _GoLibrary else type(library), path, bool(cfunc._flags_ & _KEEPS_ERRNO)
    return None


class _Made:
    """A ctypes type without a name, in a pickle. Reading the pickle makes the type again."""

    def __init__(self, make: Callable[..., Any], *of: Any) -> None:
        self.made = make, of

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.made


def _portable(kind: Any) -> Any:
    """Returns what pickle can write for a type of an argument or a result."""
    element: Any = getattr(kind, "_type_", None)
    if isinstance(kind, _Pointer) and kind is ctypes.POINTER(element):
        return _Made(ctypes.POINTER, _portable(element))
    if isinstance(kind, _Array) and kind is element * kind._length_:
        return _Made(operator.mul, _portable(element), kind._length_)
    return kind


def _reduce(
    origin: _Origin | None, name: str, args: Any, returns: Any, to: Any, device: Any
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Returns how pickle makes a function of `wrap` again."""
    if origin is None:
        raise TypeError(
            f"dlbridge: {name} cannot be pickled or copied: it is not a function of a library, as lib.{name} of ctypes.CDLL or "
            "dlbridge.load is, but for example a callback, which another process cannot find"
        )
    declared = {key: _portable(kind) for key, kind in args.items()} if isinstance(args, dict) else list(map(_portable, args))
    return rewrap, (origin, name, declared, _portable(returns), to, device)


@functools.cache
def _open(opener: Callable[..., ctypes.CDLL], path: str | None, keeps_errno: bool) -> ctypes.CDLL:
    return opener(path, use_errno=True) if keeps_errno else opener(path)


# Pickles name this function: it must be found here, and take these arguments, in later versions too.
def rewrap(origin: _Origin, name: str, args: Any, returns: Any, to: Any, device: Any) -> Callable[..., Any]:
    """Returns the function of `wrap` that a pickle describes."""
    return wrap(_open(*origin)[name], to, args=args, returns=returns, device=device)


def load(path: str | bytes | os.PathLike[Any]) -> ctypes.CDLL:
    """Loads a Go library that imports package `bridge/capi`, and returns it as a ctypes library, whose functions `wrap` accepts.

    Call `load` before the first use of a format, such as `tens`. From then on, the formats use this library. Without `load`, they use the
    library that the environment variable DLBRIDGE_LIBRARY names, or else the library in this package. A process can have only one Go library,
    which is never unloaded: restart Python after you have built the library anew.

    The functions of a plain C library need no `load`: `wrap` accepts the functions of a `ctypes.CDLL`.

    Errors: OSError if the file cannot be loaded or is not such a library; RuntimeError if `load` or the first use of a format has already
    loaded another library, or if this process was forked while a library was being loaded. In a forked child of a process that has loaded
    the library, `load` returns it. There the formats, and the functions that `wrap` makes of the library, raise RuntimeError.
    """
    name = os.fsdecode(path)
    if os.path.exists(name):
        name = os.path.abspath(name)  # the loader looks elsewhere for a name without a slash
    _core.load(name)
    return _GoLibrary(name)


if TYPE_CHECKING:  # typing.overload would keep the module for as long as the process lives

    @overload
    def wrap(
        cfunc: Any,
        to: Callable[[Tensor], _Result],
        *,
        args: _Args = None,
        returns: Literal["tensor"] | EllipsisType = ...,
        device: _Device = "cpu",
    ) -> Callable[..., _Result]: ...
    @overload
    def wrap(
        cfunc: Any, to: None = None, *, args: _Args = None, returns: Literal["tensor"], device: _Device = "cpu"
    ) -> Callable[..., Tensor]: ...
    @overload
    def wrap(cfunc: Any, to: None = None, *, args: _Args = None, returns: None, device: _Device = "cpu") -> Callable[..., None]: ...
    @overload
    def wrap(cfunc: Any, to: None = None, *, args: _Args = None, returns: Any = ..., device: _Device = "cpu") -> Callable[..., Any]: ...


def wrap(
    cfunc: Any,
    to: Callable[[Tensor], Any] | None = None,
    *,
    args: Sequence[Any] | Mapping[str, Any] | None = None,
    returns: Any = ...,
    device: tuple[int, int] | str | None = "cpu",
) -> Callable[..., Any]:
    """Returns a Python function that calls a C function whose arguments or result are managed tensors.

        >>> absolute = dlbridge.wrap(ctypes.CDLL(None).abs, args=[ctypes.c_int], returns=ctypes.c_int)
        >>> absolute(-3)
        3

    cfunc: a function of a `ctypes.CDLL`, or of the library that `load` returns.

    args: the types of all parameters of the C function, in order. Each is
        "tensor", for a `DLManagedTensorVersioned *`: the Python function takes any DLPack producer, such as an array;
        `dlbridge.converted(dtype)`, for the same: the Python function also takes lists, numbers and arrays of other types, and converts
        them;
        a ctypes type, such as `c_float` or `POINTER(c_double)`: ctypes converts the argument as usual, but an int must be in the range of
        an integer type;
        "error", as the last item, for a `dlb_error *` of dlbridge.h: the Python function has no such parameter, and raises the
        error that the C function reports.
        A dict gives the parameters names, as in {"x": "tensor", "factor": c_float, "error": "error"}. Calls can use these names, and errors
        and help() show them. Without names, arguments are positional only. If a Go function reports "tensor argument 2", the error has the
        name of the second tensor in args: pass the tensors to `capi.Tensors` in the same order.

    returns: the type of the result: "tensor", a ctypes type, or None for a function without a result.

    to: a function that converts the returned `Tensor`, such as `torch.from_dlpack`.

    device: the device that must hold the memory of all tensors, as in `from_dlpack`: "cpu" (any memory that the host can read),
        "cuda:1", or a tuple (type, id). It is checked before each call. With None, the C function must check the device. Memory of a device
        is ready on the default stream of the device; memory of `from_dlpack(x, stream=…)` is ready on that stream. The function must work
        on this stream, or wait for it. A tensor that the function returns may be on any device. dlbridge assumes that it is ready on the
        default stream, even if it has the memory of an argument with another stream: only the function knows which stream it used.

    dlbridge cannot check that `args` matches the C function. If `args` has too few types, the C function reads an undefined value, which can
    end the process. If `args` has only "tensor" and "error", and `returns` is "tensor" or None, the missing ones of the first eight
    parameters are NULL instead. Functions of dlbridge report NULL as an error.

    `cfunc.argtypes` and `cfunc.restype` can declare the types instead of `args` and `returns`, as in ctypes. A `c_void_p`, and a pointer
    to a structure named DLManagedTensorVersioned, then stand for "tensor". A function without either declaration is refused.

    The GIL is released during the call, unless `cfunc` belongs to a `ctypes.PyDLL`. help() and inspect.signature show the
    names and types of its arguments.

    If `cfunc` is a function of a library, the new function can be pickled, for example for multiprocessing. The process that reads the
    pickle opens the library by its path: with `load` if `load` has opened it here, and otherwise with the same type of ctypes. It looks up
    the function by its name. The argument `mode` of ctypes.CDLL is not kept. The other process must be able to import the types and `to`,
    as for every pickle of a function or class. Pointers to ctypes types and arrays of ctypes types need no import.

    Ownership: the memory of each tensor is shared with the C function, which must call the deleter of the tensor once. The returned
    tensor belongs to the caller. If an error occurs before the call, nothing is shared.

    Errors of `wrap`: TypeError for types that are not declared or that ctypes cannot pass; ValueError if `cfunc` is NULL, or for an unknown
    name of a device.

    Errors of the new function, before the call: those of `from_dlpack` for a tensor; BufferError if it is on another device;
    OverflowError for an integer that is out of the range of its type; TypeError for another argument, and for arguments that
    are missing, unknown or given twice; ctypes.ArgumentError if ctypes has no memory left; RuntimeError for a
    function of a Go library in a forked child of the process that loaded it. After the call: the error that the C function
    reports, with its text; RuntimeError if it returns NULL for a tensor; ValueError if it returns an address at which no managed
    tensor can lie, or a tensor that was released or taken over before. The code of a reported error decides the exception:

        TypeError     a data type
        BufferError   a device, read-only memory, or a version of DLPack
        MemoryError   memory
        OSError       the operating system; ConnectionError if the other side of a connection is gone
        ValueError    a layout, or any other wrong value
        RuntimeError  a panic, or an error of the function's own

    The exception has notes (`__notes__`), which name the function. After a panic in Go, they also have "in FUNCTION (FILE:LINE)" for each
    call, the innermost first: at most 16, and no more than fit into a dlb_error.

    If the C function reports an error, its result is ignored. A ctypes callback that returns a tensor must not raise, because its
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
    names, args = _parameters(args)
    declared = list(args) if names is None else dict(zip(names, args))
    takes_error = bool(args) and args[-1] == "error"
    if takes_error:
        args.pop()
    names = names and names[: len(args)]
    shown = [f"arg{i + 1}" for i in range(len(args))] if names is None else names
    if returns is ...:
        returns = "tensor" if _is_managed(cfunc.restype) else cfunc.restype
    tensors = list(map(_is_tensor, args))
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
            f'dlbridge: wrap: `to` needs a tensor, but {name} returns {returns!r}; use returns="tensor" to declare a tensor'
        )
    direct = type(cfunc)._flags_ == _PLAIN and result != _OTHER and all(tensors)
    converters = tuple(None if kind == "tensor" else kind if tensor else kind.from_param for tensor, kind in zip(tensors, args))
    kinds = tuple(None if tensor else kind for tensor, kind in zip(tensors, args))
    raises = type(cfunc)._flags_ & _PYTHON_API or hasattr(call.restype, "_check_retval_")
    refusal = None if raises else ctypes.ArgumentError
    reduce = functools.partial(_reduce, _origin_of(cfunc, name), name, declared, returns, to, device)
    made = _core.function(
        name,
        call,
        None if names is None else tuple(names),
        _like(name, shown, names is None),
        converters,
        kinds,
        "".join(map(_letter, kinds)).encode(),
        to,
        _OF_CTYPES,
        refusal,
        _address_of(cfunc),
        direct,
        takes_error,
        result,
        reduce,
        device,
    )
    made.__name__ = made.__qualname__ = name
    made.__wrapped__ = cfunc  # type: ignore[attr-defined]
    made.__doc__, made.__signature__ = _help(name, shown, names is None, args, returns, to, takes_error)  # type: ignore[attr-defined]
    return made
