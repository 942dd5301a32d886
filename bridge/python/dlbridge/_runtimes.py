"""Finds other Go runtimes in this process. Go supports only one in a process.

A runtime is found by the build ID that Go's linker writes into each program and library, an ELF note with the owner
"Go". This module neither loads nor calls Go.
"""

from __future__ import annotations

import os
import stat
import struct
import warnings
from collections.abc import Iterator
from typing import BinaryIO

# ELF-64, little-endian: e_ident; e_phoff, e_phentsize and e_phnum of the header; p_type, p_offset and p_filesz of a
# program header; and the header of a note.
_IDENT = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<32xQ14xHH6x")
_SEGMENT = struct.Struct("<I4xQ16xQ16x")
_NOTE = struct.Struct("<III")
_PT_NOTE = 4
_GO_BUILD_ID = 4
_MOST = 1 << 16  # the limit of bytes read from the program headers of a file, and from all its notes


def _notes(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yields the owner and type of each note in an ELF file. A file of another kind has none."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(_IDENT):
        return
    offset, size, count = _HEADER.unpack(header)
    if size != _SEGMENT.size:
        return
    file.seek(offset)
    segments = file.read(min(size * count, _MOST))
    left = _MOST
    for kind, at, length in _SEGMENT.iter_unpack(segments[: len(segments) // size * size]):
        if kind != _PT_NOTE:
            continue
        file.seek(at)
        notes, i = file.read(min(length, left)), 0
        left -= len(notes)
        while i + _NOTE.size <= len(notes):
            owner, description, type = _NOTE.unpack_from(notes, i)
            i += _NOTE.size
            yield notes[i : i + owner], type
            i += (owner + 3 & ~3) + (description + 3 & ~3)


def _open(path: str, flags: int) -> int:
    """Opens a file without waiting, for the writer of a FIFO for example."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def is_go(path: str) -> bool:
    """Reports whether the file is a program or library with a build ID of Go's linker.

    Only regular files are read. A mapped file may be a device, and its path may now belong to another file, such as a FIFO. Reading
    a device or FIFO may block forever, and takes data away from its other readers.
    """
    try:
        with open(path, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            return any(note == (b"Go\0\0", _GO_BUILD_ID) for note in _notes(file))
    except (OSError, OverflowError, ValueError):
        return False  # the file is gone or cannot be opened, or an offset is too large


def others(address: int) -> list[str]:
    """Returns the files mapped by this process that contain a Go runtime, without the file that `address` belongs to."""
    own = None
    files: dict[tuple[str, str], str] = {}
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                fields = line.rstrip("\n").split(maxsplit=5)
                if len(fields) < 6 or not fields[5].startswith("/"):
                    continue
                first, last = (int(end, 16) for end in fields[0].split("-"))
                identity = fields[3], fields[4]  # device and inode: one file may have several names
                if first <= address < last:
                    own = identity
                files.setdefault(identity, fields[5])
    except OSError:
        return []  # this system has no /proc
    return [path for identity, path in files.items() if identity != own and is_go(path)]


def warn(address: int) -> None:
    """Warns if the process has a Go runtime besides the one of the library that `address` belongs to."""
    if found := others(address):
        warnings.warn(
            f"dlbridge: another Go runtime is in this process, in {', '.join(found)}. Go supports only one. To have "
            "only one, build that library with the package bridge/capi of dlbridge in it, and pass its path to dlbridge.load",
            RuntimeWarning,
            stacklevel=2,
        )
