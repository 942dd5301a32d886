import dlbridge, numpy as np

go = dlbridge.load("build/libshare.so")
x = dlbridge.wrap(go.share, dlbridge.Tensor.numpy, args=["error"], returns="tensor")()
x[0, 1] = 42  # NumPy writes to the Go slice
go.show()
twice = dlbridge.wrap(go.twice, args=["tensor", "error"], returns=None)
twice(x)  # Go writes to the memory of a NumPy array
print(x.tolist())
twice(np.ones(3))
