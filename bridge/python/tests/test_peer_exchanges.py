"""Many exchanges with each framework, which must leave nothing behind. `make exchanges` makes a million with each."""

from __future__ import annotations

import os
import subprocess
import sys

import peer_exchanges
import pytest
from test_peers import peer

from dlbridge._frameworks import FRAMEWORKS

COUNT = int(os.environ.get("DLBRIDGE_EXCHANGES", "20000"))
NOT_PINNED = {"cupy", "paddle", "mxnet"}  # measured by `python -m dlbridge` where they are installed


def exchange(name, count):
    command = [sys.executable, peer_exchanges.__file__, name, str(count)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600, env=environment)


@pytest.mark.peers
@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if name not in NOT_PINNED])
def test_exchanges_leave_nothing_behind(name):
    peer(name)
    done = exchange(name, COUNT)
    assert done.returncode == 0, done.stdout


@pytest.mark.memory
@pytest.mark.parametrize(("count", "said"), [(9, "COUNT is 9: fewer than 1000"), (999, "COUNT is 999"), (1000, "")])
def test_few_exchanges_are_refused(count, said):
    done = exchange("numpy", count)
    assert (done.returncode == 0, said in done.stdout) == (said == "", True), done.stdout
