"""The main job: one message, one memory, three languages. `make demo` runs it."""

import ctypes
import pathlib
import sys

import numpy as np

import dlbridge
import dlbridge.tens

MESSAGES = pathlib.Path(__file__).parent / "message"


def library(path):
    """The Go library of this folder. It is a dlbridge library as well, so that there is one Go runtime."""
    lib = ctypes.CDLL(path)
    index, pointer = ctypes.c_int64, ctypes.c_void_p
    for name, result, *arguments in [
        ("demo_open", ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p),
        ("demo_export", pointer, index),
        ("demo_go_address", ctypes.c_uint64, index),
        ("demo_go_read", ctypes.c_uint64, index),
        ("demo_c_address", ctypes.c_uint64, pointer),
        ("demo_c_read", ctypes.c_uint64, pointer),
        ("demo_c_release", None, pointer),
        ("demo_close", ctypes.c_int64),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    dlbridge.load(path)
    return lib


def check(good, what):
    if not good:
        sys.exit(f"demo: {what}")


def table(*cells):
    print(*(f"{cell!s:<{width}}" for cell, width in zip(cells, (13, 8, 10, 10, 15, 15, 15, 7))))


def describe(array):
    return array.dtype, array.shape, tuple(s // array.itemsize for s in array.strides)


def incoming(lib):
    """Messages that Go reads are seen at one address by Go, C and Python, and written by any of them."""
    table("in", "dtype", "shape", "strides", "Go", "C", "NumPy", "copied?")
    seen = 0
    for message, strides in [("peer", None), ("transposed", (1, 3, 6)), ("reversed", (-2, -1))]:
        count = lib.demo_open(str(MESSAGES).encode(), message.encode())
        check(count > seen, f"cannot read {message}")
        for i in range(seen, count):
            in_c = lib.demo_export(i)
            array = np.from_dlpack(dlbridge.from_address(lib.demo_export(i)))
            places = lib.demo_go_address(i), lib.demo_c_address(in_c), array.__array_interface__["data"][0]
            check(len(set(places)) == 1, f"{message} {i}: {places} are not one address")
            check(strides in (None, describe(array)[2]), f"{message} {i}: strides {array.strides}")
            table(f"{message} {i - seen}", *describe(array), *map(hex, places), "no")
            array[(0,) * array.ndim] = 42
            bits = int.from_bytes(array[(0,) * array.ndim].tobytes(), "little")
            check(lib.demo_go_read(i) == bits == lib.demo_c_read(in_c), f"{message} {i}: a write in Python is not seen")
            lib.demo_c_release(in_c)
        seen = count
    print("\nNumPy wrote 42 into the first element of each; Go and C read it there.\n")


def outgoing():
    """NumPy arrays of the peer's values, orders and directions make the peer's parts, and their labels."""
    table("out", "dtype", "shape", "strides", "NumPy", "part", "", "copied?")
    for message, layouts in {
        "peer": [np.array, np.array, np.array],
        "transposed": [np.asfortranarray],
        "reversed": [lambda a: np.array(a[::-1, ::-1])[::-1, ::-1]],
    }.items():
        parts = [part.read_bytes() for part in sorted(MESSAGES.glob(f"{message}.part*.bin"))]
        head = [(MESSAGES / f"{message}.{frame}.bin").read_bytes() for frame in ("prefix", "header")]
        theirs = dlbridge.tens.decode(head + parts)
        arrays = [lay(np.from_dlpack(tensor)) for lay, tensor in zip(layouts, theirs.tensors, strict=True)]
        frames = dlbridge.tens.encode(arrays)
        for i, (array, frame, part) in enumerate(zip(arrays, frames[2:], parts, strict=True)):
            lowest = np.lib.array_utils.byte_bounds(array)[0]
            place = np.frombuffer(frame, np.uint8).__array_interface__["data"][0]
            check(bytes(frame) == part, f"{message} {i}: the part differs from the peer's")
            check(place == lowest, f"{message} {i}: the part is a copy")
            table(f"{message} {i}", *describe(array), hex(lowest), hex(place), "= the peer's", "no")
        ours = dlbridge.tens.decode(frames)
        for a, b in zip(ours.label["TENS"]["tensors"], theirs.label["TENS"]["tensors"], strict=True):
            check(says(a) == says(b), f"{message}: the label says {a}, the peer's {b}")
    print("\nEvery part equals the peer's, byte for byte, and the labels say the same.\n")


def says(tensor):
    """What a label says of a tensor, its defaults spelled out."""
    rank = len(tensor["shape"])
    defaults = {"order": list(range(rank))[::-1], "ascend": [True] * rank}
    return {key: {**defaults, **tensor}[key] for key in ("shape", "dtype", "word", "order", "ascend")}


def with_torch(lib):
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed here; with it, it shows the same addresses.")
        return
    for i in range(4):  # PyTorch has no negative strides
        tensor = torch.from_dlpack(dlbridge.from_address(lib.demo_export(i)))
        check(tensor.data_ptr() == lib.demo_go_address(i), f"PyTorch has tensor {i} at {tensor.data_ptr():#x}")
    print("PyTorch has the first four at the same addresses.")


def main(path):
    lib = library(path)
    incoming(lib)
    outgoing()
    with_torch(lib)
    check(lib.demo_close() == 0, "exports are left")
    print("Every address and value agrees, and everything was given back.")


if __name__ == "__main__":
    main(sys.argv[1])
