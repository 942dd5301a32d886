"""Times the copies of NumPy and PyTorch into an existing array, on one thread. Prints lines of `name value unit`.

The layouts are those of copies.go.
"""

import statistics
import sys
import time

import numpy as np

TURNS = 5
BATCHES = max(1, int(sys.argv[1]) // 25)
SIDE = 4096

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None


def layouts():
    for dtype in np.uint8, np.int16, np.float32, np.float64, np.complex128:
        yield f"transpose_{np.dtype(dtype).itemsize}", np.ones((SIDE, SIDE), dtype).T
    yield "transpose_4_odd", np.ones((SIDE - 1, SIDE - 1), np.float32).T
    yield "nchw_3_channels", np.ones((32, 224, 224, 3), np.float32).transpose(0, 3, 1, 2)
    yield "nchw_64_channels", np.ones((32, 56, 56, 64), np.float32).transpose(0, 3, 1, 2)
    yield "nhwc_3_channels", np.ones((32, 3, 224, 224), np.float32).transpose(0, 2, 3, 1)
    matrix = np.ones((SIDE, SIDE), np.float32)
    yield "step_2", matrix[:, ::2]
    yield "step_3", matrix[:, ::3]
    yield "flip", matrix[:, ::-1]
    yield "contiguous", np.ones(64 << 20, np.uint8)


def fastest(run):
    times = []
    for _ in range(TURNS):
        best = float("inf")
        for _ in range(BATCHES):
            start = time.perf_counter_ns()
            run()
            best = min(best, time.perf_counter_ns() - start)
        times.append(best)
    return statistics.median(times)


for name, source in layouts():
    target = np.zeros(source.shape, source.dtype)
    print(f"py_numpy_copy_{name} {fastest(lambda: np.copyto(target, source)):.2f} ns", flush=True)
    if torch is None:
        continue
    to = torch.from_numpy(target)
    if name == "flip":  # PyTorch has no negative strides, so flip allocates its result
        matrix = torch.from_numpy(np.ascontiguousarray(source))
        print(f"py_torch_copy_{name} {fastest(lambda: torch.flip(matrix, (1,))):.2f} ns", flush=True)
    else:
        view = torch.from_numpy(source)
        print(f"py_torch_copy_{name} {fastest(lambda: to.copy_(view)):.2f} ns", flush=True)
