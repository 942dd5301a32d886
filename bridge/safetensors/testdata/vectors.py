"""Files of safetensors for the tests of Go, with manifest.json: `python vectors.py` writes them. test_safetensors.py of the Python package
checks that the installed reference still writes these bytes, and what it says of the others and of malformed.json."""

import ctypes
import json
import pathlib
import struct

import numpy as np
import safetensors
import safetensors.numpy

HERE = pathlib.Path(__file__).parent

BITS = {
    "bool": ("BOOL", 8), "float4_e2m1fn_x2": ("F4", 4), "uint8": ("U8", 8), "int8": ("I8", 8), "float8_e5m2": ("F8_E5M2", 8),
    "float8_e4m3fn": ("F8_E4M3", 8), "float8_e8m0fnu": ("F8_E8M0", 8), "float8_e4m3fnuz": ("F8_E4M3FNUZ", 8),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 8), "int16": ("I16", 16), "uint16": ("U16", 16), "float16": ("F16", 16), "bfloat16": ("BF16", 16),
    "int32": ("I32", 32), "uint32": ("U32", 32), "float32": ("F32", 32), "complex64": ("C64", 64), "float64": ("F64", 64),
    "int64": ("I64", 64), "uint64": ("U64", 64),
}  # fmt: skip
"""The data types that the reference writes: its name in a header, and its bits."""


def data(size: int, seed: int, dtype: str = "") -> bytes:
    return bytes((i * 37 + seed) % (2 if dtype == "bool" else 251) for i in range(size))


def reference(tensors: dict, metadata: dict | None = None) -> bytes:
    """Returns what the reference writes of tensors, each a name of a data type, a shape in the header and elements."""
    keep, specs = [], {}
    for name, (dtype, shape, elements) in tensors.items():
        keep.append(ctypes.create_string_buffer(elements, max(len(elements), 1)))
        stored = [*shape[:-1], shape[-1] // 2] if dtype.endswith("_x2") else shape
        specs[name] = safetensors.TensorSpec(dtype=dtype, shape=stored, data_ptr=ctypes.addressof(keep[-1]), data_len=len(elements))
    return safetensors.serialize(specs, metadata)


def pack(tensors: list, pad: int = 1, header: dict | None = None) -> bytes:
    """Returns a file with tensors in the given order, each a name, the name of a data type in a header, a shape and elements."""
    header, at = dict(header or {}), 0
    for name, dtype, shape, elements in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(elements)]}
        at += len(elements)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % pad)
    return struct.pack("<Q", len(text)) + text + b"".join(elements for *_, elements in tensors)


def files() -> dict[str, tuple[bytes, int | None]]:
    """Returns files by name, and the alignment with which Go writes the same bytes: None if it does not."""
    types = {f"of {dtype}": (dtype, [3, 4], data(12 * bits // 8, bits, dtype)) for dtype, (_, bits) in BITS.items()}
    shapes = {
        "scalar": ("float64", [], data(8, 1)), "empty": ("float32", [2, 0, 3], b""), "a": ("float32", [1, 1, 1, 1, 5], data(20, 2)),
        "B": ("int8", [7], data(7, 3)), "last": ("int8", [0], b""), "": ("uint8", [1], b"x"),
    }  # fmt: skip
    names = {name: ("uint8", [2], data(2, 4)) for name in ("é", "😀", "\x01\x1f\x7f", '"\\/\b\f\n\r\t', "\u2028", "__metadata", "z.0.weight")}
    arrays = {
        "weight": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), "bias": np.arange(4, dtype=np.float16),
        "ids": np.arange(5, dtype=np.int64), "mask": np.array([True, False, True]), "phase": np.array([1 + 2j, 3 - 4j], np.complex64),
    }  # fmt: skip
    small = [(f"t{i}", "F32", [n], data(4 * n, i)) for i, n in enumerate((16, 3, 32, 0, 1))]
    aligned = [small[i] for i in (0, 2, 3, 1, 4)]  # those of a multiple of 64 bytes first
    return {
        "types": (reference(types), 0),
        "shapes": (reference(shapes), 0),
        "names": (reference(names), 0),
        "none": (reference({}), 0),
        "numpy": (safetensors.numpy.save(arrays, {"format": "np"}), 0),
        "pytorch": ((HERE / "pytorch.safetensors").read_bytes(), 0),
        "metadata-empty": (reference({"a": ("uint8", [1], b"1")}, {}), 0),
        "metadata-escapes": (reference({"a": ("uint8", [1], b"1")}, {"k\n": 'é"'}), 0),
        "metadata-two": (pack([("a", "U8", [1], b"1")], 8, {"__metadata__": {"a": "1", "b": "2"}}), 0),
        "float6": (pack([("x", "F6_E3M2", [2, 4], data(6, 6)), ("y", "F6_E2M3", [4], data(3, 7))], 8), 0),
        "aligned": (pack(aligned, 64), 64),
        "unaligned": (pack([("a", "U8", [3], b"abc"), ("w", "F32", [2], data(8, 8)), ("v", "F64", [1], data(8, 9))]), None),
    }


def tensors(file: bytes) -> list[dict]:
    """Returns what the reference reads of a file, in the order of the offsets."""
    (length,) = struct.unpack("<Q", file[:8])
    header = json.loads(file[8 : 8 + length])
    read = {name: bytes(tensor["data"]) for name, tensor in safetensors.deserialize(file)}
    found = []
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            assert read.pop(name) == file[8 + length + begin : 8 + length + end]
            found.append({"name": name, "dtype": tensor["dtype"], "shape": tensor["shape"], "offset": 8 + length + begin, "size": end - begin})
    assert not read
    return sorted(found, key=lambda t: (t["offset"], t["size"]))


def manifest() -> dict:
    described = []
    for name, (file, align) in files().items():
        (length,) = struct.unpack("<Q", file[:8])
        metadata = json.loads(file[8 : 8 + length]).get("__metadata__")
        described.append({"id": name, "file": f"{name}.safetensors", "align": align, "metadata": metadata, "tensors": tensors(file)})
    return {"safetensors": safetensors.__version__, "files": described}


if __name__ == "__main__":
    for name, (file, _) in files().items():
        (HERE / f"{name}.safetensors").write_bytes(file)
    (HERE / "manifest.json").write_text(json.dumps(manifest(), indent=1) + "\n")
