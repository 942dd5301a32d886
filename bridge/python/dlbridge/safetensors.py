"""Files in safetensors, the format of models of Hugging Face.

`dlbridge.open_file` opens them, and also files in npy, npz and GGUF.

The functions call the Go library, which is loaded on first use (see `dlbridge.load`). In a forked child of a
process that has loaded the library they raise RuntimeError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._files import _Path, _Progress, write
from ._json import dumps

__all__ = ["save"]


def __dir__() -> list[str]:
    return __all__


def save(
    path: _Path,
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    align: int | None = None,
    progress: _Progress | None = None,
) -> None:
    """Writes named tensors (any DLPack producers in any layout) and metadata (texts) into a file.

        >>> dlbridge.safetensors.save("model.safetensors", {"w": np.ones((2, 3)), "b": np.zeros(3)}, {"format": "np"})
        >>> dlbridge.open_file("model.safetensors")["w"].shape
        (2, 3)

    The file equals, byte for byte, what safetensors writes. It has a temporary name in the same folder, and replaces an old file when it
    is complete and on the disk. Tensors of the old file stay as they are, so that a file may be written from its own tensors. `align=64`
    aligns the tensors to 64 bytes if their size is a multiple of 64; the format, which forbids gaps, allows no more. `progress(written,
    total)` is called repeatedly with numbers of bytes; an exception that it raises stops the writing.

    Errors: BufferError for a type that safetensors lacks (the text names the tensor); ValueError for names that a file cannot have;
    TypeError for metadata that are not texts; OSError of the system. After an error the old file stays.
    """
    if not isinstance(metadata, Mapping | None):
        raise TypeError(f"dlbridge: save: metadata must be a mapping of texts, such as a dict, not {type(metadata).__name__}")
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"dlbridge: save: metadata must be texts: {key!r} is {value!r}; write it as a str")
    text = None if metadata is None else dumps(metadata, "metadata")
    write("save", path, "safetensors", tensors, text, align, progress)
