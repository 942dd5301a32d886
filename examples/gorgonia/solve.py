"""Solves linear equations with gorgonia, in the memory of NumPy arrays."""

import ctypes
import sys

import numpy as np

import dlbridge

go = dlbridge.load(sys.argv[1])
solve = dlbridge.wrap(go.solve, args=["tensor", "tensor", "tensor", "error"], returns=ctypes.c_int64)

n = 8
a = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)  # a string, held at both ends
b = np.ones(n)  # and pulled on everywhere
x = np.zeros(n)
steps = solve(a, b, x)
print("x =", " ".join(f"{v:.3f}" for v in x))
print(f"after {steps} steps of conjugate gradients in Go, in NumPy's own memory")
print("NumPy solves it alike:", np.allclose(x, np.linalg.solve(a, b)))
try:
    solve(a, b, np.zeros(2 * n)[::2])
except ValueError as error:
    print("a view with gaps is refused:", error)
