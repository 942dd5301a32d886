"""The process that receives, and what it measures."""

import multiprocessing
import socket
import struct
import time
from typing import Any

import numpy as np

import dlbridge

STAMPS = struct.Struct("4d")
BARE = 200  # bytes, about as many as shm.send sends for one tensor
PAGE = 4096


def bytes_of(x: Any) -> np.ndarray:
    """Returns the elements of a received tensor or array, without copying them."""
    return np.from_dlpack(x) if isinstance(x, dlbridge.Tensor) else np.asarray(x)


def stamps_of(held: list) -> tuple[float, float, float, float]:
    """Takes what was received out of a list. Returns when it was there, when a byte of each page was read, when it was released, and the
    sum of these bytes. The clock is that of all processes."""
    there = time.perf_counter()
    total = bytes_of(held[0])[::PAGE].sum()
    touched = time.perf_counter()
    held.clear()
    return there, touched, time.perf_counter(), float(total)


def run(sock: socket.socket, queues: dict[bytes, multiprocessing.Queue]) -> None:
    """Receives, until the socket is closed, what each byte that comes first announces, and answers with stamps."""
    while kind := sock.recv(1):
        sock.sendall(b"!")
        if kind == b"0":
            sock.recv(BARE, socket.MSG_WAITALL)
            sock.sendall(bytes(BARE))
            continue
        sock.sendall(STAMPS.pack(*stamps_of(dlbridge.shm.recv(sock) if kind == b"s" else [queues[kind].get()])))
