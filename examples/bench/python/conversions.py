"""Times conversions of dlbridge, NumPy (with ml_dtypes) and PyTorch into memory that exists, on one thread.

Prints lines of `name value unit`, and the tables and rows of the report, as the command report reads them. Each time
is the median over several turns of the fastest batch in each turn. Those who convert the same numbers take turns.
"""

import ctypes
import statistics
import sys
import timeit

import ml_dtypes
import numpy as np

import dlbridge

TURNS = 5
BATCHES = max(1, int(sys.argv[1]) // 25)
BATCH_TIME = 100e-6  # seconds
MIB = 1 << 20
VECTORS = 1 << 17, 1 << 22
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
FLOATS = "float16 bfloat16 float32 float64 float8_e4m3fn float8_e5m2".split()
random = np.random.default_rng(0)

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None


def span(dtype):
    """Returns the smallest and the largest number of a type, without their fractions."""
    if dtype == "bool":
        return 0, 1
    if dtype in INTEGERS:
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    largest = int(float(ml_dtypes.finfo(dtype).max))
    return -largest, largest


def numbers(dtype, to):
    """Returns 2^17 random numbers of a type that the type `to` can hold.

    Integers come from the whole range, so that no conversion profits from small ones. Floats that become integers come from
    half of it, so that none is rounded out of the range. Other floats are normally distributed.
    """
    low, high = (limit(pair) for limit, pair in zip((max, min), zip(span(dtype), span(to))))
    if dtype in FLOATS:
        return random.uniform(low / 2, high / 2, 1 << 17) if to in INTEGERS else random.standard_normal(1 << 17)
    return random.integers(low, high, 1 << 17, "uint64" if dtype == "uint64" else "int64", endpoint=True)


def tensors(dtype, to, shape, order=None):
    """Returns a tensor of random numbers, with the axes of `shape` in another order, and one to convert it into."""
    x = dlbridge.empty(shape, dtype)
    x.numpy()[...] = np.resize(numbers(dtype, to), shape)
    x = x.transpose(order) if order else x
    return x, dlbridge.empty(x.shape, to)


def conversions(x, out):
    """Returns what converts x into out: for each side a statement, and the objects that it names."""
    sides = {
        "dlbridge": ("x.convert(out=out)", {"x": x, "out": out}),
        "numpy": ("copyto(out, x, casting='unsafe')", {"copyto": np.copyto, "x": x.numpy(), "out": out.numpy()}),
    }
    if torch is not None:
        sides["torch"] = ("out.copy_(x)", {"x": torch.from_dlpack(x), "out": torch.from_dlpack(out)})
    return sides


def scalings(x, out, axis=None):
    """Returns what writes x * scale + shift into out, with factors for each index of an axis. The peers need two passes."""
    shape = [x.shape[axis] if d == axis else 1 for d in range(x.ndim)]
    scale, shift = (random.uniform(0.5, 2, shape).astype(np.float32) for _ in range(2))
    if axis is None:
        factors = {"scale": scale.item(), "shift": shift.item(), "axis": -1}
    else:
        factors = {"scale": scale.ravel(), "shift": shift.ravel(), "axis": axis}
    sides = {
        "dlbridge": ("x.convert(out=out, scale=scale, shift=shift, axis=axis)", {"x": x, "out": out} | factors),
        "plain": conversions(x, out)["dlbridge"],
        "numpy": (
            "multiply(x, scale, out); add(out, shift, out)",
            {"multiply": np.multiply, "add": np.add, "x": x.numpy(), "out": out.numpy(), "scale": scale, "shift": shift},
        ),
    }
    if torch is not None:
        names = {"x": x, "out": out, "scale": scale, "shift": shift}
        names = {name: torch.from_dlpack(value) for name, value in names.items()}
        sides["torch"] = ("mul(x, scale, out=out); out.add_(shift)", names | {"mul": torch.mul})
    return sides


def measure(sides, name, batches=BATCHES):
    timers = {side: timeit.Timer(statement, globals=names) for side, (statement, names) in sides.items()}
    rounds = {side: max(1, int(BATCH_TIME / min(timer.repeat(3, 1)))) for side, timer in timers.items()}
    fastest = {side: [] for side in timers}
    for _ in range(TURNS):
        for side, timer in timers.items():
            fastest[side].append(min(timer.repeat(batches, rounds[side])) / rounds[side])
    for side, times in fastest.items():
        print(f"py_{side}_{name} {statistics.median(times) * 1e9:.2f} ns", flush=True)


def table(title, note):
    print("table", title, note, sep="\t")


OTHERS = {
    "plain": "without scale and shift",
    "memcpy": "`memcpy` of half as many bytes as the conversion reads and writes",
    "numpy": "the same in NumPy",
    "torch": "the same in PyTorch",
}


def rows(name, what, sides, aim=0):
    """Times the sides, each with a row of the table. `aim` says how many times as fast as NumPy dlbridge must be, or 0."""
    print("row", f"py_dlbridge_{name}", what, f"py_numpy_{name}", "false", aim, sep="\t")
    for side, other in OTHERS.items():
        if side in sides:
            print("row", f"py_{side}_{name}", other, "", "false" if side == "plain" else "true", 0, sep="\t")
    measure(sides, name)


def memcpy(size):
    """Returns a copy of `size` bytes by memcpy, as a side."""
    function = ctypes.CDLL(None).memcpy
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    source, target = (np.ones(size, np.uint8) for _ in range(2))
    names = {"memcpy": function, "source": source, "target": target, "size": size}
    return "memcpy(target.ctypes.data, source.ctypes.data, size)", names


def images(dtype, to, shape=(32, 224, 224, 3), order=(0, 3, 1, 2)):
    return tensors(dtype, to, shape, order)


def large():
    table(
        "Python: conversions",
        "The conversions write to existing memory and run on one core. The result of a vector has 64 MiB. There are 32 images of "
        "224×224 with 3 channels, and the matrices have 2048 rows and columns.",
    )
    for dtype, to, count in ("uint8", "float32", 16 * MIB), ("float32", "bfloat16", 32 * MIB), ("float16", "float32", 16 * MIB):
        x, out = tensors(dtype, to, count)
        copy = {"memcpy": memcpy((x.nbytes + out.nbytes) // 2)}
        rows(f"{dtype}_{to}", f"{dtype} to {to}", conversions(x, out) | copy)
    nchw = images("uint8", "float32")
    rows("images_nchw", "images, NHWC uint8 to NCHW float32", conversions(*nchw))
    nhwc = images("float32", "uint8", (32, 3, 224, 224), (0, 2, 3, 1))
    rows("images_nhwc", "images, NCHW float32 to NHWC uint8", conversions(*nhwc), aim=1.67)
    for dtype, to in ("uint8", "float32"), ("float32", "float16"), ("float64", "float32"):
        sides = conversions(*tensors(dtype, to, (2048, 2048), (1, 0)))
        rows(f"transpose_{dtype}_{to}", f"transposed matrix, {dtype} to {to}", sides, aim=2.5)


def small():
    table("Python: conversions of 16 numbers", "The conversions write to existing memory.")
    for dtype, to in ("uint8", "float32"), ("float32", "bfloat16"), ("float16", "float32"), ("float32", "float64"):
        rows(f"16_{dtype}_{to}", f"{dtype} to {to}", conversions(*tensors(dtype, to, 16)))


def scaled():
    table(
        "Python: conversions with scale and shift",
        "The conversions write `x * scale + shift` to existing memory and run on one core. NumPy and PyTorch need two passes. There "
        "are 32 images of 224×224, with a scale and a shift for each of 3 channels.",
    )
    for count in VECTORS:
        for dtype in "uint8", "int16", "float16", "bfloat16":
            sides = scalings(*tensors(dtype, "float32", count))
            rows(f"scaled_{count}_{dtype}", f"{count} numbers, {dtype} to float32", sides)
    sides = scalings(*images("uint8", "float32"), axis=1)
    rows("scaled_images_nchw", "images, NHWC uint8 to NCHW float32", sides)
    sides = scalings(*images("uint8", "float32", order=None), axis=3)
    rows("scaled_images_nhwc", "images, NHWC uint8 to NHWC float32", sides)


def pairs():
    """Times all pairs of types. The report summarises them."""
    types = ["bool", *INTEGERS, *FLOATS]
    for count, batches in zip(VECTORS, (5 * BATCHES, BATCHES)):
        for dtype in types:
            for to in types:
                if to != dtype:
                    x, out = tensors(dtype, to, count)
                    sides = conversions(x, out) | {"scaled": scalings(x, out)["dlbridge"]}
                    measure(sides, f"{count}_{dtype}→{to}", batches)


large()
small()
scaled()
pairs()
