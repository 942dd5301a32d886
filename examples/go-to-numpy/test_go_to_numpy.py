"""Checks the output in the README, that Go and NumPy see what the other writes, and that the slice lives while NumPy holds it."""

import ctypes
import gc
import pathlib

import numpy as np

import dlbridge

HERE = pathlib.Path(__file__).parent


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)


def test_go_steps_as_numpy_does(run, build):
    ran = run("go build -buildmode=c-shared -o build/liblife-here.so ./examples/go-to-numpy")
    assert ran.returncode == 0, ran.stderr
    go = ctypes.CDLL(build / "liblife-here.so")  # dlbridge.load takes only one library in a process
    go.shared.restype = ctypes.c_int64
    shared = dlbridge.wrap(go.world, args=["error"], returns="tensor", to=np.from_dlpack)
    world, again = shared(), shared()
    assert world.__array_interface__["data"] == again.__array_interface__["data"]
    assert go.shared() == 2
    world[:] = np.random.default_rng(11).random(world.shape) < 0.4
    for _ in range(20):
        turns = (np.roll(world, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1))
        nine = sum(turns)
        want = (nine == 3) | (world & (nine == 4))
        go.step()
        np.testing.assert_array_equal(again, want)
        gc.collect()
    assert world.any()
    del world
    assert go.shared() == 1
    del again
    assert go.shared() == 0
