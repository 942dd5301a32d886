"""Writes files of tensors into a folder, and times how they are opened, read and written there. Prints lines of `name value unit`.

The command bench times the paths in Go with the same files.
"""

import pathlib
import sys

import gguf
import numpy as np
import safetensors
import safetensors.numpy
from stories import measure

import dlbridge

WORDS = 10_000
folder = pathlib.Path(sys.argv[1])
batches = int(sys.argv[2])
model, vocabulary, array = (folder / name for name in ("model.safetensors", "vocabulary.gguf", "array.npy"))


def write():
    tensor = np.ones((512, 512), np.float32)
    safetensors.numpy.save_file({f"model.layers.{i // 10}.block.{i % 10}.weight": tensor for i in range(300)}, model)
    np.save(array, tensor)
    writer = gguf.GGUFWriter(vocabulary, "llama")
    writer.add_token_list([f"word{i}" for i in range(WORDS)])
    writer.add_token_scores([float(i) for i in range(WORDS)])
    writer.add_token_types([1] * WORDS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def list_names():
    with safetensors.safe_open(model, "np") as file:
        file.keys()


def by_dlbridge():
    """Reads each element once."""
    with dlbridge.open_file(model) as file:
        for tensor in file.values():
            tensor.numpy().sum()


def by_safetensors():
    for x in safetensors.numpy.load_file(model).values():
        x.sum()


def open_array():
    with dlbridge.open_file(array) as file:
        next(iter(file.values()))


write()
measure({"safetensors_open": list_names}, 2 * batches)
measure({"dlbridge_npy_open": open_array, "numpy_open": lambda: np.load(array, mmap_mode="r") is None}, 2 * batches)
measure({"dlbridge_safetensors_read": by_dlbridge, "safetensors_read": by_safetensors}, 3, turns=1)
measure({"gguf_open": lambda: gguf.GGUFReader(vocabulary) is None}, 3, turns=1)
large = np.ones(32 << 20, np.float32)
measure(
    {
        "numpy_write": lambda: np.save(folder / "numpy.npy", large),
        "dlbridge_npy_write": lambda: dlbridge.npy.save(folder / "dlbridge.npy", large),
        "dlbridge_safetensors_write": lambda: dlbridge.safetensors.save(folder / "dlbridge.safetensors", {"x": large}),
        "safetensors_write": lambda: safetensors.numpy.save_file({"x": large}, folder / "peer.safetensors"),
    },
    12,
    turns=1,
)
