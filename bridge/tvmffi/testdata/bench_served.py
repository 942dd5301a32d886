"""Python -> Go through TVM-FFI, beside Python -> C++, in nanoseconds a call: the minimum of many short turns.

bench_served.py LIBRARY, built of served
"""

import pathlib
import subprocess
import sys
import tempfile
import timeit

import numpy as np
import tvm_ffi

HERE = pathlib.Path(__file__).parent


def native():
    file = pathlib.Path(tempfile.mkdtemp()) / "native.so"
    include = "-I" + tvm_ffi.libinfo.find_include_path()
    subprocess.run(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", include, "-o", file, HERE / "native.cc"], check=True)
    return tvm_ffi.load_module(str(file))


def times(calls, turns=300, count=2000):
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):  # in turn, so that all have the same share of a busy machine
        for name, (function, arguments) in calls.items():
            timer = timeit.Timer("f(*a)", globals={"f": function, "a": arguments})
            best[name] = min(best[name], timer.timeit(count) / count * 1e9)
    return best


go, cc = tvm_ffi.load_module(sys.argv[1]), native()
x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
tx, ty = tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y)
best = times(
    {
        "C++ nop": (cc.nop, ()),
        "Go callback": (go.bare, ()),
        "Go nop": (go.nop, ()),
        "C++ scale, TVM tensors": (cc.scale, (tx, ty, 2.0)),
        "Go scale, TVM tensors": (go.scale, (tx, ty, 2.0)),
        "C++ scale, NumPy arrays": (cc.scale, (x, y, 2.0)),
        "Go scale, NumPy arrays": (go.scale, (x, y, 2.0)),
    }
)
for name, best_time in best.items():
    print(f"{best_time:8.0f}  {name}")
print(f"{best['Go callback'] - best['C++ nop']:8.0f}  a callback into Go")
for kind in ["TVM tensors", "NumPy arrays"]:
    print(f"{best['Go scale, ' + kind] - best['C++ scale, ' + kind]:8.0f}  Go more than C++, {kind}")
