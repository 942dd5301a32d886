"""The DLPack tests of NumPy, pyarrow and TVM-FFI, which peer_suites.py runs on tensors of dlbridge."""

from __future__ import annotations

import subprocess
import sys

import peer_suites
import pytest
from test_peers import peer

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(("suite", "role"), peer_suites.DESELECTED)
def test_tests_of_peers_pass_with_our_tensors(suite, role):
    peer(suite)
    command = [sys.executable, peer_suites.__file__, suite, role]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
