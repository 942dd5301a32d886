"""Exchanges tensors with a framework, both ways, and fails if an exchange leaves something behind.

    python peer_exchanges.py NAME COUNT

NAME is one of FRAMEWORKS in `dlbridge._frameworks`, which says how the framework accepts a tensor and gives an array. The counters must be
the same at the end. After a fifth of the exchanges, the resident memory must not grow by more than 8 MiB, which is 8 bytes for each of a
million. Few exchanges leave too few bytes to be seen in it, so the number of Python's memory blocks must not grow by more than one for
ten exchanges. COUNT is at least 1000, because with fewer exchanges the blocks of filled caches would exceed this limit.
"""

from __future__ import annotations

import gc
import importlib
import sys

from conftest import live, resident

import dlbridge
from dlbridge._frameworks import FRAMEWORKS

ROOM = 8 << 20
LEAST = 1000


def exchange(name: str, count: int) -> None:
    framework, module = FRAMEWORKS[name], importlib.import_module(name)
    tensor, array = dlbridge.empty((16, 64), "float32"), framework.make(module)

    def repeat(times: int) -> None:
        for _ in range(times):
            framework.take(module, tensor)
            dlbridge.from_dlpack(framework.give(module, array))
        gc.collect()

    repeat(10)
    before = live()
    repeat(count // 5)
    start, blocks = resident(), sys.getallocatedblocks()
    repeat(count - count // 5)
    left = sys.getallocatedblocks() - blocks
    assert left <= count // 10, f"{name}: {left} more blocks of Python after {count} exchanges"
    assert live() == before, f"{name}: {before} have become {live()} after {count} exchanges"
    assert resident() - start < ROOM, f"{name}: {resident() - start} bytes more after {count} exchanges"


if __name__ == "__main__":
    if int(sys.argv[2]) < LEAST:
        sys.exit(f"COUNT is {sys.argv[2]}: fewer than {LEAST} exchanges do not show what they leave behind")
    exchange(sys.argv[1], int(sys.argv[2]))
