"""Runs the commands of the README, which kill workers, and compares what must be the same in each run."""

import ctypes.util
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent

if ctypes.util.find_library("zmq") is None:
    pytest.skip("libzmq is not installed", allow_module_level=True)


def ends(text: str) -> list[str]:
    """Returns the last line of each run, which says what is left, without the speed and the number of workers that were killed."""
    return [re.sub(r"[\d.]+ GB/s|[1-9]\d* workers", "", line) for line in text.splitlines() if "workers killed" in line]


def test_no_task_is_lost_when_workers_are_killed(follow):
    follow(HERE, plain=ends)
