"""Runs the commands of the README, with the sanitizers."""

import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent

if not shutil.which("pkg-config") or subprocess.run(["pkg-config", "--exists", "libzmq"], check=False).returncode != 0:
    pytest.skip("libzmq is not installed", allow_module_level=True)


def test_example_prints_what_the_readme_says(follow, build):
    (build / "libzmq").symlink_to(HERE.parents[1] / "build" / "libzmq")  # make libzmq builds it only there
    follow(HERE)
