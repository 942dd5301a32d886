"""A second Go runtime in the process is found and named."""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import textwrap

import pytest

from dlbridge import _core, _runtimes

LIBRARY = os.environ.get("DLBRIDGE_LIBRARY") or str(pathlib.Path(_core.__file__).parent / "_lib" / "libdlbridge.so")


LOADING = {
    "the first codec call": "dlbridge.tens.encode([])",
    "load": f"dlbridge.load({LIBRARY!r})",
}


def note(owner: bytes, type: int, description: bytes) -> bytes:
    def pad(text):
        return text + bytes(-len(text) % 4)

    return struct.pack("<III", len(owner), len(description), type) + pad(owner) + pad(description)


def elf(*notes: bytes, kind: int = 4, count: int | None = None, offset: int = 64, size: int | None = None) -> bytes:
    """Returns an ELF file with one segment, which contains notes."""
    text = b"".join(notes)
    segments = 1 if count is None else count
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, offset, 0, 0, 64, 56, segments, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", kind, 4, 120, 0, 0, len(text) if size is None else size, 0, 4)
    return header + segment + text


GNU = note(b"GNU\0", 3, bytes(20))
GO = note(b"Go\0\0", 4, b"abc/def/ghi")


@pytest.mark.parametrize(
    ("name", "file", "go"),
    [
        ("Go's note", elf(GO), True),
        ("behind another", elf(GNU, note(b"x\0", 9, b"odd"), GO), True),
        ("another linker's", elf(GNU), False),
        ("another type", elf(note(b"Go\0\0", 3, b"abc")), False),
        ("another owner", elf(note(b"Goo\0", 4, b"abc")), False),
        ("another segment", elf(GO, kind=1), False),
        ("no segments", elf(GO, count=0), False),
        ("more segments than there are", elf(GNU, count=0xFFFF), False),
        ("segments beyond the end", elf(GO, offset=1 << 62), False),
        ("segments beyond any file", elf(GO, offset=(1 << 64) - 1), False),
        ("notes beyond the end", elf(GO, size=(1 << 64) - 1), True),
        ("a note larger than its segment", elf(struct.pack("<III", 4, 0xFFFFFFFF, 1) + b"Go\0\0"), False),
        ("a note without end", elf(GNU[:11]), False),
        ("32 bits", b"\x7fELF\x01" + elf(GO)[5:], False),
        ("cut short", elf(GO)[:63], False),
        ("cut short in the segment", elf(GO)[:100], False),
        ("no ELF file", b"#!/bin/sh\n" * 20, False),
        ("nothing", b"", False),
    ],
)
def test_files_of_go_are_known_by_their_note(tmp_path, name, file, go):
    path = tmp_path / "file"
    path.write_bytes(file)
    assert _runtimes.is_go(str(path)) is go, name


def test_every_cut_of_a_file_is_read_or_refused():
    file = elf(GNU, GO)
    for end in range(len(file)):
        assert (b"Go\0\0", 4) not in _runtimes._notes(io.BytesIO(file[:end])) or end >= len(file) - len(GO) + 16


def test_segments_that_share_their_notes_are_not_read_without_end():
    segments, notes = 1000, struct.pack("<III", 0, 0, 1) * 5461
    header = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q14xHH6x", 64, 56, segments)
    segment = struct.pack("<I4xQ16xQ16x", 4, 64 + 56 * segments, len(notes))
    file = io.BytesIO(header.ljust(64, b"\0") + segment * segments + notes)
    assert len(list(_runtimes._notes(file))) <= _runtimes._MOST // 12


def test_what_cannot_be_read_is_not_go(tmp_path):
    assert not _runtimes.is_go(str(tmp_path / "gone"))
    assert not _runtimes.is_go(str(tmp_path))


def test_only_regular_files_are_read(tmp_path):
    """An ordinary open of a FIFO waits for a writer. If there is one, a read waits for data, and takes it away."""
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    run(f"from dlbridge import _runtimes\nassert not _runtimes.is_go({str(fifo)!r})", timeout=30)
    writer = os.open(fifo, os.O_RDWR)
    os.write(writer, elf(GO))
    run(f"from dlbridge import _runtimes\nassert not _runtimes.is_go({str(link)!r})", timeout=30)
    assert os.read(writer, 1 << 16) == elf(GO)
    os.close(writer)
    leader, follower = os.openpty()
    assert not _runtimes.is_go(os.ttyname(follower))
    os.close(leader)
    os.close(follower)


@pytest.mark.parametrize("how", LOADING)
def test_a_fifo_in_place_of_a_mapped_file_is_not_waited_for(tmp_path, how):
    out, err = run(
        f"""
        import mmap, os
        import dlbridge
        path = {str(tmp_path / "mapped")!r}
        with open(path, "w+b") as file:
            file.truncate(4096)
            kept = mmap.mmap(file.fileno(), 4096)
        os.unlink(path)
        os.mkfifo(path + " (deleted)")
        with open("/proc/self/maps") as maps:
            print(path + " (deleted)" in maps.read())
        {LOADING[how]}
        """,
        timeout=30,
    )
    assert (out, err) == ("True\n", "")


def test_the_library_is_go_and_the_extension_is_not():
    assert _runtimes.is_go(LIBRARY)
    assert not _runtimes.is_go(_core.__file__)


def run(script: str, *options: str, timeout: float = 120) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A Go library of another project. A copy of our library serves, because it has its own runtime."""
    path = tmp_path_factory.mktemp("other") / "libother.so"
    shutil.copy(LIBRARY, path)
    for half in pathlib.Path(LIBRARY).parent.glob("libdlbridge_tensor.so.?"):  # the copy finds it in the same folder
        shutil.copy(half, path.parent)
    return str(path)


@pytest.mark.parametrize("how", LOADING)
def test_a_second_runtime_is_named_in_a_warning_once(other, how):
    out, err = run(
        f"""
        import ctypes, warnings
        import dlbridge
        ctypes.CDLL({other!r})
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                {LOADING[how]}
            print([(w.category.__name__, {other!r} in str(w.message)) for w in caught])
        """
    )
    assert out == "[('RuntimeWarning', True)]\n[]\n"
    assert err == ""


@pytest.mark.parametrize("how", LOADING)
def test_one_runtime_is_no_matter(how):
    run(f"import dlbridge\n{LOADING[how]}", "-W", "error")


def test_a_library_of_ones_own_is_not_another(other):
    run(
        f"""
        import ctypes, os
        import dlbridge
        os.symlink({other!r}, {other!r} + ".1")
        ctypes.CDLL({other!r} + ".1")
        dlbridge.load({other!r})
        assert len(dlbridge.tens.encode([])) == 2
        """,
        "-W",
        "error",
    )


def test_a_warning_that_is_an_error_leaves_the_library_loaded(other):
    out, _ = run(
        f"""
        import ctypes, warnings
        import dlbridge
        ctypes.CDLL({other!r})
        warnings.simplefilter("error")
        try:
            dlbridge.load({LIBRARY!r})
        except RuntimeWarning as e:
            print({other!r} in str(e))
        print(len(dlbridge.tens.encode([])))
        """
    )
    assert out == "True\n2\n"


NOWHERE = 'os.environ["DLBRIDGE_LIBRARY"] = "/nowhere/lib.so"'
FAILING = {
    "no such library": ("", 'dlbridge.load("/nowhere/lib.so")'),
    "no library of ours": ("", f"dlbridge.load({_core.__file__!r})"),
    "another is loaded": (f"dlbridge.load({LIBRARY!r})", 'dlbridge.load("/nowhere/lib.so")'),
    "a codec call": (NOWHERE, "dlbridge.tens.decode([], message_only=True)"),
}


@pytest.mark.parametrize("before, error", [("", OSError), (f"dlbridge.load({LIBRARY!r})", RuntimeError)])
def test_a_fifo_is_not_loaded(tmp_path, before, error):
    """The loader would wait for a writer of the FIFO, and all other threads for the loader."""
    os.mkfifo(tmp_path / "fifo.so")
    for path in tmp_path / "fifo.so", "/dev/zero", tmp_path:
        script = f"""
            import dlbridge
            {before}
            try:
                dlbridge.load({str(path)!r})
            except {error.__name__}:
                print("refused")
        """
        assert run(script, timeout=30) == ("refused\n", "")


@pytest.mark.parametrize("case", FAILING)
def test_finalizers_may_load_the_library_while_a_load_fails(case):
    """The collector may run while the exception is made, and a finalizer may then need the library too."""
    before, call = FAILING[case]
    out, err = run(
        f"""
        import gc, os
        import dlbridge

        {before}
        calls = failures = 0

        def call():
            global calls, failures
            calls += 1
            try:
                {call}
            except (OSError, RuntimeError):
                failures += 1

        class Late:
            def __init__(self):
                self.me = self

            def __del__(self):
                call()

        gc.collect()
        try:
            raise KeyError  # while this is handled, Python 3.11 makes the next exception immediately
        except KeyError:
            for i in range(300):
                Late()
                gc.set_threshold(1 + i % 7)
                call()
        gc.collect()
        print(calls, failures)
        """,
        timeout=30,
    )
    assert (out, err) == ("600 600\n", "")


def test_a_finalizer_at_the_end_may_make_the_first_call():
    out, _ = run("""
        import sys
        import numpy as np
        from dlbridge import tens
        class Late:
            def __del__(self, encode=tens.encode, array=np.arange(6)):
                print(len(encode([array])), flush=True)
        sys.modules["late"] = Late()
    """)
    assert out == "3\n"
