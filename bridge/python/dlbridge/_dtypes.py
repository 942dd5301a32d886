"""Converts data types of Python, NumPy, PyTorch and others into names that the C extension reads."""

from __future__ import annotations

import sys
from typing import Any

_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def name_of(dtype: Any) -> str:
    """Returns the name of a data type that is not a str.

    `dtype` is float, int, bool or complex (for float64, int64, bool and complex128, as in NumPy); a dtype or scalar type of NumPy
    or ml_dtypes, or an object with one in its attribute dtype (JAX); or a data type of PyTorch, TensorFlow or another package whose
    attribute `name`, or text after the last dot, is a name (torch.float32).

    Errors: TypeError for any other object; BufferError for a byte order other than the machine's.
    """
    if isinstance(dtype, type) and dtype in _PYTHON:
        return _PYTHON[dtype]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        of_numpy = dtype if isinstance(dtype, (numpy.dtype, type)) else getattr(dtype, "dtype", None)
        if isinstance(of_numpy, type) and issubclass(of_numpy, numpy.generic):
            of_numpy = numpy.dtype(of_numpy)
        if isinstance(of_numpy, numpy.dtype) and not hasattr(dtype, "__dlpack__"):
            if not of_numpy.isnative:
                raise BufferError(
                    f"dlbridge: dtype {of_numpy.str!r} is not in native byte order, which DLPack requires; swap the bytes first"
                )
            return str(of_numpy.name)
    package = type(dtype).__module__.partition(".")[0]
    if package != "builtins" and not hasattr(dtype, "__dlpack__"):
        name = getattr(dtype, "name", None)
        if isinstance(name, str):
            return name
        text = str(dtype)
        if text.startswith(f"{package}."):
            return text.rpartition(".")[2]
    raise TypeError(
        "dlbridge: dtype must name a type, as 'float32', '<f4', numpy.float32, torch.float32 and float do, "
        f"not {dtype if isinstance(dtype, type) else type(dtype)!r}"
    )
