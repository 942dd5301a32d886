"""open_file, safetensors.save, npy.save and npy.savez, compared with NumPy and safetensors; and `python -m dlbridge ls|show|check`."""

from __future__ import annotations

import gc
import json
import math
import os
import pathlib
import runpy
import struct
import subprocess
import sys

import gguf
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from conftest import ROOT, elements_of

import dlbridge
from dlbridge import _listing

ARRAYS = {
    "float32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": np.arange(24, dtype=np.int32).reshape(4, 6)[::2, ::-1],
    "scalar": np.array(7, np.uint16),
    "empty": np.empty((2, 0), np.int64),
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j, 3]),
}
NUMBERS = {name: array for name, array in ARRAYS.items() if name != "complex"}  # safetensors lacks complex
TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64"]
GGUF = ROOT / "bridge/gguf/testdata/types.gguf"
GGUF_VECTORS = runpy.run_path(str(ROOT / "bridge/gguf/testdata/vectors.py"))


@pytest.mark.parametrize("name", [*ARRAYS, "big-endian"])
def test_npy_files_of_numpy(name, tmp_path):
    array = ARRAYS.get(name, ARRAYS["float32"].astype(">f4"))
    np.save(tmp_path / "numpy.npy", array)
    with dlbridge.open_file(tmp_path / "numpy.npy") as file:
        (entry,) = file.entries.values()
        t = file["arr_0"]
        assert (file.format, file.metadata, entry.name) == ("npy", {}, "arr_0")
    assert (entry.shape, entry.dtype, entry.nbytes) == (t.shape, t.dtype, array.nbytes) and entry.type == array.dtype.str
    assert entry.copied == ("big-endian" if name == "big-endian" else "")
    assert np.array_equal(t.numpy(), array) and t.readonly == (not entry.copied)
    dlbridge.npy.save(tmp_path / "ours.npy", array)
    if name != "big-endian":
        np.save(tmp_path / "numpy.npy", array if name != "strided" else array.copy())
        assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    assert np.array_equal(np.load(tmp_path / "ours.npy"), array)


def test_npz_files_of_numpy(tmp_path):
    np.savez(tmp_path / "numpy.npz", ARRAYS["fortran"], w=ARRAYS["float32"])
    dlbridge.npy.savez(tmp_path / "ours.npz", ARRAYS["fortran"], w=ARRAYS["float32"])
    assert (tmp_path / "ours.npz").read_bytes() == (tmp_path / "numpy.npz").read_bytes()
    np.savez_compressed(tmp_path / "deflated.npz", **ARRAYS)
    with dlbridge.open_file(tmp_path / "deflated.npz") as file:
        assert list(file) == list(ARRAYS) and {e.copied for e in file.entries.values()} == {"deflated"}
        assert all(np.array_equal(file[name].numpy(), array) for name, array in ARRAYS.items())
    np.savez(tmp_path / "mixed.npz", texts=np.array(["a"]), numbers=np.arange(3))
    with dlbridge.open_file(tmp_path / "mixed.npz") as file:
        assert "unicode" in file.entries["texts"].problem and file.entries["texts"].dtype is None
        assert file["numbers"].tolist() == [0, 1, 2] and "'texts' refused" in repr(file)
        with pytest.raises(BufferError, match="unicode"):
            file["texts"]


@pytest.mark.parametrize("dtype", [*TYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_safetensors_both_ways(dtype, tmp_path):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(getattr(ml_dtypes, dtype, None) or dtype)
    safetensors.numpy.save_file({"w": array}, tmp_path / "theirs", {"a": "ö"})
    dlbridge.safetensors.save(tmp_path / "ours", {"w": array}, {"a": "ö"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    file = dlbridge.open_file(tmp_path / "theirs")
    assert (file.format, file.metadata, file["w"].dtype) == ("safetensors", {"a": "ö"}, dtype)
    assert np.array_equal(file["w"].numpy(), array)
    ((name, read),) = safetensors.deserialize((tmp_path / "ours").read_bytes())
    assert (name, bytes(read["data"])) == ("w", array.tobytes())
    if not dtype.startswith("float8"):  # load_file looks for these in NumPy
        assert np.array_equal(safetensors.numpy.load_file(tmp_path / "ours")["w"], array)


def test_gguf():
    with dlbridge.open_file(GGUF) as file:
        assert file.format == "gguf" and len(file) == len(list(file.values()))
        quantised = next(e for e in file.entries.values() if e.type == "Q4_0")
        assert file[quantised.name].dtype == quantised.dtype == "uint8" and file[quantised.name].shape[-1] == 18
    metadata = dlbridge.open_file(ROOT / "bridge/gguf/testdata/metadata.gguf").metadata
    assert metadata["general.architecture"] and any(isinstance(value, list) for value in metadata.values())


def test_metadata_of_gguf_that_json_lacks(tmp_path):
    fields = [
        (b"a", 6, struct.pack("<f", math.nan)),
        (b"b", 12, struct.pack("<d", -math.inf)),
        (b"c", 8, struct.pack("<Q", 3) + b"\xff\xc3\xb6"),
    ]
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields))
    for name, type_, value in fields:
        data += struct.pack("<Q", len(name)) + name + struct.pack("<I", type_) + value
    (tmp_path / "x").write_bytes(data)
    metadata = dlbridge.open_file(tmp_path / "x").metadata
    assert math.isnan(metadata["a"]) and metadata["b"] == -math.inf
    assert metadata["c"] == "\udcffö" and metadata["c"].encode(errors="surrogateescape") == b"\xff\xc3\xb6"


def numbers_of(value):
    return [number for part in value for number in numbers_of(part)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("content", ["types", "shapes", "metadata"])
def test_gguf_files_of_the_package_gguf(content, tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "x", "llama")
    GGUF_VECTORS[content](writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader, file = gguf.GGUFReader(tmp_path / "x"), dlbridge.open_file(tmp_path / "x")
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert list(file.metadata) == list(fields)
    for name, value in fields.items():  # the package flattens nested arrays
        assert numbers_of(file.metadata[name]) == numbers_of(value)
        assert list(map(type, numbers_of(file.metadata[name]))) == list(map(type, numbers_of(value)))
    assert list(file) == [t.name for t in reader.tensors]
    for theirs in reader.tensors:
        entry, ours = file.entries[theirs.name], file[theirs.name]
        assert (entry.type, entry.shape) == (theirs.tensor_type.name, tuple(map(int, reversed(theirs.shape))))
        assert ours.nbytes == entry.nbytes == theirs.n_bytes and elements_of(ours) == theirs.data.tobytes()
        if entry.type == "BF16":  # the package uses bytes for it
            assert ours.dtype == "bfloat16" and np.array_equal(ours.numpy().view(np.uint8), theirs.data, equal_nan=True)
        elif ours.shape == entry.shape:
            assert ours.dtype == theirs.data.dtype and np.array_equal(ours.numpy(), theirs.data, equal_nan=True)
        else:
            block, size = gguf.GGML_QUANT_SIZES[theirs.tensor_type]
            assert ours.dtype == "uint8" and ours.shape == (*entry.shape[:-1], entry.shape[-1] // block, size)


@pytest.mark.parametrize("kind", ["BF16", "Q8_0"])
def test_numbers_of_gguf(kind, tmp_path):
    rows = np.linspace(-1, 1, 4 * 64, dtype=np.float32).reshape(4, 64)
    of = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(tmp_path / "x", "llama")
    writer.add_tensor("w", gguf.quantize(rows, of), raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    w = dlbridge.open_file(tmp_path / "x")["w"]
    if kind == "BF16":
        assert np.array_equal(w.numpy(), rows.astype(ml_dtypes.bfloat16))
    else:
        assert np.allclose(gguf.dequantize(w.numpy().reshape(4, -1), of), rows, atol=0.01)


@pytest.mark.peers
def test_safetensors_of_torch(tmp_path):
    import safetensors.torch
    import torch

    names = (
        "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
    ).split()
    tensors = {name: torch.tensor([[0, 1, 2], [4, 0, 1]]).to(getattr(torch, name)) for name in names}
    safetensors.torch.save_file(tensors, tmp_path / "theirs", {"format": "pt"})
    with dlbridge.open_file(tmp_path / "theirs") as file:
        assert file.metadata == {"format": "pt"} and sorted(file) == sorted(names)
        for name, t in tensors.items():
            assert (file[name].dtype, file[name].shape) == (name, (2, 3))
            assert elements_of(file[name]) == bytes(t.contiguous().view(torch.uint8).flatten().tolist())
        dlbridge.safetensors.save(tmp_path / "ours", dict(file), {"format": "pt"})
    dlbridge.safetensors.save(tmp_path / "torch", {name: t for name, t in tensors.items() if not name.startswith("float8")})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    for path in "ours", "torch":
        for name, t in safetensors.torch.load_file(tmp_path / path).items():
            assert t.dtype == tensors[name].dtype and torch.equal(t.view(torch.uint8), tensors[name].view(torch.uint8))


def test_tensors_lie_in_the_file_and_outlive_it(tmp_path):
    path = tmp_path / "model.safetensors"
    dlbridge.safetensors.save(path, NUMBERS)
    with dlbridge.open_file(path) as file:
        w, again, copy = file["float32"], file["float32"], file.copy("float32")
        assert w.data_ptr == again.data_ptr == np.asarray(w).ctypes.data != copy.data_ptr
        maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
        (line,) = [line for line in maps if line.endswith(str(path))]
        start, _, end = line.split()[0].partition("-")
        assert int(start, 16) + file.entries["float32"].offset == w.data_ptr < int(end, 16)
        assert w.readonly and not copy.readonly
        file.verify()
    os.remove(path)
    copy.numpy()[:] = 9
    assert w.tolist() == again.tolist() == ARRAYS["float32"].tolist()
    assert file.closed and "closed" in repr(file)
    assert file.entries["float32"].shape == (2, 3)
    for use in (lambda: file["float32"], lambda: file.copy("float32"), file.verify, file.sync, lambda: file.metadata, file.__enter__):
        with pytest.raises(ValueError, match="is closed"):
            use()


def test_a_file_is_a_mapping(tmp_path):
    path = tmp_path / "m"
    dlbridge.safetensors.save(path, {"model.wte": np.ones(2), "b": np.zeros(3)})
    file = dlbridge.open_file(os.fsencode(path))
    assert list(file) == list(file.keys()) == ["b", "model.wte"]
    assert len(file) == 2 and "b" in file and "c" not in file and file.get("c") is None and bool(file)
    assert {name: t.shape for name, t in file.items()} == {"model.wte": (2,), "b": (3,)}
    assert file == file and file != dlbridge.open_file(path) and hash(file)
    assert repr(file).startswith("<dlbridge.File ") and "'b' float64(3,)" in repr(file)
    with pytest.raises(KeyError, match="the nearest names are 'model.wte'"):
        file["model.wt"]
    with pytest.raises(KeyError, match="the names are"):
        file[3]


def test_writable_files_and_types_that_numpy_drops(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros(3))
    with dlbridge.open_file(path, writable=True) as file:
        file["arr_0"].numpy()[1] = 7
        file.sync()
    assert np.load(path).tolist() == [0, 7, 0]
    dlbridge.npy.save(path, np.ones(3, ml_dtypes.bfloat16))
    t = dlbridge.open_file(path, as_dtype=ml_dtypes.bfloat16)["arr_0"]
    assert (t.dtype, t.tolist()) == ("bfloat16", [1, 1, 1])


def test_an_index(tmp_path):
    for name in "ab":
        dlbridge.safetensors.save(tmp_path / f"{name}.safetensors", {name: np.ones(2)})
    index = {"metadata": {"total_size": 32}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}
    for name in "model.safetensors.index.json", "other.json":
        (tmp_path / name).write_text(json.dumps(index))
    for path, given in [("model.safetensors.index.json", None), ("other.json", True)]:
        file = dlbridge.open_file(tmp_path / path, index=given)
        assert sorted(file) == ["a", "b"] and file.metadata["total_size"] == 32
        assert file.entries["b"].path == str(tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="index=True opens"):
        dlbridge.open_file(tmp_path / "other.json")


def test_what_cannot_be_opened(tmp_path):
    good = tmp_path / "good"
    dlbridge.safetensors.save(good, NUMBERS)
    data = good.read_bytes()
    (tmp_path / "cut").write_bytes(data[:-1])
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    for name, error, text in [
        ("cut", ValueError, r"safetensors: byte \d+: "),
        ("fifo", ValueError, "not a regular file"),
        ("empty", ValueError, "empty|not a regular file"),
        ("missing", FileNotFoundError, "No such file or directory: '.*missing'"),
        (".", IsADirectoryError, "directory"),
        ("good/below", NotADirectoryError, "below"),
    ]:
        with pytest.raises(error, match=text) as found:
            dlbridge.open_file(tmp_path / name)
        assert not isinstance(found.value, OSError) or found.value.errno
    for size in range(0, len(data), 7):
        (tmp_path / "cut").write_bytes(data[:size])
        with pytest.raises(ValueError):
            dlbridge.open_file(tmp_path / "cut")
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(BufferError, match="object"):
        dlbridge.open_file(tmp_path / "objects.npy")
    for path in (3, "a\0b"):
        with pytest.raises((TypeError, ValueError)):
            dlbridge.open_file(path)
    with pytest.raises(TypeError, match="no such type"):
        dlbridge.open_file(good, as_dtype="no such type")


def test_what_cannot_be_written(tmp_path):
    path, save = tmp_path / "x.safetensors", dlbridge.safetensors.save
    save(path, {"w": np.ones(2)})
    before = path.read_bytes()
    for call, error, text in [
        (lambda: save(path, {"w": np.ones(2), "c": np.array(["x"])}), BufferError, 'save: "c": '),
        (lambda: save(path, {"w": "text"}), TypeError, 'save: "w": '),
        (lambda: save(path, {3: np.ones(2)}), TypeError, "must be a str"),
        (lambda: save(path, {"a\0": np.ones(2)}), ValueError, "null character"),
        (lambda: save(path, {"w": np.ones(2)}, {"a": 3}), TypeError, "'a' is 3"),
        (lambda: save(path, {"w": np.ones(2)}, "text"), TypeError, "a mapping of texts"),
        (lambda: save({"w": np.ones(2)}, path), TypeError, "a mapping of names"),
        (lambda: dlbridge.npy.savez(path, {"w": 1}), TypeError, r"\*\*tensors"),
        (lambda: save(path, {"w": np.ones(2)}, align=3), ValueError, "3"),
        (lambda: save(path, {"w": np.ones(2)}, progress=3), TypeError, "progress"),
        (lambda: save(tmp_path / "no" / "x", {}), FileNotFoundError, "no"),
        (lambda: save(tmp_path, {}), IsADirectoryError, "director"),
        (lambda: dlbridge.npy.savez(path, 1, arr_0=2), ValueError, "both named arr_0"),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_progress_is_told_and_can_stop(tmp_path):
    told = []
    x = np.zeros(5 << 20)
    dlbridge.npy.save(tmp_path / "x", x, progress=lambda *numbers: told.append(numbers))
    assert told == sorted(told) and told[-1] == (x.nbytes, x.nbytes) and len(told) > 2

    def stop(written, total):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        dlbridge.safetensors.save(tmp_path / "y", {"x": x}, progress=stop)
    assert os.listdir(tmp_path) == ["x"]


def test_aligned_tensors(tmp_path):
    dlbridge.safetensors.save(tmp_path / "x", {"a": np.zeros(3, np.int8), "b": np.zeros(16, np.float32)}, align=64)
    file = dlbridge.open_file(tmp_path / "x")
    assert file.entries["b"].offset % 64 == 0 and list(file)[0] == "b"
    assert safetensors.numpy.load_file(tmp_path / "x")["b"].shape == (16,)


def test_many_openings_leave_nothing(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))

    def count():
        gc.collect()
        with open("/proc/self/maps") as maps:
            return len(os.listdir("/proc/self/fd")), sum(str(tmp_path) in line for line in maps), dlbridge.counters()["files"]

    dlbridge.open_file(tmp_path / "x.npy")
    before = count()
    for i in range(10_000):
        file = dlbridge.open_file(tmp_path / "x.npy")
        if i % 2:
            file["arr_0"]
        if i % 3:
            file.close()
    del file
    after = count()
    assert after[1:] == before[1:] == (0, 0) and after[0] <= before[0] + 2


# ---- python -m dlbridge ls|show|check ------------------------------------------------------------------


def run(*args):
    return subprocess.run([sys.executable, "-m", "dlbridge", *map(str, args)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("numpy", ["imported", "not installed"])
@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.arange(200_000, dtype=np.float32).reshape(400, 500, order="F"), [0, 199_999, 99_999.5, 0]),
        (np.array([[1, np.nan, 3], [4, 5, -6]], np.float16), [-6, 5, 1.4, 1]),
        (np.array([np.inf, -np.inf, 1]), [-np.inf, np.inf, np.nan, 0]),
        (np.full(2, np.nan), [np.nan, np.nan, np.nan, 2]),
        (np.append(np.full(1 << 16, np.nan), [2, 3]), [2, 3, 2.5, 1 << 16]),
        (np.empty((2, 0)), [np.nan, np.nan, np.nan, 0]),
        (np.array(True), [1, 1, 1, 0]),
    ],
)
def test_statistics(numpy, array, expected, monkeypatch):
    if numpy != "imported":
        monkeypatch.setitem(sys.modules, "numpy", None)
    assert list(_listing.statistics(dlbridge.from_dlpack(array)).values()) == pytest.approx(expected, nan_ok=True)


def test_listing(tmp_path):
    good, cut = tmp_path / "model.safetensors", tmp_path / "cut"
    dlbridge.safetensors.save(good, {"weight": np.array([[1, np.nan, 3], [4, 5, -6]], np.float32), "steps": np.arange(4)}, {"format": "np"})
    np.save(tmp_path / "big.npy", np.arange(4).astype(">i8"))
    ran = run("ls", good, tmp_path / "big.npy", GGUF)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[:5] == [
        f"{good}: safetensors, 2 tensors",
        "  format = np",
        "  NAME    TYPE  SHAPE  BYTES  OFFSET  ALIGNED",
        "  steps   I64   [4]    32     160     yes",
        "  weight  F32   [2 3]  24     192     yes",
    ]
    assert "a copy: big-endian" in ran.stdout
    ran = run("show", good)
    assert ran.returncode == 0 and "  min -6, max 5, mean 1.4, 1 NaN" in ran.stdout
    (found,) = map(json.loads, run("show", "--json", good).stdout.splitlines())
    assert found["tensors"][0]["statistics"] == {"min": 0, "max": 3, "mean": 1.5, "nan": 0}
    cut.write_bytes(good.read_bytes()[:200])
    ran = run("check", cut, good)
    assert ran.returncode == 1 and ran.stdout == f"{good}: safetensors, 2 tensors\n" and "byte" in ran.stderr and str(cut) in ran.stderr
    assert "byte" in json.loads(run("check", "--json", cut).stdout)["error"]
    assert run("ls").returncode == 2
