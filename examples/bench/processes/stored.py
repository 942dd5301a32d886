"""The paths through the object store of Ray. They are in a module of their own because Ray pickles what __main__ defines by value."""

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Iterator

import numpy as np
import ray
import receiver

import dlbridge


def versions() -> list[str]:
    return [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "torch", "ray")]


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """A node of Ray of its own, even where a cluster runs, with room for two objects of 1 GiB and what is not yet freed."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=4 << 30)
    try:
        yield
    finally:
        ray.shutdown()


def gets(size: int) -> dict[str, Callable[[], float]]:
    """Returns functions that time one ray.get of `size` bytes, without the end of what it returns."""
    array = np.ones(size // 4, np.float32)
    references = {"**a `dlbridge.Tensor`**": ray.put(dlbridge.from_dlpack(array)), "a NumPy array": ray.put(array)}

    def timer(reference: ray.ObjectRef) -> Callable[[], float]:
        def get() -> float:
            begin = time.perf_counter()
            got = ray.get(reference)
            end = time.perf_counter()
            assert got.shape == array.shape
            return end - begin

        return get

    return {name: timer(reference) for name, reference in references.items()}


@ray.remote
class Receiver:
    """Receives objects of the store."""

    def receive(self, references: list[ray.ObjectRef]) -> tuple[float, float, float, float]:
        """Returns the stamps of an object. Ray does not fetch those in a list before the call, which so pays for ray.get."""
        return receiver.stamps_of(ray.get(references))
