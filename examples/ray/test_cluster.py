"""Runs the commands of the README, which kill a worker, and compares the output."""

import pathlib
import re

HERE = pathlib.Path(__file__).parent


def plain(text: str) -> str:
    """Returns the lines of run.py, without those of Ray. Ray may repeat more calls than the one in which the worker was killed."""
    lines = re.findall(r"^(?:\d+ of|127\.0\.0\.\d has|\d+ begun).*$", text, re.MULTILINE)
    assert len(lines) == 7, text
    return "\n".join(re.sub(r"^[1-9]\d* begun", "some begun", line) for line in lines)


def test_a_killed_worker_is_run_again_and_the_counts_are_right(follow):
    follow(HERE, plain=plain)
