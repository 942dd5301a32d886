"""Sends a message through a pipe to the Go program, and reads its answer from another."""

import subprocess
import sys

import numpy as np

import dlbridge.tens

a = np.asfortranarray(np.arange(12.0).reshape(3, 4))
x = np.array([1.0, 0.0, -1.0, 2.0])
question = dlbridge.tens.encode({"a": a, "x": x[::-1]}, metadata={"of": "Python"}, origin=7, seqno=41)
print("sent:", dlbridge.tens.decode(question).label["TENS"])

ran = subprocess.run([sys.argv[1]], input=dlbridge.tens.encode_frames(question), stdout=subprocess.PIPE, check=True)

message = dlbridge.tens.decode(dlbridge.tens.decode_frames(ran.stdout))
print("answered:", message.label["TENS"])
print(f"origin {message.origin}, seqno {message.seqno}, of {message.metadata['of']}")
y, transposed = np.from_dlpack(message["y"]), np.from_dlpack(message["transpose"])
print("y =", y, "as NumPy has it:", np.array_equal(y, a @ x[::-1]))
print("the transpose:", np.array_equal(transposed, a.T), "in C order:", transposed.flags.c_contiguous)
