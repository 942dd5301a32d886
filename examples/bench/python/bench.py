"""Times the paths in Python, such as creating, converting and freeing a tensor. Prints lines of `name value unit`.

All paths take turns in running short batches. The time of a path is the median over several turns of its fastest batch
in each turn. The first rounds of a batch only warm the caches and are not timed.
"""

import ctypes
import gc
import importlib.util
import json
import statistics
import struct
import subprocess
import sys
import time

import numpy as np
import tvm_ffi
import zmq
from decthings_api.tensor import DecthingsTensor

import dlbridge

ROUNDS = 256
WARM_UP = 64
TURNS = 20
BATCHES = int(sys.argv[2])
library = dlbridge.load(sys.argv[1])  # the formats use it too: a process can have only one Go runtime
paths = {}
addresses = (ctypes.c_size_t * ROUNDS)()


def exported(by):
    """Returns a function that has Go export tensors and returns the addresses of the managed tensors."""
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
    """Adds the paths that create an array and convert it: of an address from Go, of shared memory, or of new memory."""
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
    """Adds the calls of a C function with two tensors of 16 floats, by `wrap` and by ctypes with capsules."""
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


def views():
    """Adds views of a matrix of 16 × 16 floats, as a Tensor and as an array of NumPy, and the array of a Tensor."""
    array = np.zeros((16, 16), np.float32)
    tensor = dlbridge.from_dlpack(array)
    for name, x in {"dlbridge": tensor, "numpy": array}.items():

        def element(rounds, x=x):
            for _ in rounds:
                x[3, 5]

        def rectangle(rounds, x=x):
            for _ in rounds:
                x[2:8, 1:]

        def flat(rounds, x=x):
            for _ in rounds:
                x.reshape(256)

        for path, run in {"element": element, "slice": rectangle, "reshape": flat}.items():
            add(f"{name}_{path}", plain, run)

    def by_method(rounds):
        for _ in rounds:
            tensor.numpy()

    def by_numpy(rounds):
        for _ in rounds:
            np.from_dlpack(tensor)

    add("dlbridge_array", plain, by_method)
    add("numpy_array", plain, by_numpy)


def data_types():
    """Adds the comparison of a data type with a type of NumPy, and new memory for a few elements of such a type."""
    tensor, array = dlbridge.empty(3, np.float32), np.empty(3, np.float32)
    for name, x, empty in ("dlbridge", tensor, dlbridge.empty), ("numpy", array, np.empty):

        def compare(rounds, x=x):
            for _ in rounds:
                x.dtype == np.float32  # noqa: B015

        def small(rounds, empty=empty):
            for _ in rounds:
                empty(3, np.float32)

        add(f"{name}_dtype", plain, compare)
        add(f"{name}_small", plain, small)


def sends(context):
    """Adds messages of one to three arrays of 16 floats, sent within the process: by `tens.send`, and pickled by pyzmq."""
    sender, receiver = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    sender.sndhwm = receiver.rcvhwm = 0
    sender.bind("inproc://sends")
    receiver.connect("inproc://sends")

    def drained():
        while receiver.poll(0):
            receiver.recv()
        return plain()

    def by_dlbridge(arrays):
        def run(rounds):
            for _ in rounds:
                dlbridge.tens.send(sender, arrays)

        return run

    def by_pickle(arrays):
        def run(rounds):
            for _ in rounds:
                sender.send_pyobj(arrays)

        return run

    for count in 1, 2, 3:
        arrays = [np.zeros(16, np.float32) for _ in range(count)]
        add(f"dlbridge_send_{count}", drained, by_dlbridge(arrays))
        add(f"pyzmq_send_pyobj_{count}", drained, by_pickle(arrays))
    named = {"x": np.zeros(16, np.float32)}
    add("dlbridge_send_named", drained, by_dlbridge(named))
    add("pyzmq_send_pyobj_named", drained, by_pickle(named))


def kernels():
    """Adds TVM-FFI functions in C++ and in Go, called with two tensors of 16 floats and a number."""
    x, y = (tvm_ffi.from_dlpack(np.ones(16, np.float32)) for _ in range(2))
    for language, file in ("cpp", sys.argv[3]), ("go", sys.argv[1]):
        module = tvm_ffi.load_module(file)
        for name in "nothing", "scale":

            def run(rounds, f=getattr(module, name)):
                for _ in rounds:
                    f(x, y, 2.0)

            add(f"tvmffi_{name}_{language}", plain, run)


def served():
    """Adds a Go function called with a NumPy array of 16 zeros: through `wrap`, and through TVM-FFI."""
    x = np.zeros(16, np.float32)
    functions = {
        "wrap": dlbridge.wrap(library.twice, args=["tensor", "error"], returns=None),
        "tvmffi": tvm_ffi.load_module(sys.argv[1]).twice,
    }
    for name, function in functions.items():

        def run(rounds, f=function):
            for _ in rounds:
                f(x)

        add(f"served_{name}", plain, run)


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
    """Adds the Decthings client and dlbridge, with a tensor of 4 floats."""
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
    for name in "nothing", "scale":  # the additional cost of Go over C++
        times[f"tvmffi_{name}_more"] = times[f"tvmffi_{name}_go"] - times[f"tvmffi_{name}_cpp"]
    for name, value in times.items():
        print(f"py_{name} {value:.2f} ns")


def imports():
    """Prints the time of `import` in new processes: the fastest of 10 for each statement, which take turns."""
    statements = {
        "import_dlbridge": ("", "import dlbridge"),
        "import_dlbridge_after_numpy": ("import numpy", "import dlbridge"),
        "import_numpy": ("", "import numpy"),
    }
    fastest = dict.fromkeys(statements, float("inf"))
    for _ in range(10):
        for name, (before, statement) in statements.items():
            code = f"import time\n{before}\nstart = time.perf_counter_ns()\n{statement}\nprint(time.perf_counter_ns() - start)"
            taken = subprocess.run([sys.executable, "-I", "-c", code], check=True, stdout=subprocess.PIPE).stdout
            fastest[name] = min(fastest[name], int(taken))
    for name, value in fastest.items():
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
views()
data_types()
kernels()
served()
messages()
decthings()
with zmq.Context() as context:
    sends(context)
    measure()
imports()
