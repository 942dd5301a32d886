"""Times what Python pays for a tensor: made, converted, freed. Prints lines of `name value unit`.

Every path runs in many short batches, one path after the other and round again; its time is that of its fastest batch
in a turn, the median of several turns. The first rounds of a batch, with the caches full of other paths, are not timed.
"""

import ctypes
import gc
import importlib.util
import json
import statistics
import struct
import sys
import time

import numpy as np
import tvm_ffi
from decthings_api.tensor import DecthingsTensor

import dlbridge

ROUNDS = 256
WARM_UP = 64
TURNS = 20
BATCHES = int(sys.argv[2])
library = ctypes.CDLL(sys.argv[1])
paths = {}
addresses = (ctypes.c_size_t * ROUNDS)()


def exported(by):
    """Addresses of managed tensors that Go exported beforehand."""
    function = getattr(library, by)
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64]

    def fill():
        function(addresses, ROUNDS)
        return list(addresses)

    return fill


def plain():
    return list(range(ROUNDS))


def add(name, before, run):
    paths[name] = (before, run)


def handed(create, convert):
    def run(rounds):
        for i in rounds:
            convert(create(i))

    return run


def fresh(create, dtype, convert):
    def run(rounds):
        for _ in rounds:
            convert(create(1024, dtype=dtype))

    return run


def producers(suffix, convert, torch):
    """All that make an array and convert it: from an address of Go's, of one shared memory, of new memory."""
    for memory in "new", "slice":
        add(f"dlbridge_from_address_{memory}{suffix}", exported(f"export_{memory}"), handed(dlbridge.from_address, convert))
        add(f"floor_from_address_{memory}{suffix}", exported(f"export_{memory}"), handed(floor.from_address, convert))
    for name in "nanobind", "pyo3_dlpack", "dlpark":
        module = name + "_bench"
        if importlib.util.find_spec(module) is not None:
            add(name + suffix, plain, handed(importlib.import_module(module).create, convert))
        else:
            print(f"python: skipped {name}: it was not built", file=sys.stderr)
    add(f"dlbridge_empty{suffix}", plain, fresh(dlbridge.empty, "float32", convert))
    add(f"numpy_empty{suffix}", plain, fresh(np.empty, np.float32, convert))
    if torch is not None:
        add(f"torch_empty{suffix}", plain, fresh(torch.empty, torch.float32, convert))


def calls(torch):
    """A C function of two tensors of 16 floats, called by `wrap`, and with capsules by ctypes."""
    c = ctypes.CDLL(floor.__file__)
    for function in c.add_owned, c.add_borrowed:
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    wrapped = dlbridge.wrap(c.add_owned)

    def by_wrap(x, y):
        def run(rounds):
            for _ in rounds:
                wrapped(x, y)

        return run

    def by_ctypes(x, y):
        def run(rounds):
            for _ in rounds:
                a, b = x.__dlpack__(max_version=(1, 3)), y.__dlpack__(max_version=(1, 3))
                c.add_borrowed(pointer(a, b"dltensor_versioned"), pointer(b, b"dltensor_versioned"))

        return run

    nothing = ctypes.CDLL(None).getpid

    def empty(rounds):
        for _ in rounds:
            nothing()

    add("ctypes_call", plain, empty)
    makers = {"dlbridge": lambda: dlbridge.empty(16, "float32"), "numpy": lambda: np.zeros(16, np.float32)}
    if torch is not None:
        makers["torch"] = lambda: torch.zeros(16)
    for name, make in makers.items():
        add(f"wrap_{name}", plain, by_wrap(make(), make()))
        if name != "dlbridge":
            add(f"ctypes_capsules_{name}", plain, by_ctypes(make(), make()))


def kernels():
    """Functions of TVM-FFI in C++ and in Go, on two tensors of 16 floats and a number."""
    x, y = (tvm_ffi.from_dlpack(np.ones(16, np.float32)) for _ in range(2))
    for language, file in ("cpp", sys.argv[3]), ("go", sys.argv[1]):
        module = tvm_ffi.load_module(file)
        for name in "nothing", "scale":

            def run(rounds, f=getattr(module, name)):
                for _ in rounds:
                    f(x, y, 2.0)

            add(f"tvmffi_{name}_{language}", plain, run)


def messages():
    frames = [bytes(frame) for frame in dlbridge.tens.encode([np.zeros(1024, np.float32) for _ in range(3)])]

    def parse_with_json(rounds):
        for _ in rounds:
            prefix = frames[0]
            if prefix[:3] != b"ZIO" or prefix[4:8] != b"TENS":
                raise ValueError("not a message of tensors")
            struct.unpack("<QQQ", frames[1])
            for tensor in json.loads(prefix[8:])["TENS"]["tensors"]:
                part = frames[2 + tensor["part"]]
                np.frombuffer(part, f"<{tensor['dtype']}{tensor['word']}").reshape(tensor["shape"])

    def decode(rounds):
        for _ in rounds:
            dlbridge.tens.decode(frames)

    def decode_to_numpy(rounds):
        for _ in rounds:
            for tensor in dlbridge.tens.decode(frames).tensors:
                np.from_dlpack(tensor)

    add("json_numpy_parse", plain, parse_with_json)
    add("dlbridge_decode", plain, decode)
    add("dlbridge_decode_to_numpy", plain, decode_to_numpy)


def decthings():
    """The client of Decthings and our own, on a tensor of 4 floats."""
    tensor = DecthingsTensor(np.zeros(4, np.float32), "f32", [4])
    data = tensor.serialize()

    def deserialize(rounds):
        for _ in rounds:
            DecthingsTensor.deserialize(data)

    def serialize(rounds):
        for _ in rounds:
            tensor.serialize()

    array = tensor.numpy()

    def iterate(rounds):
        for _ in dlbridge.decthings.decode_all(data * len(rounds)):
            pass

    def encode(rounds):
        for _ in rounds:
            dlbridge.decthings.encode(array)

    add("decthings_deserialize", plain, deserialize)
    add("decthings_serialize", plain, serialize)
    add("dlbridge_decthings_iter", plain, iterate)
    add("dlbridge_decthings_encode", plain, encode)


def measure():
    fastest = {name: [] for name in paths}
    clock = time.perf_counter_ns
    gc.disable()
    for _ in range(TURNS):
        for times in fastest.values():
            times.append(float("inf"))
        for _ in range(BATCHES):
            for name, (before, run) in paths.items():
                rounds = before()
                run(rounds[:WARM_UP])
                rounds = rounds[WARM_UP:]
                start = clock()
                run(rounds)
                fastest[name][-1] = min(fastest[name][-1], (clock() - start) / len(rounds))
    times = {name: statistics.median(times) for name, times in fastest.items()}
    for name in "nothing", "scale":  # what Go costs more than C++
        times[f"tvmffi_{name}_more"] = times[f"tvmffi_{name}_go"] - times[f"tvmffi_{name}_cpp"]
    for name, value in times.items():
        print(f"py_{name} {value:.2f} ns")


import floor  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
    print("python: skipped torch: it is not installed (BENCH_TORCH=1 installs it)", file=sys.stderr)

producers("", np.from_dlpack, torch)
if torch is not None:
    producers("_torch", torch.from_dlpack, torch)
calls(torch)
kernels()
messages()
decthings()
measure()
