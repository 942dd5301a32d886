"""What NumPy makes of the operations of results_test.go. `python numpy_results.py > numpy_results.json` writes it anew."""

import json
import sys

import numpy as np

FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64", *FLOATS)
REALS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*REALS, *COMPLEX)
ALL = (*NUMBERS, "bool")

SHAPES = [(), (1,), (5,), (3, 4), (1, 5), (4, 1), (1, 1), (2, 3, 4), (2, 1, 3), (3, 2, 1, 2), (2, 1, 1, 2, 1, 1, 2, 1, 2)]


def softmax(a, axis):
    e = np.exp(a - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


# name: types, ranks, what it does
OPERATIONS = {
    "values": (ALL, range(10), lambda a, b: a),
    "add": (NUMBERS, range(10), lambda a, b: a + b),
    "sub": (NUMBERS, range(10), lambda a, b: a - b),
    "mul": (NUMBERS, range(10), lambda a, b: a * b),
    "div": ((*FLOATS, *COMPLEX), range(10), lambda a, b: a / b),
    "add 3": (NUMBERS, range(10), lambda a, b: a + a.dtype.type(3)),
    "lt": (REALS, range(10), lambda a, b: a < b),
    "gte": (REALS, range(10), lambda a, b: a >= b),
    "equal": (ALL, range(10), lambda a, b: a == b),
    "neg": ((*SIGNED, *COMPLEX), range(10), lambda a, b: -a),
    "square": (NUMBERS, range(10), lambda a, b: a * a),
    "sqrt": (FLOATS, range(10), lambda a, b: np.sqrt(a)),
    "sum": (NUMBERS, range(10), lambda a, b: a.sum(dtype=a.dtype)),
    "sum 0": (NUMBERS, range(1, 10), lambda a, b: a.sum(axis=0, dtype=a.dtype)),
    "sum last": (NUMBERS, range(1, 10), lambda a, b: a.sum(axis=-1, dtype=a.dtype)),
    "max 0": (REALS, range(1, 10), lambda a, b: a.max(axis=0)),
    "min last": (REALS, range(1, 10), lambda a, b: a.min(axis=-1)),
    "argmax last": (REALS, range(1, 10), lambda a, b: a.argmax(axis=-1)),
    "transpose": (ALL, range(2, 10), lambda a, b: a.T),
    "roll": (ALL, range(3, 10), lambda a, b: np.transpose(a, (*range(1, a.ndim), 0))),
    "row": (ALL, range(1, 10), lambda a, b: a[-1]),
    "columns": (ALL, range(2, 10), lambda a, b: a[..., : (a.shape[-1] + 1) // 2]),
    "rows added": (NUMBERS, range(2, 10), lambda a, b: a[-1] + b[-1]),
    "columns added": (NUMBERS, range(2, 10), lambda a, b: (a + b)[..., : (a.shape[-1] + 1) // 2]),
    "rows materialized": (ALL, range(2, 10), lambda a, b: a[: (a.shape[0] + 1) // 2].reshape(-1)),
    "row sum": (NUMBERS, range(2, 10), lambda a, b: a[0].sum(dtype=a.dtype)),
    "repeat 0": (ALL, range(1, 10), lambda a, b: np.repeat(a, 2, axis=0)),
    "concat 0": (ALL, range(1, 10), lambda a, b: np.concatenate([a, b], axis=0)),
    "stack 0": (ALL, range(1, 10), lambda a, b: np.stack([a, b])),
    "matmul": ((*FLOATS, *COMPLEX), [2], lambda a, b: a @ b.T),
    "matvec": ((*FLOATS, *COMPLEX), [2], lambda a, b: a @ np.ones(a.shape[1], a.dtype)),
    "outer": ((*FLOATS, *COMPLEX), [1], lambda a, b: np.outer(a, b)),
    "inner": (FLOATS, [1], lambda a, b: np.inner(a, b)),
    "softmax last": (FLOATS, range(1, 10), lambda a, b: softmax(a, -1)),
    "flat": (ALL, range(1, 10), lambda a, b: a.reshape(-1)),
}


def operands(shape, dtype):
    """Two tensors of small numbers: a is nowhere less than b, and no sum of them overflows an int8."""
    i = np.arange(int(np.prod(shape)))
    b = i * 5 % 3 % 2 + 1
    a = b + i * 7 % 5 % 3
    if dtype in COMPLEX:
        a, b = a + 1j * b, b + 1j * a
    if dtype == "bool":
        a, b = a > 2, b > 1
    return a.astype(dtype).reshape(shape), b.astype(dtype).reshape(shape)


def plain(result):
    flat = np.asarray(result).reshape(-1)
    if flat.dtype.kind == "c":
        return [[z.real, z.imag] for z in flat.tolist()]
    return [float(x) for x in flat.tolist()]


def cases():
    """One for each operation and shape; types that agree share one."""
    for name, (dtypes, ranks, run) in OPERATIONS.items():
        for shape in SHAPES:
            if len(shape) not in ranks:
                continue
            groups = []
            for dtype in dtypes:
                result = np.asarray(run(*operands(shape, dtype)))
                want = {"shape": list(result.shape), "values": plain(result)}
                same = next((g for g in groups if g["want"] == want), None)
                if same:
                    same["dtypes"].append(dtype)
                else:
                    groups.append({"op": name, "of": list(shape), "dtypes": [dtype], "want": want})
            yield from groups


if __name__ == "__main__":
    rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases())
    sys.stdout.write(f"[\n{rows}\n]\n")
