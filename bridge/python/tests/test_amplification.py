"""How much memory decoders take for their input: the rule of Python's decoders in bridge/README.md.

It applies to the maximum memory of C and of Python objects, which are allocated by malloc here, plus the total that Go
allocates. A process of its own measures it, with a malloc that counts and a Go library that reports its allocations.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys

import pytest
from conftest import ROOT, elements_of, vectors

import dlbridge
from dlbridge import Elements, _core, decthings, tens, tensorflow

MEASURE = """
import ctypes, gc, json, pathlib, sys, dlbridge, zmq
from dlbridge import decthings, shm, tens, tensorflow
count, go = ctypes.CDLL(None), ctypes.PyDLL(sys.argv[1])
count.count_most.restype = count.count_used.restype = ctypes.c_int64
go.capiAllocated.restype = ctypes.c_uint64
dlbridge.load(sys.argv[1])
context = zmq.Context()
push, pull = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
push.bind("inproc://x"), pull.connect("inproc://x")
decoders = {
    "decthings": lambda data, options: decthings.decode(data, **options),
    "iter": lambda data, options: next(decthings.decode_all(data, **options)),
    "tensorflow": lambda data, options: tensorflow.decode(data, **options),
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
            [sys.executable, "-c", MEASURE, library, self.input],
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


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def proto(dtype: int, count: int, *fields: bytes) -> bytes:
    return b"\x08" + varint(dtype) + field(2, field(2, b"\x08" + varint(count))) + b"".join(fields)


def length(n: int) -> bytes:
    """Returns a varint of Decthings in its canonical form."""
    return bytes([n]) if n < 253 else struct.pack(">BH", 253, n) if n < 1 << 16 else struct.pack(">BI", 254, n)


def tensor(kind: int, count: int, elements: bytes, section: bool = False) -> bytes:
    """Returns a tensor of Decthings, in the dialect of the document, or with the length of the section."""
    return bytes([kind, 1]) + length(count) + (length(len(elements)) if section else b"") + elements


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
STRING, QINT8, QINT16, QINT32, INT64, RESOURCE, VARIANT = 7, 11, 15, 13, 9, 20, 21
TEXT, BINARY, IMAGE, F64 = 11, 12, 14, 2

PROTOS = {
    "14 bytes": proto(QINT8, 64 << 20, field(7, b"\1")),
    "a string that repeats": proto(STRING, 10_000, field(8, b"x" * 100_000)),
    "empty strings that repeat": proto(STRING, 2_000_000),
    "more than the limit": proto(STRING, 3_000_000),
    "a quantised number that repeats": proto(QINT32, 2_000_000, field(7, b"\x80\x01")),
    "a number that repeats": proto(INT64, 8 << 20, field(10, b"\1")),
    "empty strings": proto(STRING, N, b"\x42\x00" * N),
    "strings of two bytes": proto(STRING, N, b"".join(b"\x42\x02" + struct.pack("H", i % 65536) for i in range(N))),
    "strings in content": proto(STRING, N, field(4, b"\2" * N + b"".join(struct.pack("H", i % 65536) for i in range(N)))),
    "empty strings in content": proto(STRING, N, field(4, b"\0" * N)),
    "quantised content": proto(QINT8, N, field(4, bytes(i % 256 for i in range(N)))),
    "quantised content of two bytes": proto(QINT16, N, field(4, b"".join(struct.pack("H", i) for i in range(N)))),
    "quantised varints": proto(QINT32, N, field(7, bytes(i % 128 for i in range(N)))),
    "resources": proto(RESOURCE, N, b"\x72\x00" * N),
    "variants in variants": proto(VARIANT, 1, field(15, field(3, proto(VARIANT, 1, field(15, b"\x1a\x00" * N))))),
    "unknown fields": proto(1, 1, b"\xa0\x06\x01" * N, field(5, b"1234")),
    "too many strings": proto(STRING, 1, b"\x42\x00" * N),
}
TENSORS = {
    "empty strings": tensor(TEXT, N, b"\0" * N),
    "empty binaries": tensor(BINARY, 10 * N, b"\0" * 10 * N),
    "strings of two letters": tensor(TEXT, N, b"".join(b"\2%02d" % (i % 100) for i in range(N))),
    "strings of two bytes": tensor(TEXT, N, b"".join(b"\2" + chr(256 + i % 1000).encode() for i in range(N))),
    "strings of a wide letter": tensor(TEXT, N, b"".join(b"\7abc\xf0\x9f\x98" + bytes([128 + i % 64]) for i in range(N))),
    "a string that repeats": tensor(TEXT, 1000, (b"\xfd\x01\x00" + b"x" * 256) * 1000),
    "binaries of a byte": tensor(BINARY, N, b"\1x" * N),
    "images without content": tensor(IMAGE, N, b"\3png" * N),
    "images of a byte": tensor(IMAGE, N, b"\4pngx\4jpgy" * (N // 2)),
    "images without format": tensor(IMAGE, N, b"\1\0" * N, section=True),
    "images with and without format": tensor(IMAGE, N, b"\2\1x\1\0" * (N // 2), section=True),
}
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


@pytest.mark.parametrize("name", PROTOS)
@pytest.mark.parametrize("limit", [None, 1 << 16])
def test_protos_take_memory_in_proportion(measurer, name, limit):
    options = {} if limit is None else {"limit": limit}
    measurer.check("tensorflow", PROTOS[name], limit=64 << 20 if limit is None else limit, options=options)


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_take_memory_in_proportion(measurer, name):
    statuses = [
        measurer.check(decoder, TENSORS[name], options={"dialect": dialect})
        for dialect in ["doc", "py004", "rs015"]
        for decoder in ["decthings", "iter"]
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
    """Many tensors share their parts. Copies of them take more than the rule allows in proportion, and so do the pieces."""
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


def test_fixed_sizes_take_memory_in_proportion(measurer):
    measurer.check("decthings", tensor(F64, N, b"12345678" * N))
    measurer.check("tensorflow", proto(1, N, field(5, b"1234" * N)), options={"limit": 0})
    measurer.check("tensorflow", proto(1, N, b"\x2d1234" * N), options={"limit": 0})
    measurer.check("tensorflow", proto(3, N, field(7, b"\1" * N)), options={"limit": 0})
    measurer.check("tensorflow", proto(INT64, N, field(10, b"\1" * N)), options={"limit": 0})  # each byte becomes eight


@pytest.mark.long
def test_mutations_take_memory_in_proportion(measurer):
    """Parts of the vectors are repeated and changed at random, with a constant seed."""
    random_ = random.Random(16)
    inputs = []
    inputs += [("tensorflow", v.read(v["file"]), {}) for v in vectors("tensorflow")["tensors"]]
    for vector in vectors("decthings")["tensors"]:
        inputs += [
            ("decthings", vector.read(file), {"dialect": dialect})
            for dialect, file in vector["files"].items()
            if dialect in ("doc", "py004", "rs015")
        ]
    inputs += [("unpack", data, {}) for data in MESSAGES.values()]
    for _ in range(400):
        name, data, options = random_.choice(inputs)
        data = data[:2000]
        start = random_.randrange(len(data) + 1)
        piece = data[start : start + random_.choice([1, 2, 4, 8, 40, 200])]
        data = data[:start] + piece * random_.randrange(60_000 // (len(piece) + 1)) + data[start:]
        mutable = bytearray(data)
        for _ in range(random_.randrange(3)):
            mutable[random_.randrange(len(mutable))] = random_.randrange(256)
        if name == "tensorflow":
            options = {**options, "limit": random_.choice([1 << 16, 1 << 20])}
        measurer.check(name, bytes(mutable), limit=options.get("limit", 0), options=options)


def test_equal_values_share_one_object():
    repeated = tensorflow.decode(proto(STRING, 1000, field(8, b"x" * 1000))).values
    assert len({id(v) for v in repeated}) == 1
    assert repeated == [b"x" * 1000] * 1000
    numbers = tensorflow.decode(proto(QINT32, 1000, field(7, b"\x80\x01"))).values
    assert len({id(v) for v in numbers}) == 1
    assert numbers == [b"\x80\0\0\0"] * 1000
    texts = decthings.decode(decthings.encode(Elements("string", (4,), ["ab", "ab", "cd", "ab"]))).values
    assert texts == ["ab", "ab", "cd", "ab"]
    assert texts[0] is texts[1]
    empties = decthings.decode(tensor(BINARY, 3, b"\0\1x\0")).values
    assert [bytes(v) for v in empties] == [b"", b"x", b""]
    assert empties[0] is empties[2]
    images = decthings.decode(tensor(IMAGE, 3, b"\3png\3png\3jpg")).values
    assert [(f, bytes(v)) for f, v in images] == [("png", b""), ("png", b""), ("jpg", b"")]
    assert images[0] is images[1]


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
        part.append(1)  # no tensor holds the part any more
    for t in tensors:
        t.close()
    for part in parts:
        part.append(1)


def test_views_of_different_memory_are_not_shared():
    data = bytearray(tensor(BINARY, 2, b"\1x\1x"))
    values = decthings.decode(data).values
    data[-1] = ord("y")
    assert [bytes(v) for v in values] == [b"x", b"y"]


def test_the_limit_says_how_to_go_on():
    frames = tens.decode_frames(packed(label(PIECES), *[b"\1"] * 1000))
    with pytest.raises(ValueError, match=r"several parts take .* bytes, where the limit leaves .* \(in Python, limit=\)"):
        tens.decode(frames, limit=0)
    assert len(tens.decode(frames, limit=10 << 20).tensors) == 5000
    with pytest.raises(ValueError, match="more memory than is allowed"):
        tensorflow.decode(proto(STRING, 1000), limit=23_999)
    assert len(tensorflow.decode(proto(STRING, 1000), limit=24_000).values) == 1000
    for decode in [lambda limit: tensorflow.decode(b"", limit=limit), lambda limit: tens.decode(frames, limit=limit)]:
        with pytest.raises(ValueError, match="negative"):
            decode(-1)
        with pytest.raises(TypeError):
            decode(1.5)
