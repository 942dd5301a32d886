"""Writes the models of the tests into a folder, and prints where the library of the installed onnxruntime is.

python models.py FOLDER
"""

import pathlib
import sys

import onnxruntime
from onnx import TensorProto, checker, helper

# The names of package dlpack.
TYPES = {
    "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "bfloat16": TensorProto.BFLOAT16,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "float8_e8m0fnu": TensorProto.FLOAT8E8M0,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int2": TensorProto.INT2,
    "uint2": TensorProto.UINT2,
}


def save(folder, name, nodes, inputs, outputs, initializers=()):
    info = lambda named: [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in named.items()]  # noqa: E731
    graph = helper.make_graph(nodes, name, info(inputs), info(outputs), list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    checker.check_model(model)
    (folder / f"{name}.onnx").write_bytes(model.SerializeToString())


def main(folder):
    float32, node = TensorProto.FLOAT, helper.make_node
    for name, kind in TYPES.items():
        nodes = [
            node("Cast", ["x"], ["wide"], to=float32),
            node("Add", ["wide", "wide"], ["sum"]),
            node("Cast", ["sum"], ["y"], to=kind),
        ]
        for shape, prefix in ([2, 4], "add"), (["n", "m"], "dynamic"):
            save(folder, f"{prefix}-{name}", nodes, {"x": (kind, shape)}, {"y": (kind, shape)})
    two = {"a": (float32, [3]), "b": (float32, [3])}
    save(folder, "two", [node("Add", ["a", "b"], ["sum"]), node("Sub", ["a", "b"], ["difference"])], two,
         {"sum": (float32, [3]), "difference": (float32, [3])})  # fmt: skip
    save(folder, "scalar", [node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": (float32, [3])}, {"y": (float32, [])})
    save(folder, "strings", [node("Identity", ["x"], ["y"])], {"x": (TensorProto.STRING, [3])}, {"y": (TensorProto.STRING, [3])})
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [4096, 4096])
    save(folder, "large", [node("Expand", ["x", "shape"], ["y"])], {"x": (float32, [1])}, {"y": (float32, [4096, 4096])}, [shape])
    # ONNX Runtime 1.32 cannot add or cast these numbers on the CPU.
    float4 = helper.make_tensor("y", TensorProto.FLOAT4E2M1, [2, 4], [0, 0.5, 1, 1.5, -2, -3, 4, 6])
    save(folder, "constant-float4_e2m1fn", [], {"x": (float32, [1])}, {"y": (TensorProto.FLOAT4E2M1, [2, 4])}, [float4])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
    print(next((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.*")), end="")
