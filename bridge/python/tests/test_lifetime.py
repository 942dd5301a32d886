"""Ownership: each deleter runs exactly once, on any thread, at any time."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import CORE, ROOT, Producer, on_threads, resident, run_python, settled
from formats import VALUES

import dlbridge
from dlbridge import _core

# Managed tensors that consumers refuse: fields, exception, text of the exception.
REJECTED = {
    "ndim -1": ({"ndim": -1}, ValueError, r"ndim = -1"),
    "ndim 257": ({"ndim": 257}, ValueError, r"ndim = 257"),
    "ndim 2**31-1": ({"ndim": 2**31 - 1}, ValueError, r"ndim = 2147483647"),
    "negative size": ({"shape": (2, -3)}, ValueError, r"shape\[1\] is -3, must not be negative"),
    "product overflows": ({"shape": (2**32, 2**32), "strides": None}, ValueError, r"shape has more"),
    "product wraps to 0": ({"shape": (2**32, 2**32, 2), "strides": (0, 0, 0)}, ValueError, r"shape has more"),
    "bytes overflow": ({"shape": (2**62,), "strides": None}, ValueError, r"overflow"),
    "strides overflow": ({"shape": (3, 3), "strides": (2**62, 1)}, ValueError, r"strides\[0\]"),
    "span overflows": ({"shape": (3,), "strides": (2**61,)}, ValueError, r"2\^63"),
    "NULL shape": ({"shape": None, "ndim": 1}, ValueError, r"shape is NULL"),
    "NULL data": ({"null_data": 1}, ValueError, r"data is NULL"),
    "byte_offset wraps": ({"byte_offset": 2**64 - 8}, ValueError, r"byte_offset"),
    "negative stride below 0": ({"shape": (2,), "strides": (-(2**60),)}, ValueError, r"address space"),
    "unknown dtype code": ({"code": 18}, BufferError, r"code 18"),
    "bool of one bit": ({"code": 6, "bits": 1}, BufferError, r"bits 1"),
    "uint1": ({"code": 1, "bits": 1}, BufferError, r"bits 1"),
    "float128": ({"code": 2, "bits": 128}, BufferError, r"bits 128"),
    "bits 0": ({"bits": 0}, BufferError, r"bits 0"),
    "lanes 0": ({"lanes": 0}, BufferError, r"lanes 0"),
    "packed and strided": ({"code": 17, "bits": 4, "shape": (2, 2), "strides": (1, 2)}, ValueError, r"row-major"),
}
VERSIONS = {"major 2": {"major": 2}, "major 0": {"major": 0}}


def fields_of(fields):
    fields = dict(fields)
    return fields.pop("shape", (4,)), fields.pop("strides", (1,)), fields


@pytest.mark.parametrize("legacy", [0, 1], ids=["versioned", "legacy"])
@pytest.mark.parametrize("reason", REJECTED)
def test_a_rejected_capsule_still_owns_its_tensor(c, reason, legacy):
    fields, error, text = REJECTED[reason]
    shape, strides, fields = fields_of(fields)
    before = c.deletes()
    capsule = c.new_capsule(shape, strides, legacy=legacy, **fields)
    with pytest.raises(error, match=text):
        dlbridge.from_dlpack(capsule)
    assert c.deletes() == before
    assert c.capsule_name(capsule) == (b"dltensor" if legacy else b"dltensor_versioned")
    del capsule
    assert c.deletes() == before + 1
    with pytest.raises(error, match=text):  # the error frees the capsule of the producer
        dlbridge.from_dlpack(Producer(lambda: c.new_capsule(shape, strides, legacy=legacy, **fields)))
    assert c.deletes() == before + 2


@pytest.mark.parametrize("reason", REJECTED)
def test_from_address_takes_over_whatever_becomes_of_it(c, reason):
    fields, error, text = REJECTED[reason]
    shape, strides, fields = fields_of(fields)
    before = c.deletes()
    with pytest.raises(error, match=text):
        dlbridge.from_address(c.managed(shape, strides, **fields))
    assert c.deletes() == before + 1


@pytest.mark.parametrize("reason", VERSIONS)
def test_other_major_versions_are_released_and_refused(c, reason):
    before = c.deletes()
    capsule = c.new_capsule(**VERSIONS[reason])
    with pytest.raises(BufferError, match="version"):
        dlbridge.from_dlpack(capsule)
    assert c.deletes() == before + 1
    assert c.capsule_name(capsule) == b"used_dltensor_versioned"
    del capsule
    with pytest.raises(BufferError, match="version"):
        dlbridge.from_address(c.managed(**VERSIONS[reason]))
    assert c.deletes() == before + 2


def test_nothing_behind_flags_is_read_of_another_major_version(c):
    before = c.deletes()
    with pytest.raises(BufferError, match=r"version 2\.0"):
        dlbridge.from_address(c.guarded())
    with pytest.raises(BufferError, match=r"version 2\.0"):
        dlbridge.from_dlpack(c.capsule(c.guarded(), 0))
    assert c.deletes() == before + 2


def test_misaligned_tensors_are_refused_untouched(c):
    for name in (b"dltensor_versioned", b"dltensor"):
        capsule = c.bare_capsule(4097 * 4, name)  # an address without memory
        with pytest.raises(ValueError, match="not aligned"):
            dlbridge.from_dlpack(capsule)
        assert c.capsule_name(capsule) == name


def test_capsules_of_pages_where_nothing_is_are_refused_untouched(c):
    for name in (b"dltensor_versioned", b"dltensor"):
        for address in (8, 4088, 2**64 - 8):
            capsule = c.bare_capsule(address, name)
            with pytest.raises(ValueError, match="there can be no managed tensor at"):
                dlbridge.from_dlpack(capsule)
            assert c.capsule_name(capsule) == name


# Functions that make an exported address invalid. The result of each must be kept for the duration of the test.
GONE = {
    "taken over": lambda c, t, address: dlbridge.from_address(address),
    "taken over and closed": lambda c, t, address: dlbridge.from_address(address).close(),
    "taken over, and the tensor gone": lambda c, t, address: (dlbridge.from_address(address).close(), t.close()),
    "released by C": lambda c, t, address: c.delete(address),
    "released by C, and the tensor gone": lambda c, t, address: (c.delete(address), t.close()),
    "returned by a C function": lambda c, t, address: dlbridge.wrap(ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: address))(),
    "taken over by the C exchange API": lambda c, t, address: c.exchange_to(
        c.capsule_pointer(dlbridge.Tensor.__dlpack_c_exchange_api__), address
    ),
    "taken over from a capsule": lambda c, t, address: dlbridge.from_dlpack(c.capsule(address, 0)),
}


@pytest.mark.parametrize("rank", [1, 9])
@pytest.mark.parametrize("how", GONE)
def test_an_address_of_ours_that_was_released_or_taken_is_refused(c, how, rank):
    a = np.arange(4, dtype=np.float32).reshape((4, *[1] * (rank - 1)))
    t = dlbridge.from_dlpack(a)
    address = dlbridge.to_address(t)
    kept = GONE[how](c, t, address)
    counters = dlbridge.counters()
    back = dlbridge.wrap(ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: address))
    for take in (
        lambda: dlbridge.from_address(address),
        lambda: dlbridge.from_dlpack(c.bare_capsule(address, b"dltensor_versioned")),
        lambda: c.exchange_to(c.capsule_pointer(dlbridge.Tensor.__dlpack_c_exchange_api__), address),
        back,
    ):
        for _ in range(2):
            with pytest.raises(ValueError, match="was released or taken over before"):
                take()
    assert dlbridge.counters() == counters
    if isinstance(kept, dlbridge.Tensor):
        assert kept.data_ptr == a.ctypes.data
        a[0] = 7
        assert memoryview(kept).cast("B").cast("f")[0] == 7


def test_a_legacy_tensor_of_ours_is_taken_once(c):
    a = np.arange(4, dtype=np.float32)
    capsule = dlbridge.from_dlpack(a).__dlpack__()
    address = c.capsule_pointer(capsule)
    t = dlbridge.from_dlpack(capsule)
    for _ in range(2):
        with pytest.raises(ValueError, match="taken over before"):
            dlbridge.from_dlpack(c.bare_capsule(address, b"dltensor"))
    assert t.data_ptr == a.ctypes.data
    t.close()
    with pytest.raises(ValueError, match="was released"):
        dlbridge.from_dlpack(c.bare_capsule(address, b"dltensor"))


def test_an_address_that_was_given_away_stays_good_until_it_is_taken(c):
    a = np.arange(4, dtype=np.float32)
    addresses = [dlbridge.to_address(a) for _ in range(300)]
    for address in addresses:
        c.scribble(address)  # changes everything that a consumer may change
    for address in addresses[:150]:
        c.delete(address)
    for address in addresses[150:]:
        with pytest.raises(BufferError, match="version 77.77"):
            dlbridge.from_address(address)
    assert len({dlbridge.from_address(dlbridge.to_address(a)).data_ptr for _ in range(300)}) == 1


def test_a_capsule_that_is_refused_still_owns_its_tensor(c):
    for legacy in (False, True):
        t = dlbridge.empty(3, "float32")
        capsule = t.__dlpack__() if legacy else t.__dlpack__(max_version=(1, 0))
        for _ in range(3):
            with pytest.raises(BufferError, match="on device"):
                dlbridge.from_dlpack(capsule, device=(2, 0))
        assert dlbridge.from_dlpack(capsule).data_ptr == t.data_ptr


def test_a_capsule_whose_tensor_was_taken_by_its_address_does_not_end_it(c):
    a = np.arange(4, dtype=np.float32)
    source = dlbridge.from_dlpack(a)
    capsule = source.__dlpack__(max_version=(1, 0))
    t = dlbridge.from_address(c.capsule_pointer(capsule))
    with pytest.raises(ValueError, match="taken over before"):
        dlbridge.from_dlpack(capsule)
    source.close()
    del capsule
    assert memoryview(t).tolist() == [0, 1, 2, 3]
    assert dlbridge.counters()["exports"] == 1


def test_of_other_libraries_the_same_address_may_come_again(c):
    """A producer may return the same managed tensor repeatedly, and count the calls of its deleter."""
    before = c.deletes()
    address = c.managed(null_deleter=1)
    first, second = dlbridge.from_address(address), dlbridge.from_address(address)
    assert first.data_ptr == second.data_ptr
    del first, second
    assert c.deletes() == before
    c.free(address)


def test_every_way_of_ending_runs_the_deleter_once(c):
    def closed():
        t = dlbridge.from_dlpack(c.new_capsule())
        t.close()
        t.close()

    def collected():
        dlbridge.from_dlpack(c.new_capsule(legacy=1))

    def addressed():
        with dlbridge.from_address(c.managed()):
            pass

    def exported():
        a = np.from_dlpack(dlbridge.from_dlpack(c.new_capsule()))
        assert a[1] == 1

    def passed_on():
        c.delete(dlbridge.to_address(dlbridge.from_dlpack(c.new_capsule())))

    def copied():
        dlbridge.from_dlpack(c.new_capsule(), copy=True)

    def twice():
        t = dlbridge.from_dlpack(c.new_capsule())
        dlbridge.from_dlpack(dlbridge.from_dlpack(t))

    for end in (closed, collected, addressed, exported, passed_on, copied, twice):
        before = c.deletes()
        end()
        assert c.deletes() == before + 1, end.__name__


def test_a_null_deleter_is_not_called(c):
    for legacy in (0, 1):
        managed = c.managed(legacy=legacy, null_deleter=1)
        t = dlbridge.from_dlpack(c.capsule(managed, legacy))
        a = np.from_dlpack(t)
        t.close()
        assert a[2] == 2
        del a
        c.free(managed)
    managed = c.managed(major=2, null_deleter=1)
    with pytest.raises(BufferError):
        dlbridge.from_address(managed)
    c.free(managed)


def test_what_was_derived_keeps_the_memory(c):
    before = c.deletes()
    t = dlbridge.from_dlpack(c.new_capsule())
    arrays = [np.from_dlpack(t) for _ in range(50)]
    view = memoryview(dlbridge.from_dlpack(t))[1:3]
    del t
    for _ in range(5):
        gc.collect()
    assert c.deletes() == before
    assert all(a.tolist() == [0, 1, 2, 3] for a in arrays) and view.tolist() == [1, 2]
    arrays.clear()
    assert c.deletes() == before
    del view
    assert c.deletes() == before + 1


def test_deleters_run_on_threads_python_has_never_seen(c):
    a = np.arange(16, dtype=np.float32)
    references = sys.getrefcount(a)
    kept = [dlbridge.to_address(a) for _ in range(2000)]
    kept += [dlbridge.to_address(dlbridge.from_buffer(bytearray(64))) for _ in range(2000)]
    kept += [dlbridge.to_address(dlbridge.empty(4, "int8")) for _ in range(2000)]
    c.delete_on_threads(c.pointers(kept), len(kept), 64, 1)
    assert sys.getrefcount(a) == references


def test_memory_of_ours_needs_no_gil(c):
    kept = [dlbridge.to_address(dlbridge.empty(4, "int8")) for _ in range(5000)]
    kept += [dlbridge.to_address(dlbridge.from_dlpack(c.new_capsule())) for _ in range(5000)]
    before = c.deletes()
    c.delete_on_threads(c.pointers(kept), len(kept), 16, 0)  # this thread waits, with the GIL
    assert c.deletes() == before + 5000


def test_deleters_trust_no_public_field(c):
    before = c.deletes()
    address = dlbridge.to_address(dlbridge.from_dlpack(c.new_capsule()))
    c.scribble(address)
    c.delete(address)
    assert c.deletes() == before + 1


@pytest.mark.double_delete(1)
def test_a_second_deleter_call_is_counted_and_ignored(c):
    address = dlbridge.to_address(dlbridge.empty(4, "int8"))
    before = dlbridge.counters()["double_deletes"]
    c.delete(address)
    c.delete(address)
    assert dlbridge.counters()["double_deletes"] == before + 1


@pytest.mark.double_delete(6)
def test_a_second_deleter_call_leaves_an_import_alone(c):
    before, doubles = c.deletes(), dlbridge.counters()["double_deletes"]
    t = dlbridge.from_address(c.managed())
    first, second = dlbridge.to_address(t), dlbridge.to_address(t)
    for address in (first, first, second, second, first):
        c.delete(address)
    assert dlbridge.counters()["double_deletes"] == doubles + 3
    assert c.deletes() == before and memoryview(t)[1] == 1
    third = dlbridge.to_address(t)
    del t
    c.delete(first)
    assert c.deletes() == before
    for _ in range(3):
        c.delete(third)
    assert c.deletes() == before + 1 and dlbridge.counters()["double_deletes"] == doubles + 6


@pytest.mark.parametrize("legacy", [0, 1], ids=["versioned", "legacy"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_an_import_ends_with_the_last_that_holds_it(c, order, legacy):
    before, start = c.deletes(), dlbridge.counters()
    t = dlbridge.from_dlpack(c.new_capsule(legacy=legacy))
    held = [t, *(t.__dlpack__(max_version=(1, 0)) for _ in range(2)), memoryview(t).obj.__dlpack__()]
    del t
    for left, k in zip((3, 2, 1, 0), order):
        assert c.deletes() == before
        held[k] = None
        counts = dlbridge.counters()
        assert counts["exports"] - start["exports"] == sum(x is not None for x in held[1:])
        assert counts["imports"] - start["imports"] == (left > 0)
    assert c.deletes() == before + 1


def test_foreign_threads_delete_while_their_tensors_end(c):
    before, start = c.deletes(), dlbridge.counters()
    tensors = [dlbridge.from_address(c.managed()) for _ in range(4000)]
    addresses = [dlbridge.to_address(t) for t in tensors for _ in range(2)]
    started = threading.Event()

    def drop():
        started.set()
        while tensors:
            tensors.pop()

    dropping = threading.Thread(target=drop)
    dropping.start()
    started.wait()
    c.delete_on_threads(c.pointers(addresses), len(addresses), 4, 1)
    dropping.join()
    assert c.deletes() == before + 4000
    counts = dlbridge.counters()
    assert (counts["exports"], counts["imports"]) == (start["exports"], start["imports"])


@pytest.mark.long
@pytest.mark.parametrize("sanitizers", ["", "-fsanitize=thread", "-fsanitize=address,undefined"])
def test_deleters_race_the_one_that_takes_turns(tmp_path, sanitizers):
    program = tmp_path / "return_queue"
    here = pathlib.Path(__file__).parent
    command = [
        *os.environ.get("CC", "cc").split(), "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
        *sanitizers.split(), f"-I{ROOT}/include", f"-I{CORE}",
        str(here / "return_queue.c"), *map(str, CORE.glob("*.c")), "-o", str(program), "-lpthread",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


# Ways in which a tensor becomes the owner of the memory of the next tensor.
CHAINS = {
    "buffer": ("dlbridge.from_buffer(t)", 200_000),
    "memoryview": ("dlbridge.from_buffer(memoryview(t))", 20_000),
    "address": ("dlbridge.from_address(dlbridge.to_address(t))", 20_000),
    "capsule": ("dlbridge.from_dlpack(t.__dlpack__(max_version=(1, 3)))", 20_000),
    "capsule of before 1.0": ("dlbridge.from_dlpack(t.__dlpack__())", 20_000),
    "array": ("dlbridge.from_dlpack(np.from_dlpack(t))", 20_000),
    "message": ("dlbridge.tens.decode(dlbridge.tens.encode([t])).tensors[0]", 5_000),
    "part of a message": ("dlbridge.from_buffer(dlbridge.tens.decode(dlbridge.tens.encode([t])).parts[0])", 5_000),
    "object": ("dlbridge.from_buffer(Owner(t))", 20_000),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_of_owners_end_on_a_small_stack(chain):
    link, length = CHAINS[chain]
    out = run_python(f"""
        import ctypes, threading
        import numpy as np
        import dlbridge

        class Owner(bytearray):
            def __init__(self, tensor):
                super().__init__(8)
                self.tensor = tensor

            def __del__(self):
                ended.append(1)

        def chain():
            t = dlbridge.from_buffer(bytearray(8))
            for _ in range({length}):
                t = {link}
            return t

        def drop():
            chains.pop()
            assert dlbridge.counters() == before  # all memory was released before the call returned

        def close():
            chains[0].close()
            assert dlbridge.counters() == before
            chains.clear()

        def delete():  # without the GIL
            address = dlbridge.to_address(chains.pop())
            deleter = ctypes.c_void_p.from_address(address + 16).value
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)
            assert dlbridge.counters() == before

        before, ended = dlbridge.counters(), []
        for end in drop, close, delete:
            chains = [chain()]
            end()
            chains = [chain()]
            threading.stack_size(128 << 10)
            thread = threading.Thread(target=end)
            thread.start()
            thread.join()
            assert chains == [], "the thread has failed"
        print(len(ended))
    """)
    assert int(out) == (6 * length if chain == "object" else 0)


def test_a_pending_exception_survives_every_ending(c):
    a = np.arange(4.0)
    error = LookupError("pending")
    b = bytearray(8)
    for make in [
        lambda: dlbridge.from_dlpack(a),
        lambda: dlbridge.from_dlpack(c.new_capsule()),
        lambda: dlbridge.from_dlpack(c.new_capsule(raising_deleter=1)),
        lambda: dlbridge.from_buffer(b),
        lambda: dlbridge.empty(4, "int8"),
        lambda: dlbridge.from_dlpack(a).__dlpack__(),
        lambda: dlbridge.from_dlpack(a).__dlpack__(max_version=(1, 0)),
        lambda: dlbridge.from_dlpack(c.new_capsule(raising_deleter=1)).__dlpack__(max_version=(1, 0)),
        lambda: memoryview(dlbridge.from_dlpack(a)),
    ]:
        assert c.drop_under_error(error, make) is error
    for make in [lambda: dlbridge.to_address(a), lambda: dlbridge.to_address(dlbridge.from_buffer(b))]:
        assert c.delete_under_error(error, make()) is error
    b.append(1)  # the loans have ended


def test_a_deleter_that_raises_is_not_heard(c):
    t = dlbridge.from_dlpack(c.new_capsule(raising_deleter=1))
    t.close()
    with pytest.raises(BufferError, match="version"):
        dlbridge.from_address(c.managed(raising_deleter=1, major=3))
    with pytest.raises(ValueError, match="ndim"):
        dlbridge.from_address(c.managed(raising_deleter=1, ndim=-1))
    with pytest.raises(ValueError, match="ndim"):
        dlbridge.from_dlpack(Producer(lambda: c.new_capsule(raising_deleter=1, ndim=-1)))


@pytest.mark.memory
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_unconsumed_capsules_do_not_leak(version):
    t = dlbridge.empty(4, "int8")
    for _ in range(1000):
        t.__dlpack__(max_version=version)
    before = resident()
    for _ in range(100_000):
        t.__dlpack__(max_version=version)
        t.__dlpack__(max_version=version, copy=True)
    assert resident() - before < 2 << 20
    assert dlbridge.counters()["exports"] == 0


@pytest.mark.memory
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_import_and_errors_do_not_leak(c):
    def work(times):
        for _ in range(times):
            np.from_dlpack(dlbridge.from_address(c.managed()))
            dlbridge.from_buffer(bytearray(16), "float32", (2, 2))
            memoryview(dlbridge.empty(1 << 20, "int8"))[-1] = 1
            for bad in (lambda: dlbridge.from_address(c.managed(ndim=-1)), lambda: dlbridge.from_buffer(b"a", "int16")):
                try:
                    bad()
                except ValueError:
                    pass

    work(200)
    before = resident()
    work(5000)
    assert resident() - before < 4 << 20


def test_threads_share_and_close_one_tensor():
    a = np.arange(1000, dtype=np.int64)

    def work(n):
        for i in range(300):
            t = dlbridge.from_dlpack(a)
            b = np.from_dlpack(t)
            t.close()
            assert b[n] == n
            with dlbridge.from_buffer(a) as s, memoryview(s) as m:
                assert m[i] == i
            with dlbridge.from_dlpack(a, copy=True) as copied:
                assert memoryview(copied)[999] == 999

    on_threads(32, work)


def test_closing_races_exporting():
    for _ in range(200):
        t = dlbridge.empty(8, "int8")
        start = threading.Barrier(3)
        seen = []

        def export(t=t, start=start, seen=seen):
            start.wait()
            for _ in range(20):
                try:
                    seen.append(t.__dlpack__(max_version=(1, 0)))
                except ValueError as e:
                    assert "closed" in str(e)
                    return

        threads = [threading.Thread(target=export) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        t.close()
        for thread in threads:
            thread.join()


def test_a_subinterpreter_is_refused_with_an_import_error():
    script = pathlib.Path(__file__).with_name("subinterpreters.py")
    done = subprocess.run([sys.executable, "-X", "dev", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n", "")


# ---- the end of the process ---------------------------------------------------------------------------


SETUP = """
    import ctypes, sys
    import numpy as np
    import dlbridge
    sys.path.insert(0, {tests!r})
    from conftest import Fixture
    c = Fixture({fixture!r})
    a = np.arange(1000.0)
"""


def setup(c) -> str:
    return textwrap.dedent(SETUP.format(tests=os.path.dirname(__file__), fixture=str(c.path)))


LEFT = {
    "tensors of numpy": "kept = [dlbridge.from_dlpack(a) for _ in range(1000)]",
    "tensors of buffers": "kept = [dlbridge.from_buffer(bytearray(99)) for _ in range(1000)]",
    "tensors of C": "kept = [dlbridge.from_address(c.managed()) for _ in range(1000)]",
    "new memory": "kept = [dlbridge.empty(99, 'int8') for _ in range(1000)]",
    "capsules": "kept = [dlbridge.from_dlpack(a).__dlpack__(max_version=(1, 0)) for _ in range(1000)]",
    "legacy capsules": "kept = [dlbridge.from_dlpack(a).__dlpack__() for _ in range(1000)]",
    "arrays": "kept = [np.from_dlpack(dlbridge.from_buffer(bytearray(99))) for _ in range(1000)]",
    "memoryviews": "kept = [memoryview(dlbridge.from_dlpack(a)) for _ in range(1000)]",
    "cycles": "kept = [[dlbridge.from_dlpack(a)] for _ in range(1000)]; [k.append(k) for k in kept]",
    "addresses": "kept = [dlbridge.to_address(a) for _ in range(1000)]",
    "late deletes": "[c.delete_at_exit(dlbridge.to_address(a)) for _ in range(1000)]",
    "late deletes of buffers": (
        "[c.delete_at_exit(dlbridge.to_address(dlbridge.from_buffer(bytearray(9)))) for _ in range(1000)]"
    ),
    "in sys": "sys.kept = [dlbridge.from_buffer(bytearray(9)) for _ in range(1000)]",
    "in a class": "Keeper = type('K', (), {'kept': [dlbridge.from_dlpack(a) for _ in range(1000)]}); sys.k = Keeper()",
}


@pytest.mark.parametrize("what", LEFT)
def test_a_process_may_leave_a_thousand_of_anything(c, what):
    assert run_python(setup(c) + LEFT[what] + "\nprint('left')") == "left\n"


def test_deleters_may_run_while_the_interpreter_ends(c):
    script = setup(c) + textwrap.dedent(
        """
        import threading
        kept = [dlbridge.to_address(dlbridge.from_buffer(bytearray(9))) for _ in range(3000)]
        lib = ctypes.CDLL(str(c.path))  # releases the GIL
        def work():
            for address in kept:
                lib.fixture_delete(ctypes.c_void_p(address))
        threading.Thread(target=work, daemon=True).start()
        """
    )
    for _ in range(5):
        run_python(script)


# Registered before dlbridge is imported, because functions of atexit run in the reverse order of their registration. Python
# flushes stdout while the interpreter ends; at this time, it ends threads that get the GIL.
LATE = """
    import atexit, os, sys
    started = 0
    class Ending:
        def flush(self):
            c.await_deleters(started)
    def late():
        pass
    def tell():
        os.write(1, f"{dlbridge.counters()['loans']} loans".encode())
        sys.stdout = Ending()
    atexit.register(tell)
    atexit.register(lambda: late())
"""
# Threads that wait for the GIL get it only if another thread releases it.
LENT = """
    sys.setswitchinterval(1000)
    room = bytearray(9)
    def lent(count):
        return c.pointers([dlbridge.to_address(dlbridge.from_buffer(room)) for _ in range(count)])
    kept = lent(8)
    def end_elsewhere():
        global started
        started = 8
        c.start_waiting_deleters(kept, 8)
"""


def run_ending(c, script: str) -> str:
    return run_python("".join(textwrap.dedent(part) for part in (LATE, setup(c), LENT, script)))


def test_threads_that_wait_for_the_gil_get_it_before_the_interpreter_ends(c):
    assert run_ending(c, "end_elsewhere()") == "0 loans"


def test_functions_may_be_called_while_the_collector_clears_their_module():
    """Python code that runs during a call, such as the destructor of a capsule, could find them by gc.get_objects()."""
    script = """
        import ctypes, gc, sys, weakref
        gc.disable() # so that what is imported first is cleared first
        import dlbridge

        calls = {"empty": ((1,), "uint8"), "from_buffer": (bytearray(4),), "from_dlpack": (3,), "to_address": (3,), "counters": ()}
        called = set()
        destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

        @destructor
        def call_all(_):
            for found in gc.get_objects():
                name = type(found).__name__
                if type(found) is type(len) and found.__module__ == "dlbridge._core":
                    name = found.__name__
                if name in calls:
                    called.add(name)
                    try:
                        found(*calls[name])
                    except (TypeError, RuntimeError):
                        pass

        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, destructor]
        gone = weakref.ref(dlbridge._core)
        dlbridge.tens
        assert dlbridge.empty(1, "int8").dtype != float # the module remembers both
        functions = [getattr(dlbridge, name) for name in calls]
        calls["Function"] = ()
        functions.append(dlbridge.wrap(ctypes.pythonapi.Py_IsInitialized, args=[], returns=None))
        cycle = [*functions, new(8, b"any", call_all)] # a list is cleared from its end on
        cycle.append(cycle)
        del dlbridge, functions, cycle
        for name in [name for name in sys.modules if name.startswith("dlbridge")]:
            del sys.modules[name]
        gc.collect()
        assert called
        gc.collect()
        assert gone() is None
        import dlbridge
        print(dlbridge.empty((2,), "uint8").shape)
    """
    assert run_python(script) == "(2,)\n"


def test_the_exchange_api_works_after_an_import_anew_has_gone():
    script = """
        import ctypes, gc, importlib, sys

        def imported():
            forget()
            return importlib.import_module("dlbridge")

        def forget():
            for name in [name for name in sys.modules if name.startswith("dlbridge")]:
                del sys.modules[name]

        def round_trip(tensor):
            get, end = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.Py_DecRef
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            end.argtypes, end.restype = [ctypes.py_object], None
            table = get(type(tensor).__dlpack_c_exchange_api__, b"dlpack_exchange_api")
            functions = ctypes.cast(table + 16, ctypes.POINTER(ctypes.c_void_p))
            address = ctypes.POINTER(ctypes.c_void_p)
            there = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, address)(functions[1])
            back = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, address)(functions[2])
            managed, made = ctypes.c_void_p(), ctypes.c_void_p()
            assert there(tensor, managed) == 0
            assert back(managed, made) == 0
            result = ctypes.cast(made, ctypes.py_object).value
            end(result)
            return type(result)

        first = imported()
        tensor = first.empty((3,), "float32")
        assert round_trip(tensor) is first.Tensor
        second = imported()
        assert round_trip(tensor) is second.Tensor
        del second
        forget()
        gc.collect()
        assert round_trip(tensor) is first.Tensor
    """
    assert run_python(script) == ""


def test_an_import_anew_changes_nothing_at_the_end(c):
    again = """
        for name in [name for name in sys.modules if name.startswith("dlbridge")]:
            del sys.modules[name]
        import dlbridge
        end_elsewhere()
    """
    assert run_ending(c, again) == "0 loans"


@pytest.mark.parametrize("anew", [False, True], ids=["", "after an import anew"])
def test_threads_that_come_while_the_interpreter_ends_leave_their_loans(c, anew):
    script = f"""
        def late():
            if {anew}:
                for name in [name for name in sys.modules if name.startswith("dlbridge")]:
                    del sys.modules[name]
                import dlbridge
            end_elsewhere()
    """
    assert run_ending(c, script) == "8 loans"


LATE_LOANS = {
    "the thread that ends it, with the GIL": "c.delete(kept[0])",
    "the thread that ends it, without the GIL": "ctypes.CDLL(str(c.path)).fixture_delete(ctypes.c_void_p(kept[0]))",
    "a thread with the GIL": "asked.set(); done.wait(60)",
}


@pytest.mark.parametrize("who", LATE_LOANS)
def test_loans_end_late_on_threads_that_may_have_the_gil(c, who):
    script = f"""
        import threading
        asked, done = threading.Event(), threading.Event()
        def work():
            asked.wait()
            c.delete(kept[0])
            done.set()
        threading.Thread(target=work, daemon=True).start()
        def late():
            {LATE_LOANS[who]}
    """
    assert run_ending(c, script) == "7 loans"


def test_threads_end_loans_without_a_pause_while_the_interpreter_ends(c):
    for _ in range(5):
        run_ending(c, "sys.setswitchinterval(0.005); started = 20_000; kept = lent(started); c.start_deleters(kept, started, 4)")


def test_a_release_that_never_returns_does_not_keep_the_process_alive(c):
    script = """
        stuck = c.pointers([dlbridge.to_address(dlbridge.from_buffer(c.stuck()))])
        c.start_deleters(stuck, 1, 1)
        c.await_stuck()
        del kept
    """
    assert run_ending(c, script) == "9 loans"


# ---- fork ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_uses_and_drops_what_it_inherits(c):
    a = np.arange(16, dtype=np.float32)
    inherited = [dlbridge.from_dlpack(a), dlbridge.from_buffer(bytearray(9)), dlbridge.empty(4, "int8")]
    capsule, address = inherited[0].__dlpack__(), dlbridge.to_address(a)
    before = c.deletes()
    foreign = dlbridge.from_dlpack(c.new_capsule())
    child = os.fork()
    if child == 0:
        status = 1
        try:
            b = np.from_dlpack(inherited[0])
            b[0] = 1
            assert memoryview(foreign).tolist() == [0, 1, 2, 3]
            inherited.clear()
            del capsule
            c.delete(address)
            foreign.close()
            assert c.deletes() == before + 1
            for _ in range(1000):
                np.from_dlpack(dlbridge.from_dlpack(a))
            assert np.from_dlpack(dlbridge.empty(3, "int8")).shape == (3,)
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    done, status = os.waitpid(child, os.WNOHANG)
    while done == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
        done, status = os.waitpid(child, os.WNOHANG)
    if done == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done == child and status == 0
    assert a[0] == 0 and c.deletes() == before
    c.delete(address)


MEMORY = {
    "numpy": lambda c: dlbridge.from_dlpack(np.zeros(4)),
    "buffer": lambda c: dlbridge.from_buffer(bytearray(8)),
    "C": lambda c: dlbridge.from_dlpack(c.new_capsule()),
    "legacy": lambda c: dlbridge.from_dlpack(c.new_capsule(legacy=1)),
    "empty": lambda c: dlbridge.empty(4, "int8"),
    "copy": lambda c: dlbridge.from_buffer(bytes(8)).copy(),
    "number": lambda c: dlbridge.from_dlpack(2.5),
    "segment": lambda c: dlbridge.shm.zeros(4, "int8"),
}
"""Every kind of memory of a tensor."""


@pytest.mark.parametrize("kind", MEMORY)
def test_on_release_comes_after_the_last_holder(c, kind):
    before = dlbridge.counters()
    for order in itertools.permutations(range(6)):
        t = MEMORY[kind](c)
        called = []
        t.on_release(lambda called=called: called.append("first"))
        holders = [t, t[...], dlbridge.from_dlpack(t), t.numpy(), memoryview(t), t.__dlpack__(max_version=(1, 0))]
        holders[1].on_release(lambda called=called: called.append("second"))
        imports = dlbridge.counters()["imports"]
        assert imports - before["imports"] == (kind in ("numpy", "C", "legacy"))
        t = None
        for i in order:
            assert called == []
            if i < 3:
                holders[i].close()
            holders[i] = None
        assert called == ["second", "first"]
    assert dlbridge.counters() == before


def test_on_release_comes_after_the_memory_was_given_back(c):
    lent, sizes = bytearray(8), []
    t = dlbridge.from_buffer(lent)
    t.on_release(lambda: sizes.append(lent.append(1)))  # raises BufferError while it is lent
    t.close()
    assert sizes == [None] and len(lent) == 9
    before, deletes = c.deletes(), []
    with dlbridge.from_dlpack(c.new_capsule()) as t:
        t.on_release(lambda: deletes.append(c.deletes()))
    assert deletes == [before + 1]


def test_on_release_refuses_what_it_cannot_call():
    t = dlbridge.empty(3, "int8")
    with pytest.raises(TypeError, match="on_release needs a function, not <class 'int'>"):
        t.on_release(7)
    t.close()
    with pytest.raises(ValueError, match="the tensor is closed"):
        t.on_release(print)


def test_on_release_reports_exceptions_and_keeps_the_pending_one(c, monkeypatch):
    heard, called = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: heard.append((report.exc_type, report.object)))

    def fail():
        raise ZeroDivisionError

    def make():
        t = dlbridge.empty(4, "int8")
        t.on_release(lambda: called.append(sys.exc_info()[0]))
        t.on_release(fail)
        return t

    error = LookupError("pending")
    assert c.drop_under_error(error, make) is error
    assert c.delete_under_error(error, dlbridge.to_address(make())) is error
    make().close()
    assert heard == [(ZeroDivisionError, fail)] * 3 and len(called) == 3


def test_on_release_holds_the_function_until_it_was_called():
    class Function:
        def __call__(self):
            pass

    function = Function()
    seen = weakref.ref(function)
    t = dlbridge.empty(4, "int8")
    t.on_release(function)
    del function
    assert seen() is not None
    t.close()
    assert seen() is None
    t = dlbridge.empty(4, "int8")
    t.on_release(t.close)  # refers to the tensor, so only close releases it
    t.close()
    called = []
    t = dlbridge.empty(4, "int8")
    t.on_release(lambda: called.append(dlbridge.from_dlpack(np.zeros(3)).on_release(lambda: called.append("inner"))))
    t.close()
    assert called == ["inner", None]


def test_on_release_is_called_on_threads_python_has_never_seen(c):
    threads = set()
    count = 0

    def function():
        nonlocal count
        count += 1
        threads.add(threading.get_ident())

    kept = []
    for make in MEMORY.values():
        for _ in range(200):
            with make(c) as t:
                t.on_release(function)
                kept.append(dlbridge.to_address(t))
    assert count == 0
    c.delete_on_threads(c.pointers(kept), len(kept), 8, 1)
    assert count == len(kept) and threading.get_ident() not in threads


def test_on_release_races_close():
    for _ in range(300):
        t = dlbridge.from_buffer(bytearray(8))
        called, added = [], []

        def add(t=t, called=called, added=added):
            for _ in range(4):
                try:
                    t.on_release(lambda: called.append(1))
                    added.append(1)
                except ValueError:
                    break

        threads = [threading.Thread(target=f) for f in (add, add, t.close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(called) == len(added)
    assert dlbridge.counters()["loans"] == 0


def test_on_release_at_the_end_of_the_process(c):
    script = setup(c) + textwrap.dedent(
        """
        kept = [dlbridge.from_dlpack(a) for _ in range(100)] + [dlbridge.empty(9, 'int8') for _ in range(100)]
        for t in kept:
            t.on_release(lambda: len([]))
        for _ in range(100):
            t = dlbridge.empty(9, 'int8')
            t.on_release(lambda: len([]))
            c.delete_at_exit(dlbridge.to_address(t))
            t.close()
        t = dlbridge.empty(9, 'int8')
        t.on_release(lambda t=t: None)
        print('left')
        """
    )
    assert run_python(script) == "left\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_on_release_in_a_forked_child_is_the_childs():
    called = []
    t = dlbridge.from_dlpack(np.zeros(3))
    t.on_release(lambda: called.append(os.getpid()))
    child = os.fork()
    if child == 0:
        t.close()
        os._exit(0 if called == [os.getpid()] else 1)
    assert os.waitpid(child, 0)[1] == 0 and called == []
    t.close()
    assert called == [os.getpid()]


def test_the_extension_has_no_go_in_it():
    data = pathlib.Path(dlbridge._core.__file__).read_bytes()
    assert b"Go build ID" not in data and b".note.go.buildid" not in data


LISTS = {
    "tens encode": ("[np.zeros(3, np.float32)] * N", "tens.encode(data)"),
    "tens decode": ("tens.encode([np.zeros(3, np.float32)] * N)", "tens.decode(data).tensors"),
    "tens unpack": ("tens.encode_frames(tens.encode([np.zeros(3, np.float32)] * N))", "tens.decode_frames(data)"),
    "tens iter": ("tens.encode_frames(tens.encode([np.zeros(3, np.float32)] * N))", "next(tens.decode_all(data)).tensors"),
    **{
        f"{format} {e.type}": (f"{format}.encode(Elements('{e.type}', (N,), {e.values[:1]!r} * N))", f"{format}.decode(data).values")
        for format in VALUES
        for e in format.elements
    },
    **{f"{f} iter": (f"{f}.encode({f}.Elements('string', (1,), ['x'])) * N", f"list({f}.decode_all(data))") for f in VALUES if f.first},
}


@pytest.mark.parametrize(("make", "decode"), LISTS.values(), ids=LISTS)
def test_no_list_is_seen_while_it_is_filled(make, decode):
    out = run_python(f"""
        import gc, sys
        import numpy as np
        from dlbridge import *

        N, looks, calls = 61, 0, 0
        data = {make}

        def look(*_):
            global looks
            looks += 1
            for found in gc.get_objects():
                if type(found) is list and len(found) in (N, N + 2):
                    [item for item in found]  # ends the process if an item is NULL

        def count(frame, event, _):
            if event == "call" and frame.f_code.co_name == "__init__":
                look()

        gc.callbacks.append(look)
        sys.setprofile(count)
        gc.set_threshold(1)
        result = {decode}
        sys.setprofile(None)
        gc.set_threshold(0)
        gc.callbacks.clear()
        print(looks > 0, len(result) >= N, gc.is_tracked(result))
    """)
    assert out == "True True True\n"


OF_BYTES = [(format.name, kinds[0]) for format in VALUES if (kinds := [e.type for e in format.elements if type(e.values[0]) is bytes])]


@pytest.mark.parametrize("found", ["while the items are read", "while the sequence is listed"])
@pytest.mark.parametrize(
    ("call", "first", "rest"),
    [
        ("tens.decode({})", "frames[0]", "frames[1:]"),
        ("tens.decode({}, message_only=True)", "frames[0]", "frames[1:]"),
        ("tens.encode_frames({})", "frames[0]", "frames[1:]"),
        ("_core.tens_encode_parts((0, b'TENS', b'', 0, 0, 0), {})", "b'part'", "[b'part'] * 9"),
        *[(f"{name}.encode(elements({kind!r}, (9,), {{}}))", "b'abc'", "[b'abc'] * 8") for name, kind in OF_BYTES],
        *[(f"{name}.encode(elements({kind!r}, {{}}, [b'abc'] * 9))", "9", "[1, 1]") for name, kind in OF_BYTES],
    ],
)
def test_no_code_of_an_item_can_shorten_the_sequence_that_is_read(call, first, rest, found):
    out = run_python(f"""
        import gc, sys
        import numpy as np
        from dlbridge import *
        from dlbridge import _core
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from conftest import exporter

        frames = [bytes(frame) for frame in tens.encode([np.zeros(3, np.float32)] * 9)]
        first, rest, looks, seen = {first}, {rest}, 0, []

        def elements(type, shape, values):
            made = Elements(type, 0, ())
            made.shape, made.values = shape, values
            return made

        def clear():
            global looks
            looks += 1
            for listed in [*gc.get_referrers(item), *seen]:
                if type(listed) is list and listed is not seen:
                    listed.clear()

        def contents():
            while True:
                clear()
                yield first

        class Index:
            def __index__(self):
                clear()
                return first

        class Items:
            def __len__(self):
                return 1 + len(rest)

            def __getitem__(self, index):
                if index > 0 and {found == "while the sequence is listed"}:
                    seen.extend(listed for listed in gc.get_referrers(item) if type(listed) is list)
                return item if index == 0 else rest[index - 1]

        item = Index() if type(first) is int else exporter(contents())

        def read(message):
            return [bytes(part) for part in message] if type(message) is list else getattr(message, "parts", message)

        print(read({call.format("Items()")}) == read({call.format("(first, *rest)")}), looks > 0)
    """)
    assert out == "True True\n"


@pytest.mark.parametrize("keep", ["kept", "None"])
def test_parts_that_are_closed_while_a_message_is_read_leave_its_tensors_alone(keep):
    out = run_python(f"""
        import gc
        import numpy as np
        import dlbridge
        from dlbridge import tens

        data = [bytes(frame) for frame in tens.encode([np.full(3, i, np.float32) for i in range(61)])]
        closed, kept, before = 0, [], dlbridge.counters()

        def close(*_):
            global closed
            for found in gc.get_objects():
                try:
                    tensor = found.obj if type(found) is memoryview else None
                except ValueError:
                    continue  # released already
                if type(tensor) is dlbridge.Tensor:
                    found.release()
                    tensor.close()
                    closed += 1
                    if {keep} is kept:
                        kept.append(tensor)

        gc.callbacks.append(close)
        gc.set_threshold(1)
        result = tens.decode(data)
        gc.set_threshold(0)
        gc.callbacks.clear()
        print(closed > 0, [np.from_dlpack(tensor).tolist() for tensor in result.tensors] == [[i] * 3 for i in range(61)])
        del result
        gc.collect()
        print(dlbridge.counters() == before)
    """)
    assert out == "True True\nTrue\n"


def test_errors_name_the_place():
    with pytest.raises(ValueError, match=re.escape("dlbridge: empty: shape[1] is -3, but must not be negative")):
        dlbridge.empty((1, -3), "int8")


def test_the_interpreter_lock_is_not_needed_by_a_c_reader(c):
    """A C function may read an exported tensor while other Python threads run: its memory does not move."""
    a = np.arange(4, dtype=np.float32)
    total = dlbridge.wrap(ctypes.CDLL(str(c.path)).fixture_sum, args=["tensor"], returns=ctypes.c_double)
    on_threads(4, lambda _: [total(a) for _ in range(500)])
    assert total(a) == 6.0


def test_an_old_capsule_does_not_end_what_has_its_place():
    """The tensor was taken over by its address, and the capsule was not renamed as DLPack requires."""
    run_python("""
        import ctypes, dlbridge
        address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
        for version, name in ((1, 0), b"dltensor_versioned"), (None, b"dltensor"):
            tensor = dlbridge.from_buffer(bytearray(64))
            first = tensor.__dlpack__(max_version=version)  # in its own control block
            old = tensor.__dlpack__(max_version=version)
            place = address_of(old, name)
            if version is None:
                deleter = ctypes.cast(place + 56, ctypes.POINTER(ctypes.c_void_p))[0]
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(place)
            else:
                dlbridge.from_address(place).close()
            later = [tensor.__dlpack__(max_version=version) for _ in range(3000)]
            assert place in [address_of(capsule, name) for capsule in later]
            before = dlbridge.counters()
            del old
            assert dlbridge.counters() == before
    """)

# ---- long runs ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_32_threads_exchange_tensors_with_numpy_for_30_seconds():
    """Each thread turns NumPy arrays, its own and a common one, into tensors and back in every way. In between, it makes
    views and messages."""
    shared = np.arange(1000, dtype=np.int64)
    mine = dlbridge.from_dlpack(shared)
    read = shared.tolist()
    assert dlbridge.tens.decode(dlbridge.tens.encode([mine])).tensors[0].tolist() == read  # loads the Go library
    gc.collect()
    before = {**dlbridge.counters(), **_core.library_counters()}
    references = sys.getrefcount(shared)
    until = time.monotonic() + 30

    def work(n):
        own = np.full(8 + n, n, dtype=np.int32)
        for number in itertools.count():
            with dlbridge.from_dlpack(own) as t:
                capsule = t.__dlpack__(max_version=(1, 0))
                array = np.from_dlpack(dlbridge.from_dlpack(capsule)[1:])
            array += 1  # the memory outlives t
            assert array.ctypes.data == own.ctypes.data + 4 and own.tolist() == [n] + [array[0]] * (7 + n)
            view = np.from_dlpack(mine[n::32])
            assert view.tolist() == read[n::32]
            t = dlbridge.from_address(dlbridge.to_address(own[::-1]))
            assert np.from_dlpack(t)[-1] == n and memoryview(t)[-1] == n
            copied = np.from_dlpack(t, copy=True)
            assert copied.flags.writeable and copied.tolist() == own[::-1].tolist()
            t.__dlpack__()  # no consumer takes the capsule
            with pytest.raises(BufferError):
                t.__dlpack__(dl_device=(2, 0))
            if number % 64 == 0:
                (decoded,) = dlbridge.tens.decode(dlbridge.tens.encode([own])).tensors
                assert decoded.tolist() == own.tolist()
            if time.monotonic() > until:
                return

    on_threads(32, work)
    assert shared.tolist() == read
    counters = lambda: {**dlbridge.counters(), **_core.library_counters(), "pinned_bytes": before["pinned_bytes"]}
    assert settled(counters, before) == before
    assert sys.getrefcount(shared) == references


# One round is an export and an import that releases it. The C fixture is the peer with its own deleter.
ROUNDS = {
    "versioned capsules": lambda c, t: dlbridge.from_dlpack(t.__dlpack__(max_version=(1, 0))),
    "legacy capsules": lambda c, t: dlbridge.from_dlpack(t.__dlpack__()),
    "addresses": lambda c, t: dlbridge.from_address(dlbridge.to_address(t)),
    "NumPy": lambda c, t: dlbridge.from_dlpack(np.from_dlpack(t)),
    "C": lambda c, t: c.delete(dlbridge.to_address(t)),
    "memory of C": lambda c, t: np.from_dlpack(dlbridge.from_address(c.managed())),
    "copies": lambda c, t: np.from_dlpack(t, copy=True),
    "buffers": lambda c, t: dlbridge.from_buffer(memoryview(t)),
}


@pytest.mark.memory
@pytest.mark.long
@pytest.mark.parametrize("how", ROUNDS)
def test_a_million_rounds_take_no_memory(c, how):
    """The first 10^5 rounds fill all caches. The test detects a leak of one byte in each later round."""
    t, go_round = dlbridge.empty((2, 2), "float32"), ROUNDS[how]
    for _ in range(100_000):
        go_round(c, t)
    before = resident()
    for _ in range(1_000_000):
        go_round(c, t)
    assert resident() - before < 512 << 10
