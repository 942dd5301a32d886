"""Tensors across Python, C and Go on one memory: the DLPack protocol and the tensor messages of ZIO.

A *producer* owns memory and describes it. A *consumer* reads it. A `Tensor` is a view of memory, and a share in its
ownership. Any DLPack consumer accepts it. These functions make a Tensor without copying: `from_dlpack` from any DLPack producer,
`from_address` from the result of a C function, and `from_buffer` from any buffer. These make one on new memory: `asarray` from lists,
and `empty` and `zeros` from a shape.

`open_file` opens files of tensors in place. `tens` decodes and encodes messages that contain tensors. `decthings` and `tensorflow`
decode and encode the tensors of other formats, with `Elements` for types that DLPack lacks.

All functions raise `BufferError` for tensors that DLPack cannot carry, `ValueError` for malformed data (the text
says where), and `TypeError` for wrong arguments. `from_dlpack` raises `AttributeError` for an object without `__dlpack__`.
"""

from __future__ import annotations

# This import comes first: it fails in a subinterpreter, with an error that names this package.
from ._core import (
    Tensor,
    counters,
    empty,
    from_address,
    from_buffer,
    from_dlpack,
    to_address,
    zeros,
)

import os
from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import takes longer than that of this package
if TYPE_CHECKING:
    from . import decthings, npy, safetensors, shm, tens, tensorflow, testing
    from ._asarray import asarray
    from ._elements import Elements
    from ._files import Entry, File, open_file
    from ._wrap import converted, load, wrap

__all__ = [
    "Elements",
    "Entry",
    "File",
    "Tensor",
    "asarray",
    "converted",
    "counters",
    "decthings",
    "empty",
    "from_address",
    "from_buffer",
    "from_dlpack",
    "get_include",
    "load",
    "npy",
    "open_file",
    "safetensors",
    "shm",
    "tens",
    "tensorflow",
    "testing",
    "to_address",
    "wrap",
    "zeros",
]
__version__ = "0.1.0"

_MODULES = {name: "" for name in ("decthings", "npy", "safetensors", "shm", "tens", "tensorflow", "testing")}
_MODULES |= {"Entry": "_files", "File": "_files", "open_file": "_files", "Elements": "_elements", "asarray": "_asarray", "converted": "_wrap", "load": "_wrap", "wrap": "_wrap"}

if not TYPE_CHECKING:  # a type checker would take every name for an attribute of this module

    def __getattr__(name):
        """Imports the module of a name when the name is first used, so that `import dlbridge` takes no time for it."""
        if name not in _MODULES:
            raise AttributeError(f"module 'dlbridge' has no attribute {name!r}")
        module = import_module(f"dlbridge.{_MODULES[name] or name}")
        value = getattr(module, name) if _MODULES[name] else module
        globals()[name] = value
        return value

    def __dir__():
        return [*__all__, *(name for name in globals() if name.startswith("__"))]


def get_include() -> str:
    """Returns the folder of the C headers `dlbridge.h` and `dlpack/dlpack.h`, for the option -I of a C compiler.

        >>> os.path.exists(os.path.join(dlbridge.get_include(), "dlbridge.h"))
        True
    """
    return os.path.join(os.path.dirname(__file__), "_include")
