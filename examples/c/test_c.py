"""Checks that the example prints the output in its README, for each way to build it, under the sanitizers."""

import pathlib

import numpy as np
import pytest

import dlbridge
import dlbridge.tens

HERE = pathlib.Path(__file__).parent
MESSAGES = HERE.parent / "demo" / "message"
FRAMES = ("prefix", "header", "part0", "part1", "part2")


@pytest.fixture(scope="module", autouse=True)
def built(follow):
    follow(HERE)


def scale(run, program, build, message):
    files = [str(f) for f in (MESSAGES / f"{message}.{frame}.bin" for frame in FRAMES) if f.exists()]
    ran = run(f"build/{program} 2 build/out.zio " + " ".join(files))
    return ran, [pathlib.Path(f).read_bytes() for f in files]


@pytest.mark.parametrize("program", ["scale", "scale-plain", "c/scale"])
def test_tensors_are_scaled(run, build, program):
    assert b"__asan_init" in (build / program).read_bytes()
    for message in ("reversed", "transposed", "peer"):
        ran, frames = scale(run, program, build, message)
        assert ran.returncode == 0, ran.stderr
        before = dlbridge.tens.decode(frames)
        after = dlbridge.tens.decode(dlbridge.tens.decode_frames((build / "out.zio").read_bytes()))
        assert len(before.tensors) == len(after.tensors)
        for b, a in zip(before.tensors, after.tensors):
            b, a = np.from_dlpack(b), np.from_dlpack(a)
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a, b * 2 if b.dtype == np.float32 else b)


@pytest.mark.parametrize("program", ["scale", "scale-plain", "c/scale"])
def test_a_malformed_message_is_an_error(run, program):
    files = f"{MESSAGES}/reversed.prefix.bin {MESSAGES}/reversed.header.bin {MESSAGES}/peer.part0.bin"
    ran = run(f"build/{program} 2 build/none.zio {files}")
    assert ran.returncode == 1
    assert ran.stderr == "scale: tens: tensor 0: part 0 has 12 bytes, the tensor takes 32: part and tensor differ in size\n"
