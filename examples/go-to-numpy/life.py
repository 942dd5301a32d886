"""Shows the cells of main.go as a NumPy array, and writes to them."""

import ctypes
import sys

import numpy as np

import dlbridge

go = dlbridge.load(sys.argv[1])
go.shared.restype = ctypes.c_int64

world = dlbridge.wrap(go.world, args=["error"], returns="tensor", to=np.from_dlpack)()
print(world.dtype, world.shape, "owns its memory:", world.flags.owndata)


def show(generation):
    print(f"generation {generation}")
    for row in world[:5]:
        print("".join("#" if cell else "." for cell in row))


world[:3, :3] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]  # a glider, in Go's memory
show(0)
for _ in range(4):
    go.step()
show(4)  # the same array

print("tensors of Go's that Python holds:", go.shared())
del world
print("and without the array:", go.shared())
