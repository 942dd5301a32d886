"""Tasks and an actor of Ray that accept and return tensors. test_ray.py runs main, and its tests read the output.

Ray pickles functions of an importable module by their name, so that each worker imports this module.
"""

from __future__ import annotations

import ctypes
import json
import os

import numpy as np
import ray

import dlbridge


def place(address: int) -> tuple[str, str, int, int]:
    """Returns the permissions, the device, the inode and the offset of the memory at an address of this process."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, permissions, offset, device, inode = line.split()[:5]
            begin, end = (int(x, 16) for x in span.split("-"))
            if begin <= address < end:
                return permissions, device, int(inode), int(offset, 16) + address - begin
    raise ValueError(f"nothing is mapped at {address:#x}")


def describe(t: dlbridge.Tensor) -> dict:
    """Returns what a process sees of a tensor."""
    permissions, *pages = place(t.data_ptr)
    elements = t.tolist() if t.size < 10 else [t.item(0), t.item(-1)]
    return dict(
        pid=os.getpid(), address=t.data_ptr, permissions=permissions, pages=pages, readonly=t.readonly, dtype=str(t.dtype),
        shape=t.shape, strides=t.strides, elements=elements,
    )  # fmt: skip


@ray.remote
def look(t: dlbridge.Tensor) -> dict:
    return describe(t)


@ray.remote
def make(count: int) -> dlbridge.Tensor:
    return dlbridge.from_buffer(np.arange(count, dtype=np.float32))


@ray.remote
class Worker:
    """Holds a Go library, and calls its functions on tensors."""

    def __init__(self, library: str) -> None:
        go = dlbridge.load(library)
        self.same = dlbridge.wrap(go.same, args=["tensor", "error"], returns="tensor")
        self.add_scaled = dlbridge.wrap(go.add_scaled, args=["tensor", ctypes.c_double, "tensor", "error"], returns=None)

    def look(self, t: dlbridge.Tensor) -> dict:
        return describe(t)

    def make(self, count: int) -> dlbridge.Tensor:
        return dlbridge.from_buffer(np.arange(count, dtype=np.float32))

    def through_go(self, t: dlbridge.Tensor) -> tuple[dict, dict]:
        """Returns what this process sees of a tensor, and of the tensor that a Go function returns for it."""
        return describe(t), describe(self.same(t))

    def times(self, t: dlbridge.Tensor, factor: float) -> dlbridge.Tensor:
        """Returns the elements times a factor, computed by a Go function."""
        result = dlbridge.from_dlpack(np.zeros(t.shape, t.dtype))
        self.add_scaled(t, factor, result)
        return result

    def add_in_place(self, t: dlbridge.Tensor) -> str:
        """Calls a Go function that writes to its argument, and returns the error."""
        try:
            self.add_scaled(t, 1.0, t)
        except BufferError as error:
            return str(error)
        return "none"


def consumers(t: dlbridge.Tensor) -> dict:
    """Returns what each consumer does with a tensor of the store: it uses the same memory, makes a copy, or raises an error."""
    import jax
    import torch

    def made(make, address) -> str:
        try:
            return "the same memory" if address(make(t)) == t.data_ptr else "a copy"
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"

    def writes() -> str:
        try:
            t.numpy()[0] = 1
        except ValueError as error:
            return str(error)
        return "yes"

    enforced = dlbridge.shm.readonly(t)
    return {
        "NumPy": made(np.from_dlpack, lambda a: a.ctypes.data),
        "NumPy writes": writes(),
        "torch": made(torch.from_dlpack, torch.Tensor.data_ptr),
        "torch, copy=True": made(lambda t: torch.from_dlpack(t, copy=True), torch.Tensor.data_ptr),
        "JAX": made(jax.numpy.from_dlpack, lambda a: a.unsafe_buffer_pointer()),
        "shm.readonly": [place(enforced.data_ptr)[0], place(enforced.data_ptr)[1:] == place(t.data_ptr)[1:]],
    }


def main(library: str) -> None:
    """Starts Ray, and prints what its workers have seen, as JSON."""
    # A new cluster, even if one is running.
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    t = dlbridge.from_buffer(np.arange(120_000, dtype=np.float32)).reshape(300, 400)
    put = ray.put(t)
    one, two = Worker.remote(library), Worker.remote(library)
    made, by_actor = make.remote(100_000), one.make.remote(50_000)
    transposed, bfloat16 = ray.put(t.T), ray.put(t.convert("bfloat16"))
    seen = {
        "driver": describe(ray.get(put)),
        "first get": describe(ray.get(put)),
        "task": ray.get(look.remote(put)),
        "actors": ray.get([one.look.remote(put), two.look.remote(put)]),
        "passed by value": ray.get(two.look.remote(t)),
        "result of a task": [describe(ray.get(made)), *ray.get([one.look.remote(made), two.look.remote(made)])],
        "result of an actor": [describe(ray.get(by_actor)), *ray.get([one.look.remote(by_actor), two.look.remote(by_actor)])],
        "small": ray.get(look.remote(dlbridge.from_buffer(b"abc"))),
        "transposed": ray.get([one.look.remote(transposed), two.look.remote(transposed)]),
        "bfloat16": ray.get([one.look.remote(bfloat16), two.look.remote(bfloat16)]),
        "through Go": ray.get([one.through_go.remote(put), two.through_go.remote(put)]),
        "times": describe(ray.get(two.times.remote(put, 3.0))),
        "add in place": ray.get(one.add_in_place.remote(put)),
        "consumers": consumers(ray.get(put)),
        "at the end": describe(ray.get(put)),
    }
    ray.shutdown()
    print(json.dumps(seen))
