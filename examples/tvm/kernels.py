"""Compiles two kernels with TVM into a library: a matrix multiplication, and a sum with a parallel loop."""

import sys

import tvm
from tvm import te

n = 56
x, y = te.placeholder((n, n), name="x"), te.placeholder((n, n), name="y")
k = te.reduce_axis((0, n), name="k")
z = te.compute((n, n), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="z")
fmm = te.create_prim_func([x, y, z])

m = te.var("m")
a, b = te.placeholder((m,), name="a"), te.placeholder((m,), name="b")
c = te.compute((m,), lambda i: a[i] + b[i], name="c")
schedule = tvm.s_tir.Schedule(tvm.IRModule({"vadd": te.create_prim_func([a, b, c])}))
(loop,) = schedule.get_loops(schedule.get_sblock("c", func_name="vadd"))
schedule.parallel(loop)

functions = {"fmm": fmm, "vadd": schedule.mod["vadd"]}
module = tvm.IRModule({name: f.with_attr("global_symbol", name) for name, f in functions.items()})
tvm.compile(module, target="llvm").export_library(sys.argv[1])
