"""The memory that decoders take for their input follows the rule for Python's decoders in bridge/README.md.

It applies to the maximum memory of C and of Python objects, which are allocated by malloc here, plus the total that Go
allocates. A separate process measures it, with a malloc that counts and a Go library that reports its allocations.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import struct
import subprocess
import sys

import pytest
from conftest import HERE, ROOT, VECTOR_FOLDERS, elements_of, vectors
from formats import READERS, VALUES, Format

import dlbridge
from dlbridge import _core, tens

pytestmark = pytest.mark.memory

MEASURE = """
import ctypes, gc, json, pathlib, sys, dlbridge, zmq
from dlbridge import shm, tens
sys.path.append(sys.argv[3])
from formats import READERS
count, go = ctypes.CDLL(None), ctypes.PyDLL(sys.argv[1])
count.count_most.restype = count.count_used.restype = ctypes.c_int64
go.capiAllocated.restype = ctypes.c_uint64
dlbridge.load(sys.argv[1])
context = zmq.Context()
push, pull = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
push.bind("inproc://x"), pull.connect("inproc://x")
decoders = {
    **{name: lambda data, options, read=read: read(data, **options) for name, read in READERS.items()},
    "unpack": lambda data, options: tens.decode_frames(data, **options),
    "message": lambda data, options: tens.decode(data, **options),
    "all": lambda data, options: next(tens.decode_all(data, **options)),
    "recv": lambda data, options: tens.recv(pull, **options),
    "fetch": lambda data, options: shm.fetch_parts(data),
    "label": lambda data, options: data.label,
    "metadata": lambda data, options: (data.metadata, data.tensor_metadata),
}
def measure(decode, data, options):
    gc.collect()
    allocated, used = go.capiAllocated(), count.count_used()
    count.count_begin()
    try:
        result, status = decode(data, options), "ok"
    except (ValueError, BufferError, StopIteration) as error:
        result, status = None, str(error)[:300]
    return count.count_most() - used + go.capiAllocated() - allocated, status, distinct(result)
def distinct(result):
    "Returns how many elements or frames were found in the input: those that it leaves out are the same object as another."
    return len(set(map(id, result.values if isinstance(result, dlbridge.Elements) else result if isinstance(result, list) else ())))
def frames(data):
    try:
        return [bytes(frame) for frame in tens.decode_frames(data)]
    except ValueError:
        return []
gc.disable()
for line in sys.stdin:
    name, options, size = json.loads(line)
    data = pathlib.Path(sys.argv[2]).read_bytes()
    packed, given = data, 0
    if name in ("message", "all", "recv", "fetch", "label", "metadata"):
        data = frames(data)
        size, given = sum(map(len, data)), len(data)
    if name == "all":
        data = packed
    if options.pop("packed", False):
        data = [packed]
    times = []
    for _ in range(2):
        if name == "recv":
            push.send_multipart(data)
        lazy = name in ("label", "metadata")
        times.append(measure(decoders[name], tens.decode(data) if lazy else data, options))
    taken, status, found = min(times)
    print(json.dumps([taken, size, given or found, status]), flush=True)
    del data, packed
"""

OVERHEAD = 256 << 10
"""The memory that a call may take for any input: 64 KiB, and a batch of 128 tensors of decode_all."""


class Measurer:
    def __init__(self, folder) -> None:
        library, count = folder / "libfault.so", folder / "count.so"
        subprocess.run(
            ["go", "build", "-buildmode=c-shared", "-tags=dlbridge_fault", "-o", library, "./bridge/libdlbridge"],
            cwd=ROOT, check=True,
        )  # fmt: skip
        subprocess.run(
            [*os.environ.get("CC", "cc").split(), "-O1", "-fPIC", "-shared", "-o", count,
             ROOT / "bridge/capi/testdata/count_memory.c"],
            check=True,
        )  # fmt: skip
        self.input = folder / "input"
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEASURE, library, self.input, HERE],
            env={**os.environ, "LD_PRELOAD": str(count), "PYTHONMALLOC": "malloc"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def measure(self, name, data, options):
        """Returns the bytes that a call takes, the size of its input, the number of frames or elements, and its result or exception."""
        self.input.write_bytes(data)
        self.process.stdin.write(json.dumps([name, options, len(data)]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"{name}({data[:80]!r}..., {options}) has ended the process"
        return json.loads(line)

    def check(self, name, data, limit=0, options=None):
        """Checks that a call takes no more memory than the rule allows. Returns its result or exception."""
        taken, size, count, status = self.measure(name, data, options or {})
        assert taken <= 64 * (size + 44 * count) + limit + OVERHEAD, (
            f"{name}({data[:80]!r}..., {options}) takes {taken} bytes for {size} in {count} frames or elements: {status}"
        )
        return status


@pytest.fixture(scope="module")
def measurer(tmp_path_factory):
    measurer = Measurer(tmp_path_factory.mktemp("amplification"))
    yield measurer
    with measurer.process as process:  # closes its pipes
        process.stdin.close()
    assert process.returncode == 0


def packed(label: bytes, *parts: bytes) -> bytes:
    frames = [b"ZIO0TENS" + label, bytes(24), *parts]
    return b"".join(b"\xff" + struct.pack(">I", len(frame)) + frame for frame in frames)


def label(tensors: str, further: str = "") -> bytes:
    return ("{" + further + '"TENS":{"tensors":[' + tensors + "]}}").encode()


def values(text: str) -> bytes:
    """Returns messages with values in the label: in an attribute, and in the metadata."""
    return packed(('{"a":[%s],"TENS":{"metadata":{"a":[%s]},"tensors":[]}}' % (text, text)).encode())


SCALAR = '{"part":0,"shape":[],"word":1,"dtype":"b"}'
N = 30_000
MESSAGES = {
    "many tensors on one part": packed(label(",".join([SCALAR] * N)), b"\1"),
    "many tensors with a dimension": packed(label(",".join([SCALAR.replace("[]", "[1]")] * N)), b"\1"),
    "many tensors of a high rank": packed(label(",".join([SCALAR.replace("[]", str([1] * 250))] * 500)), b"\1"),
    "many empty tensors of rank 9": packed(label(",".join([SCALAR.replace("[]", str([0] * 9))] * N)), b""),
    "many tensors of rank 9 on the second part": packed(
        label(",".join([SCALAR] * 2 + [SCALAR.replace("[]", str([1] * 9)).replace(":0", ":1")] * N)), b"\1", b"\2"
    ),
    "many tensors with metadata": packed(label(",".join([SCALAR[:-1] + ',"metadata":{}}'] * N)), b"\1"),
    "many attributes": packed(label("", "".join(f'"{i:x}":0,' for i in range(N)))),
    "many attributes in metadata": packed(
        label(SCALAR[:-1] + ',"metadata":{' + ",".join(f'"{i:x}":0' for i in range(N)) + "}}"), b"\1"
    ),
    "arrays in arrays": packed(label("", '"a":' + "[" * 250 + "]" * 250 + ",")),
    "arrays in arrays, many times": values(",".join(["[" * 240 + "]" * 240] * 600)),
    "objects in objects, many times": values(",".join(['{"":' * 240 + "0" + "}" * 240] * 250)),
    "objects with an object": values(",".join(['{"":{}}'] * N)),
    "objects with an array": values(",".join(['{"":[]}'] * N)),
    "objects with an array, and a wide letter": values(",".join(['{"":[]}'] * N) + ',"\U0001f600"'),
    "arrays in arrays, and a wide letter": values(",".join(["[" * 240 + "]" * 240] * 600) + ',"\U0001f600"'),
    "names of a letter": values("{" + ",".join(f'"{chr(i)}":0' for i in range(0x800, 0xD800)) + "}"),
    "many arrays": packed(label("", '"a":[' + "[]," * N + "0],")),
    "long names of escapes": packed(label("", "".join(rf'"{i:x}\u0041\u0042\u00e9\ud83d\ude00":0,' for i in range(2000)))),
    "parts of a byte": packed(label(""), *[b"x"] * 5000),
    "tensors on parts of their own": packed(
        label(",".join([SCALAR.replace('"part":0,', "")] * 5000)), *[b"\1"] * 5000
    ),
    "empty parts": packed(label(""), *[b""] * 5000),
}


def allowed(format: Format, options: dict) -> int:
    """Returns how much memory a call may take in addition to the memory in proportion to its input."""
    return options.get("limit", 64 << 20 if "limit" in inspect.signature(format.decode).parameters else 0)


@pytest.mark.parametrize(("format", "name"), [(format, name) for format in VALUES for name in format.hostile], ids=str)
def test_values_take_memory_in_proportion(measurer, format, name):
    decoders = [name for name in READERS if name.partition(",")[0] == format.name]
    statuses = [
        measurer.check(decoder, format.hostile[name], allowed(format, options), options)
        for options in format.options
        for decoder in decoders
    ]
    assert "ok" in statuses


WAYS = [{}, {"message_only": True}, {"join": True}]
RECEIVED = [{}, {"writable": True}, {"aligned": True}, {"packed": True}, {"packed": True, "writable": True}, {"packed": True, "aligned": True}]


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_take_memory_in_proportion(measurer, name):
    data = MESSAGES[name]
    for options in WAYS:
        assert measurer.check("message", data, options={"limit": 0, **options}) == "ok"
    assert measurer.check("all", data, options={"limit": 0}) == "ok"
    for options in RECEIVED:
        assert measurer.check("recv", data, options={"limit": 0, **options}) == "ok"
    for decoder in ["unpack", "fetch", "label", "metadata"]:
        measurer.check(decoder, data)


PIECES = ",".join(['{"part":0,"parts":1000,"shape":[1000],"word":1,"dtype":"b"}'] * 5)


@pytest.mark.parametrize("join", [False, True])
def test_tensors_in_several_parts_take_memory_up_to_the_limit(measurer, join):
    """Many tensors share their parts. Their copies, and their pieces, would take more memory than the rule allows."""
    one, size = ('{"part":0,"parts":2,"shape":[2,20000],"word":1,"dtype":"b"}', 20_000) if join else (PIECES, 1)
    data = packed(label(",".join([one] * 200) if join else one), *[b"\1" * size] * (2 if join else 1000))
    for limit in [0, 1 << 20, 16 << 20]:
        measurer.check("message", data, limit=limit, options={"join": join, "limit": limit})
        measurer.check("recv", data, limit=limit, options={"join": join, "limit": limit})


@pytest.mark.long
@pytest.mark.parametrize("frame", [b"\0", b"\1x", b"\6abcdef"])
def test_small_frames_take_memory_in_proportion(measurer, frame):
    data = packed(label("")) + frame * 300_000
    assert measurer.check("unpack", data) == "ok"
    for options in RECEIVED:
        assert measurer.check("recv", data, options={"limit": 0, **options}) == "ok"


@pytest.mark.long
def test_mutations_take_memory_in_proportion(measurer):
    """Parts of the vectors are repeated and changed at random, with a constant seed."""
    random_ = random.Random(16)
    inputs = [
        (format.name, vector.read(file), options, allowed(format, options))
        for format in VALUES
        if format.name in VECTOR_FOLDERS
        for vector in vectors(format.name)["tensors"]
        for file in vector.get("files", {"": vector.get("file")}).values()
        for options in format.options
    ]
    inputs += [("unpack", data, {}, 0) for data in MESSAGES.values()]
    for _ in range(400):
        name, data, options, limit = random_.choice(inputs)
        data = data[:2000]
        start = random_.randrange(len(data) + 1)
        piece = data[start : start + random_.choice([1, 2, 4, 8, 40, 200])]
        data = data[:start] + piece * random_.randrange(60_000 // (len(piece) + 1)) + data[start:]
        mutable = bytearray(data)
        for _ in range(random_.randrange(3)):
            mutable[random_.randrange(len(mutable))] = random_.randrange(256)
        measurer.check(name, bytes(mutable), limit, options)


def test_tensors_on_one_part_share_it(nothing_left_alive_in_go):
    before = dlbridge.counters(), _core.library_counters()
    part = bytearray(b"\1")
    text = label(",".join([SCALAR] * 1000))
    message = tens.decode([b"ZIO0TENS" + text, bytes(24), part])
    assert dlbridge.counters()["imports"] == before[0]["imports"] + 1
    assert _core.library_counters()["exports"] == before[1]["exports"] + 1
    part[0] = 0
    tensors = message.tensors
    assert all(elements_of(t) == b"\0" for t in tensors)
    assert len({t.data_ptr for t in tensors}) == 1
    last = tensors.pop()
    del message, tensors
    with pytest.raises(BufferError):
        part.append(1)  # the last tensor still holds the part
    assert elements_of(last) == b"\0"
    last.close()
    part.append(1)


def test_tensors_on_different_parts_hold_their_own(nothing_left_alive_in_go):
    parts = [bytearray(b"\1"), bytearray(b"\2"), bytearray(b"")]
    order = [1, 0, 1, 1, 2, 0]
    text = ",".join('{"part":%d,"shape":[%d],"word":1,"dtype":"u"}' % (i, len(parts[i])) for i in order)
    tensors = tens.decode([b"ZIO0TENS" + label(text), bytes(24), *parts]).tensors
    assert [elements_of(t) for t in tensors] == [bytes(parts[i]) for i in order]
    for i in [1, 5]:
        tensors[i].close()
    parts[0].append(1)
    with pytest.raises(BufferError):
        parts[1].append(1)
    for t in tensors:
        t.close()
    parts[1].append(1)


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("rank", [1, 9, 40])
def test_tensors_on_any_part_share_it(nothing_left_alive_in_go, size, rank):
    parts = [bytearray(b"x" * (size + i % 2)) for i in range(8)]
    before = dlbridge.counters()["imports"], _core.library_counters()["exports"]
    order = [7, 7, 0, 3, 1, 6, 2] + [5, 4] * 500
    text = ",".join(
        '{"part":%d,"shape":%s,"word":1,"dtype":"u"}' % (i, [1] * (rank - 1) + [len(parts[i])]) for i in order
    )
    message = tens.decode([b"ZIO0TENS" + label(text), bytes(24), *parts])
    assert (dlbridge.counters()["imports"], _core.library_counters()["exports"]) == (before[0] + 8, before[1] + 8)
    for i, part in enumerate(parts):
        part[:] = bytes([i] * len(part))
    assert [elements_of(t) for t in message.tensors] == [bytes(parts[i]) for i in order]
    tensors = message.tensors
    del message
    for t, i in zip(tensors, order):
        if i != 7:
            t.close()
    with pytest.raises(BufferError):
        parts[7].append(1)
    for part in parts[1:7:2]:
        part.append(1)  # the last tensor has released the part
    for t in tensors:
        t.close()
    for part in parts:
        part.append(1)


def test_the_limit_says_how_to_go_on():
    frames = tens.decode_frames(packed(label(PIECES), *[b"\1"] * 1000))
    with pytest.raises(ValueError, match=r"several parts needs .* bytes, but the limit leaves .*; limit= allows more"):
        tens.decode(frames, limit=0)
    assert len(tens.decode(frames, limit=10 << 20).tensors) == 5000
