"""Ordinary uses of the package. test_typing.py runs them, and mypy --strict and pyright accept them (`make typing`). Each
`type: ignore` marks a mistake that both must report."""

from __future__ import annotations

import array
import copy
import ctypes
import mmap
import pickle
import tempfile
from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
import zmq
import zmq.asyncio
from numpy.typing import NDArray

import dlbridge
from dlbridge import Elements, Tensor, decthings, tens, tensorflow


def tensors() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = dlbridge.from_dlpack(a)
    assert_type(t, Tensor)
    assert_type(t.shape, tuple[int, ...])
    name: str = t.dtype
    assert t.dtype == np.float32 and name == "float32"
    assert_type(t == a, NDArray[np.bool_])
    assert (t == a).all() and not (t != a).any()
    assert_type(t == t[:1], bool)
    assert {t: 1}[t] == 1
    assert_type(t.device, tuple[int, int])
    assert_type(t[0, 1:], Tensor)
    assert_type(t[..., None], Tensor)
    assert_type(t.T.reshape(-1), Tensor)
    assert_type(t.reshape((3, 2), copy=False).transpose(1, 0).flip(0), Tensor)
    assert_type(t.swapaxes(0, -1).moveaxis((0, 1), [1, 0]).flatten(), Tensor)
    assert_type(t.view("uint8"), Tensor)
    assert_type(dlbridge.zeros((2, 3), "int8"), Tensor)
    assert_type(dlbridge.asarray([[1, 2], [3, 4.5]], "float32"), Tensor)
    assert dlbridge.asarray(t) is t
    assert_type(t.numpy(), NDArray[Any])
    assert_type(float(t[0, 1]), float)
    assert_type([row.tolist() for row in t], list[Any])
    assert_type(len(t), int)
    back: NDArray[Any] = np.from_dlpack(t)
    assert back.shape == np.asarray(t).shape == t.convert(np.int16).shape == copy.copy(t).shape
    assert_type(t.convert("int8"), Tensor)
    assert_type(t.convert(out=dlbridge.empty((2, 3), "int8")), Tensor)
    whole: NDArray[np.int8] = t.convert("int8", out=np.zeros((2, 3), np.int8))
    assert whole.dtype == np.int8
    assert_type(t.convert("float32", scale=[1 / 255, 2, 3], shift=np.zeros(3), axis=1), Tensor)
    whole = t.convert(out=whole, scale=2, shift=None)
    with dlbridge.empty((2, 3), "bfloat16") as inner:
        assert_type(inner, Tensor)
    for buffer in (b"abcd", bytearray(4), memoryview(b"abcd"), array.array("i", [1]), mmap.mmap(-1, 4)):
        assert dlbridge.from_buffer(buffer, np.uint8, shape=(2,), offset=1).nbytes == 2
    assert memoryview(t).shape == (2, 3)
    data = pickle.dumps(t)
    assert len(data) > t.nbytes
    assert_type(dlbridge.counters(), dict[str, int])
    try:
        dlbridge.from_dlpack(a, device="cuda:0", copy=False)
    except (BufferError, ValueError) as error:  # the second with NumPy 2.1 and 2.2
        print(error)


def formats() -> None:
    t = dlbridge.from_dlpack(np.arange(3.0))
    message = tens.decode(tens.encode([t, np.zeros(2)], metadata={"run": 7}), limit=1 << 20)
    assert_type(message, tens.Message)
    assert_type(message.tensors[0], Tensor)
    assert message.metadata is not None and message.metadata["run"] == 7
    tens.decode(tens.encode(message.tensors, relay=message, seqno=7))
    named = tens.decode(tens.encode({"w": t, "b": np.zeros(2)}, tensor_metadata=[{"unit": "m"}, None]))
    assert_type(named["w"], Tensor)
    assert "b" in named and list(named.keys()) == ["w", "b"]
    by_name: dict[str, Tensor] = dict(named)
    assert_type(named.get("w"), Tensor | None)
    assert [tensor.ndim for tensor in named.values()] == [1, 1] and len(named) == 2
    assert_type(list(named.items()), list[tuple[str, Tensor]])
    assert tens.decode(tens.encode(by_name))["w"].shape == (3,)
    packed = tens.encode_frames(message.frames())
    assert_type(packed, bytes)
    assert_type(tens.decode_frames(packed), list[memoryview])
    assert_type(next(tens.decode_all(packed, limit=1 << 20)), tens.Message)
    strings = Elements("string", (1,), ["text"])
    assert len(strings) == 1 and strings[0] == "text" and list(strings) == strings.tolist()
    assert np.array(strings).shape == np.asarray(strings).shape == (1,)
    for encoded in (decthings.encode(t), decthings.encode(strings)):
        value = decthings.decode(encoded)
        assert_type(value, Tensor | Elements)
        assert isinstance(value, Tensor) or value.values == ["text"]
    assert decthings.decode_tensor(decthings.encode(t)).numpy().shape == (3,)
    assert tensorflow.decode_tensor(tensorflow.encode(t, pad=True), lenient=True).numpy().shape == (3,)
    assert_type(decthings.decode_elements(decthings.encode(strings)).type, str)
    decthings.check({"shape": [3], "allowedTypes": ["f64"]}, t)


def files(folder: str) -> None:
    dlbridge.safetensors.save(f"{folder}/m.safetensors", {"w": np.zeros((2, 3))}, {"format": "np"}, align=64, progress=print)
    dlbridge.npy.save(f"{folder}/x.npy", [1, 2, 3])
    dlbridge.npy.savez(f"{folder}/x.npz", np.zeros(2), w=dlbridge.zeros(3, "int8"))
    with dlbridge.open_file(f"{folder}/m.safetensors") as file:
        assert_type(file, dlbridge.File)
        assert_type(file["w"], Tensor)
        assert_type(file.copy("w").numpy(), NDArray[Any])
        assert_type(file.entries["w"], dlbridge.Entry)
        assert [(name, t.shape) for name, t in file.items()] == [("w", (2, 3))] and file.metadata["format"] == "np"


async def sockets(plain: zmq.Socket[bytes], awaited: zmq.asyncio.Socket) -> None:
    message = tens.recv(plain, aligned=True)
    assert_type(message, tens.Message)
    message.tensors[0].on_release(lambda: None)
    assert_type(await tens.recv(awaited), tens.Message)
    tens.send(plain, {"w": np.zeros(3)}, seqno=7, packed=True)
    await tens.send(awaited, [np.zeros(3)], metadata={"run": 7})
    sent = tens.send(plain, [np.zeros(3)], track=True)
    assert_type(sent, tens.Tracker)
    assert_type(sent.done, bool)
    sent.wait(timeout=1)
    assert_type(await tens.send(awaited, [np.zeros(3)], track=True), tens.Tracker)


def functions() -> None:
    absolute = dlbridge.wrap(ctypes.CDLL(None).abs, args=[ctypes.c_int], returns=ctypes.c_int)
    assert absolute(-3) == 3
    assert_type(absolute, Callable[..., Any])
    same = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda address: address)
    assert_type(dlbridge.wrap(same, args=["tensor"], returns="tensor"), Callable[..., Tensor])
    assert_type(dlbridge.wrap(same, args=["tensor"], returns="tensor")(np.zeros(3)), Tensor)
    assert_type(dlbridge.wrap(same, Tensor.numpy, args={"x": "tensor"}, returns="tensor", device=None)(x=np.zeros(3)), NDArray[Any])
    assert_type(dlbridge.wrap(same, to=len, args=["tensor"])(np.zeros(3)), int)
    assert_type(dlbridge.wrap(ctypes.CDLL(None).srand, args={"seed": ctypes.c_uint}, returns=None), Callable[..., None])
    of_lists = dlbridge.wrap(same, args=[dlbridge.converted(np.float32, contiguous=True)], returns="tensor")
    assert_type(of_lists([[1, 2], [3, 4]]), Tensor)
    assert_type(dlbridge.wrap(same), Callable[..., Any])
    address = dlbridge.to_address(np.zeros(2))
    assert_type(address, int)
    assert_type(dlbridge.from_address(address), Tensor)
    assert_type(dlbridge.get_include(), str)
    try:
        dlbridge.load("no such library")
    except (OSError, RuntimeError) as error:  # RuntimeError after a format has loaded the library of the package
        print(error)


def mistakes() -> None:
    t = dlbridge.empty(3, float)
    dlbridge.form_dlpack(t)  # type: ignore[attr-defined]
    t.shape = (1,)  # type: ignore[misc]
    t["x"]  # type: ignore[index]
    (t == t[:1]).all()  # type: ignore[attr-defined]
    dlbridge.from_buffer("text")  # type: ignore[arg-type]
    dlbridge.empty()  # type: ignore[call-arg]
    t.convert()  # type: ignore[call-overload]
    t.convert(out=bytearray(3))  # type: ignore[call-overload]
    t.convert("float32", scale="2")  # type: ignore[arg-type]
    dlbridge.wrap(ctypes.CDLL(None).abs, len, args=[ctypes.c_int], returns=ctypes.c_int)  # type: ignore[call-overload]
    dlbridge.wrap(ctypes.CDLL(None).abs, args="tensor", returns=3, device=1)  # type: ignore[call-overload]
    dlbridge.from_dlpack("text")  # type: ignore[arg-type]
    dlbridge.Tensor()  # type: ignore[call-arg]
    decthings.decode("text")  # type: ignore[arg-type]
    decthings.encode(t, dialect="py005")  # type: ignore[arg-type]
    np.from_dlpack(decthings.decode(b""))  # type: ignore[arg-type]
    tens.decode([])[0]  # type: ignore[index]
    tens.encode([t], 1)  # type: ignore[arg-type, call-arg]
    tensorflow.decode(b"", limit="1 GB")  # type: ignore[arg-type]


if __name__ == "__main__":
    tensors()
    formats()
    with tempfile.TemporaryDirectory() as folder:
        files(folder)
    functions()
