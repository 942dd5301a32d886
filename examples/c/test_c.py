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


def take_last_row(run, program, message, out="out.zio"):
    files = [str(f) for f in (MESSAGES / f"{message}.{frame}.bin" for frame in FRAMES) if f.exists()]
    return run(f"build/{program} build/{out} " + " ".join(files)), [pathlib.Path(f).read_bytes() for f in files]


@pytest.mark.parametrize("program", ["message", "message-plain", "c/message"])
def test_the_last_row_is_encoded_as_float64(run, build, program):
    assert b"__asan_init" in (build / program).read_bytes()
    for message in ("reversed", "transposed", "peer"):
        ran, frames = take_last_row(run, program, message)
        assert ran.returncode == 0, ran.stderr
        before = np.from_dlpack(dlbridge.tens.decode(frames).tensors[0])
        (after,) = dlbridge.tens.decode(dlbridge.tens.decode_frames((build / "out.zio").read_bytes())).tensors
        after = np.from_dlpack(after)
        assert after.dtype == np.float64
        np.testing.assert_array_equal(after, before[-1])


@pytest.mark.parametrize("program", ["message", "message-plain", "c/message"])
def test_a_malformed_message_is_an_error(run, program):
    files = f"{MESSAGES}/reversed.prefix.bin {MESSAGES}/reversed.header.bin {MESSAGES}/peer.part0.bin"
    ran = run(f"build/{program} build/none.zio {files}")
    assert ran.returncode == 1
    assert ran.stderr == "message: dlb_message_decode: tens: tensor 0: part 0 has 12 bytes, but the tensor needs 32: part and tensor differ in size\n"


def test_a_malformed_file_is_an_error(run, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((HERE.parent.parent / "bridge/gguf/testdata/shapes.gguf").read_bytes()[:600])
    ran = run(f"build/gguf {cut}")
    assert ran.returncode == 1 and ran.stderr.startswith(f"gguf: dlb_file_open: files: open {cut}: gguf: byte ")


def test_elements_that_are_not_aligned_are_copied(run, tmp_path):
    path = tmp_path / "x.safetensors"
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'  # 54 bytes, so that the elements begin at byte 62
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.array([1, 2], "<f4").tobytes())
    ran = run(f"build/gguf {path}")
    assert ran.stdout == "a F32 [2] at 62, 8 bytes\n  float32[2] on cpu [1 2]\n" and not ran.stderr
