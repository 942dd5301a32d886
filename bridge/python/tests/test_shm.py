"""Memory that processes share."""

import array
import concurrent.futures
import contextlib
import copy
import ctypes
import errno
import fcntl
import gc
import importlib.util
import itertools
import json
import math
import mmap
import multiprocessing
import multiprocessing.reduction
import multiprocessing.resource_tracker
import multiprocessing.util
import operator
import os
import pathlib
import pickle
import resource
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import shared_memory

import ml_dtypes
import numpy as np
import pytest
from conftest import on_threads, run_python

import dlbridge
from dlbridge import _core, shm


@pytest.fixture(scope="module", autouse=True)
def _what_keeps_descriptors_until_the_process_ends():
    dlbridge.tens.encode([])  # the Go library is loaded
    multiprocessing.resource_tracker.ensure_running()
    shm.is_shared(dlbridge.from_dlpack(np.zeros(1)))  # each library asks the kernel for its mappings
    _shared_for_the_library(dlbridge.empty(1, "int8"))


@pytest.fixture
def pair():
    """The two ends of a connection. No descriptor and no mapping may be left at the end."""
    _core.shm_offers_end()
    gc.collect()  # frees the queues of earlier tests
    files, mapped = len(os.listdir("/proc/self/fd")), _core.shm_mappings()
    a, b = socket.socketpair()
    yield a, b
    a.close()
    b.close()
    _core.shm_offers_end()
    end = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > files and time.monotonic() < end:  # threads close other descriptors a little later
        time.sleep(0.001)
    assert len(os.listdir("/proc/self/fd")) == files
    assert _core.shm_mappings() == mapped


def exchange(pair, *tensors, **options):
    shm.send(pair[0], *tensors, **options)
    return shm.recv(pair[1])


def test_a_received_tensor_is_the_same_memory(pair):
    x = shm.copy(np.arange(12, dtype=np.float32).reshape(3, 4))
    got = exchange(pair, x, x.T, x[1:, ::-2], x[0, 0])
    assert [t.tolist() for t in got] == [x.tolist(), x.T.tolist(), x[1:, ::-2].tolist(), 0.0]
    assert all(t.readonly for t in got) and got[0].data_ptr != x.data_ptr
    assert _core.shm_mappings() == 2  # one for all four
    x.numpy()[2, 3] = 99
    assert got[0].tolist()[2][3] == 99
    with pytest.raises(ValueError, match="read-only"):
        got[0].numpy()[0] = 1
    assert shm.is_shared(got[0]) and shm.is_shared(x[1])
    again = exchange(pair, got[1])  # a received tensor can be sent on
    assert again[0].tolist() == x.T.tolist()


def test_a_writable_tensor_is_written_on_both_sides(pair):
    x = shm.zeros(4, "int16")
    (y,) = exchange(pair, x, readonly=False)
    y.numpy()[:] = [1, 2, 3, 4]
    assert x.tolist() == [1, 2, 3, 4] and not y.readonly
    z = shm.zeros(4, "int16")
    (r,) = exchange(pair, z)  # from now on nobody can map it writable
    with pytest.raises(BufferError, match=r"tensors\[1\]: it is read-only, so it cannot be sent as writable"):
        shm.send(pair[0], shm.zeros(3, "int8"), r, readonly=False)
    z.numpy()[:] = 7  # the mapping of the sender is older
    assert r.tolist() == [7, 7, 7, 7]


def by_socket(pair):
    return (lambda t, readonly: shm.send(pair[0], t, readonly=readonly)), (lambda: shm.recv(pair[1])[0])


def by_handle(pair):
    given = []
    return (lambda t, readonly: given.append(shm.offer(t, readonly=readonly))), (lambda: shm.fetch(given.pop(), 3, "int8"))


def by_pipe(pair):
    a, b = multiprocessing.Pipe()
    return (lambda t, readonly: a.send(shm.readonly(t) if readonly and not t.readonly else t)), b.recv


# The first hand-over of a segment, by any function, decides whether it is read-only. A later hand-over of the other kind is an error at
# the sender. Tensors on their way arrive as they were sent.
@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("second", [by_socket, by_handle, by_pipe])
@pytest.mark.parametrize("first", [by_socket, by_handle, by_pipe])
def test_the_first_hand_over_decides(pair, first, second, readonly):
    give, take = first(pair)
    give_again, take_again = second(pair)
    x = shm.zeros(3, "int8")
    give(x, readonly)
    text = "handed over read-only before.* send it read-only, or send a copy" if readonly else "handed over writable before.* send it writable, or send a copy"
    for tensor in (x, x[1:]):
        with pytest.raises(BufferError, match=text):
            give_again(tensor, not readonly)
    y = take()
    assert y.readonly is readonly
    if not readonly:  # a receiver cannot change it either
        with pytest.raises(BufferError, match=text):
            give_again(y, True)
    give_again(y, readonly)
    assert take_again().readonly is readonly


def test_the_error_of_a_pickle_names_the_ways_out():
    a, b = multiprocessing.Pipe()
    x = shm.zeros(3, "int8")
    with pytest.raises(BufferError, match=r"handed over writable before.* or send a copy: use dlbridge.shm.copy\(t\) for a new copy"):
        a.send((x, shm.readonly(x)))
    x = shm.zeros(3, "int8")
    with pytest.raises(BufferError, match=r"handed over read-only before.*use dlbridge.shm.readonly\(t\) for a read-only tensor"):
        a.send((shm.readonly(x), x))
    a.send(shm.readonly(x))
    assert b.recv().readonly
    a.send(shm.copy(x))
    assert not b.recv().readonly
    process = multiprocessing.get_context("spawn").Process(target=print, args=(y := shm.copy(x), shm.readonly(y)))
    with pytest.raises(BufferError, match="handed over writable before"):
        process.start()
    assert _core.shm_mappings() < 5


# A queue pickles in its own thread. Nobody would see an exception there, and the rest of the item would be lost.
def test_what_a_queue_cannot_hand_over_raises_when_it_is_used():
    q = multiprocessing.Queue()
    x = shm.zeros(3, "int8")
    q.put((x, shm.readonly(x), 5))
    got, missing, number = q.get()
    assert not got.readonly and number == 5
    with pytest.raises(ConnectionError, match="handed over writable before"):
        missing.tolist()
    q.close()
    q.join_thread()


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (lambda c: dlbridge.from_dlpack(c.new_capsule((4,), (1,), device_type=2)), "the memory is not in the host"),
        (lambda _: dlbridge.from_dlpack(np.zeros((4, 1))).broadcast_to((4, 1 << 45)), "memory"),
        (lambda _: shm.copy(np.zeros((4, 1))).broadcast_to((4, 1 << 45)), "memory"),
        (lambda _: dlbridge.empty(3, "handle64"), "the elements are handles"),
    ],
    ids=["device", "broadcast", "broadcast of a segment", "handles"],
)
def test_an_item_whose_tensor_cannot_be_pickled_by_its_elements_arrives(c, tensor, text):
    q = multiprocessing.Queue()
    q.put((tensor(c), 5))
    missing, number = q.get(timeout=60)
    assert number == 5
    with pytest.raises(ConnectionError, match=text):
        missing.tolist()
    q.close()
    q.join_thread()


def test_the_caller_sees_that_a_tensor_cannot_be_pickled(c):
    a, b = multiprocessing.Pipe()
    with a, b:
        with pytest.raises(BufferError, match="the memory is not in the host"):
            a.send(dlbridge.from_dlpack(c.new_capsule((4,), (1,), device_type=2)))
        for t in shm.copy(np.arange(3)), dlbridge.from_dlpack(np.arange(3)):
            t.close()
            with pytest.raises(ValueError, match="the tensor is closed"):
                a.send(t)


def test_items_arrive_although_nobody_has_imported_shared_memory():
    script = """
        import multiprocessing, sys
        import dlbridge

        closed = dlbridge.empty(3, "int8")
        closed.close()
        q = multiprocessing.Queue()
        q.put(("first", closed, dlbridge.empty(3, "handle64")))
        first, *missing = q.get(timeout=60)
        for t in missing:
            try:
                t.tolist()
            except ConnectionError as error:
                print(error)
        print(first, "dlbridge.shm" in sys.modules)
    """
    closed, handles, last = run_python(textwrap.dedent(script)).splitlines()
    assert "it was closed before it was pickled" in closed and "the elements are handles" in handles and last == "first False"


@pytest.mark.parametrize("raised", [BufferError, LookupError, OSError, RuntimeError, ValueError])
def test_an_exception_of_a_handler_of_a_signal_passes_through_pickle(offered, raised):
    t = shm.copy(np.arange(3))
    data = []

    def dump():
        data[:] = [multiprocessing.reduction.ForkingPickler.dumps(t)]

    files = shm.__file__, dlbridge._offers.__file__, dlbridge._pickle.__file__
    for call in (dump, lambda: pickle.loads(data[0])):
        for number in itertools.count():
            error, left = raised("mine"), number

            def trace(frame, event, _):
                nonlocal left
                frame.f_trace_opcodes = True
                if event == "opcode" and frame.f_code.co_filename in files:
                    left -= 1
                    if left == -1:
                        raise error  # like a handler that runs before this bytecode
                return trace

            dump()
            sys.settrace(trace)
            try:
                call()
            except raised as seen:
                assert seen is error
                error.__traceback__ = None
            else:
                assert left >= 0, f"the exception is gone that was raised before bytecode {number}"
                break
            finally:
                sys.settrace(None)
                _core.shm_offers_end()
        assert number > 10


def test_an_exception_of_a_handler_of_a_signal_ends_the_wait_for_a_sender(offered):
    def handler(*_):
        raise LookupError("mine")

    t = shm.copy(np.arange(3))
    data = bytes(multiprocessing.reduction.ForkingPickler.dumps(t))
    name = data[data.index(b"dlbridge-shm-") :][:45]
    _core.shm_offers_end()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(b"\0" + name)
            silent.listen()
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(LookupError, match="mine"):
                pickle.loads(data)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_queue_pickles_elements_without_a_descriptor():
    script = """
        import multiprocessing, numpy as np, os, resource
        import dlbridge
        from dlbridge import shm
        t, q = dlbridge.from_dlpack(np.arange(3)), multiprocessing.Queue()
        q.put(1)
        q.get()
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        full = []
        try:
            while True:
                full.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        q.put(t)
        assert q.get(timeout=60).tolist() == [0, 1, 2]
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_message_that_is_refused_decides_nothing(pair):
    shared, fresh = shm.zeros(3, "int8"), shm.zeros(3, "int8")
    shm.send(pair[0], shared, readonly=False)
    with pytest.raises(BufferError, match=r"tensors\[1\]: its segment was handed over writable before"):
        shm.send(pair[0], fresh, shared)
    shm.send(pair[0], fresh, shared, readonly=False)
    assert [t.readonly for t in shm.recv(pair[1]) + shm.recv(pair[1])] == [False] * 3


# The kernel keeps this state, also for the child of a fork.
def test_a_forked_child_cannot_decide_again(pair):
    x = shm.zeros(3, "int8")
    child = os.fork()
    if child == 0:
        try:
            pair[1].recv(1)  # until the parent has handed the segment over
            shm.offer(x)
        except BufferError:
            os._exit(0)
        os._exit(1)
    h = shm.offer(x, readonly=False)
    pair[0].send(b"1")
    assert os.waitpid(child, 0)[1] == 0
    assert not shm.fetch(h, 3, "int8").readonly


@pytest.mark.parametrize("dtype", ["bool", "int4", "float4_e2m1fn", "bfloat16", "complex128", "float32x4"])
def test_all_data_types(pair, dtype):
    x = shm.zeros((3, 5), dtype)
    (y,) = exchange(pair, x)
    assert (y.dtype, y.shape, y.nbytes) == (x.dtype, x.shape, x.nbytes)
    assert y.tobytes() == bytes(x.nbytes)


def test_tensors_without_elements_need_no_segment(pair):
    x, y = exchange(pair, shm.zeros((0, 3), "int8"), dlbridge.empty((2, 0), "float32"))
    assert (x.shape, y.shape) == ((0, 3), (2, 0))
    assert exchange(pair) == []


def test_copy_takes_any_producer(pair):
    for source in (
        np.arange(6).reshape(2, 3).T, dlbridge.from_dlpack(np.arange(4)[::-1]), dlbridge.empty((2, 3), "int4"), 2.5, True, np.float32(7),
        [[1, 2.5], [3, 4]], (np.arange(3), np.arange(3)), b"abc",
    ):  # fmt: skip
        x = shm.copy(source)
        assert shm.is_shared(x) and not x.readonly
        assert (x.dtype, x.tolist()) == (dlbridge.asarray(source).dtype, dlbridge.asarray(source).tolist())
        assert exchange(pair, x)[0].tolist() == x.tolist()


def test_arrays_and_buffers_on_a_segment_are_shared():
    t = shm.zeros((4, 5), "float32")
    a = t.numpy()
    for x in (a, a[1:, ::2], a.T, memoryview(t), t[0]):
        assert shm.is_shared(x)
    a.flags.writeable = False
    assert shm.is_shared(a)
    for x in (a.copy(), np.zeros(3), b"abc", [1, 2], 2.5, a[:0]):
        assert not shm.is_shared(x)
    with pytest.raises(TypeError, match="x must be an array, a buffer, a number, or a list of these, not <class 'NoneType'>"):
        shm.is_shared(None)
    with pytest.raises(BufferError):
        shm.is_shared(np.zeros(3, "datetime64[s]"))


def test_what_is_not_in_a_segment_is_refused(pair):
    x = dlbridge.empty(3, "int8")
    with pytest.raises(BufferError, match=r"shm: tensors\[0\]: the memory is not in a segment; shm.copy makes a copy that is"):
        shm.send(pair[0], x)
    with pytest.raises(TypeError, match=r"send: tensors\[0\] is <class 'numpy.ndarray'>, not a dlbridge.Tensor; use shm.copy to copy any array"):
        shm.send(pair[0], np.zeros(3))
    with pytest.raises(BufferError, match="not in one shared mapping; shm.copy makes a copy that is"):
        shm.readonly(x)
    with pytest.raises(TypeError, match="a connected Unix socket of the type SOCK_STREAM is required"):
        shm.send("socket", shm.zeros(1, "int8"))
    with socket.socket(socket.AF_INET) as inet, pytest.raises(TypeError, match="a connected Unix socket"):
        shm.recv(inet)
    closed = shm.zeros(3, "int8")
    closed.close()
    for call in (lambda: shm.send(pair[0], closed), lambda: shm.readonly(closed), lambda: shm.is_shared(closed)):
        with pytest.raises(ValueError, match="closed"):
            call()
    for call, error in (
        (lambda: shm.zeros(-1, "int8"), ValueError),
        (lambda: shm.zeros(3, "no type"), TypeError),
        (lambda: shm.zeros(3), TypeError),
        (lambda: shm.copy("text"), TypeError),
        (lambda: shm.copy([[1], [2, 3]]), ValueError),
        (lambda: shm.zeros(1 << 62, "int8"), MemoryError),
        (lambda: shm.zeros(64 << 40, "int8"), MemoryError),
    ):
        with pytest.raises(error):
            call()


def test_readonly_is_a_second_mapping():
    x = shm.copy(np.arange(5000))
    r = shm.readonly(x[10:4000])
    assert r.readonly and r.data_ptr != x[10:].data_ptr and r.tolist() == list(range(10, 4000))
    x.numpy()[11] = -1
    assert r.item(1) == -1
    del x
    assert r.item(1) == -1
    memory = mmap.mmap(-1, 10000)
    t = dlbridge.from_buffer(memory)
    second = shm.readonly(t)
    del t
    with pytest.raises(BufferError):  # the owner must not use the memory for something else
        memory.close()
    del second
    memory.close()
    with mmap.mmap(-1, 10000) as memory:
        t = dlbridge.from_buffer(memory)
        second = shm.readonly(t[5000:])
        memory[5000] = 7
        assert second.tolist()[0] == 7
        del t, second


def test_writing_to_a_read_only_mapping_ends_the_writer_alone(pair):
    x = shm.copy(np.zeros(4, np.float32))
    script = """
        import ctypes, socket, sys
        from dlbridge import shm
        (t,) = shm.recv(socket.socket(fileno=int(sys.argv[1])))
        ctypes.memset(t.data_ptr, 1, 4)
    """
    shm.send(pair[0], x)
    options = f"{os.environ.get('ASAN_OPTIONS', '')}:handle_segv=0"  # with ASan the signal must end the child as well
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(pair[1].fileno())],
        pass_fds=[pair[1].fileno()], env=os.environ | {"ASAN_OPTIONS": options}, check=False,
    )  # fmt: skip
    assert done.returncode == -11 and x.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("consumer", ["tvm_ffi", pytest.param("torch", marks=pytest.mark.peers)])
def test_a_consumer_that_drops_the_flag_cannot_write_to_what_readonly_returns(pair, consumer):
    if importlib.util.find_spec(consumer) is None:
        if os.environ.get("DLBRIDGE_PEERS") == "1":
            pytest.fail(f"{consumer} is not installed")
        pytest.skip(f"{consumer} is not installed")
    x = shm.copy(np.zeros(4, np.float32))
    script = f"""
        import socket, sys
        import {consumer}, dlbridge
        (t,) = dlbridge.shm.recv(socket.socket(fileno=int(sys.argv[1])))
        taken = dlbridge.from_dlpack({consumer}.from_dlpack(t))
        taken.numpy()[0] = 1
        taken = dlbridge.from_dlpack({consumer}.from_dlpack(dlbridge.shm.readonly(t)))
        print(taken.readonly, taken.item(0), flush=True)
        taken.numpy()[0] = 2
        print("written", flush=True)
    """
    shm.send(pair[0], x, readonly=False)
    options = f"{os.environ.get('ASAN_OPTIONS', '')}:handle_segv=0"  # with ASan the signal must end the child as well
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(pair[1].fileno())],
        pass_fds=[pair[1].fileno()], env=os.environ | {"ASAN_OPTIONS": options}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "False 1.0\n")
    assert x.tolist() == [1, 0, 0, 0]


AT_EXIT = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    static int named(const char *list) {
      char line[4096];
      FILE *lines = popen(list, "r");
      int n = 0;
      while (fgets(line, sizeof line, lines) != NULL) n += strstr(line, "memfd:dlbridge") != NULL;
      pclose(lines);
      return n;
    }
    static void count(void) {
      char list[64];
      snprintf(list, sizeof list, "cat /proc/%d/maps", (int)getpid());
      int mappings = named(list);
      snprintf(list, sizeof list, "ls -l /proc/%d/fd", (int)getpid());
      printf("%d descriptors, %d mappings\\n", named(list), mappings);
    }
    void watch(void) { atexit(count); }
"""


def test_an_interpreter_that_ends_leaves_nothing_in_its_process(tmp_path):
    """Functions of atexit run after the interpreter has ended."""
    library = tmp_path / "watch.so"
    command = [*os.environ.get("CC", "cc").split(), "-fPIC", "-shared", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, check=True, input=textwrap.dedent(AT_EXIT), text=True)
    script = """
        import ctypes, gc, socket, sys
        import numpy as np
        import dlbridge
        from dlbridge import shm
        library = ctypes.CDLL(sys.argv[1])
        library.watch()
        if len(sys.argv) > 2:
            shm.exit_timeout = 0
            gc.disable()
            x = shm.copy(np.arange(6))
            view, array = x[1:], x.numpy()
            second = shm.readonly(x)
            a, b = socket.socketpair()
            shm.send(a, x, shm.zeros(3, "int8"))
            received = shm.recv(b)
            shm.send(a, x)  # nobody receives it
            offered = shm.offer(shm.zeros(3, "int8"))
            cycle = [shm.zeros(3, "int8")]
            cycle.append(cycle)
            dlbridge.kept = shm.zeros(3, "int8")
    """
    command = [sys.executable, "-X", "dev", "-c", textwrap.dedent(script), str(library)]
    for arguments in [], ["segments"]:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "0 descriptors, 0 mappings\n"), (arguments, done.stderr)


def test_timeouts_and_the_end_of_a_connection(pair):
    a, b = pair
    b.settimeout(0.02)
    with pytest.raises(TimeoutError):
        shm.recv(b)
    a.sendall(b"dlb")
    a.close()
    with pytest.raises(EOFError, match="closed the connection in the middle of a message"):
        shm.recv(b)
    with pytest.raises(EOFError, match="closed the connection$"):
        shm.recv(b)


@pytest.mark.parametrize("beginning", [b"x", b"GET / HTTP/1.1", b"dlb-shm\2", struct.pack("=8s3I", b"dlb-shm\1", 1 << 30, 1, 1)])
def test_the_first_wrong_byte_ends_recv(pair, beginning):
    pair[0].sendall(beginning)
    pair[1].settimeout(10)
    with pytest.raises(ValueError, match="header: "):
        shm.recv(pair[1])


@pytest.mark.parametrize("kind", [socket.SOCK_SEQPACKET, socket.SOCK_DGRAM])
def test_only_streams_are_accepted(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    with a, b:
        for call in (lambda: shm.send(a, shm.zeros(1, "int8")), lambda: shm.recv(b)):
            with pytest.raises(TypeError, match=f"a connected Unix socket of the type SOCK_STREAM is required, but the socket has family 1 and type {int(kind)}"):
                call()


@pytest.mark.parametrize("option", [16, 34, 76, 84], ids=["SO_PASSCRED", "SO_PASSSEC", "SO_PASSPIDFD", "SO_INQ"])
def test_options_of_the_socket_change_nothing(pair, option):
    try:
        pair[1].setsockopt(socket.SOL_SOCKET, option, 1)
    except OSError as error:
        pytest.skip(f"the kernel lacks it: {error}")
    tensors = [shm.zeros(1, "int8") for _ in range(253)]
    assert len(exchange(pair, *tensors)) == 253


def test_an_error_of_the_system_has_its_errno(pair):
    shm.send(pair[0], shm.zeros(1, "int8"))
    kept = shm.zeros(1, "int8")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        for call in (lambda: shm.recv(pair[1]), lambda: shm.send(pair[0], kept), lambda: shm.offer(kept), lambda: shm.zeros(1, "int8")):
            with pytest.raises(OSError, match="shm: ") as raised:
                call()
            assert raised.value.errno == errno.EMFILE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    pair[1].close()
    with pytest.raises(BrokenPipeError, match="closed the connection"):
        shm.send(pair[0], kept)
    kept.close()


@pytest.mark.parametrize("listens", [False, True])
def test_a_socket_that_is_not_connected_is_an_error_of_the_system(listens):
    x = shm.zeros(1, "int8")
    with socket.socket(socket.AF_UNIX) as sock:
        if listens:
            sock.bind("")
            sock.listen()
        for call in (lambda: shm.recv(sock), lambda: shm.send(sock, x)):
            with pytest.raises(OSError, match="Transport endpoint is not connected") as raised:
                call()
            assert raised.value.errno == errno.ENOTCONN


def test_a_thread_that_cannot_be_started_is_an_error_of_the_system():
    script = """
        import os, resource
        from dlbridge import shm
        x = shm.zeros(1, "int8")
        if os.geteuid() == 0:
            os.setuid(65534)  # RLIMIT_NPROC does not bind root
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        try:
            shm.offer(x)
        except OSError as error:
            print(error.errno)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{errno.EAGAIN}\n", done.stderr


def test_a_limit_on_files_is_an_error():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        assert shm.zeros(4096, "int8").shape == (4096,)
        for call in (lambda: shm.zeros(4097, "int8"), lambda: shm.copy(np.zeros(4097, np.int8))):
            with pytest.raises(OSError, match="a new segment: File too large") as raised:
                call()
            assert raised.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_socket_that_does_not_wait(pair):
    pair[1].settimeout(0)
    with pytest.raises(BlockingIOError, match="the socket has a timeout of 0"):
        shm.recv(pair[1])


def message(**fields):
    """The bytes that `send` writes for a tensor of 4 float32 at the beginning of segment 0."""
    values = {"magic": b"dlb-shm\1", "size": 492, "tensors": 1, "segments": 1, "segment": 0, "dtype": 2 | 32 << 8 | 1 << 16, "flags": 1,
              "rank": 1, "offset": 0, "shape": 4, "stride": 1} | fields
    return struct.pack("=8s7IQqq", *values.values()).ljust(512, b"\0")


def file_of(tensor, writable=False):
    """Returns a descriptor of the segment of a tensor, which the caller closes."""
    with contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(end) for end in socket.socketpair())
        shm.send(a, tensor, readonly=not writable)
        return socket.recv_fds(b, 1 << 20, 1)[1][0]


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({}, None, ""),
        ({"magic": b"GET / HT"}, ValueError, "not a message of tensors"),
        ({"size": 1 << 30}, ValueError, "cannot describe"),
        ({"size": 0}, ValueError, "cannot describe"),
        ({"tensors": 1 << 31}, ValueError, "cannot describe"),
        ({"segments": 0}, ValueError, "1 file descriptors came with the message, but it has 0 segments"),
        ({"segment": 7}, ValueError, r"tensors\[0\]: it names segment 7, but the message has 1"),
        ({"dtype": 255}, BufferError, "dtype"),
        ({"flags": 16}, ValueError, "flags"),
        ({"flags": 0}, None, ""),
        ({"rank": 300}, ValueError, "dimensions"),
        ({"offset": 4}, ValueError, "reach from byte 4 to 20, but the segment has 16 bytes"),
        ({"offset": 1 << 63}, ValueError, "the segment has 16 bytes"),
        ({"shape": 1 << 40, "stride": 0}, ValueError, "broadcast"),
        ({"shape": -1}, ValueError, r"shape\[0\] is -1, must not be negative"),
        ({"stride": -1}, ValueError, "reach from byte -12"),
        ({"stride": 1 << 62}, ValueError, "stride"),
    ],
)
def test_what_another_process_says_is_checked(pair, fields, error, text):
    x = shm.copy(np.arange(4, dtype=np.float32))
    file = file_of(x, writable=fields == {"flags": 0})
    pair[0].sendmsg([message(**fields)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    os.close(file)
    if error is None:
        assert shm.recv(pair[1])[0].tolist() == [0, 1, 2, 3]
    else:
        with pytest.raises(error, match=text):
            shm.recv(pair[1])


def test_files_that_can_shrink_are_refused_or_copied(pair, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    for copied in (0, 16):
        with path.open("r+b") as file:
            pair[0].sendmsg([message()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))])
            if copied == 0:
                with pytest.raises(ValueError, match="another process can make it smaller"):
                    shm.recv(pair[1])
            else:
                (t,) = shm.recv(pair[1], copy_unsealed=copied)
                file.truncate(0)
                assert t.tolist() == [0, 1, 2, 3]
                del t


def test_foreign_descriptors_are_refused(pair):
    ends = os.pipe()
    for file in (*ends, os.open("/", os.O_RDONLY), os.open("/dev/zero", os.O_RDWR)):
        pair[0].sendmsg([message()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
        os.close(file)
        with pytest.raises(ValueError, match="does not refer to a regular file"):
            shm.recv(pair[1])


# ---- multiprocessing ----------------------------------------------------------------------------


def _double(queue, back):
    tensor = queue.get()
    array = tensor.numpy()
    array *= 2
    back.put((tensor, shm.is_shared(tensor)))
    queue.get()  # waits until it is received


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing_moves_segments_without_a_copy(method):
    context = multiprocessing.get_context(method)
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=_double, args=(queue, back))
    process.start()
    x = shm.copy(np.arange(1 << 20, dtype=np.float32))
    queue.put(x)
    y, shared = back.get(timeout=60)
    queue.put("received")
    process.join()
    assert shared and shm.is_shared(y)
    assert x.item(5) == 10 and y.item(5) == 10  # it was doubled in place
    x.numpy()[5] = -1
    assert y.item(5) == -1


@pytest.fixture
def registered():
    shm.register_numpy()
    yield
    del multiprocessing.reduction.ForkingPickler._extra_reducers[np.ndarray]


def _sent(x):
    a, b = multiprocessing.Pipe()
    with a, b:
        a.send(x)
        return b.recv()


def _double_array(queue, back):
    shm.register_numpy()
    array = queue.get()
    array *= 2
    back.put(array[4:])
    queue.get()  # waits until it is received


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing_moves_arrays_in_segments_without_a_copy(registered, method):
    context = multiprocessing.get_context(method)
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=_double_array, args=(queue, back))
    process.start()
    x = shm.copy(np.arange(1 << 20, dtype=np.float32)).numpy()
    queue.put(x)
    y = back.get(timeout=60)
    queue.put("received")
    process.join()
    assert type(y) is np.ndarray and y.shape == ((1 << 20) - 4,)
    assert x[5] == 10 and y[1] == 10  # it was doubled in place
    x[5] = -1
    assert y[1] == -1


def _filled_array(i):
    return _filled(i).numpy()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_pool_whose_initializer_registers_returns_arrays_in_segments(method):
    with multiprocessing.get_context(method).Pool(2, initializer=shm.register_numpy, maxtasksperchild=1) as pool:
        got = pool.map_async(_filled_array, range(6), chunksize=1).get(timeout=60)
    assert [a[9] for a in got] == [*range(6)] and all(shm.is_shared(dlbridge.from_dlpack(a)) for a in got)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a, lambda a: a[1:], lambda a: a[::2, 1:5:3], lambda a: a.T, lambda a: a[::-1], lambda a: a[2, 3, ...],
        lambda a: a.reshape(-1, 2), lambda a: a.view(np.float64), lambda a: a.view(ml_dtypes.bfloat16), lambda a: a.view(np.bool_),
        lambda a: np.broadcast_to(a[0], (3, 6)),
    ],
)  # fmt: skip
def test_every_array_on_a_segment_that_dlpack_has_is_handed_over(registered, view):
    whole = shm.zeros((4, 6), "float32").numpy()
    array = view(whole)
    got = _sent(array)
    assert type(got) is np.ndarray and (got.dtype, got.shape) == (array.dtype, array.shape)
    assert array.size == 1 or got.strides == array.strides
    assert got.flags.writeable == array.flags.writeable
    whole.view("uint8")[...] = 1
    assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T, np.array([None, "a"]), np.array(["a", "bc"]), np.zeros(3, "i4,f8"), np.zeros(3, ">i4"),
        np.array(["2026-01-01"], "M8[D]"), np.zeros(0), np.array(5), np.ma.masked_array([1, 2], [True, False]),
        np.rec.array([(1, 2.0)], dtype="i4,f8"), np.ones(2, ml_dtypes.bfloat16),
    ],
    ids=str,
)  # fmt: skip
def test_other_arrays_are_pickled_as_before(array):
    is_pickled_as_before(array)


@pytest.mark.parametrize("kind", ["M8[D]", ">i8", np.recarray])
def test_arrays_on_a_segment_that_dlpack_lacks_are_pickled_as_before(kind):
    is_pickled_as_before(shm.zeros(3, "int64").numpy().view(kind))


def is_pickled_as_before(array):
    dumps = multiprocessing.reduction.ForkingPickler.dumps
    before = bytes(dumps(array))
    shm.register_numpy()
    try:
        assert bytes(dumps(array)) == before
    finally:
        del multiprocessing.reduction.ForkingPickler._extra_reducers[np.ndarray]


def test_an_array_is_copied_unless_arrays_are_registered():
    a = shm.zeros(3, "int8").numpy()
    got = _sent(a)
    a[0] = 1
    assert got[0] == 0


def test_an_array_is_handed_over_read_only_or_writable_as_tensors_are(registered):
    x = shm.zeros(3, "int8")
    a = x.numpy()
    for readonly in (shm.readonly(x).numpy(), a.view()):
        readonly.flags.writeable = False
        got = _sent(readonly)
        assert not got.flags.writeable
        a[1] += 1
        assert got[1] == a[1]
    with pytest.raises(BufferError, match="handed over read-only before"):
        _sent(a)
    q = multiprocessing.Queue()
    q.put((a, 5))
    missing, number = q.get(timeout=60)
    assert number == 5
    with pytest.raises(ConnectionError, match="handed over read-only before"):
        missing + 1
    q.close()
    q.join_thread()


def test_a_use_of_an_array_that_was_not_handed_over_names_the_cause(registered):
    data = bytes(multiprocessing.reduction.ForkingPickler.dumps(shm.zeros(3, "int8").numpy()))
    assert pickle.loads(data).tolist() == [0, 0, 0]
    missing = pickle.loads(data)
    for use in (np.sum, np.asarray, len, lambda a: a[0], lambda a: a.shape, lambda a: a + 1, lambda a: np.ones(3) + a):
        with pytest.raises(ConnectionError, match="the tensor was not handed over: the process that sent it has ended"):
            use(missing)


def test_what_was_sent_read_only_is_queued_read_only(pair):
    x = shm.zeros(3, "int8")
    exchange(pair, x)
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    with pytest.raises(BufferError, match="its segment was handed over read-only before"):
        queue.put(x)
    queue.put(shm.readonly(x))
    y = queue.get()
    x.numpy()[1] = 7
    assert y.readonly and y.tolist() == [0, 7, 0]


def _filled(i):
    return shm.copy(np.full(10, i))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_worker_that_ends_waits_until_its_results_were_received(method):
    with multiprocessing.get_context(method).Pool(2, maxtasksperchild=1) as pool:
        got = pool.map_async(_filled, range(6), chunksize=1).get(timeout=60)
    assert [t.item(9) for t in got] == [*range(6)] and all(map(shm.is_shared, got))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_an_executor_whose_workers_end_hands_tensors_over(method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as executor:
        assert [t.item(9) for t in executor.map(_filled, range(4), timeout=60)] == [*range(4)]


def _send_and_end(back, seconds, received=None):
    shm.exit_timeout = seconds
    back.put(shm.copy(np.ones(3)))
    if received is not None:
        received.get()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_sender_that_has_ended_is_named(method):
    context = multiprocessing.get_context(method)
    back = context.SimpleQueue()
    process = context.Process(target=_send_and_end, args=(back, 0.1))
    process.start()
    process.join()
    t = back.get()
    with pytest.raises(ConnectionError, match="has ended, but must live until the tensor is received"):
        t.tolist()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_an_exit_with_nothing_on_offer_is_not_delayed(method):
    context = multiprocessing.get_context(method)
    back, received = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_send_and_end, args=(back, 1e9, received))
    process.start()
    assert back.get().tolist() == [1, 1, 1]
    received.put(True)
    process.join(timeout=60)
    assert process.exitcode == 0


class _PickledSlowly:
    def __reduce__(self):
        time.sleep(0.3)
        return int, ()


def _put_at_the_end(queue):
    shm.exit_timeout = 1e9
    queue.put((_PickledSlowly(), shm.copy(np.arange(3))))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_that_queues_its_first_tensor_at_its_end_waits(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_put_at_the_end, args=(queue,))
    process.start()
    assert queue._reader.poll(60)
    process.join(0.5)
    assert process.is_alive()
    assert queue.get(timeout=60)[1].tolist() == [0, 1, 2]
    process.join(timeout=60)
    assert process.exitcode == 0


def test_a_child_of_fork_that_queues_its_first_tensor_at_its_end_waits():
    queue = multiprocessing.Queue()
    child = os.fork()
    if child == 0:
        _put_at_the_end(queue)
        multiprocessing.util._exit_function()  # as Python does at its end
        os._exit(0)
    assert queue._reader.poll(60)
    time.sleep(0.5)
    assert queue.get(timeout=60)[1].tolist() == [0, 1, 2]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def assert_waits_at_its_end(context, target, into, reader, receive):
    """The target of a process sends [0, 1, 2] into a pipe or queue from a thread. The process lives until they are received, then ends."""
    process = context.Process(target=target, args=(into,))
    process.start()
    assert reader.poll(60)
    process.join(0.5)
    assert process.is_alive()
    assert receive().tolist() == [0, 1, 2]
    process.join(timeout=60)
    assert process.exitcode == 0


def _send_after_the_end(connection):
    def send():
        threading.main_thread().join()  # waits until the interpreter waits for its threads
        connection.send(shm.copy(np.arange(3)))

    shm.exit_timeout = 1e9
    threading.Thread(target=send).start()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_waits_for_what_its_threads_send_after_its_target_has_returned(method):
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    assert_waits_at_its_end(context, _send_after_the_end, sender, receiver, receiver.recv)


def _queue_after_the_end(queue):
    def put():
        threading.main_thread().join()
        queue.put((_PickledSlowly(), shm.copy(np.arange(3))))

    shm.exit_timeout = 1e9
    threading.Thread(target=put).start()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_waits_for_what_its_threads_queue_after_its_target_has_returned(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    assert_waits_at_its_end(context, _queue_after_the_end, queue, queue._reader, lambda: queue.get(timeout=60)[1])


def _fill_a_queue_that_nobody_reads(queue):
    def put():
        threading.main_thread().join()
        queue.put(bytes(1 << 20))

    shm.exit_timeout = 0.5
    threading.Thread(target=put).start()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_does_not_wait_for_ever_for_a_queue_that_its_threads_fill(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_fill_a_queue_that_nobody_reads, args=(queue,))
    process.start()
    process.join(timeout=60)
    ended = not process.is_alive()
    process.kill()
    assert ended


def _go_on_offering(beside_a_thread):
    def go_on():
        x = shm.copy(np.arange(3))
        handles = [shm.offer(x)]
        while True:
            handles.append(shm.offer(x))
            ready.set()
            shm.fetch(handles.pop(0), 3, "int64")

    shm.exit_timeout = 1e9
    ready = threading.Event()
    threading.Thread(target=go_on, daemon=True).start()
    ready.wait()
    if beside_a_thread:
        threading.Thread(target=time.sleep, args=(0.2,)).start()


@pytest.mark.parametrize("beside_a_thread", [False, True])
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_whose_daemon_thread_goes_on_offering_ends(method, beside_a_thread):
    process = multiprocessing.get_context(method).Process(target=_go_on_offering, args=(beside_a_thread,))
    process.start()
    process.join(timeout=30)
    ended = not process.is_alive()
    process.kill()
    assert ended


def _join_all_others():
    time.sleep(0.1)
    for thread in threading.enumerate():
        if thread not in (threading.main_thread(), threading.current_thread()):
            thread.join()


def _leave_threads_that_join_each_other():
    threading.Thread(target=time.sleep, args=(0.2,)).start()
    threading.Thread(target=_join_all_others).start()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_whose_threads_wait_for_all_others_ends(method):
    process = multiprocessing.get_context(method).Process(target=_leave_threads_that_join_each_other)
    process.start()
    process.join(timeout=60)
    ended = not process.is_alive()
    process.kill()
    assert ended


def test_what_a_function_of_atexit_offers_beside_a_thread_is_waited_for():
    script = """
        import atexit, json, numpy as np, threading, time
        from dlbridge import shm
        shm.exit_timeout = 1e9

        def end():
            threading.Thread(target=time.sleep, args=(0.2,)).start()
            print(json.dumps(shm.offer(shm.copy(np.arange(3)))), flush=True)

        atexit.register(end)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as process:
        h = json.loads(process.stdout.readline())
        time.sleep(0.5)
        assert shm.fetch(h, 3, "int64").tolist() == [0, 1, 2]
    assert process.returncode == 0


def test_an_object_that_has_grown_is_attached_as_it_is():
    name = f"dlbridge-test-{os.getpid()}"
    file = pathlib.Path("/dev/shm", name)
    file.write_bytes(b"abcd")
    try:
        first = shm.attach(name, 4, "uint8", trust_peer=True)
        file.write_bytes(b"abcd" + bytes(8188))
        second = shm.attach(name, 8192, "uint8", trust_peer=True)
    finally:
        file.unlink()
    for t in (second, second[4096:4100]):
        h = shm.offer(t, readonly=False)
        assert shm.fetch(h, t.shape, "uint8", copy_unsealed=1 << 20).tolist() == t.tolist()
    assert first.tolist() == list(b"abcd")


def test_an_interpreter_waits_at_its_end_until_its_handle_was_fetched():
    script = """
        import atexit, json, numpy as np, os
        from dlbridge import shm
        shm.exit_timeout = 1e9
        atexit.register(os.close, 1)
        print(json.dumps(shm.offer(shm.copy(np.arange(3)))), flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as process:
        h = json.loads(process.stdout.readline())
        assert process.stdout.read() == b""  # the process is at its end
        assert shm.fetch(h, 3, "int64").tolist() == [0, 1, 2]
    assert process.returncode == 0


def test_the_item_of_a_tensor_that_was_closed_arrives():
    queue = multiprocessing.get_context("spawn").Queue()
    t = shm.copy(np.arange(3))
    t.close()
    queue.put(("first", t))
    t = shm.copy(np.arange(3))
    queue.put(("second", t))
    t.close()
    (first, closed), (second, t) = queue.get(timeout=60), queue.get(timeout=60)
    assert (first, second) == ("first", "second")
    with pytest.raises(ConnectionError, match="it was closed before it was pickled"):
        closed.tolist()
    with contextlib.suppress(ConnectionError):  # the thread of the queue was faster or slower
        assert t.tolist() == [0, 1, 2]


def missing():
    t = shm.zeros(3, "int8")
    data = bytes(multiprocessing.reduction.ForkingPickler.dumps(t))
    assert pickle.loads(data).tolist() == [0, 0, 0]
    return pickle.loads(data)


@pytest.mark.parametrize(
    "use",
    [
        *(lambda t, name=name: getattr(t, name) for name in ["shape", "dtype", "readonly", "T", "data_ptr", "nbytes", "sum"]),
        *(lambda t, f=f: f(t) for f in [len, iter, float, bool, memoryview, np.asarray, np.from_dlpack, np.array, copy.copy, pickle.dumps]),
        *(lambda t, f=f: f(t) for f in [shm.is_shared, shm.readonly, shm.copy, shm.offer, dlbridge.from_dlpack]),
        lambda t: t[0],
        lambda t: t[:0],
        lambda t: 1 in t,
        lambda t: t.numpy(),
        lambda t: t.__arrow_c_array__(),
        lambda t: t.tolist(),
        lambda t: t.astype("int8"),
        *(lambda t, f=f: f(t, 1) for f in [operator.add, operator.iadd, operator.lt]),
        lambda t: 1 - t,
        lambda t: -t,
        lambda t: t.__enter__(),
        lambda t: dlbridge.tens.encode([t]),
    ],
)
def test_each_use_of_a_tensor_that_was_not_handed_over_names_the_cause(use):
    t = missing()
    with pytest.raises(ConnectionError, match="the tensor was not handed over: the process that sent it has ended"):
        use(t)


def test_a_tensor_that_was_not_handed_over_can_be_shown_closed_and_passed_on():
    t = missing()
    assert repr(t).startswith("<dlbridge.Tensor that was not handed over: the process") and t.closed
    assert t == t and len({t, t}) == 1
    again = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(t))
    t.close()
    for u in (t, again):
        with pytest.raises(ConnectionError, match="must live until the tensor is received"):
            u.tolist()


WITHOUT_DESCRIPTORS = """
    import multiprocessing, numpy as np, os, pickle, resource
    from dlbridge import shm

    def one(i):
        return shm.copy(np.full(10, i))

    def views(n):
        t = shm.copy(np.arange(n))
        return [t[i:] for i in range(n)]

    def pickled(t):
        return bytes(multiprocessing.reduction.ForkingPickler.dumps(t))

    if __name__ == "__main__":
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        t = shm.copy(np.arange(3))
        full = []
        try:
            while True:
                full.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for spare in range(3):  # the duplicate, the eventfd and the socket of the offer need one each
            try:
                pickled(t)
            except OSError as error:
                assert error.errno == 24, error
            else:
                raise AssertionError(spare)
            os.close(full.pop())
            assert shm._core.shm_offer_count() == 0
            held = [os.dup(full[0]) for _ in range(spare + 1)]  # none may be left open
            for file in held:
                os.close(file)
        data = pickled(t)
        os.close(full.pop())
        os.close(full.pop())
        assert pickle.loads(data).tolist() == [0, 1, 2]
        for file in full:
            os.close(file)

        with multiprocessing.get_context("fork").Pool(1) as pool:
            got = pool.map_async(views, [400]).get(60)[0]
            assert [t.item(0) for t in got] == [*range(400)]
            del got
            got = pool.map_async(one, range(400), chunksize=1).get(60)
            arrived = [i for i, t in enumerate(got) if not t.closed]
            assert [got[i].item(0) for i in arrived] == arrived and 100 < len(arrived) < 256
            assert all("[Errno 24]" in repr(t) for t in got if t.closed)
"""


def test_a_pickle_that_nobody_loads_holds_its_segment_until_its_time_is_over(offered, monkeypatch):
    a, b = multiprocessing.Pipe()
    with a, b:
        monkeypatch.setattr(shm, "pickle_timeout", 0.05)
        for _ in range(5):
            with pytest.raises(AttributeError, match="pickle"):
                a.send((shm.zeros(1 << 20, "uint8"), lambda: 0))
        a.send(shm.zeros(3, "uint8"))
        while _core.shm_offer_count() > 0:
            time.sleep(0.01)
        t = b.recv()
        with pytest.raises(ConnectionError, match="or later than dlbridge.shm.pickle_timeout of that process allows"):
            t.tolist()
        for forever in math.inf, 1e300:
            shm.pickle_timeout = forever
            a.send(shm.zeros(3, "uint8"))
            assert b.recv().tolist() == [0, 0, 0]
        shm.pickle_timeout = 0
        with pytest.raises(ValueError, match="pickle_timeout: timeout must be more than 0 seconds, not 0"):
            a.send(shm.zeros(3, "uint8"))


def test_processes_without_descriptors_neither_hang_nor_leak():
    script = textwrap.dedent(WITHOUT_DESCRIPTORS)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_process_that_can_have_no_thread_leaves_no_descriptor_of_a_pickle():
    script = """
        import multiprocessing.reduction, numpy as np, os, pickle, resource
        from dlbridge import shm
        t = shm.copy(np.arange(3))
        if os.getuid() == 0:
            os.setuid(65534)  # the limit does not bound root
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        for _ in range(3):
            lowest = os.dup(0)
            os.close(lowest)
            try:
                multiprocessing.reduction.ForkingPickler.dumps(t)
            except OSError as error:
                assert "the segment cannot be offered" in str(error) and shm._core.shm_offer_count() == 0, error
            else:
                raise AssertionError
            assert os.dup(0) == lowest
            os.close(lowest)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def _sum(tensor, plain, back):
    back.put((float(tensor.numpy().sum()), plain.tolist()))


def test_arguments_of_a_process_are_handed_over():
    context = multiprocessing.get_context("spawn")
    back = context.Queue()
    x = shm.copy(np.ones(1000))
    process = context.Process(target=_sum, args=(x, dlbridge.from_dlpack(np.arange(3)), back))
    process.start()
    assert back.get(timeout=60) == (1000.0, [0, 1, 2])
    process.join()


def test_a_forked_child_sends_and_leaves_nothing(pair):
    x = shm.copy(np.arange(3))
    child = os.fork()
    if child == 0:
        try:
            shm.send(pair[0], x, shm.copy(x[1:]))
        finally:
            os._exit(0)
    got = shm.recv(pair[1])
    os.waitpid(child, 0)
    assert [t.tolist() for t in got] == [[0, 1, 2], [1, 2]]


def test_segments_are_gone_with_their_last_process():
    script = """
        import numpy as np, os, sys, time
        from dlbridge import shm
        kept = [shm.copy(np.ones(1 << 20)) for _ in range(5)]
        print("ready", flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    names = [os.readlink(f"/proc/{process.pid}/fd/{file}") for file in os.listdir(f"/proc/{process.pid}/fd")]
    assert sum(name.startswith("/memfd:dlbridge") for name in names) == 5
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("end", [dlbridge.Tensor.close, lambda t: None], ids=["close", "del"])
def test_other_threads_run_while_a_large_segment_is_freed(end):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e6)  # a thread runs only when the thread before it releases the GIL
    try:
        for _ in range(20):
            t = shm.copy(np.ones(1 << 27, np.uint8))
            done, ran = threading.Event(), []
            waiting = threading.Thread(target=lambda: (done.wait(), ran.append(1)))
            waiting.start()
            done.set()
            end(t)
            del t
            if ran:
                return
            waiting.join()
        raise AssertionError("no thread has run")
    finally:
        sys.setswitchinterval(before)


def test_many_threads_send_and_receive(pair):
    def work(_):
        a, b = socket.socketpair()
        with a, b:
            for i in range(200):
                x = shm.copy(np.full(10, i))
                assert exchange((a, b), x)[0].tolist() == [i] * 10

    on_threads(8, work)


# ---- handles ------------------------------------------------------------------------------------


def _descriptors():
    """Returns the number of descriptors of the kinds that offers open. The Go library opens others at any time."""
    before, count = -1, 0
    while count != before:  # the thread that answers closes its end of a connection a little later
        before = count
        time.sleep(0.005)
        with os.scandir("/proc/self/fd") as entries:
            names = [os.readlink(entry.path) for entry in entries if os.path.lexists(entry.path)]
        count = sum(name.startswith(("/memfd:", "socket:", "pipe:")) for name in names)
    return count


def _assert_descriptors(count):
    """Checks that the number of descriptors becomes count: on a busy machine, a thread may close one much later."""
    end = time.monotonic() + 10
    while (found := _descriptors()) != count and time.monotonic() < end:
        pass
    assert found == count


@pytest.fixture
def offered():
    """No offer, mapping or descriptor may be left at the end."""
    _core.shm_offers_end()
    gc.collect()
    files, mapped = _descriptors(), _core.shm_mappings()
    yield
    assert _core.shm_offer_count() == 0
    _core.shm_offers_end()
    _assert_descriptors(files)
    assert _core.shm_mappings() == mapped


def test_tensors_that_are_kept_share_the_mapping_of_their_segment(offered):
    x, kept, mapped = shm.copy(np.arange(1000)), [], _core.shm_mappings()
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(end) for end in socket.socketpair()]
        for i in range(50):
            kept.append(exchange(ends, x[i:], x[500 + i :], readonly=False)[1])  # the first one is dropped
            kept.append(shm.fetch(shm.offer(x[i:], readonly=False), 10, "int64"))
            kept.append(pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(x[i:])))
            kept.append(shm.readonly(x[i:]))
    assert _core.shm_mappings() <= mapped + 2
    x.close()
    assert [t.item(0) for t in kept] == [n for i in range(50) for n in (500 + i, i, i, i)]


def test_tensors_and_offers_of_one_segment_share_its_descriptor(offered):
    x = shm.copy(np.arange(100))
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(end) for end in socket.socketpair()]
        got = exchange(ends, x)
        h = shm.offer(x)  # starts the thread that answers
        files = _descriptors()
        for i in range(50):
            got += exchange(ends, x[i:]) + [shm.readonly(got[i])]
            got.append(shm.fetch(shm.offer(x), 100, "int64"))
        handles = [shm.offer(x) for _ in range(50)]
        _assert_descriptors(files)
        x.close()
        assert all(t.item(-1) == 99 for t in got)
        assert exchange(ends, got[-1])[0].item(5) == 5
        withdraw(h)
        del got
        t = shm.fetch(handles.pop(), 100, "int64")  # the offers hold the segment
        assert t.item(7) == 7
        _assert_descriptors(files)
        for h in handles:
            withdraw(h)


def test_a_descriptor_that_other_code_has_replaced_is_not_shared(pair):
    child = os.fork()
    if child == 0:
        try:
            x = shm.copy(np.arange(3))
            shm.send(pair[0], x)
            shm.send(pair[0], x)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    (first,) = shm.recv(pair[1])
    (file,) = [i for i in range(256) if os.path.exists(f"/proc/self/fd/{i}") and os.readlink(f"/proc/self/fd/{i}").startswith("/memfd:dlb")]
    other = shm.copy(np.full(3, 9))
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, file)
    os.close(null)
    (second,) = shm.recv(pair[1])
    assert exchange(pair, second)[0].tolist() == first.tolist() == [0, 1, 2]
    assert exchange(pair, other)[0].tolist() == [9, 9, 9]


FETCH = """
    import json, sys
    from dlbridge import shm
    t = shm.fetch(json.loads(sys.argv[1]), 3, "int64")
    if not t.readonly:
        t.numpy()[0] = 7
    print(t.tolist(), t.readonly)
"""


@pytest.mark.parametrize("readonly", [True, False])
def test_a_handle_is_fetched_by_another_process(offered, readonly):
    x = shm.copy(np.arange(5))
    h = shm.offer(x[1:4], readonly=readonly)
    text = json.dumps(h)
    assert len(text) < 200 and h["offset"] == 8 and h["size"] == 40
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(FETCH), text], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout == ("[1, 2, 3] True\n" if readonly else "[7, 2, 3] False\n")
    assert x.item(1) == (1 if readonly else 7)
    with pytest.raises(LookupError, match="it was used before, its time is over, or its process has ended"):
        shm.fetch(h, 3, "int64")


def test_wrong_arguments_leave_no_descriptor(offered, tmp_path, pair):
    (tmp_path / "file").write_bytes(bytes(16))
    before = _descriptors()
    for arguments in ({"offset": 1.5}, {"offset": -1}, {"offset": 1 << 64}, {"readonly": np.array([1, 2])}):
        with pytest.raises((TypeError, ValueError)):
            shm.attach("file", 3, "uint8", directory=str(tmp_path), **arguments)
    h = shm.offer(shm.copy(np.arange(3)))
    for copied in (-1, 1 << 64, 1.5):
        with pytest.raises((TypeError, ValueError)):
            shm.fetch(h, 3, "int64", copy_unsealed=copied)
        with pytest.raises((TypeError, ValueError)):
            shm.recv(pair[1], copy_unsealed=copied)
    assert shm.fetch(h, 3, "int64").tolist() == [0, 1, 2]
    _core.shm_offers_end()
    _assert_descriptors(before)


def test_a_wrong_shape_does_not_use_the_handle_up(offered):
    h = shm.offer(shm.copy(np.arange(6)))
    for shape, dtype in [(7, "int64"), ((2, 4), "int64"), (-1, "int64"), (6, "V"), ([], [])]:
        with pytest.raises((ValueError, BufferError, TypeError)):
            shm.fetch(h, shape, dtype)
    assert shm.fetch(h, (2, 3), "int64").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_offer_holds_the_segment_until_its_time_is_over(offered):
    h, short = shm.offer(shm.copy(np.arange(3)), timeout=60), shm.offer(shm.copy(np.arange(3)), timeout=0.05)
    while _core.shm_offer_count() == 2:
        time.sleep(0.01)
    with pytest.raises(LookupError, match="its time is over"):
        shm.fetch(short, 3, "int64")
    assert shm.fetch(h, 3, "int64").tolist() == [0, 1, 2]


def test_what_cannot_be_offered_is_refused(offered):
    x = shm.copy(np.arange(6).reshape(2, 3))
    with pytest.raises(BufferError, match="offer: the tensor is not row-major; shm.copy makes"):
        shm.offer(x.T)
    with pytest.raises(BufferError, match="not in a segment"):
        shm.offer(dlbridge.empty(3, "int8"))
    padded = shm.copy(np.array([1, 2, 3, 1, 2, 3], ml_dtypes.int4))
    with pytest.raises(BufferError, match=r"expects packed elements; send them, or offer shm.copy\(t.convert\("):
        shm.offer(padded)
    assert shm.fetch(shm.offer(shm.copy(padded.convert("int8"))), 6, "int8").tolist() == padded.tolist()
    packed = shm.zeros(4, "int4")
    assert shm.fetch(shm.offer(packed), 4, "int4").nbytes == packed.nbytes == 2
    with pytest.raises(TypeError, match="offer needs a dlbridge.Tensor, not <class 'list'>"):
        shm.offer([1])
    with pytest.raises(ValueError, match="timeout must be more than 0 seconds, not 0"):
        shm.offer(x, timeout=0)
    with pytest.raises(BufferError, match="it is read-only, so it cannot be sent as writable"):
        shm.offer(shm.readonly(x), readonly=False)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"socket": "dlbridge-shm-../../etc"}, ValueError, "handle: the socket must be \"dlbridge-shm-\" followed by 32 hexadecimal digits"),
        ({"socket": None}, ValueError, "socket None is not a string"),
        ({"socket": "dlbridge-shm-" + 32 * "0"}, LookupError, "its process has ended"),
        ({"token": 32 * "0"}, LookupError, "it was used before"),
        ({"token": "zz"}, ValueError, "32 hexadecimal digits"),
        ({"token": 7}, ValueError, "token 7 is not a string"),
        ({"offset": -1}, ValueError, "offset -1 is not a number of bytes"),
        ({"offset": 1 << 70}, ValueError, "is not a number of bytes"),
        ({"offset": True}, ValueError, "offset True is not a number of bytes"),
        ({"offset": 33}, ValueError, "offset 33 is outside of the segment of 32 bytes"),
        ({"offset": 8, "size": 40}, ValueError, "the segment has 32 bytes"),
        ({"offset": 8, "size": 1 << 62}, ValueError, "the segment has 32 bytes"),
        ({"size": 16}, ValueError, "the segment has 16 bytes"),
        ({"readonly": False}, BufferError, "the segment is read-only"),
    ],
)
def test_handles_are_checked(offered, fields, error, text):
    h = shm.offer(shm.copy(np.arange(4)))
    with pytest.raises(error, match=text):
        shm.fetch(h | fields, 4, "int64")
    withdraw(h)


def withdraw(h):
    """Ends an offer, unless it was fetched."""
    with contextlib.suppress(LookupError):
        shm.fetch(h, h["size"], "int8")


@pytest.mark.parametrize("answer", ["pipe", "folder", "zero", "two", "none", "silent", "byte"])
def test_sockets_of_others_give_an_error(offered, answer, tmp_path):
    name = "dlbridge-shm-" + os.urandom(16).hex()
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(16)
                ends = os.pipe()
                files = {
                    "pipe": [ends[0]], "folder": [os.open("/", os.O_RDONLY)], "zero": [os.open("/dev/zero", os.O_RDWR)], "two": ends,
                }  # fmt: skip
                if answer == "byte":
                    connection.send(b"\1")
                elif answer == "silent":
                    done.wait(60)
                elif answer in files:
                    socket.send_fds(connection, [b"\1"], files[answer])
                for file in {file for some in files.values() for file in some}:
                    os.close(file)

        thread = threading.Thread(target=serve)
        thread.start()
        h = {"socket": name, "token": 32 * "a", "offset": 0, "size": 8, "readonly": True}
        error = {"silent": TimeoutError}.get(answer, ValueError if answer in ("pipe", "folder", "zero") else LookupError)
        with pytest.raises(error):
            shm.fetch(h, 8, "int8", timeout=0.2 if answer == "silent" else 60)
        done.set()
        thread.join()


def test_strangers_at_the_socket_do_not_disturb(offered):
    h = shm.offer(shm.copy(np.arange(3)))
    for sent in (b"", b"abc", os.urandom(16)):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect("\0" + h["socket"])
            stranger.send(sent)
    assert shm.fetch(h, 3, "int64").tolist() == [0, 1, 2]


def test_who_leaves_without_an_answer_does_not_use_the_handle_up(offered):
    h = shm.offer(shm.copy(np.arange(3)))
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as hasty:
            hasty.connect("\0" + h["socket"])
            hasty.shutdown(socket.SHUT_RD)
            hasty.send(bytes.fromhex(h["token"]))
    assert shm.fetch(h, 3, "int64").tolist() == [0, 1, 2]


def test_a_forked_child_has_no_offers_of_its_parent(offered):
    h = shm.offer(shm.copy(np.arange(3)))
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        own = shm.offer(shm.copy(np.arange(3)))
        os.write(ends[1], b"%d %d" % (own["socket"] != h["socket"], _core.shm_offer_count()))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(ends[0], 10) == b"1 1"
    os.close(ends[0])
    os.close(ends[1])
    assert shm.fetch(h, 3, "int64").tolist() == [0, 1, 2]


def test_messages_carry_handles_instead_of_parts(offered):
    x = shm.copy(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    bits = shm.copy(dlbridge.empty(5, "int4"))
    others = [np.ones(3), x[:, ::2, 1], np.zeros((0, 4))]
    tensors = [others[0], x, x.T, others[1], bits, x[1, ::-1], others[2]]
    frames = shm.offer_parts(dlbridge.tens.encode(tensors, metadata={"run": 7}, seqno=9, spread=8))
    message = dlbridge.tens.decode(frames)
    assert [t is None for t in message.tensors][:3] == [False, False, False]  # three pieces of the first tensor, which is spread
    for tensor in message.label["TENS"]["tensors"]:
        if "shm" in tensor:
            withdraw(tensor["shm"])
    frames = shm.offer_parts(dlbridge.tens.encode(tensors, metadata={"run": 7}, seqno=9))
    message = dlbridge.tens.decode(frames)
    assert [t is None for t in message.tensors] == [False, True, True, False, True, True, False]
    assert len(message.parts) == 3
    assert "3 parts, 7 tensors, 4 of them None: only metadata, or of an unknown packing: float64(3,), None, None, float32(2, 2)" in repr(message)
    got = dlbridge.tens.decode(shm.fetch_parts(frames))
    assert (got.metadata, got.seqno, got.form) == ({"run": 7}, 9, b"TENS")
    for want, t in zip(tensors, got.tensors, strict=True):
        want = dlbridge.from_dlpack(want)
        assert (t.shape, t.dtype, t.tolist()) == (want.shape, want.dtype, want.tolist())
    assert shm.is_shared(got.tensors[1]) and got.tensors[1].readonly
    x.numpy()[:] = -1
    assert got.tensors[2].tolist() == x.T.tolist()


def test_parts_that_no_tensor_names_stay(offered):
    message = dlbridge.tens.decode(dlbridge.tens.encode([shm.copy(np.arange(3))]))
    label = message.label
    label["TENS"]["tensors"].append({"dtype": "?", "word": 0, "shape": [], "part": 99, "metadata": {"a": 1}})  # it is only metadata
    frames = dlbridge.tens.Message(label=label, parts=[*message.parts, b"more"]).frames()
    got = dlbridge.tens.decode(shm.fetch_parts(shm.offer_parts(frames)))
    assert [bytes(part) for part in got.parts][:1] == [b"more"]
    assert got.tensors[0].tolist() == [0, 1, 2] and got.tensors[1] is None
    assert got.tensor_metadata == [None, {"a": 1}]


def test_parts_that_other_tensors_name_stay(offered):
    """A tensor with another packing, a tensor in two parts, and two tensors in one part stay unchanged."""
    message = dlbridge.tens.decode(dlbridge.tens.encode([np.arange(3), shm.copy(np.arange(4)), np.arange(5)], spread=32))
    label = message.label
    tensors = label["TENS"]["tensors"]
    tensors[0]["packing"] = "zip"
    tensors += [dict(tensors[2]), dict(tensors[1]), {**tensors[1], "packing": "zip"}]
    offered_frames = shm.offer_parts(dlbridge.tens.Message(label=label, parts=message.parts).frames())
    assert [frame.nbytes for frame in offered_frames[2:]] == [24, 32, 24, 16]
    tensors = dlbridge.tens.decode(offered_frames).label["TENS"]["tensors"]
    assert [tensor.get("packing", "dense") for tensor in tensors] == ["zip", "shm", "dense", "dense", "shm", "zip"]
    assert [tensors[i]["part"] for i in (0, 2, 3, 5)] == [0, 2, 2, 1]
    got = dlbridge.tens.decode(shm.fetch_parts(offered_frames), join=True).tensors
    assert [None if t is None else t.tolist() for t in got] == [None, [*range(4)], [*range(5)], [*range(5)], [*range(4)], None]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"shape": [1 << 40]}, ValueError, "the segment has 24 bytes"),
        ({"shape": [4]}, ValueError, "reach from byte 0 to 32, but the segment has 24 bytes"),
        ({"shape": [1 << 62, 1 << 62]}, ValueError, "overflows 64 bits"),
        ({"dtype": "V", "dlpack": [0, 8, 1 << 62]}, ValueError, "more than 2\\*\\*63-1 bytes"),
        ({"shm": None}, ValueError, "the attribute shm is None, not a handle"),
        ({"shm": []}, ValueError, "the attribute shm is \\[\\], not a handle"),
        ({"shape": [2] * 10_000}, ValueError, "overflows|more than 2\\*\\*63-1 bytes|dimensions"),
        ({"shm": {}}, ValueError, "socket None is not a string"),
        ({"word": 0}, ValueError, "word"),
    ],
)
def test_messages_with_handles_are_checked(offered, change, error, text):
    message = dlbridge.tens.decode(shm.offer_parts(dlbridge.tens.encode([shm.copy(np.arange(3))])))
    label = message.label
    h = label["TENS"]["tensors"][0]["shm"]
    label["TENS"]["tensors"][0].update(change)
    with pytest.raises(error, match=text):
        shm.fetch_parts(dlbridge.tens.Message(label=label).frames())
    withdraw(h)


def text_message(text, *parts):
    return dlbridge.tens.Message(form="TENS", label=text, parts=parts).frames()


UNUSUAL = """ { "a" : [12345678901234567890.123, 1E5, -0, 1e400, %s ] , "TENS":{"b":"\\u0041\\"}", "metadata":{"c":1.50},
  "tensors" :[ {"shape" : [3], "word":8,\t"dtype":"f", "part":0, "metadata":{"d" : 1E-0, "e":[{"]":[]}, -%s]}}, {"shape":[2],"word":1,"dtype":"u","part":1} ]
} } """ % ("9" * 5000, "8" * 5000)


def test_the_rest_of_a_label_stays_as_it_is(offered):
    s = shm.copy(np.arange(3.0))
    frames = text_message(UNUSUAL, s, b"ab")
    assert bytes(shm.offer_parts(text_message(UNUSUAL, bytes(24), b"ab"))[0]) == bytes(text_message(UNUSUAL, bytes(24), b"ab")[0])
    assert [bytes(f) for f in shm.fetch_parts(frames)] == [bytes(f) for f in frames]
    offered_frames = shm.offer_parts(frames)
    text = dlbridge.tens.decode(offered_frames).label_bytes.decode()
    tensor = UNUSUAL[UNUSUAL.index('{"shape" :') : UNUSUAL.index('}, {"shape":[2]')]
    before, after = UNUSUAL.split(tensor + "}")
    assert text.startswith(before + tensor + ',"packing":"shm","shm":{"socket":') and text.endswith(after.replace('"part":1', '"part":0'))
    fetched = dlbridge.tens.decode(shm.fetch_parts(offered_frames))
    assert [t.tolist() for t in fetched.tensors] == [[0, 1, 2], [97, 98]]
    assert fetched.label_bytes.decode().startswith(before) and "shm" not in fetched.label_bytes.decode()


@pytest.mark.parametrize("rank", [0, 64, 65, 256])
def test_tensors_of_all_ranks_are_offered_and_fetched(offered, rank):
    t = shm.copy(np.full(1, 7.5)).reshape((1,) * rank)
    (got,) = dlbridge.tens.decode(shm.fetch_parts(shm.offer_parts(dlbridge.tens.encode([t])))).tensors
    assert got.ndim == rank and got.item() == 7.5


def test_a_tensor_without_the_attribute_part_has_the_part_of_its_index(offered):
    text = '{"TENS":{"metadata":{},"tensors":[%s]}}' % ",".join(['{"shape":[3],"word":8,"dtype":"f"}'] * 3)
    private = np.arange(3.0)
    frames = shm.offer_parts(text_message(text, private, shm.copy(private + 1), private + 2))
    assert [frame.nbytes for frame in frames[2:]] == [24, 24]
    got = dlbridge.tens.decode(shm.fetch_parts(frames)).tensors
    assert [t.item(0) for t in got] == [0, 1, 2]


def test_nothing_is_fetched_if_one_handle_is_wrong(offered):
    frames = shm.offer_parts(dlbridge.tens.encode([shm.copy(np.arange(3)), shm.copy(np.arange(4))]))
    message = dlbridge.tens.decode(frames)
    for change in {"token": "x"}, {"size": 8}, {"offset": -1}, {"socket": 1}:
        label = json.loads(message.label_bytes)
        label["TENS"]["tensors"][1]["shm"].update(change)
        with pytest.raises(ValueError) as error:
            shm.fetch_parts(dlbridge.tens.Message(label=label).frames())
        assert error.value.__notes__ == ["dlbridge: tensors[1] of the message"]
    assert [t.size for t in dlbridge.tens.decode(shm.fetch_parts(frames)).tensors] == [3, 4]


def test_nothing_is_offered_if_one_tensor_cannot_be(offered):
    x, y = shm.copy(np.arange(3)), shm.copy(np.arange(3))
    frames = dlbridge.tens.encode([x, shm.readonly(y)])
    with pytest.raises(BufferError, match="read-only"):
        shm.offer_parts(frames, readonly=False)
    for timeout in 0, "x":
        with pytest.raises(ValueError):
            shm.offer_parts(frames, timeout=timeout)
    assert _core.shm_offer_count() == 0


# ---- objects with names -------------------------------------------------------------------------


@pytest.fixture
def named(pair):
    """An object of multiprocessing.shared_memory with the numbers 0 to 15."""
    memory = shared_memory.SharedMemory(create=True, size=16)
    memory.buf[:16] = bytes(range(16))
    yield memory
    memory.close()
    memory.unlink()


def test_an_object_is_copied_or_trusted(named):
    x = shm.attach(named.name, (2, 3), "uint8", offset=4)
    y = shm.attach(named.name, (2, 3), "uint8", offset=4, trust_peer=True)
    z = shm.attach(named.name, 2, "int4", offset=1, trust_peer=True, readonly=True)
    assert x.tolist() == y.tolist() == [[4, 5, 6], [7, 8, 9]] and z.tolist() == [1, 0] and z.readonly
    y.numpy()[1, 2] = 99
    assert named.buf[9] == 99 and x.item(5) == 9
    x.numpy()[:] = 0  # it is a copy
    assert named.buf[4] == 4


def test_a_trusted_object_is_copied_to_others_who_cannot_trust_it(named, offered):
    x = shm.attach(named.name, 16, "uint8", trust_peer=True)
    assert not shm.is_shared(x) and not shm.is_shared(shm.zeros(0, "int8"))
    frames = shm.offer_parts(dlbridge.tens.encode([x, shm.copy(x)]))
    assert [frame.nbytes for frame in frames[2:]] == [16]
    got = dlbridge.tens.decode(shm.fetch_parts(frames)).tensors
    assert got[0].tobytes() == got[1].tobytes() == bytes(range(16))
    y = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(x))  # as the queues of multiprocessing do
    named.buf[0] = 99
    assert x.item(0) == 99 and y.item(0) == 0


def test_an_object_stays_with_the_program_that_has_made_it(named):
    script = f"""
        from dlbridge import shm
        assert shm.attach({named.name!r}, 16, "uint8", trust_peer=True).item(3) == 3
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == "" and os.path.exists(f"/dev/shm/{named.name}")


def test_names_and_objects_are_checked(pair, tmp_path):
    (tmp_path / "file").write_bytes(bytes(16))
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("", ".", "..", "../x", "/file", "folder/x", "a\0b"):
        with pytest.raises(ValueError, match="is not the name of a file in|embedded null"):
            shm.attach(name, 1, "uint8", directory=str(tmp_path))
    for name, error in (("none", FileNotFoundError), ("link", OSError), ("folder", (ValueError, OSError)), ("pipe", ValueError)):
        for trust in (False, True):
            with pytest.raises(error):
                shm.attach(name, 1, "uint8", directory=str(tmp_path), trust_peer=trust)
    for shape, offset in ((17, 0), (1, 16), (4, 13), (1, -1), (1, 1 << 62), (1 << 40, 0)):
        with pytest.raises((ValueError, MemoryError)):
            shm.attach("file", shape, "uint8", offset=offset, directory=str(tmp_path))
    assert shm.attach("file", 16, "uint8", directory=str(tmp_path)).tobytes() == bytes(16)


# ---- segments of another library of the process ----


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


def _library():
    """libdlbridge_tensor, which has its own variables."""
    (path,) = (pathlib.Path(_core.__file__).parent / "_lib").glob("libdlbridge_tensor.so.?")
    library = ctypes.CDLL(str(path))
    library.dlb_shm_alloc.argtypes = [ctypes.c_void_p, _DataType, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p]
    library.dlb_shm_is_shared.argtypes = [ctypes.c_void_p] * 3
    library.dlb_shm_offer.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p]
    return library


def _of_the_library(*shape):
    """A float64 Tensor in a segment of libdlbridge_tensor."""
    managed, error = ctypes.c_void_p(), ctypes.create_string_buffer(512)
    dims = (ctypes.c_int64 * len(shape))(*shape)
    assert _library().dlb_shm_alloc(ctypes.byref(managed), _DataType(2, 64, 1), len(shape), dims, error) == 0
    return dlbridge.from_address(managed.value)


def _shared_for_the_library(tensor):
    shared, error = ctypes.c_int32(9), ctypes.create_string_buffer(512)
    address = dlbridge.to_address(tensor)
    assert _library().dlb_shm_is_shared(ctypes.byref(shared), address, error) == 0
    dlbridge.from_address(address)
    return shared.value


def test_a_segment_is_recognised_whichever_library_has_made_it(pair):
    t = _of_the_library(1000, 5)
    t.numpy()[:] = np.arange(5000).reshape(1000, 5)
    for view in (t, t[3:], t[900, 2:], t.T, t.flip(), dlbridge.from_dlpack(t.numpy()[990:]), t[7:9].broadcast_to((500, 2, 5))):
        assert shm.is_shared(view)
        (got,) = exchange(pair, view)
        assert got.tolist() == view.tolist() and shm.is_shared(got)
    h = shm.offer(t[500:])
    assert shm.fetch(h, (500, 5), "float64").tolist() == t[500:].tolist()
    assert not shm.is_shared(t[:2].broadcast_to((5000, 2, 5))) and not shm.is_shared(t[:0])
    second = shm.readonly(t[100:])
    t.numpy()[100, 0] = -1
    assert second.readonly and second.item(0) == -1 and shm.is_shared(second)
    for tensor in (shm.zeros(3, "int8"), shm.copy(t), *exchange(pair, t)):
        assert _shared_for_the_library(tensor) == 1
    assert _shared_for_the_library(dlbridge.empty(1000, "int8")) == 0


def test_a_segment_of_another_library_is_pickled_without_a_copy():
    t = _of_the_library(4)
    a, b = multiprocessing.Pipe()
    a.send(t)
    got = b.recv()
    got.numpy()[:] = [1, 2, 3, 4]
    assert t.tolist() == [1, 2, 3, 4]
    with pytest.raises(BufferError, match="handed over writable before"):
        a.send(shm.readonly(t))


# The first hand-over decides for all libraries.
def test_libraries_of_one_process_decide_together():
    t = _of_the_library(4)
    handle, error = ctypes.create_string_buffer(256), ctypes.create_string_buffer(512)
    address = dlbridge.to_address(t)
    assert _library().dlb_shm_offer(handle, address, 10, 1, error) == 0  # writable
    with pytest.raises(BufferError, match="handed over writable before"):
        shm.offer(t)
    shm.offer(t, readonly=False, timeout=0.01)
    dlbridge.from_address(address)
    time.sleep(0.02)


def test_memory_that_only_looks_like_a_segment_is_not_shared(pair):
    def memory(name, seals):
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 4096)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals) if seals else None
        mapped = mmap.mmap(fd, 4096)
        return fd, mapped, dlbridge.from_buffer(mapped, "uint8")

    for name, seals, shared in (
        ("dlbridge", fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW, True),
        ("dlbridge", 0, False),
        ("another", fcntl.F_SEAL_SHRINK, False),
    ):
        fd, mapped, t = memory(name, seals)
        assert shm.is_shared(t) is shared
        os.close(fd)  # mmap keeps a duplicate
        assert shm.is_shared(t) is shared
        t.close()
        mapped.close()
    address = _of_the_library(4096).data_ptr  # the tensor is freed immediately
    anonymous = mmap.mmap(-1, 8 * 4096)  # often at the same address
    assert not shm.is_shared(dlbridge.from_buffer(anonymous, "uint8")), hex(address)
    assert not shm.is_shared(dlbridge.from_buffer(mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE), "uint8"))


_IN_A_PROCESS = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import ctypes, os, numpy as np, dlbridge, socket, test_shm
from dlbridge import shm

def check():
    t = test_shm._of_the_library(2000)
    assert shm.is_shared(t) and shm.is_shared(t[1000:]) and shm.readonly(t).readonly
    assert not shm.is_shared(dlbridge.from_dlpack(np.ones(3))) and not shm.is_shared(dlbridge.from_dlpack(np.ones(100_000)))
    a, b = socket.socketpair()
    with a, b:
        shm.send(a, t)
        assert shm.recv(b)[0].shape == (2000,)

"""


# A forked child asks the kernel about its own memory. If the program has closed the descriptor and opened another file, it is left alone.
def test_descriptors_that_are_closed_or_inherited_do_no_harm():
    run_python(
        _IN_A_PROCESS
        + """
check()
for close in (False, True):
    kept = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").endswith("/maps")]
    assert len(kept) == 1
    if close:
        file = os.open("/dev/zero", os.O_RDONLY)
        os.dup2(file, kept[0])  # as after os.closerange and open
    child = os.fork()
    if child == 0:
        assert not close or os.read(kept[0], 2) == bytes(2)
        check()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    check()
assert os.read(kept[0], 2) == bytes(2)
"""
    )


# Before Linux 6.11 the kernel lacks the ioctl PROCMAP_QUERY. This filter of system calls forbids it.
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter has numbers of x86_64")
def test_segments_are_recognised_on_older_kernels():
    run_python(
        _IN_A_PROCESS
        + """
import struct
code = [(0x20, 0, 0, 0), (0x15, 0, 3, 16), (0x20, 0, 0, 24), (0x15, 0, 1, 0xC0686611), (0x06, 0, 0, 0x00050019), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
of = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, of) == 0
for _ in range(2):
    check()
assert not any(os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").endswith("/maps") for fd in os.listdir("/proc/self/fd"))
"""
    )
