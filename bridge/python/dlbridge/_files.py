"""Files of tensors: open_file, and the function with which the modules of the formats write them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, KeysView, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from . import _core
from ._core import Tensor
from ._json import loads
from ._messages import _name_tensor

if TYPE_CHECKING:
    from typing_extensions import CapsuleType, Self
else:
    CapsuleType = Self = Any  # typing has Self, and Python 3.13 CapsuleType

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Progress = Callable[[int, int], object]
_SET, _WRITABLE = 1, 2  # DLB_FILE_SET, DLB_FILE_WRITABLE
_SHOWN, _SHOWN_NAME = 8, 64  # the most tensors, and the most characters of each name, that the text of a file has
_T = TypeVar("_T")


class Entry(NamedTuple):
    """The description of a tensor of a file.

        >>> dlbridge.npy.save("x.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
        >>> e = dlbridge.open_file("x.npy").entries["arr_0"]
        >>> e.type, e.dtype, e.shape, e.offset, e.nbytes, e.aligned
        ('<i2', 'int16', (2, 3), 128, 12, True)

    Attributes:
        name: the name of the tensor. The only array of an npy file is named "arr_0".
        type: the name of the element type in the format, such as "F32" in safetensors, "<f4" in npy and "Q4_K" in GGUF.
        dtype: the data type of the Tensor, or None if there is none. It is "uint8" for quantised blocks of GGUF.
        shape: the shape of the Tensor or, for quantised blocks, of the numbers in them.
        offset: the index of the first byte of the elements in the file, or of their deflated bytes.
        nbytes: the size of the Tensor in bytes.
        aligned: whether the elements are aligned to their type in the file. `File.copy` makes an aligned copy.
        copied: why the Tensor is a copy: "big-endian", or "deflated" in an npz file. It is empty if the Tensor lies in the file.
        problem: why a member of an npz file has no Tensor, for example because it is an array of texts; otherwise empty.
        path: the path of the file.
    """

    name: str
    type: str
    dtype: _core.DType | None
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    aligned: bool
    copied: str
    problem: str
    path: str


def _system_error(error: Exception, path: _Path) -> Exception:
    """Returns Python's exception for the system error at the end of the text of an error, or the error itself."""
    text = str(error)
    if isinstance(error, OSError):
        for number in errno.errorcode:
            if text.endswith(": " + os.strerror(number).lower()):
                return OSError(number, os.strerror(number), os.fspath(path))
    elif isinstance(error, ValueError) and os.path.isdir(path):
        return IsADirectoryError(errno.EISDIR, text, os.fspath(path))
    return error


def _on(path: _Path, call: Callable[..., _T], *arguments: Any) -> _T:
    """Calls a function of the library for a file, and raises errors of the system as Python does."""
    try:
        return call(*arguments)
    except (OSError, ValueError) as error:
        other = _system_error(error, path)
        if other is error:
            raise
        raise other from None


class File(Mapping[str, Tensor]):
    """An open file of tensors: a mapping of their names to Tensors. `open_file` makes it.

    Each `file["w"]` makes a new Tensor in the memory of the file. The elements are not read before a program uses them. `keys`,
    `items`, `get`, `len`, `in` and iteration work as in a dict. Unlike a dict, a file is equal only to itself, and can be hashed.

        >>> dlbridge.npy.savez("x.npz", a=np.arange(3), b=np.ones(2))
        >>> file = dlbridge.open_file("x.npz")
        >>> [(name, t.shape) for name, t in file.items()]
        [('a', (3,)), ('b', (2,))]

    Attributes:
        path: the path, as it was given.
        format: "safetensors", "npy", "npz" or "gguf".
        metadata: the metadata of the file, as a dict; it is empty if the file has none. In a text of GGUF, bytes that are not UTF-8 are
            decoded by Python's error handler "surrogateescape".
        entries: the descriptions of all tensors, a read-only mapping of their names to `Entry`. Reading it makes no Tensor.
        closed: whether the file was closed.

    The file is closed by `close`, at the end of a `with` block, or when the last reference to it is gone. Its tensors stay valid after the
    file is closed, renamed, replaced or deleted. `entries` and `metadata` of a closed file work if they were used before. All other uses of
    a closed file raise ValueError.
    """

    __slots__ = ("_entries", "_file", "_metadata", "_places", "format", "path")

    path: _Path
    format: str
    _entries: Mapping[str, Entry] | None
    _file: CapsuleType | None
    _metadata: dict[str, Any] | None
    _places: dict[str, int]

    def __init__(self, path: _Path, *, writable: bool = False, as_dtype: Any = None, index: bool | None = None) -> None:
        if index is None:
            index = os.fsencode(path).endswith(b".index.json")
        flags = (_SET if index else 0) | (_WRITABLE if writable else 0)
        self._entries = self._metadata = None
        self.path = path
        self._file = _on(path, _core.file_open, path, flags, as_dtype)
        self.format = _core.file_format(self._file)

    def _open(self) -> CapsuleType:
        if self._file is None:
            raise ValueError(f"dlbridge: the file {os.fsdecode(self.path)!r} is closed")
        return self._file

    @property
    def closed(self) -> bool:
        return self._file is None

    @property
    def entries(self) -> Mapping[str, Entry]:
        if self._entries is None:
            entries = {entry[0]: Entry._make(entry) for entry in _core.file_entries(self._open())}
            self._places = {name: i for i, name in enumerate(entries)}
            self._entries = MappingProxyType(entries)
        return self._entries

    @property
    def metadata(self) -> dict[str, Any]:
        if self._metadata is None:
            self._metadata = loads(_core.file_metadata(self._open()))
        return self._metadata

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def keys(self) -> KeysView[str]:
        """Returns the names of the tensors, in the order of the file."""
        return self.entries.keys()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the tensor with the name, or `default` if there is none."""
        return self[name] if name in self.entries else default

    def __getitem__(self, name: str) -> Tensor:
        """Returns the tensor with the name, in the memory of the file.

        The tensor is read-only without `writable=True`. The system enforces this: a consumer that still writes ends the process.
        Quantised blocks of GGUF are bytes: the last dimension has the bytes of a block.

        Errors: KeyError if no tensor has the name; BufferError for an array of a type that DLPack cannot carry; ValueError for deflated
        elements that are malformed.
        """
        return self._tensor(name, False)

    def copy(self, name: str) -> Tensor:
        """Reads the tensor with the name into new memory, which is writable, aligned and independent of the file.

        Errors: those of file[name], and OSError if the file has become shorter.
        """
        return self._tensor(name, True)

    def _tensor(self, name: str, copy: bool) -> Tensor:
        if name not in self.entries:
            raise KeyError(f"dlbridge: {os.fsdecode(self.path)!r} has no tensor {name!r}{self._near(name)}")
        return _on(self.path, _core.file_tensor, self._open(), self._places[name], copy)

    def _near(self, name: object) -> str:
        import difflib
        from itertools import islice

        names = difflib.get_close_matches(name, islice(self.entries, 10_000), 3) if isinstance(name, str) else []
        what = "the nearest names are" if names else f"the {len(self)} names begin with" if len(self) > _SHOWN else "the names are"
        names = names or list(islice(self.entries, _SHOWN))
        return f"; {what} {', '.join(repr(name[:_SHOWN_NAME]) for name in names)}" if names else "; it has none"

    def verify(self) -> None:
        """Raises OSError if the size of the file, or the time of its last change, differs from when the file was opened."""
        _on(self.path, _core.file_check, self._open(), False)

    def sync(self) -> None:
        """Waits until all changes of a file that was opened with `writable=True` are on the disk."""
        _on(self.path, _core.file_check, self._open(), True)

    def close(self) -> None:
        """Closes the file. Its tensors stay valid."""
        self._file = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __bool__(self) -> bool:
        return True

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        head = f"<dlbridge.File {os.fsdecode(self.path)!r}, {self.format}"
        if self._file is None:
            return f"{head}, closed>"
        entries = list(self.entries.values())
        texts = [f"{e.name[:_SHOWN_NAME]!r} {'refused' if e.problem else f'{e.dtype}{e.shape}'}" for e in entries[:_SHOWN]]
        texts += ["..."] * (len(entries) > _SHOWN)
        return f"{head}, {len(entries)} tensor{'s' * (len(entries) != 1)}{': ' * (texts != [])}{', '.join(texts)}>"


def open_file(path: _Path, *, writable: bool = False, as_dtype: Any = None, index: bool | None = None) -> File:
    """Opens a file of tensors, in safetensors, npy, npz or GGUF, as a mapping of names to Tensors in the memory of the file.

        >>> dlbridge.safetensors.save("w.safetensors", {"w": np.ones((2, 3), np.float32)}, {"made by": "me"})
        >>> with dlbridge.open_file("w.safetensors") as file:
        ...     w = file["w"].numpy()  # no copy
        ...     file.format, file.metadata, w.shape
        ('safetensors', {'made by': 'me'}, (2, 3))

    `open_file` detects the format from the contents of the file. It maps the file and checks the descriptions of the tensors, but reads no
    elements. `index` is whether the file is an index of safetensors: a JSON file with the names of other files in its folder. These files
    are opened as one file. The default is True if the path ends in ".index.json".

    `writable=True` maps an npy file so that writing to its tensor changes the file. `as_dtype`, such as "bfloat16", is the data type of the
    elements of an npy file whose type NumPy does not name, because numpy.save drops the types of ml_dtypes. In an npz file, `as_dtype`
    applies to each array without a named type whose elements have the size of `as_dtype`.

    Ownership: a Tensor, and everything made from it, keeps the mapping, even after the file was closed or deleted. If another program
    makes the file shorter, SIGBUS ends the process when it reads the missing pages: replace files instead, as the functions `save` do.
    Errors: FileNotFoundError, PermissionError and other errors of the system; ValueError for a malformed file, which names the byte, and
    for a path that is not a regular file; BufferError for an npy file of a type that DLPack cannot carry.
    """
    return File(path, writable=writable, as_dtype=as_dtype, index=index)


def write(
    function: str,
    path: _Path,
    format: str,
    tensors: Mapping[str, Any],
    metadata: bytes | None = None,
    align: int | None = None,
    progress: _Progress | None = None,
) -> None:
    """Writes a file. Errors have the name of `function`."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"dlbridge: {function}: the tensors must be a mapping of names to tensors, such as a dict, not {type(tensors).__name__}")
    names = tuple(tensors)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"dlbridge: {function}: the name of a tensor must be a str, not {name!r}")
    if progress is not None and not callable(progress):
        raise TypeError(f"dlbridge: {function}: progress must be a function of two numbers, not {progress!r}")
    if align is not None and align < 1:
        raise ValueError(f"dlbridge: {function}: align must be a positive number, not {align!r}")
    try:
        _on(path, _core.file_write, path, format, names, tuple(tensors[name] for name in names), metadata, align or 0, progress)
    except (BufferError, TypeError, ValueError) as error:
        _name_tensor(error, names, function)
        raise
