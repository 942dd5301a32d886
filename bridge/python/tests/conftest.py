"""The C fixture, and the check that every test leaves the counters as they were."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import textwrap
import threading
import types
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

import dlbridge
from dlbridge import _core

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CORE = ROOT / "dlpack" / "internal" / "core"
RANK = 300
collect_ignore = ["test_zeromq_drafts.py"]  # `make zeromq` names this file, and runs it with another pyzmq
MODULES = [dlbridge, *(value for name in dlbridge.__all__ if isinstance(value := getattr(dlbridge, name), types.ModuleType))]


class Description(ctypes.Structure):
    """The struct description of fixture.c."""

    _fields_ = [
        ("legacy", ctypes.c_int32),
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("code", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("lanes", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape_count", ctypes.c_int32),
        ("strides_count", ctypes.c_int32),
        ("shape", ctypes.c_int64 * RANK),
        ("strides", ctypes.c_int64 * RANK),
        ("byte_offset", ctypes.c_uint64),
        ("data_shift", ctypes.c_int64),
        ("null_data", ctypes.c_int32),
        ("null_deleter", ctypes.c_int32),
        ("raising_deleter", ctypes.c_int32),
        ("data_at", ctypes.c_uint64),
    ]


class Fixture:
    """Managed tensors made in C, and a consumer in C."""

    def __init__(self, path: pathlib.Path) -> None:
        pointer, number, obj, text = ctypes.c_void_p, ctypes.c_int64, ctypes.py_object, ctypes.c_char_p
        self.path = path
        self.lib = ctypes.PyDLL(str(path))
        for name, result, arguments in [
            ("deletes", number, []),
            ("made", number, []),
            ("make", pointer, [ctypes.POINTER(Description)]),
            ("free", None, [pointer]),
            ("guarded", pointer, []),
            ("capsule", obj, [pointer, ctypes.c_int]),
            ("bare_capsule", obj, [pointer, text]),
            ("capsule_name", text, [obj]),
            ("capsule_pointer", pointer, [obj]),
            ("delete", None, [pointer]),
            ("deleter", pointer, [pointer]),
            ("scribble", None, [pointer]),
            ("delete_on_threads", None, [pointer, number, number, ctypes.c_int]),
            ("delete_under_error", obj, [obj, pointer]),
            ("drop_under_error", obj, [obj, obj]),
            ("delete_at_exit", None, [pointer]),
            ("start_deleters", None, [pointer, number, number]),
            ("start_waiting_deleters", None, [pointer, number]),
            ("await_deleters", None, [number]),
            ("stuck", obj, []),
            ("await_stuck", None, []),
            ("describe", obj, [pointer]),
            ("buffer", obj, [obj, ctypes.c_int]),
            ("table", obj, [ctypes.POINTER(Description), text, ctypes.c_int, ctypes.c_int]),
            ("table_calls", ctypes.c_int, []),
            ("table_works_on", None, [number]),
            ("open", None, []),
            ("exchange_error", text, []),
            ("exchange_alloc", pointer, [pointer, ctypes.POINTER(Description)]),
            ("exchange_from", pointer, [pointer, obj]),
            ("exchange_to", obj, [pointer, pointer]),
            ("exchange_view", obj, [pointer, obj]),
            ("exchange_stream", ctypes.c_int, [pointer]),
            ("exchange_header", obj, [pointer]),
        ]:
            function = getattr(self.lib, "fixture_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def description(self, shape=(4,), strides=(1,), **fields) -> Description:
        d = Description(
            major=1, minor=3, device_type=1, code=2, bits=32, lanes=1, ndim=0 if shape is None else len(shape)
        )
        d.shape_count = -1 if shape is None else len(shape)
        d.strides_count = -1 if strides is None else len(strides)
        d.shape[: len(shape or ())] = list(shape or ())
        d.strides[: len(strides or ())] = list(strides or ())
        for name, value in fields.items():
            setattr(d, name, value)
        return d

    def managed(self, shape=(4,), strides=(1,), **fields) -> int:
        """Returns the address of a new managed tensor, by default a float32 tensor of shape (4,)."""
        address = self.make(ctypes.byref(self.description(shape, strides, **fields)))
        assert address
        return address

    def new_capsule(self, shape=(4,), strides=(1,), legacy=0, **fields):
        return self.capsule(self.managed(shape, strides, legacy=legacy, **fields), legacy)

    def pointers(self, addresses):
        return (ctypes.c_void_p * len(addresses))(*addresses)


@pytest.fixture(scope="session")
def c(tmp_path_factory) -> Fixture:
    out = tmp_path_factory.mktemp("fixture") / "fixture.so"
    subprocess.run(
        [
            *os.environ.get("CC", "cc").split(),
            "-std=gnu11", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
            "-I" + sysconfig.get_path("include"),
            "-I" + str(ROOT / "include"),
            str(HERE / "fixture.c"),
            "-o", str(out), "-lpthread",
        ],
        check=True,
    )  # fmt: skip
    return Fixture(out)


@pytest.fixture(scope="session")
def served_library(tmp_path_factory) -> str:
    """The path of the library of served.go."""
    library = tmp_path_factory.mktemp("served") / "libserved.so"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", library, HERE / "served.go"], cwd=ROOT, check=True)
    return str(library)


def settled(counters, before) -> dict[str, int]:
    """Returns the counters. If they differ from before, the garbage collector runs first."""
    after = counters()
    if after != before:
        gc.collect()
        after = counters()
    return after


def live() -> dict[str, int]:
    """Returns the counters without pinned memory, which Go unpins some time after its last share has ended."""
    counters = dlbridge.counters()
    del counters["pinned_bytes"]
    return counters


@pytest.fixture(autouse=True)
def nothing_left_alive(request):
    """Checks that a test leaves the counters of live objects as they were."""
    before = live()
    yield
    if marker := request.node.get_closest_marker("double_delete"):
        before["double_deletes"] += marker.args[0]
    assert settled(live, before) == before


@pytest.fixture
def nothing_left_alive_in_go():
    """Checks the same for the counters of the Go library."""
    before = _core.library_counters()
    yield
    assert settled(_core.library_counters, before) == before


class Entry(dict):
    """An object in a manifest of vectors, with the folder of the manifest, and whether DLBRIDGE_VECTORS added it."""

    def __init__(self, fields: dict, folder: pathlib.Path, further: bool) -> None:
        super().__init__(fields)
        self.folder, self.further = folder, further

    def read(self, name: str) -> bytes:
        """Returns the content of a file in the folder of the manifest."""
        return (self.folder / name).read_bytes()


# In Go, package dlpack/dlpacktest/vectors finds the vectors in the same way, and documents DLBRIDGE_VECTORS.
VECTOR_FOLDERS = {
    **{manifest.parts[-3]: manifest.parent for manifest in sorted(ROOT.glob("bridge/*/testdata/manifest.json"))},
    "zio": ROOT / "tens/testdata",
}


def vectors(name: str, group: str = "") -> dict[str, list]:
    """Returns the sections of a set of vectors: those of the repository, then those of DLBRIDGE_VECTORS."""
    folders = [VECTOR_FOLDERS[name] / group]
    if further := os.environ.get("DLBRIDGE_VECTORS"):
        top = ROOT / further
        assert any((top / name).is_dir() for name in VECTOR_FOLDERS), (
            f"DLBRIDGE_VECTORS={further} is not a folder with vectors: it has no subfolder {', '.join(VECTOR_FOLDERS)}"
        )
        if (top / name / group).is_dir():
            folders.append(top / name / group)
    sections: dict[str, list] = {}
    for i, folder in enumerate(folders):
        text = (folder / "manifest.json").read_text()
        manifest = json.loads(text, object_hook=lambda fields, at=folder, further=i > 0: Entry(fields, at, further))
        for section, content in manifest.items():
            if isinstance(content, list):
                sections.setdefault(section, []).extend(content)
    return sections


def count_ours(vectors: list[Entry]) -> int:
    """Returns the number of vectors in the repository."""
    return sum(not vector.further for vector in vectors)


def run_python(script: str, *options: str, expected: int = 0, timeout: float = 120, **environment: str) -> str:
    """Returns the output of a script in a new process, which must end with the expected status and write nothing to stderr."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", *options, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (expected, ""), done.stdout
    return done.stdout


def on_threads(count: int, work: Callable[[int], object]) -> None:
    """Calls work with 0, 1, ... on that many threads at the same time, and raises the exception of one of them."""
    start = threading.Barrier(count)

    def call(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(call, range(count)))


def elements_of(tensor: dlbridge.Tensor) -> bytes:
    """Returns the elements of a row-major tensor, also of types and ranks that NumPy lacks."""
    return ctypes.string_at(tensor.data_ptr, tensor.nbytes) if tensor.nbytes > 0 else b""


def resident() -> int:
    """Returns the resident memory of this process in bytes."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Producer:
    """A DLPack producer whose capsules are made by a function. It records the arguments of its calls."""

    def __init__(self, make, device=(1, 0)) -> None:
        self.make, self.device, self.calls = make, device, []

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        return self.make()

    def __dlpack_device__(self):
        return self.device


class Lazy(Mapping):
    """A mapping that makes its values on request."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 1

    def __iter__(self):
        return iter(["gain"])

    def __getitem__(self, key):
        return self.make()


def exporter(contents: Iterable[bytes]) -> object:
    """An object that returns the next item of contents as its buffer on each request. If contents is a generator, its code
    runs on each request, like that of __buffer__ from Python 3.12 on."""

    class Slot(ctypes.Structure):
        _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]

    class Spec(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("sizes", ctypes.c_int * 2),
            ("flags", ctypes.c_uint),
            ("slots", ctypes.POINTER(Slot)),
        ]

    fill = ctypes.pythonapi.PyBuffer_FillInfo
    fill.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_int]
    given = iter(contents)

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    def getbuffer(self, view, flags):
        data = next(given)
        return fill(view, self, ctypes.cast(data, ctypes.c_void_p), len(data), 1, flags)

    slots = (Slot * 2)((1, ctypes.cast(getbuffer, ctypes.c_void_p)))  # Py_bf_getbuffer
    spec = Spec(b"test.Exporter", (ctypes.c_int * 2)(object.__basicsize__, 0), 1 << 18, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(Spec)]
    kind = make(spec)
    kind.kept = contents, getbuffer, slots, spec
    return kind()
