"""Checks the output in the README, compares products of Go and NumPy in every layout, and checks what Go refuses."""

import itertools
import pathlib
import subprocess

import numpy as np
import pytest

import dlbridge.tens

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    file = tmp_path_factory.mktemp("tens") / "product"
    subprocess.run(["go", "build", "-o", file, "."], cwd=HERE, check=True)
    return file


def answer(program, data):
    return subprocess.run([program], input=data, capture_output=True, check=False)


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)


def test_go_multiplies_as_numpy_does(program):
    rng = np.random.default_rng(3)
    for rows, columns in [(1, 1), (5, 3), (2, 70), (2, 0)]:
        for order, step, turn in itertools.product("CF", (1, -1), (1, -1)):
            a = np.array(rng.normal(size=(rows, columns)), order=order)[::step, ::turn]
            x = rng.normal(size=columns)[::turn]
            ran = answer(program, dlbridge.tens.encode_frames(dlbridge.tens.encode({"x": x, "a": a}, origin=2**64 - 1, seqno=6)))
            assert ran.returncode == 0, ran.stderr
            frames = dlbridge.tens.decode_frames(ran.stdout)
            message = dlbridge.tens.decode(frames)
            y, transposed = np.from_dlpack(message["y"]), np.from_dlpack(message["transpose"])
            np.testing.assert_allclose(y, a @ x, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(transposed, a.T)
            assert bytes(frames[3]) == bytes(dlbridge.tens.encode([a])[2])  # the same part under another order
            assert (message.origin, message.seqno, message.metadata) == (2**64 - 1, 7, {"of": "Go"})


@pytest.mark.parametrize(
    "tensors, says",
    [
        ({"a": np.ones((2, 3))}, b'"x", but the names are "a": no tensor has this name'),
        ([np.ones((2, 3)), np.ones(3)], b'"a", but no tensor has a name'),
        ({"a": np.ones((2, 3)), "x": np.ones(2)}, b"dimension 1 of the shape [2 3] has size 3, want 2"),
        ({"a": np.ones(3), "x": np.ones(3)}, b"product: "),
        ({"a": np.ones((2, 3), np.float32), "x": np.ones(3)}, b"float32"),
        ({"a": np.ones((2, 3)), "x": np.ones(3, int)}, b"int64"),
    ],
)
def test_other_tensors_are_refused(program, tensors, says):
    ran = answer(program, dlbridge.tens.encode_frames(dlbridge.tens.encode(tensors)))
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert says in ran.stderr


def test_what_is_no_message_is_refused(program):
    good = dlbridge.tens.encode_frames(dlbridge.tens.encode({"a": np.ones((2, 3)), "x": np.ones(3)}))
    for bad in [b"", b"\x00", good[:-1], good[1:], good.replace(b'"shape":[2,3]', b'"shape":[9,9]')]:
        ran = answer(program, bad)
        assert (ran.returncode, ran.stdout) == (1, b"")
        assert ran.stderr.startswith((b"tens: ", b"bridge: ")) and b"panic" not in ran.stderr
