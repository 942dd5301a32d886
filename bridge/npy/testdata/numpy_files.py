"""Writes the files of this folder with NumPy, and manifest.json, which says what they contain.

    numpy_files.py FOLDER

The test test_npy.py of the Python package makes them again with the NumPy that is installed, and compares them.
"""

from __future__ import annotations

import io
import json
import pathlib
import sys
import warnings
import zipfile

import ml_dtypes
import numpy as np

NUMPY = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
ML_DTYPES = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn float6_e2m3fn float6_e3m2fn int2 int4 uint2 uint4"
).split()


def values(shape: tuple[int, ...], name: str) -> np.ndarray:
    """Returns an array of small numbers that every type has."""
    count = int(np.prod(shape, dtype=np.int64))
    dtype = np.dtype(getattr(ml_dtypes, name)) if name in ML_DTYPES else np.dtype(name)
    return (np.arange(count) % 2).astype(dtype).reshape(shape) if dtype.itemsize == 1 else np.arange(count).astype(dtype).reshape(shape)


def arrays() -> dict[str, np.ndarray]:
    """Returns the arrays of the npy files, by the names of the files."""
    of = {f"{name}-2x3": values((2, 3), name) for name in NUMPY + ML_DTYPES}
    of |= {f"{name}-fortran": np.asfortranarray(values((2, 3), name)) for name in ("int16", "float64", "bfloat16")}
    of |= {f"{name}-big": values((2, 3), name).astype(np.dtype(name).newbyteorder(">")) for name in NUMPY if np.dtype(name).itemsize > 1}
    of["int32-big-fortran"] = np.asfortranarray(of["int32-big"])
    of["float8_e5m2-2x3"] = values((2, 3), "bool").astype(ml_dtypes.float8_e5m2)
    base = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    return of | {
        "scalar": np.array(7.5),
        "empty": np.zeros((0,), np.float32),
        "empty-3x0x2": np.zeros((3, 0, 2), np.int8),
        "row": np.arange(5, dtype=np.uint16),
        "column": np.arange(5, dtype=np.uint16).reshape(5, 1),
        "rank-32": np.arange(2.0).reshape((1,) * 31 + (2,)),
        "large": np.zeros((100, 1000), np.uint8)[:3, ::4],
        "transposed": base.transpose(1, 0, 2),
        "reversed": base[:, ::-1],
        "every-second": base[..., ::2],
        "broadcast": np.broadcast_to(np.arange(3, dtype=np.int64), (2, 3)),
        "void-5": np.frombuffer(b"0123456789", "V5"),
    }


def refused() -> dict[str, np.ndarray]:
    """Returns arrays that DLPack has no type for."""
    return {
        "objects": np.array([1, "two", None], dtype=object),
        "unicode": np.array(["one", "two"]),
        "bytes": np.array([b"one", b"two"]),
        "dates": np.array(["2024-01-01"], "M8[D]"),
        "durations": np.array([3], "m8[ns]"),
        "records": np.array([(1, 2.0)], [("a", "<i4"), ("b's", "<f8")]),
        "longdouble": np.zeros(2, np.longdouble),
        "clongdouble": np.zeros(2, np.clongdouble),
    }


def save(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def archive(compress: bool, **of: np.ndarray) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(out, **of)
    return out.getvalue()


class Pipe(io.BytesIO):
    """A file that cannot be positioned, for which zipfile writes sizes and checksums behind the members."""

    def seek(self, *_: int) -> int:
        raise OSError

    def tell(self) -> int:
        raise OSError


def archives() -> dict[str, bytes]:
    """Returns npz files by their names."""
    of = arrays()
    native = {name: of[name] for name in ("scalar", "transposed", "float64-fortran", "bfloat16-2x3", "empty-3x0x2")} | {"Größe/row": of["row"]}
    some = native | {"int32-big": of["int32-big"]}
    piped = Pipe()
    np.savez(piped, **some)
    piped_compressed = Pipe()
    np.savez_compressed(piped_compressed, **some)
    text = io.BytesIO(archive(False, row=of["row"]))
    with zipfile.ZipFile(text, "a") as out:
        out.writestr(zipfile.ZipInfo("notes.txt"), "no array")
    return {
        "stored.npz": archive(False, **native),
        "deflated.npz": archive(True, **some),
        "piped.npz": piped.getvalue(),
        "piped-deflated.npz": piped_compressed.getvalue(),
        "none.npz": archive(False),
        "refused.npz": archive(False, **refused(), row=of["row"]),
        "text.npz": text.getvalue(),
    }


def directory() -> bytes:
    """Returns the directory that zipfile writes of many and large members, without the members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, size, offset in (("small", 100, 0), ("large", 3 << 30, 150), ("behind", 200, 3 << 30), ("both", 5 << 32, (3 << 30) + 300)):
            info = zipfile.ZipInfo(name + ".npy")
            info.file_size = info.compress_size = size
            info.header_offset, info.CRC, info.external_attr = offset, size & 0xFFFF, 0o600 << 16
            info.create_version = info.extract_version = 45
            file.filelist.append(info)
        file.start_dir = out.tell()
        file._didModify = True
    return out.getvalue()


def files() -> tuple[dict[str, bytes], dict]:
    """Returns the contents of all files by their names, and the manifest."""
    out, manifest = {}, {"arrays": [], "refused": [], "archives": []}
    for name, array in arrays().items():
        out[f"{name}.npy"] = save(array)
        manifest["arrays"].append(describe(f"{name}.npy", array))
    for major in (2, 3):
        out[f"version-{major}.npy"] = save(arrays()["row"], (major, 0))
        manifest["arrays"].append(describe(f"version-{major}.npy", arrays()["row"]))
    for name, array in refused().items():
        out[f"{name}.npy"] = save(array)
        manifest["refused"].append({"file": f"{name}.npy", "type": array.dtype.str})
    for name, data in archives().items():
        out[name] = data
        with np.load(io.BytesIO(data)) as loaded:
            manifest["archives"].append({"file": name, "names": loaded.files})
    out["directory.bin"] = directory()
    return out, manifest


def describe(file: str, array: np.ndarray) -> dict:
    little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.kind in "iufc" and not array.dtype.isnative else array
    return {
        "file": file,
        "type": array.dtype.str,
        "dtype": "void" if array.dtype.type is np.void else array.dtype.newbyteorder("=").name,
        "shape": list(array.shape),
        "fortran": bool(array.flags.f_contiguous and not array.flags.c_contiguous),
        "hex": np.ascontiguousarray(little).tobytes().hex(),
    }


def text(manifest: dict) -> str:
    """Returns the manifest as JSON, with a line for each file."""
    lists = (f' "{key}": [\n' + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n ]" for key, entries in manifest.items())
    return "{\n" + ",\n".join(lists) + "\n}\n"


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")
    out, manifest = files()
    for name, data in out.items():
        (folder / name).write_bytes(data)
    (folder / "manifest.json").write_text(text(manifest))


if __name__ == "__main__":
    main()
