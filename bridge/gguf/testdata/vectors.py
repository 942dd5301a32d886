"""Writes the files of this folder with the Python package gguf, and manifest.json with what that package reads from them.

    python -m venv VENV && VENV/bin/pip install gguf==0.19.0 && VENV/bin/python vectors.py
"""

import hashlib
import importlib.metadata
import json
import pathlib

import gguf
import numpy
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter

HERE = pathlib.Path(__file__).parent
PLAIN = {name: getattr(GGMLQuantizationType, name) for name in ("F32", "F16", "F64", "I8", "I16", "I32", "I64")}


def types(writer: GGUFWriter) -> None:
    """Tensors of all types but Q8_1, whose block has 40 bytes for the package and 36 for ggml, with two rows of two blocks."""
    for dtype, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if dtype == GGMLQuantizationType.Q8_1:
            continue
        data = numpy.arange(4 * size, dtype=numpy.uint16).astype(numpy.uint8) * 7 + int(dtype)
        if dtype.name in PLAIN:
            numbers = {"F": "f", "I": "i"}[dtype.name[0]] + str(size)
            writer.add_tensor(dtype.name, data.view(numbers).reshape(2, 2))
        else:
            writer.add_tensor(dtype.name, data.reshape(2, 2 * size), raw_dtype=dtype)
    rows = numpy.linspace(-1, 1, 4 * 256, dtype=numpy.float32).reshape(4, 256)
    for dtype in (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q8_0, GGMLQuantizationType.BF16, GGMLQuantizationType.TQ2_0):
        writer.add_tensor(f"quantised.{dtype.name}", gguf.quantize(rows, dtype), raw_dtype=dtype)


def shapes(writer: GGUFWriter) -> None:
    for shape in [(1,), (5,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 1, 7, 1), (0,), (3, 0)]:
        writer.add_tensor(f"of {shape}", numpy.arange(numpy.prod(shape), dtype=numpy.float32).reshape(shape))


def metadata(writer: GGUFWriter) -> None:
    values = {
        "uint8": [0, 255], "int8": [-128, 127], "uint16": [65535], "int16": [-32768], "uint32": [2**32 - 1], "int32": [-(2**31)],
        "float32": [0.5, -1.25], "bool": [True, False], "string": ["text", "", "ü€😀", "two\nlines\0"], "uint64": [2**64 - 1],
        "int64": [-(2**63)], "float64": [3.141592653589793, 1e300],
    }  # fmt: skip
    for name, some in values.items():
        of = GGUFValueType[name.upper()]
        for i, value in enumerate(some):
            writer.add_key_value(f"one.{name}.{i}", value, of)
        writer.add_key_value(f"array.{name}", some, GGUFValueType.ARRAY, of)
    writer.add_key_value("array.nested", [[1, 2], [3]], GGUFValueType.ARRAY)
    writer.add_key_value("array.nested.strings", [["a", "b"], ["c"]], GGUFValueType.ARRAY)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token {i}" for i in range(300)])
    writer.add_token_scores([i + 0.5 for i in range(300)])
    writer.add_token_types([1] * 300)


def aligned(alignment: int):
    def write(writer: GGUFWriter) -> None:
        writer.add_custom_alignment(alignment)
        for size in (1, 33, 7):
            writer.add_tensor(f"x{size}", numpy.arange(size, dtype=numpy.int8))

    return write


def record(name: str, write, version: int = 3, **options) -> dict:
    path = HERE / f"{name}.gguf"
    writer = GGUFWriter(path, "llama", **options)
    write(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if version != 3:  # the package writes version 3 only; version 2 differs by its number
        data = bytearray(path.read_bytes())
        data[4] = version
        path.write_bytes(data)
    reader = gguf.GGUFReader(path)
    return {
        "file": path.name,
        "version": version,
        "alignment": int(reader.alignment),
        "metadata": [
            {"key": field.name, "types": [t.name.lower() for t in field.types], "values": texts(field.contents())}
            for field in reader.fields.values() if not field.name.startswith("GGUF.")
        ],
        "tensors": [
            {"name": t.name, "type": t.tensor_type.name, "shape": [int(n) for n in reversed(t.shape)], "offset": int(t.data_offset),
             "bytes": int(t.n_bytes), "sha256": hashlib.sha256(t.data.tobytes()).hexdigest()}
            for t in reader.tensors
        ],
    }  # fmt: skip


def texts(value) -> list[str]:
    """The values of an array, which the package flattens, or one value, as Go prints them."""
    if isinstance(value, list):
        return [text for element in value for text in texts(element)]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def main() -> None:
    files = [
        record("types", types), record("shapes", shapes), record("metadata", metadata), record("version2", shapes, version=2),
        record("aligned8", aligned(8)), record("aligned1024", aligned(1024)),
    ]  # fmt: skip
    big = GGUFWriter(HERE / "big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    shapes(big)
    big.write_header_to_file()
    big.write_kv_data_to_file()
    big.write_tensors_to_file()
    big.close()
    lines = ",\n".join(json.dumps(file) for file in files)
    versions = f'"gguf": "{importlib.metadata.version("gguf")}", "numpy": "{numpy.__version__}"'
    (HERE / "manifest.json").write_text(f'{{{versions}, "files": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
