import ctypes, dlbridge, numpy as np

go = dlbridge.load("build/libshare.so")
parameters = {"x": "tensor", "w": "tensor", "bias": ctypes.c_float, "error": "error"}
predict = dlbridge.wrap(go.predict, dlbridge.Tensor.numpy, args=parameters, returns="tensor")
x = np.array([[1, 2], [3, 4]], np.float32)
print(predict(x, np.array([1, 10], np.float32), bias=0.5))
predict(x, np.ones(3, np.float32), bias=0.5)
