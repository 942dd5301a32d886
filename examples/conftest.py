"""Fixtures that run what a README shows, and compare the output with the output that it shows."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """A temporary folder, which replaces build/ in the commands."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def address():
    """An address on which nothing listens, which replaces localhost:8080 in the commands."""
    with socket.create_server(("localhost", 0)) as server:
        return f"localhost:{server.getsockname()[1]}"


@pytest.fixture(scope="session")
def run(build, address):
    """Runs a shell command in the root of the repository and returns the finished process. C and C++ programs are built with
    the sanitizers. Libraries in C are not, because Python could not load them."""
    tools = build / "sanitized"
    tools.mkdir()
    for compiler in filter(shutil.which, ("cc", "c++")):
        flags = "-g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
        path = shutil.which(compiler)
        library = f'case "$*" in *-shared*|*-fPIC*|*-nostdlib*) exec {path} -Wall -Wextra -Werror "$@" ;; esac'
        (tools / compiler).write_text(f'#!/bin/sh\n{library}\nexec {path} {flags} "$@"\n')
        (tools / compiler).chmod(0o755)
    others = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "DLBRIDGE_TVM_FFI", "DLBRIDGE_TVM_RUNTIME")
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment["PATH"] = f"{tools}:{pathlib.Path(sys.executable).parent}:{environment['PATH']}"

    def run(command, build=build):
        command = re.sub(r"^make venv\b.*$", "", command, flags=re.MULTILINE)  # this Python runs in such an environment
        command = command.replace("localhost:8080", address)
        command = re.sub(r"(\$PWD/)?build/venv(-peers)?/bin", str(pathlib.Path(sys.executable).parent), command)
        command = re.sub(r"(\$PWD/|(?<=-[IL])|(?<![\w/.-]))build/", f"{build}/", command)
        return subprocess.run(
            ["sh", "-euc", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    return run


@pytest.fixture(scope="session")
def follow(run, build):
    """Runs all blocks of the README in a folder.

    - A block of commands must succeed, unless the README names the Python exception with which it ends.
    - The blocks without a language that follow it must be its standard output and its standard error. `plain` is applied to
      both sides; it removes what differs in each run.
    - A block in Go, Python or C is the file to which the link before the block leads.
    - Other blocks in Go must be part of a file in the folder of the README. Other blocks in Python are executed, one after the
      other, with the names that the blocks before them have defined. The names are returned.

    `build` replaces build/. It is a temporary folder unless a file that the README shows names build/ itself.
    """

    def follow(folder, plain=str, build=build):
        text = (folder / "README.md").read_text()
        for tool in ("c++", "cmake", "pkg-config"):
            if f"{tool} -" in text and not shutil.which(tool):
                pytest.skip(f"{tool} is not installed")
        printed, names, end = [], {}, 0
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            links = re.findall(r"\]\(([^)]+\.(?:go|py|c))\)", text[end : found.start()])
            end = found.end()
            language, block = found.groups()
            if language == "sh":
                ran = run(block, build)
                exception = re.findall(r"\ATraceback .*^(\w+: [^\n]*)\n(?:reported by [^\n]*\n)?\Z", ran.stderr, re.DOTALL | re.MULTILINE)
                assert ran.returncode == 0 or (exception and exception[0] in text), block + ran.stdout + ran.stderr
                printed = [ran.stdout, ran.stderr]
            elif language == "":
                assert plain(printed.pop(0)) == plain(block)
            elif links:
                assert (folder / links[-1]).read_text() == block
            elif language == "go":
                assert any(block in file.read_text() for file in folder.glob("*.go")), block
            else:
                assert language == "python", language
                exec(compile(block.replace('"build/', f'"{build}/'), folder / "README.md", "exec"), names)  # noqa: S102
        assert end, f"the README of {folder} has no blocks"
        return names

    return follow
