"""Shares tensors between Go, C and NumPy, and says what happened. `make demo` runs it."""

import ctypes
import pathlib
import statistics
import sys
import time

import numpy as np

import dlbridge

MESSAGES = pathlib.Path(__file__).parent / "message"
GIB = 2**30
number, real, address = ctypes.c_int64, ctypes.c_double, ctypes.c_uint64


class Library:
    """The functions of main.go and view.c."""

    def __init__(self, path):
        library = dlbridge.load(path)
        for name, returns, *args in [
            ("go_numbers", number, "error"),
            ("go_ones", number, number, "error"),
            ("go_message", number, ctypes.c_char_p, "error"),
            ("go_tensor", "tensor", number, "error"),
            ("go_count", number),
            ("go_address", address, number),
            ("go_last", real, number),
            ("go_print", None),
            ("go_increment", None),
            ("go_write", None, "tensor", "error"),
            ("go_close", number),
            ("c_address", address, "tensor"),
            ("c_last", real, "tensor"),
            ("c_print", None, "tensor"),
            ("c_double", None, "tensor"),
        ]:
            setattr(self, name, dlbridge.wrap(getattr(library, name), args=args, returns=returns))

    def array(self, i):
        """Tensor i of Go as a NumPy array. It must have the same address in Go, C and NumPy."""
        array = np.from_dlpack(self.go_tensor(i))
        places = {self.go_address(i), self.c_address(self.go_tensor(i)), array.ctypes.data}
        check(len(places) == 1, f"tensor {i} has the addresses {places}")
        return array


def check(good, what):
    if not good:
        sys.exit(f"demo: {what}")


def numbers(lib):
    print("1. One array in three languages\n")
    i = lib.go_numbers()
    x = lib.array(i)
    print("   Go makes a slice, and NumPy an array on the memory of the slice.")
    lib.go_print()
    x[1] = 42
    print("   NumPy writes 42 to x[1].")
    lib.go_print()
    lib.c_double(x)
    print("   C doubles every element.")
    print("   NumPy reads ", x)
    lib.go_increment()
    print("   Go adds 1 to every element.")
    lib.c_print(x)
    check(x.tolist() == [3, 85, 7, 9], f"NumPy reads {x}")
    print("   All three have the same address: 0 bytes copied.\n")


def median(function, repeats=5):
    """Returns the last result of a function, and the time of a call in milliseconds."""
    times = []
    for _ in range(repeats):
        result = None  # frees the last result
        start = time.perf_counter()
        result = function()
        times.append(1000 * (time.perf_counter() - start))
    return result, statistics.median(times)


def available():
    """Returns the bytes of memory that can be used, or None where the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            host = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        cgroup = pathlib.Path("/sys/fs/cgroup")
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # "max" is no limit
        return host
    return min(host, limit - used)


def large(lib):
    print("2. A tensor of 1 GiB\n")
    free = available()
    if free is not None and free < 2.3 * GIB:
        print(f"   This part is left out: it needs 2.3 GiB of memory, and {free / GIB:.1f} GiB are available.\n")
        return
    i = lib.go_ones(GIB // 4)
    theirs, there = median(lambda: np.from_dlpack(lib.go_tensor(i)))
    ours, copying = median(lambda: theirs.copy(), repeats=3)
    _, back = median(lambda: lib.go_write(ours))
    print(f"   a Go slice becomes a NumPy array  {there:9.3f} ms  {0:>13,} bytes copied")
    print(f"   a NumPy array becomes a Go slice  {back:9.3f} ms  {0:>13,} bytes copied")
    print(f"   for comparison, NumPy copies it   {copying:9.3f} ms  {ours.nbytes:>13,} bytes copied\n")
    theirs[-1] = 42
    check(lib.go_last(i) == 42, "Go does not read 42 in its slice")
    print("   NumPy writes 42 to the last element of Go's slice:  Go reads", int(lib.go_last(i)))
    check(ours[-1] == 7, "NumPy does not read 7 in its array")
    print("   Go writes 7 to the last element of NumPy's array:   NumPy reads", int(ours[-1]))
    print()


def layout(array):
    steps = tuple(s // array.itemsize for s in array.strides)
    return f"{array.dtype!s:<8} {array.shape!s:<10} {steps!s:<10}"


def incoming(lib):
    print("3. Messages\n")
    print("   A message is a list of byte strings, as a socket sends them: a prefix that describes tensors in JSON, a header,")
    print("   and a part with the elements of each tensor. ZIO's own C++ library has made the message `peer`.\n")
    print("   Go decodes messages, and NumPy writes 42 to the last element of each tensor.\n")
    print("   message     type     shape      strides    Go reads  C reads  copied")
    for name, strides in [("peer", None), ("transposed", (1, 3, 6)), ("reversed", (-2, -1))]:
        for i in range(lib.go_message(str(MESSAGES / name).encode()), lib.go_count()):
            x = lib.array(i)
            check(strides in (None, tuple(s // x.itemsize for s in x.strides)), f"{name} has the strides {x.strides}")
            x[(-1,) * x.ndim] = 42
            read = lib.go_last(i), lib.c_last(x)
            check(read == (42, 42), f"{name}: Go and C read {read}")
            print(f"   {name:<11} {layout(x)} {read[0]:<9g} {read[1]:<8g} 0 bytes")
    print()


def outgoing():
    print("   NumPy arrays with the values and layouts of these tensors become messages.\n")
    print("   message     type     shape      strides    the part of the new message                copied")
    for name, layouts in {
        "peer": [np.array, np.array, np.array],
        "transposed": [np.asfortranarray],
        "reversed": [lambda a: np.array(a[::-1, ::-1])[::-1, ::-1]],
    }.items():
        parts = [part.read_bytes() for part in sorted(MESSAGES.glob(f"{name}.part*.bin"))]
        head = [(MESSAGES / f"{name}.{frame}.bin").read_bytes() for frame in ("prefix", "header")]
        theirs = dlbridge.tens.decode(head + parts)
        arrays = [lay(np.from_dlpack(tensor)) for lay, tensor in zip(layouts, theirs.tensors, strict=True)]
        frames = dlbridge.tens.encode(arrays)
        for x, frame, part in zip(arrays, frames[2:], parts, strict=True):
            check(bytes(frame) == part, f"{name}: the part differs from that of the message")
            check(is_memory(frame, x), f"{name}: the part is a copy")
            print(f"   {name:<11} {layout(x)} the array's memory, equal to the old part  0 bytes")
        ours = dlbridge.tens.decode(frames)
        for a, b in zip(ours.label["TENS"]["tensors"], theirs.label["TENS"]["tensors"], strict=True):
            check(describes(a) == describes(b), f"{name}: the new prefix has {a}, the old one {b}")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    frame = dlbridge.tens.encode([x])[2]
    check(not is_memory(frame, x) and frame.nbytes == x.nbytes, "the gaps were not removed")
    print(f"   a[:, ::2]   {layout(x)} a copy: TENS cannot describe the gaps      {frame.nbytes} bytes\n")


def is_memory(frame, array):
    return np.frombuffer(frame, np.uint8).ctypes.data == np.lib.array_utils.byte_bounds(array)[0]


def describes(tensor):
    """The description of a tensor in a prefix, with the defaults of what it leaves out."""
    rank = len(tensor["shape"])
    defaults = {"order": list(range(rank))[::-1], "ascend": [True] * rank}
    return {key: {**defaults, **tensor}[key] for key in ("shape", "dtype", "word", "order", "ascend")}


def with_torch(lib):
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed here. With it, the demo also compares the addresses of its tensors.")
        return
    for i in range(lib.go_count()):
        if min(np.from_dlpack(lib.go_tensor(i)).strides, default=0) >= 0:  # PyTorch has no negative strides
            check(torch.from_dlpack(lib.go_tensor(i)).data_ptr() == lib.go_address(i), f"PyTorch has a copy of tensor {i}")
    print("PyTorch has the tensors of Go at the same addresses, except the reversed one: it has no negative strides.")


def main(path):
    sys.stdout.reconfigure(line_buffering=True)  # Go and C print too
    lib = Library(path)
    numbers(lib)
    large(lib)
    incoming(lib)
    outgoing()
    with_torch(lib)
    check(lib.go_close() == 0, "Python or C still holds tensors of Go")
    print("C and Python have released all tensors of Go.")


if __name__ == "__main__":
    main(sys.argv[1])
