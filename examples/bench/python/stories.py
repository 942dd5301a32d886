"""Times the jobs that begin the report: arrays of megabytes from Go, in messages, and to another process, beside what users would
do without dlbridge. Prints lines of `name value unit`. All paths of a job take turns.
A time is the median over several turns of the fastest round in each turn.
"""

import ctypes
import multiprocessing
import pathlib
import pickle
import socket
import statistics
import sys
import time

import numpy as np

import dlbridge

sys.path.append(str(pathlib.Path(__file__).parent.parent / "processes"))
import receiver  # noqa: E402

COUNT = 4 << 20  # numbers of float32 in 16 MiB


def measure(paths, rounds, turns=5):
    """Times the paths in turn. A path returns the nanoseconds that it has measured, or None to have its call timed."""
    fastest = {name: [] for name in paths}
    for _ in range(turns):
        for times in fastest.values():
            times.append(float("inf"))
        for _ in range(rounds):
            for name, path in paths.items():
                start = time.perf_counter_ns()
                measured = path()
                fastest[name][-1] = min(fastest[name][-1], measured or time.perf_counter_ns() - start)
    for name, times in fastest.items():
        print(f"py_{name} {statistics.median(times):.2f} ns", flush=True)


def from_go(library, rounds):
    share = dlbridge.wrap(library.share, args=["error"], returns="tensor")
    library.fill.argtypes, library.fill.restype = [ctypes.c_void_p], None

    def copy():
        array = np.empty(COUNT, np.float32)
        library.fill(array.ctypes.data)

    measure({"dlbridge_slice_16MiB": lambda: share().numpy() is None, "copy_slice_16MiB": copy}, rounds)


def messages(rounds):
    arrays = [np.ones(1 << 18, np.float32) for _ in range(3)]

    def by_dlbridge():
        frames = dlbridge.tens.encode(arrays)
        for tensor in dlbridge.tens.decode(frames).tensors:
            tensor.numpy()

    measure({"dlbridge_message_1MiB": by_dlbridge, "pickle_message_1MiB": lambda: pickle.loads(pickle.dumps(arrays)) is None}, rounds)


def processes(rounds):
    """Times the way of an array to another process, until its tensor or array is there. Copies into a segment are included."""
    array = np.ones(COUNT, np.float32)
    spawning = multiprocessing.get_context("spawn")
    here, there = socket.socketpair()
    queue = spawning.Queue()
    process = spawning.Process(target=receiver.run, args=(there, {b"q": queue}))
    process.start()
    there.close()

    def sent(kind, send):
        def path():
            here.sendall(kind)
            here.recv(1)
            start = time.perf_counter()
            send()
            return (receiver.STAMPS.unpack(here.recv(receiver.STAMPS.size, socket.MSG_WAITALL))[0] - start) * 1e9

        return path

    measure(
        {
            "dlbridge_process_16MiB": sent(b"s", lambda: dlbridge.shm.send(here, dlbridge.shm.copy(array))),
            "multiprocessing_process_16MiB": sent(b"q", lambda: queue.put(array)),
        },
        rounds,
    )
    here.close()
    process.join()


if __name__ == "__main__":
    batches = int(sys.argv[2])
    from_go(dlbridge.load(sys.argv[1]), batches)
    messages(batches)
    processes(max(3, batches // 10))
