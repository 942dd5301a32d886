"""A README's commands are run as they stand there, and print what it says."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Stands for build/ in the commands."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def run(build):
    """Runs a shell command in the root of the repository, and returns what it did; C and C++ under the sanitizers."""
    tools = build / "sanitized"
    tools.mkdir()
    for compiler in filter(shutil.which, ("cc", "c++")):
        flags = "-g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
        (tools / compiler).write_text(f'#!/bin/sh\nexec {shutil.which(compiler)} {flags} "$@"\n')
        (tools / compiler).chmod(0o755)
    others = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment["PATH"] = f"{tools}:{environment['PATH']}"

    def run(command):
        command = re.sub(r"build/venv(-peers)?/bin/python", sys.executable, command)
        command = re.sub(r"(\$PWD/|(?<=-[IL])|(?<![\w/.-]))build/", f"{build}/", command)
        return subprocess.run(
            ["sh", "-euc", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    return run


@pytest.fixture(scope="session")
def follow(run):
    """Runs each block of commands of a README, and compares with the text behind it: the output, then the errors."""

    def follow(folder):
        text = (folder / "README.md").read_text()
        for tool in ("c++", "cmake", "pkg-config"):
            if f"{tool} -" in text and not shutil.which(tool):
                pytest.skip(f"{tool} is not installed")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        printed = []
        compared = 0
        for language, text in blocks:
            if language == "sh":
                ran = run(text)
                assert ran.returncode == 0, text + ran.stdout + ran.stderr
                printed = [ran.stdout, ran.stderr]
            elif language == "":
                assert printed.pop(0) == text
                compared += 1
        assert compared > 0, "the README shows no output"

    return follow
