import ctypes, dlbridge, numpy as np

go = dlbridge.load("build/libshare.so")
args = {"x": "tensor", "w": "tensor", "bias": ctypes.c_float, "error": "error"}
predict = dlbridge.wrap(go.predict, dlbridge.Tensor.numpy, args=args, returns="tensor")
x = np.array([[1, 2], [3, 4]], np.float32)
print(predict(x, np.array([1, 10], np.float32), bias=0.5))  # [21.5 43.5]
predict(x, np.ones(3, np.float32), bias=0.5)
# ValueError: argument 'w': dimension 0 of the shape [3] has size 3, want 2
