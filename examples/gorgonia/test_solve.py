"""Checks the output in the README, and compares solutions with those of NumPy."""

import ctypes
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import dlbridge

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def solve(tmp_path_factory):
    library = tmp_path_factory.mktemp("solve") / "libsolve.so"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", library, "."], cwd=HERE, check=True)
    go = ctypes.CDLL(library)  # dlbridge.load takes only one library in a process
    return dlbridge.wrap(go.solve, args=["tensor", "tensor", "tensor", "error"], returns=ctypes.c_int64)


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)


def test_go_finds_numpys_solution_in_numpys_memory(solve):
    rng = np.random.default_rng(5)
    for n in (1, 2, 7, 64, 300):
        m = rng.normal(size=(n, n))
        a = m @ m.T + n * np.eye(n)
        b, memory = rng.normal(size=n), np.full(n + 16, 7.0)
        x = memory[8:-8]
        x[:] = 0
        references = sys.getrefcount(memory)
        assert 0 < solve(a, b, x) <= 10 * n
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-9)
        np.testing.assert_allclose(memory[8:-8], x)
        assert (memory[:8] == 7).all() and (memory[-8:] == 7).all()
        assert sys.getrefcount(memory) == references


@pytest.mark.parametrize(
    "change, error, says",
    [
        (lambda a, b, x: (a[::-1], b, x), ValueError, "contiguous() or numpy.ascontiguousarray makes them so"),
        (lambda a, b, x: (np.asfortranarray(a), b, x), ValueError, "contiguous() or numpy.ascontiguousarray makes them row-major"),
        (lambda a, b, x: (a, b, np.broadcast_to(x[:1], x.shape)), BufferError, "copy() makes a writable one"),
        (lambda a, b, x: (a, b, x[:3]), ValueError, "has size 4, want 3"),
        (lambda a, b, x: (a, b[:3], x), ValueError, "has size 3, want 4"),
        (lambda a, b, x: (a, b.reshape(4, 1), x), ValueError, "has 2 dimensions, want 1"),
        (lambda a, b, x: (a.astype(np.float32), b, x), TypeError, "has float32, want float64"),
    ],
)
def test_what_cannot_be_solved_is_refused_and_given_back(solve, capfd, change, error, says):
    a = np.array([[4.0, 1, 0, 0], [2, 5, 1, 0], [0, 3, 6, 1], [0, 0, 1, 7]])
    arguments = change(a, np.ones(4), np.zeros(4))
    references = [sys.getrefcount(x) for x in arguments]
    with pytest.raises(error, match=re.escape(says)):
        solve(*arguments)
    assert capfd.readouterr().err == ""
    assert [sys.getrefcount(x) for x in arguments] == references
