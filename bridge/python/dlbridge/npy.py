"""Files of NumPy: npy and npz. They need no NumPy.

`dlbridge.open_file` opens them, and also files in safetensors and GGUF.

The functions call the Go library, which is loaded on first use (see `dlbridge.load`). In a forked child of a
process that has loaded the library they raise RuntimeError.
"""

from __future__ import annotations

from typing import Any

from ._asarray import asarray
from ._files import _Path, _Progress, write

__all__ = ["save", "savez"]


def __dir__() -> list[str]:
    return __all__


def save(path: _Path, x: Any, *, progress: _Progress | None = None) -> None:
    """Writes a tensor, any DLPack producer or a list of numbers into an npy file, with the same bytes as `numpy.save`.

        >>> dlbridge.npy.save("x.npy", np.arange(6).reshape(2, 3))
        >>> np.load("x.npy").tolist()
        [[0, 1, 2], [3, 4, 5]]

    Unlike `numpy.save`, the function does not append ".npy" to the path. As with NumPy, the file keeps only the size of bfloat16 and other
    types that NumPy does not name: `open_file(path, as_dtype="bfloat16")` restores the type. An old file is replaced when the new file is
    complete and on the disk. `progress(written, total)` is called repeatedly with numbers of bytes. If it raises an exception, writing
    stops.

    Errors: BufferError for a tensor that cannot be written; OSError of the system. After an error the old file stays.
    """
    write("save", path, "npy", {"arr_0": asarray(x)}, progress=progress)


def savez(path: _Path, *args: Any, **kwds: Any) -> None:
    """Writes tensors into an npz file without compression, with the same bytes as `numpy.savez`.

        >>> dlbridge.npy.savez("x.npz", np.arange(3), w=np.ones(2))
        >>> list(dlbridge.open_file("x.npz"))
        ['w', 'arr_0']

    The tensors have the names of the keyword arguments; the other tensors are named "arr_0", "arr_1" and so on. The path and the tensors
    are as for `save`.

    Errors: those of `save`; ValueError for a name that an npz file cannot have, or that two tensors have.
    """
    tensors = dict(kwds)
    for i, x in enumerate(args):
        if isinstance(x, dict):
            raise TypeError("dlbridge: savez: a dict is not a tensor; pass the tensors of a dict as savez(path, **tensors)")
        if f"arr_{i}" in tensors:
            raise ValueError(f"dlbridge: savez: argument {i} and a keyword are both named arr_{i}")
        tensors[f"arr_{i}"] = x
    write("savez", path, "npz", {name: asarray(x) for name, x in tensors.items()})
