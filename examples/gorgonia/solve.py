"""NumPy's arrays are solved by gorgonia, where they lie."""

import ctypes
import sys

import numpy as np

import dlbridge


def library(path):
    """The Go function of main.go, on any producers of tensors."""
    lib = ctypes.CDLL(path)
    lib.solve.argtypes, lib.solve.restype = [ctypes.c_void_p] * 3, ctypes.c_int64
    return dlbridge.wrap(lib.solve)


def main(path):
    solve = library(path)
    n = 8
    a = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)  # a string, held at both ends
    b = np.ones(n)  # and pulled on everywhere
    x = np.zeros(n)
    address = x.ctypes.data
    steps = solve(a, b, x)
    print("x =", " ".join(f"{v:.3f}" for v in x))
    print(f"after {steps} steps of conjugate gradients in Go, in NumPy's own memory")
    print("NumPy solves it alike:", np.allclose(x, np.linalg.solve(a, b)) and address == x.ctypes.data)
    print("a view with gaps is refused:", solve(a, b, np.zeros(2 * n)[::2]) == -1, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
