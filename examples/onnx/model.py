"""Writes model.onnx, a small classifier of images of 224 by 224 pixels with weights that are random and always the same."""

import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(1)
weights = [
    numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)
    for name, shape in {"kernel": (8, 3, 5, 5), "matrix": (8, 10)}.items()
]
nodes = [
    helper.make_node("Conv", ["image", "kernel"], ["convolved"], strides=[4, 4]),
    helper.make_node("Relu", ["convolved"], ["positive"]),
    helper.make_node("GlobalAveragePool", ["positive"], ["averages"]),
    helper.make_node("Flatten", ["averages"], ["features"]),
    helper.make_node("MatMul", ["features", "matrix"], ["sums"]),
    helper.make_node("Softmax", ["sums"], ["scores"]),
]
graph = helper.make_graph(
    nodes,
    "classifier",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
    weights,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
(pathlib.Path(__file__).parent / "model.onnx").write_bytes(model.SerializeToString())
