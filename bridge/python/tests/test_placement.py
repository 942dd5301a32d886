"""Tensors in memory at different places: every operation has the same result, and accesses no other byte."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
import zmq
from formats import FORMATS, READERS

import dlbridge

PAGE = mmap.PAGESIZE
NONE, READ, WRITE = 0, 1, 2
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """A copy of bytes between two pages that fault, at the end or the beginning of the pages in between."""

    def __init__(self, data: bytes, at_end: bool, read_only: bool) -> None:
        pages = -(-len(data) // PAGE) * PAGE
        self.size = pages + 2 * PAGE
        self.start = libc.mmap(None, self.size, NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert self.start != ctypes.c_void_p(-1).value
        address = self.start + PAGE + (pages - len(data) if at_end else 0)
        assert libc.mprotect(self.start + PAGE, pages, READ | WRITE) == 0
        ctypes.memmove(address, data, len(data))
        if read_only:
            assert libc.mprotect(self.start + PAGE, pages, READ) == 0
        self.array = np.ctypeslib.as_array((ctypes.c_uint8 * len(data)).from_address(address))
        self.array.flags.writeable = not read_only

    def close(self) -> None:
        del self.array
        assert libc.munmap(self.start, self.size) == 0


PLACES = {
    "array": lambda data: (np.frombuffer(bytearray(data), np.uint8), None),
    "bytes": lambda data: (np.frombuffer(data, np.uint8), None),
    "odd address": lambda data: (np.frombuffer(bytearray(b"." + data), np.uint8)[1:], None),
    "ctypes": lambda data: (np.ctypeslib.as_array((ctypes.c_uint8 * len(data))(*data)), None),
    **{
        f"{'end' if at_end else 'beginning'} of {'read-only ' * read_only}pages": (
            lambda data, at_end=at_end, read_only=read_only: (
                (guarded := Guarded(data, at_end, read_only)).array,
                guarded,
            )
        )
        for at_end in (False, True)
        for read_only in (False, True)
    },
}

# Shapes and strides in elements, one for each path of the copy kernels. With negative strides the data is at the end.
FORMS = [
    ((131,), (1,)),
    *[((n,), (step,)) for n in (64, 127, 128) for step in (2, 3, 4, 5, -1, -2, -3, -4)],
    *[((channels, n), (1, channels)) for n in (64, 97) for channels in (2, 3, 4)],
    *[((n, channels), (1, n)) for n in (64, 97) for channels in (2, 3, 4)],
    *[((n, m), (1, n)) for n, m in [(64, 16), (64, 64), (65, 17), (67, 35), (130, 144)]],
    ((5, 9), (0, 1)),
    ((5, 6), (9, 1)),
    ((5, 6, 7), (1, 35, 5)),
    ((1, 1), (99, -99)),
    ((), ()),
]
DTYPES = ["uint8", "int16", "float32", "float64", "complex128"]


def arrange(memory: np.ndarray, dtype: np.dtype, shape, strides) -> np.ndarray:
    reaches = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    low = sum(min(reach, 0) for reach in reaches)
    return np.ndarray(
        shape,
        dtype,
        memory,
        offset=-low * dtype.itemsize,
        strides=[step * dtype.itemsize for step in strides],
    )


def size_of(shape, strides) -> int:
    reaches = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    return sum(map(abs, reaches)) + 1


def copied(x):
    c = dlbridge.from_dlpack(x, copy=True)
    return np.from_dlpack(c).tobytes()


def exported(x):
    t = dlbridge.from_buffer(x)
    address = dlbridge.to_address(t)
    again = dlbridge.from_address(address)
    assert again.data_ptr == t.data_ptr == x.ctypes.data
    return memoryview(again).tobytes()


def copied_of_buffer(x):
    return memoryview(dlbridge.from_dlpack(dlbridge.from_buffer(x), copy=True)).tobytes()


def sent(x):
    with zmq.Context() as context, context.socket(zmq.PAIR) as a, context.socket(zmq.PAIR) as b:
        b.connect(f"tcp://127.0.0.1:{a.bind_to_random_port('tcp://127.0.0.1')}")
        dlbridge.tens.send(a, [dlbridge.from_buffer(x)])
        return b.recv_multipart()[2:]


OPERATIONS = {
    "from_dlpack": lambda x: np.asarray(memoryview(dlbridge.from_dlpack(x))).tobytes(),
    "from_dlpack, a copy": copied,
    "asarray": lambda x: dlbridge.asarray(x).tobytes() + dlbridge.asarray([x, x], "complex128").tobytes(),
    "from_buffer": lambda x: memoryview(dlbridge.from_buffer(x)).tobytes(),
    "from_buffer, a copy": copied_of_buffer,
    "to_address": exported,
    "__dlpack__": lambda x: np.from_dlpack(dlbridge.from_buffer(x)).tobytes(),
    "__dlpack__, a copy": lambda x: memoryview(
        dlbridge.from_dlpack(dlbridge.from_buffer(x).__dlpack__(max_version=(1, 3), copy=True))
    ).tobytes(),
    "tens.send": sent,
    "shm.copy": lambda x: dlbridge.shm.copy(dlbridge.from_buffer(x)).tobytes(),
    **{
        f"{f.name}.encode": lambda x, f=f: f.encode(dlbridge.from_buffer(x)) if x.dtype.name not in f.lacks else None
        for f in FORMATS
    },
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_do_not_care_where_memory_lies(operation, place):
    for dtype in map(np.dtype, DTYPES if "pages" in place else DTYPES[::2]):
        for shape, strides in FORMS:
            data = bytes(i * 7 + i // 251 & 63 for i in range(size_of(shape, strides) * dtype.itemsize))
            want = OPERATIONS[operation](arrange(np.frombuffer(bytearray(data), np.uint8), dtype, shape, strides))
            memory, guarded = PLACES[place](data)
            x = arrange(memory, dtype, shape, strides)
            assert OPERATIONS[operation](x) == want, (dtype, shape, strides)
            assert memory.tobytes() == data
            del x, memory
            if guarded is not None:
                guarded.close()


@pytest.mark.parametrize("place", PLACES)
def test_frames_are_read_wherever_they_lie(place):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    encoded = {format.name: format.encode(x) for format in FORMATS}
    for name, decode in READERS.items():
        memory, guarded = PLACES[place](encoded[name.partition(",")[0]])
        t = decode(memory)
        assert memoryview(t).tobytes() == x.tobytes(), name
        del t, memory
        if guarded is not None:
            guarded.close()


def test_large_copies_do_not_care_where_memory_lies():
    shape, strides = (8201, 4100), (1, 8201)
    data = np.arange(shape[0] * shape[1], dtype=np.uint32).astype(np.uint8).tobytes()
    want = np.frombuffer(data, np.uint8).reshape(4100, 8201).T.tobytes()
    for at_end in (False, True):
        guarded = Guarded(data, at_end, True)
        x = arrange(guarded.array, np.dtype("uint8"), shape, strides)
        assert copied_of_buffer(x) == want
        del x
        guarded.close()


# The other functions of the module. They allocate memory, or have no tensor as an argument.
OTHERS = {
    "Elements", "Entry", "File", "Tensor", "counters", "npy", "open_file", "safetensors", "get_include", "empty", "zeros", "from_address", "converted", "load", "shm", "testing", "wrap",
    "tens.Message", "tens.encode_frames", "tens.recv", "tens.Tracker", "shm.exit_timeout", "shm.pickle_timeout",
    "shm.zeros", "shm.is_shared", "shm.readonly", "shm.recv", "shm.send", "shm.offer", "shm.attach", "shm.fetch", "shm.offer_parts",
    "shm.fetch_parts", "shm.register_numpy",
    *(format.name for format in FORMATS),
    *(f"{f.name}.{name}" for f in FORMATS for name in ("Elements", *f.more) if hasattr(f.module, name)),
    *(f"{f.name}.{name}" for f in FORMATS for name in f.module.__all__ if name.startswith("decode")),
}  # fmt: skip


def test_the_table_of_operations_is_complete():
    known = {name.partition(",")[0] for name in OPERATIONS} | OTHERS
    public = set(dlbridge.__all__)
    for module in (dlbridge.shm, *(format.module for format in FORMATS)):
        public |= {f"{module.__name__}.{name}".removeprefix("dlbridge.") for name in module.__all__}
    assert public - known == set()
    assert OTHERS - public == set()
