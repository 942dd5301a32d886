"""Tensors in Ray's object store, which all processes of a node map: which processes see the same pages, and which may write."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.peers
HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def seen(served_library) -> dict:
    """What the processes of ray_objects.py see of their tensors."""
    done = subprocess.run(
        [sys.executable, "-c", f"import ray_objects; ray_objects.main({served_library!r})"],
        capture_output=True, text=True, timeout=300, check=False, cwd=HERE, env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def all_of(seen, *names):
    for name in names:
        yield from seen[name] if isinstance(seen[name], list) else [seen[name]]


def test_all_processes_of_a_node_read_an_argument_in_the_same_pages(seen):
    views = list(all_of(seen, "driver", "first get", "task", "actors"))
    assert len({view["pid"] for view in views}) == 4
    assert len({tuple(view["pages"]) for view in views}) == 1  # device, inode, offset
    assert views[0]["address"] == views[1]["address"]
    one, two = seen["actors"]
    assert one["pages"][1] > 0 and one["address"] != two["address"]
    for view in views:
        assert (view["dtype"], view["shape"], view["strides"]) == ("float32", [300, 400], [400, 1])
        assert view["elements"] == [0, 119_999]


@pytest.mark.parametrize("name, last", [("result of a task", 99_999), ("result of an actor", 49_999)])
def test_results_lie_in_the_store_too(seen, name, last):
    views = seen[name]
    assert len({view["pid"] for view in views}) == 3
    assert len({tuple(view["pages"]) for view in views}) == 1
    assert [view["elements"] for view in views] == [[0, last]] * 3


@pytest.mark.parametrize("name, strides", [("transposed", [1, 400]), ("bfloat16", [400, 1])])
def test_layout_and_data_type_survive_without_a_copy(seen, name, strides):
    one, two = seen[name]
    assert one["pages"] == two["pages"] and one["pid"] != two["pid"]
    assert one["strides"] == two["strides"] == strides
    assert one["dtype"] == two["dtype"] == ("bfloat16" if name == "bfloat16" else "float32")


def test_an_argument_passed_by_value_lies_in_the_store(seen):
    assert seen["passed by value"]["permissions"] == "rw-s" and seen["passed by value"]["elements"] == [0, 119_999]
    assert seen["small"]["elements"] == [97, 98, 99]  # Ray sends small arguments in a message, not through the store


def test_tensors_of_the_store_are_aligned_and_read_only(seen):
    views = list(all_of(seen, "driver", "task", "actors", "passed by value", "result of a task", "result of an actor", "transposed", "bfloat16"))
    assert len(views) == 15
    for view in views:
        assert view["address"] % 64 == 0 and view["readonly"]
        assert view["permissions"] == "rw-s"  # readonly is a flag here: the kernel would let this process write


def test_an_actor_calls_a_go_function_on_the_store(seen):
    for before, after in seen["through Go"]:
        assert after == before  # the same address in the same process: Go has the memory of the store
        assert before["pages"] == seen["driver"]["pages"]
    assert (seen["times"]["shape"], seen["times"]["elements"]) == ([300, 400], [0, 3 * 119_999])
    assert seen["add in place"] == "tensor argument 2: the tensor is read-only; copy() makes a writable one"


def test_who_heeds_that_the_store_is_read_only(seen):
    got = seen["consumers"]
    assert got["NumPy"] == "the same memory" and got["NumPy writes"] == "assignment destination is read-only"
    assert got["torch"] == "the same memory"  # PyTorch ignores the flag
    assert got["torch, copy=True"] == "a copy"
    assert got["JAX"] == "the same memory"  # its arrays are immutable
    assert got["shm.readonly"] == ["r--s", True]  # the same pages, which no consumer can write
    assert seen["at the end"] == seen["driver"]
