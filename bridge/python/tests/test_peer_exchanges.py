"""Many exchanges with each framework, which must leave nothing behind. `make exchanges` makes a million with each."""

from __future__ import annotations

import os
import subprocess
import sys

import peer_exchanges
import pytest
from test_peers import peer

from dlbridge._frameworks import FRAMEWORKS

pytestmark = pytest.mark.peers
COUNT = int(os.environ.get("DLBRIDGE_EXCHANGES", "20000"))
NOT_PINNED = {"cupy", "paddle", "mxnet"}  # measured by `python -m dlbridge` where they are installed


@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if name not in NOT_PINNED])
def test_exchanges_leave_nothing_behind(name):
    peer(name)
    command = [sys.executable, peer_exchanges.__file__, name, str(COUNT)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600, env=environment)
    assert done.returncode == 0, done.stdout
