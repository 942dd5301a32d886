"""Checks that the demo prints the output in its README, except for times, and what it says if something is missing."""

import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
NEEDS = HERE.parent.parent / ".ci" / "needs.sh"


def plain(text):
    """The lines without times, and without the line about PyTorch, which may be installed or not."""
    return [re.sub(r" +[0-9.]+ ms", " TIME", line) for line in text.splitlines() if not line.startswith("PyTorch")]


def test_demo_prints_what_the_readme_says(follow):
    follow(HERE, plain=plain)


@pytest.fixture
def demo(run):
    def demo(source):
        return run(f"go build -buildmode=c-shared -o build/libdemo.so ./examples/demo; build/venv/bin/python {source} build/libdemo.so")

    return demo


def test_demo_fails_if_a_message_is_missing(demo, tmp_path):
    (tmp_path / "demo.py").write_text((HERE / "demo.py").read_text())
    ran = demo(tmp_path / "demo.py")
    assert ran.returncode == 1
    assert re.search("peer.prefix.bin: no such file", ran.stderr)


def test_demo_leaves_the_large_tensor_out_if_there_is_too_little_memory(demo, tmp_path):
    source = re.sub(r"^GIB = .*", "GIB = 2**60", (HERE / "demo.py").read_text(), flags=re.MULTILINE)
    (tmp_path / "demo.py").write_text(source)
    (tmp_path / "message").symlink_to(HERE / "message")
    ran = demo(tmp_path / "demo.py")
    assert ran.returncode == 0, ran.stderr
    assert "This part is left out: it needs 2.3 GiB of memory, and 0.0 GiB are available." in ran.stdout
    assert "bytes copied\n\n   NumPy writes" not in ran.stdout


@pytest.mark.parametrize(
    "variable, program, missing",
    [
        ("GO", "exit 1", "Go 1.26 or later"),
        ("GO", 'case "$2" in GOVERSION) echo go1.25.3 ;; *) echo cc ;; esac', "Go 1.26 or later"),
        ("CC", "exit 1", "a C compiler"),
        ("PYTHON", "exit 1", "Python 3.11 or later"),
        ("PYTHON", 'case "$2" in *venv*) exit 1 ;; esac', "Python's venv"),
        ("PYTHON", 'case "$2" in *Python.h*) exit 1 ;; esac', "the headers of Python"),
    ],
)
def test_needs_names_what_is_missing_in_one_line(tmp_path, variable, program, missing):
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\n{program}\n")
    tool.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("GO", "CC", "PYTHON")}
    complete = subprocess.run(["sh", NEEDS], env=environment, capture_output=True, text=True, check=False)
    assert (complete.returncode, complete.stdout, complete.stderr) == (0, "", "")
    ran = subprocess.run(["sh", NEEDS], env={**environment, variable: tool}, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"missing: {missing}") and ran.stderr.count("\n") == 1 and ";" not in ran.stderr
