"""The paths to another process: functions that hand over `size` bytes and return the times this took."""

import contextlib
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import ray
import receiver
import stored
import torch
import torch.multiprocessing

import dlbridge


class Times(NamedTuple):
    """The seconds until the receiver holds the tensor, the seconds to read a byte of each page, and the seconds to release the tensor."""

    arrival: float
    touch: float = 0
    release: float = 0


BARE = "a round trip of 200 bytes on the socket"
AGAIN = "**`dlbridge.shm.send` and `recv`, a segment that was sent before**"
FRESH = "**`dlbridge.shm.send` and `recv`, a new segment**"
COPIED = "**the same, after a copy of an array into the new segment**"
QUEUED = "**a `dlbridge.Tensor` in a segment, by `multiprocessing.Queue`**"
NUMPY = "a NumPy array, by `multiprocessing.Queue`"
TORCH = "a PyTorch tensor in shared memory, by `torch.multiprocessing`"
TORCH_COPIED = "a PyTorch tensor in other memory, by `torch.multiprocessing`"
RAY = "a NumPy array, by `ray.put`, a call of an actor and `ray.get`"
RAY_TENSOR = "**a `dlbridge.Tensor`, by the same calls**"


@contextlib.contextmanager
def paths(size: int) -> Iterator[dict[str, Callable[[], Times]]]:
    """The paths, with a process that receives, and an actor of Ray."""
    array = np.ones(size, np.uint8)
    pages = -(-size // receiver.PAGE)
    here, there = socket.socketpair()
    plain, torches = multiprocessing.get_context("spawn"), torch.multiprocessing.get_context("spawn")
    # Each path has a queue of its own, because a queue keeps what it has pickled last until the next.
    queues = {b"q": plain.Queue(), b"n": plain.Queue(), b"t": torches.Queue(), b"c": torches.Queue()}
    process = plain.Process(target=receiver.run, args=(there, queues), daemon=True)
    process.start()
    there.close()
    actor = stored.Receiver.remote()
    # What was sent once can only be read by others; a queue hands a writable tensor over to be written.
    segment, writable = dlbridge.shm.copy(array), dlbridge.shm.copy(array)
    shared = torch.ones(size, dtype=torch.uint8).share_memory_()

    def announce(kind: bytes) -> None:
        here.sendall(kind)
        assert here.recv(1) == b"!"

    def times(begin: float, stamps: tuple[float, float, float, float]) -> Times:
        arrived, touched, released, total = stamps
        assert total == pages, "the receiver has other elements"
        return Times(arrived - begin, touched - arrived, released - touched)

    def answer(begin: float) -> Times:
        return times(begin, receiver.STAMPS.unpack(here.recv(receiver.STAMPS.size, socket.MSG_WAITALL)))

    def bare() -> Times:
        announce(b"0")
        begin = time.perf_counter()
        here.sendall(bytes(receiver.BARE))
        here.recv(receiver.BARE, socket.MSG_WAITALL)
        return Times(time.perf_counter() - begin)

    def send(tensor: dlbridge.Tensor) -> Times:
        announce(b"s")
        begin = time.perf_counter()
        dlbridge.shm.send(here, tensor)
        return answer(begin)

    def copied() -> Times:
        announce(b"s")
        begin = time.perf_counter()
        dlbridge.shm.send(here, dlbridge.shm.copy(array))
        return answer(begin)

    def put(kind: bytes, x: object) -> Times:
        announce(kind)
        begin = time.perf_counter()
        queues[kind].put(x)
        return answer(begin)

    def by_ray(x: object) -> Times:
        begin = time.perf_counter()
        return times(begin, ray.get(actor.receive.remote([ray.put(x)])))

    tensor = dlbridge.from_dlpack(array)
    yield {
        BARE: bare,
        AGAIN: lambda: send(segment),
        FRESH: lambda: send(dlbridge.shm.copy(array)),
        COPIED: copied,
        QUEUED: lambda: put(b"q", writable),
        NUMPY: lambda: put(b"n", array),
        TORCH: lambda: put(b"t", shared),
        TORCH_COPIED: lambda: put(b"c", torch.ones(size, dtype=torch.uint8)),
        RAY: lambda: by_ray(array),
        RAY_TENSOR: lambda: by_ray(tensor),
    }
    here.close()
    process.join(60)
    process.kill()
    process.join()
    ray.kill(actor)
