"""model.py FILE: writes a model with y = x + x, for float32 vectors."""

import sys

import onnx
from onnx import TensorProto, helper

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", [x], [y])
onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), sys.argv[1])
