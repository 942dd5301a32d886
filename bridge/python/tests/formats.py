"""The formats of the package, with the values that the tests of all formats need. A new format adds a row to FORMATS."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dlbridge
from dlbridge import Elements, decthings, tens


@dataclass
class Format:
    """A row of FORMATS."""

    name: str
    """The name of its module in dlbridge."""
    title: str
    """Its column in the table of formats in bridge/README.md."""
    text: type | None = None
    """The type of a decoded string, str or bytes; None for a format without Elements."""
    elements: list[Elements] = field(default_factory=list)
    """Elements of each kind that the format has, as they are decoded. The first is a string."""
    lacks: set[str] = field(default_factory=set)
    """Names of NumPy's data types that it lacks."""
    more: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Its other functions, called with a float32 tensor of shape (3, 4)."""
    hostile: dict[str, bytes] = field(default_factory=dict)
    """Data that needs much memory for its size. Each item is decoded with each of the options, and one of them accepts it."""
    options: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    """Arguments of decode for hostile data."""
    encode: Callable[..., bytes] = None  # type: ignore[assignment] # module.encode
    """From a tensor or Elements to bytes."""
    decode: Callable[..., Any] = None  # type: ignore[assignment] # module.decode
    """From bytes to a tensor or Elements."""
    first: Callable[..., Any] | None = None
    """From bytes to the first of several tensors or Elements, for a format with decode_all."""

    def __post_init__(self) -> None:
        module = self.module = getattr(dlbridge, self.name)
        self.encode, self.decode = self.encode or module.encode, self.decode or module.decode
        if self.first is None and hasattr(module, "decode_all"):
            self.first = lambda data, **options: next(module.decode_all(data, **options))

    def __str__(self) -> str:
        return self.name


# ---- Decthings --------------------------------------------------------------------------------------

N = 30_000
F64, TEXT, BINARY, IMAGE = 2, 11, 12, 14


def length(n: int) -> bytes:
    """Returns a varint of Decthings in its canonical form."""
    return bytes([n]) if n < 253 else struct.pack(">BH", 253, n) if n < 1 << 16 else struct.pack(">BI", 254, n)


def tensor(kind: int, count: int, elements: bytes, section: bool = False) -> bytes:
    """Returns a tensor of Decthings, in the dialect of the document, or with the length of the section."""
    return bytes([kind, 1]) + length(count) + (length(len(elements)) if section else b"") + elements


TENSORS = {
    "numbers": tensor(F64, N, b"12345678" * N),
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

# ---- TensorFlow -------------------------------------------------------------------------------------

FLOAT, INT32, STRING, QINT8, QINT16, QINT32, INT64, RESOURCE, VARIANT = 1, 3, 7, 11, 15, 13, 9, 20, 21


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def of(number: int, value: bytes) -> bytes:
    """Returns a field of a protocol buffer."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def proto(dtype: int, count: int, *fields: bytes) -> bytes:
    """Returns a TensorProto."""
    return b"\x08" + varint(dtype) + of(2, of(2, b"\x08" + varint(count))) + b"".join(fields)


PROTOS = {
    "content": proto(FLOAT, N, of(5, b"1234" * N)),
    "fields of their own": proto(FLOAT, N, b"\x2d1234" * N),
    "packed fields": proto(INT32, N, of(7, b"\1" * N)),
    "fields of which each byte becomes eight": proto(INT64, N, of(10, b"\1" * N)),
    "14 bytes": proto(QINT8, 64 << 20, of(7, b"\1")),
    "a string that repeats": proto(STRING, 10_000, of(8, b"x" * 100_000)),
    "empty strings that repeat": proto(STRING, 2_000_000),
    "more than the limit": proto(STRING, 3_000_000),
    "a quantised number that repeats": proto(QINT32, 2_000_000, of(7, b"\x80\x01")),
    "a number that repeats": proto(INT64, 8 << 20, of(10, b"\1")),
    "empty strings": proto(STRING, N, b"\x42\x00" * N),
    "strings of two bytes": proto(STRING, N, b"".join(b"\x42\x02" + struct.pack("H", i % 65536) for i in range(N))),
    "strings in content": proto(STRING, N, of(4, b"\2" * N + b"".join(struct.pack("H", i % 65536) for i in range(N)))),
    "empty strings in content": proto(STRING, N, of(4, b"\0" * N)),
    "quantised content": proto(QINT8, N, of(4, bytes(i % 256 for i in range(N)))),
    "quantised content of two bytes": proto(QINT16, N, of(4, b"".join(struct.pack("H", i) for i in range(N)))),
    "quantised varints": proto(QINT32, N, of(7, bytes(i % 128 for i in range(N)))),
    "resources": proto(RESOURCE, N, b"\x72\x00" * N),
    "variants in variants": proto(VARIANT, 1, of(15, of(3, proto(VARIANT, 1, of(15, b"\x1a\x00" * N))))),
    "unknown fields": proto(FLOAT, 1, b"\xa0\x06\x01" * N, of(5, b"1234")),
    "too many strings": proto(STRING, 1, b"\x42\x00" * N),
}

# ---- the table --------------------------------------------------------------------------------------

FORMATS = [
    Format(
        "tens",
        "TENS",
        encode=lambda x: tens.encode_frames(tens.encode([x])),
        decode=lambda data: tens.decode(tens.decode_frames(data)).tensors[0],
        first=lambda data: next(tens.decode_all(data)).tensors[0],
    ),
    Format(
        "decthings",
        "Decthings",
        text=str,
        elements=[
            Elements("string", (2, 1), ["hello", "wörld"]),
            Elements("binary", (2,), [b"x", b""]),
            Elements("image", (2,), [("png", b"a"), ("png", b"b")]),
        ],
        lacks={"float16", "complex64", "complex128"},
        more={"check": lambda x: decthings.check({"shape": [3, 4], "allowedTypes": ["f32"]}, x)},
        hostile=TENSORS,
        options=[{"dialect": dialect} for dialect in ("doc", "py004", "rs015")],
    ),
    Format(
        "tensorflow",
        "TensorFlow's TensorProto",
        text=bytes,
        elements=[
            Elements("string", (2, 1), [b"hello", "wörld".encode()]),
            Elements("qint8", (2,), [b"\1", b"\xff"]),
            Elements("variant", (1,), [b"\x0a\1t"]),
        ],
        hostile=PROTOS,
        options=[{}, {"limit": 0}, {"limit": 1 << 16}, {"limit": 128 << 20, "lenient": True, "integers": True}],
    ),
]
VALUES = [format for format in FORMATS if format.text]
"""The formats whose encode accepts a tensor or Elements."""
READERS = {f.name: f.decode for f in FORMATS} | {f"{f.name}, iter": f.first for f in FORMATS if f.first}
"""The functions that read one tensor from bytes."""
