"""Checks that the examples print the output in the README, for each way to build them, under the sanitizers, and that errors
leak nothing."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
MESSAGE = HERE.parent / "demo" / "message" / "reversed"
PROGRAMS = ["message++", "cpp/message"]


@pytest.fixture(scope="module", autouse=True)
def built(follow):
    follow(HERE)


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_does_what_the_program_in_c_does(run, build, program):
    assert b"__asan_init" in (build / program).read_bytes()
    c = HERE.parent / "c" / "message.c"
    flags = "-std=c99 -Ibuild/usr/include/dlbridge -Lbuild/usr/lib -ldlbridge -ldlbridge_tensor -Wl,-rpath,$PWD/build/usr/lib"
    for message in ("reversed", "transposed", "peer"):
        prefix, header, *parts = (f"examples/demo/message/{message}.{name}.bin" for name in ("prefix", "header", "part*"))
        files = " ".join([prefix, header, *parts])
        theirs = run(f"cc {c} -o build/in-c {flags}; build/in-c build/in-c.zio {files}")
        ours = run(f"build/{program} build/in-cpp.zio {files}")
        # the bytes of a std::vector are writable, those of the frames in C are not
        assert (ours.returncode, ours.stdout, ours.stderr) == (0, theirs.stdout.replace(", read-only", ""), theirs.stderr)
        assert (build / "in-cpp.zio").read_bytes() == (build / "in-c.zio").read_bytes()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "arguments, says",
    [
        ("build/x", "usage: message OUT PREFIX HEADER PART..."),
        (f"build/x {MESSAGE}.prefix.bin build/none", "build/none"),
        (f"build/x {MESSAGE}.prefix.bin {MESSAGE}.prefix.bin", "dlb_message_decode: tens: 127 bytes: header must have 24 bytes"),
        (f"build/x {MESSAGE}.prefix.bin {MESSAGE}.header.bin", "dlb_message_decode: tens: tensor 0: part = 0, but the message has 0 parts"),
        (f"build/none/x {MESSAGE}.prefix.bin {MESSAGE}.header.bin {MESSAGE}.part0.bin", "build/none/x"),
    ],
)
def test_errors_are_exceptions_and_leak_nothing(run, build, program, arguments, says):
    ran = run(f"build/{program} {arguments}")
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"message: {says}".replace("build/", f"{build}/"))
    assert len(ran.stderr.splitlines()) == 1
