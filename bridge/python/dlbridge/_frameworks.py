"""Measures, in this process, how a framework accepts tensors of dlbridge, for `python -m dlbridge`.

`python -m dlbridge._frameworks NAME COLUMN...` writes lines of JSON, `[column, text]`, each as soon as it is known. A framework that
ends the process, or never returns, therefore leaves what was measured before. NAME is one of FRAMEWORKS, or "library" for the
Go library, which has no columns.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module, metadata
from typing import Any, NamedTuple

import dlbridge
from dlbridge import _core


class Framework(NamedTuple):
    """How a framework takes a tensor, where an array of it lies, how it makes an array of four float32, and how dlbridge takes it.

    `take` gets the module of the framework, a producer, and options for the framework's from_dlpack; `address` and `give` get the
    module and an array; `make` gets the module.
    """

    take: Callable[..., Any]
    address: Callable[[Any, Any], int]
    make: Callable[[Any], Any]
    give: Callable[[Any, Any], Any] = lambda _, array: array
    distributions: tuple[str, ...] = ()  # the names on PyPI, if they differ from that of the module
    by_dlpack: bool = True  # False: `take` uses the buffer protocol, or methods of Tensor


def _in_capsule(take: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns a `take` for a framework whose function takes a capsule, not a producer."""
    return lambda module, x, **options: take(module)(x.__dlpack__(), **options)


def _by_dlpack(_: Any, x: Any) -> int:
    return dlbridge.from_dlpack(x).data_ptr


def _pickled(pickle: Any, x: Any) -> Any:
    """Returns a copy of x by pickle with its memory out of band, which then lies on the same memory if pickle does not copy it."""
    buffers: list[Any] = []
    text = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=buffers)


def _series(polars: Any, array: Any) -> Any:
    """Returns a Series of numbers. polars would make a Series of Python objects for other types."""
    series = polars.Series(array)
    if getattr(series.dtype, "inner", series.dtype) == polars.Object:
        raise TypeError(f"polars has no numbers of the type {array.dtype}")
    return series


def _sent_by_dask(x: Any) -> Any:
    protocol = import_module("distributed.protocol")
    return protocol.deserialize(*protocol.serialize(x))


FRAMEWORKS = {
    "numpy": Framework(
        lambda np, x, **options: np.from_dlpack(x, **options),
        lambda np, x: x.__array_interface__["data"][0],
        lambda np: np.ones(4, np.float32),
    ),
    "torch": Framework(
        lambda torch, x, **options: torch.from_dlpack(x, **options),
        lambda torch, x: x.data_ptr(),
        lambda torch: torch.ones(4),
    ),
    "jax": Framework(
        lambda jax, x, **options: import_module("jax.dlpack").from_dlpack(x, **options),
        lambda jax, x: x.unsafe_buffer_pointer(),
        lambda jax: jax.numpy.ones(4, "float32"),
    ),
    "tensorflow": Framework(
        _in_capsule(lambda tf: tf.experimental.dlpack.from_dlpack),
        lambda tf, x: dlbridge.from_dlpack(tf.experimental.dlpack.to_dlpack(x)).data_ptr,
        lambda tf: tf.ones(4),
        distributions=("tensorflow", "tensorflow-cpu"),
    ),
    "tvm_ffi": Framework(
        lambda tvm_ffi, x, **options: tvm_ffi.from_dlpack(x, **options),
        _by_dlpack,
        lambda tvm_ffi: tvm_ffi.from_dlpack(dlbridge.empty(4, "float32")),
        distributions=("apache-tvm-ffi",),
    ),
    "pyarrow": Framework(
        lambda pyarrow, x, **options: pyarrow.Tensor.from_dlpack(x, **options),
        _by_dlpack,
        lambda pyarrow: pyarrow.array([1, 1, 1, 1], pyarrow.float32()),
    ),
    "cupy": Framework(
        lambda cupy, x, **options: cupy.from_dlpack(x, **options),
        lambda cupy, x: x.data.ptr,
        lambda cupy: cupy.ones(4, "float32"),
    ),
    "ml_dtypes": Framework(
        lambda ml_dtypes, x: x.numpy(),
        lambda ml_dtypes, x: x.__array_interface__["data"][0],
        lambda ml_dtypes: import_module("numpy").ones(4, ml_dtypes.bfloat16),
        by_dlpack=False,
    ),
    "paddle": Framework(
        lambda paddle, x, **options: paddle.from_dlpack(x, **options),
        lambda paddle, x: x.data_ptr(),
        lambda paddle: paddle.ones([4]),
        distributions=("paddlepaddle", "paddlepaddle-gpu"),
    ),
    "mlx.core": Framework(
        lambda mx, x, **options: mx.from_dlpack(x, **options),
        _by_dlpack,
        lambda mx: mx.ones(4),
        distributions=("mlx",),
    ),
    "cuda.core": Framework(  # its views need no device, unlike the rest of it
        lambda cuda, x: import_module("cuda.core.utils").StridedMemoryView.from_dlpack(x, -1),
        lambda cuda, x: x.ptr,
        lambda cuda: import_module("cuda.core.utils").StridedMemoryView.from_dlpack(dlbridge.empty(4, "float32"), -1),
        distributions=("cuda-core",),
    ),
    "onnxruntime": Framework(
        lambda ort, x: ort.OrtValue.from_dlpack(x),
        lambda ort, x: x.data_ptr(),
        lambda ort: ort.OrtValue.ortvalue_from_numpy(import_module("numpy").ones(4, "float32")),
        distributions=("onnxruntime", "onnxruntime-gpu"),
    ),
    "polars": Framework(
        lambda polars, x: _series(polars, x.numpy()),
        lambda polars, x: x.to_numpy().__array_interface__["data"][0],
        lambda polars: polars.Series([1, 1, 1, 1], dtype=polars.Float32),
        give=lambda polars, x: x.to_numpy(),
        by_dlpack=False,
    ),
    "distributed": Framework(
        lambda distributed, x: _sent_by_dask(x),
        _by_dlpack,
        lambda distributed: _sent_by_dask(dlbridge.empty(4, "float32")),
        by_dlpack=False,
    ),
    "ray": Framework(
        lambda ray, x: _pickled(ray.cloudpickle, x),
        _by_dlpack,
        lambda ray: _pickled(ray.cloudpickle, dlbridge.empty(4, "float32")),
        by_dlpack=False,
    ),
    "mxnet": Framework(
        _in_capsule(lambda mxnet: mxnet.nd.from_dlpack),
        lambda mxnet, x: dlbridge.from_dlpack(x.to_dlpack_for_read()).data_ptr,
        lambda mxnet: mxnet.nd.ones(4),
    ),
}


class _Recorder:
    """A producer that notes which capsules its consumer asks for."""

    def __init__(self, tensor: dlbridge.Tensor) -> None:
        self.tensor = tensor
        self.asked = "no"

    def __dlpack__(self, **options: Any) -> Any:
        version = options.get("max_version")
        self.asked = "legacy" if version is None else ".".join(map(str, version))
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def _float32() -> dlbridge.Tensor:
    tensor = dlbridge.empty((4, 16), "float32")
    memory = memoryview(tensor).cast("B")
    memory[:] = bytes(len(memory))
    return tensor


def _read_only() -> dlbridge.Tensor:
    """Returns a read-only tensor at an address that is a multiple of 64, because some consumers copy tensors at other addresses."""
    return dlbridge.from_buffer(memoryview(_float32()).toreadonly())


class _Measurement:
    """One framework, and the table's row of it."""

    def __init__(self, framework: Framework, module: Any) -> None:
        self.framework = framework
        self.module = module

    def outcome(self, tensor: dlbridge.Tensor, **options: Any) -> str:
        """Returns "yes" if the framework has an array on the memory of a tensor, "copies", or "no" for an exception.

        It is "changed" if the array has another data type or shape than the tensor.
        """
        try:
            array = self.framework.take(self.module, tensor, **options)
            shared = self.framework.address(self.module, array) == tensor.data_ptr
        except Exception:  # of any type: each framework has its own
            return "no"
        try:
            back = dlbridge.from_dlpack(self.framework.give(self.module, array))
        except Exception:  # of any type: each framework has its own
            back = tensor
        if (back.dtype, back.shape) != (tensor.dtype, tensor.shape):
            return "changed"
        return "yes" if shared else "copies"

    def outcomes(self, tensors: Iterable[dlbridge.Tensor]) -> str:
        """Returns the outcome of all tensors, or, if they differ, how many the framework shares, as "5/8", or copies, as "copies:7/8"."""
        found = [self.outcome(tensor) for tensor in tensors]
        if len(set(found)) == 1:
            return found[0]
        shared = found.count("yes")
        return f"{shared}/{len(found)}" if shared > 0 else f"copies:{found.count('copies')}/{len(found)}"

    def shared(self) -> str:
        return self.outcome(_float32())

    def read_only(self) -> str:
        """Returns "ignored" if the array says that it is writable."""
        tensor = _read_only()
        outcome = self.outcome(tensor)
        if outcome != "yes":
            return outcome
        array = self.framework.give(self.module, self.framework.take(self.module, tensor))
        try:
            readonly = memoryview(array).readonly
        except (BufferError, TypeError, ValueError):
            readonly = dlbridge.from_dlpack(array).readonly
        return "yes" if readonly else "ignored"

    def copy(self) -> str:
        """Returns "alias" if a write to the tensor shows in what from_dlpack(copy=True) returns, "refused" for an exception."""
        if not self.framework.by_dlpack:
            return "-"
        tensor = _float32()
        try:
            array = self.framework.take(self.module, tensor, copy=True)
        except Exception:  # of any type: each framework has its own
            return "refused"
        dlbridge.from_dlpack(array).item(0, 0)  # waits for a copy that has only begun
        tensor.numpy()[:] = 1
        return "alias" if dlbridge.from_dlpack(array).item(0, 0) == 1 else "yes"

    def types(self, names: str) -> str:
        return self.outcomes(dlbridge.empty((4, 64), name) for name in names.split())

    def numbers(self) -> str:
        integers = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
        return self.types(f"bool {integers} float16 float32 float64")

    def complex(self) -> str:
        return self.types("complex64 complex128")

    def bfloat16(self) -> str:
        return self.types("bfloat16")

    def float8(self) -> str:
        kinds = "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu"
        return self.types(" ".join(f"float8_{kind}" for kind in kinds.split()))

    def sub_byte(self) -> str:
        return self.types("float4_e2m1fn float4_e2m1fnx2 float6_e2m3fn float6_e3m2fn int4 uint4")

    def lanes(self) -> str:
        return self.types("float32x4 int8x2")

    def negative(self) -> str:
        return self.outcomes(_float32().flip(axis) for axis in (0, 1))

    def gaps(self) -> str:
        """Measures gaps in rows and between rows, and rows that share their memory."""
        tensor = _float32()
        return self.outcomes([tensor[:, ::2], tensor[:, :8], tensor[0].broadcast_to((4, 16))])

    def column_major(self) -> str:
        return self.outcome(_float32().T)

    def unaligned(self) -> str:
        """Measures a tensor at an address that is a multiple of 16 and not of 64."""
        return self.outcome(dlbridge.empty(68, "float32")[4:])

    def capsule(self) -> str:
        """Returns the version that the framework asks for, "legacy" if it asks for none, or "no" if it does not ask."""
        if not self.framework.by_dlpack:
            return "-"
        recorder = _Recorder(_float32())
        try:
            self.framework.take(self.module, recorder)
        except Exception:  # of any type: each framework has its own
            pass
        return recorder.asked

    def exchange(self) -> str:
        if not self.framework.by_dlpack:
            return "-"
        array = self.framework.make(self.module)
        return "yes" if hasattr(type(array), "__dlpack_c_exchange_api__") else "no"

    def gives(self) -> str:
        """Returns "yes" if dlbridge takes an array of the framework, "read-only" if the Tensor is read-only, or "no"."""
        try:
            tensor = dlbridge.from_dlpack(self.framework.give(self.module, self.framework.make(self.module)))
        except Exception:  # of any type: each framework has its own
            return "no"
        return "read-only" if tensor.readonly else "yes"


# The columns of the table, in the order in which they are measured.
COLUMNS = {
    "shares": _Measurement.shared,
    "read-only": _Measurement.read_only,
    "copy=True": _Measurement.copy,
    "numbers": _Measurement.numbers,
    "complex": _Measurement.complex,
    "bfloat16": _Measurement.bfloat16,
    "float8": _Measurement.float8,
    "sub-byte": _Measurement.sub_byte,
    "lanes": _Measurement.lanes,
    "negative": _Measurement.negative,
    "gaps": _Measurement.gaps,
    "column-major": _Measurement.column_major,
    "unaligned": _Measurement.unaligned,
    "capsule": _Measurement.capsule,
    "C exchange": _Measurement.exchange,
    "gives": _Measurement.gives,
}


def _version(name: str, module: Any) -> str:
    for distribution in FRAMEWORKS[name].distributions or (name,):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return str(getattr(module, "__version__", "unknown"))


def library() -> dict[str, str]:
    """Loads the Go library as the formats do, and returns its path and version."""
    path = os.environ.get("DLBRIDGE_LIBRARY") or os.path.join(os.path.dirname(_core.__file__), "_lib", "libdlbridge.so")
    _core.library_counters()
    version = ctypes.CDLL(path).dlb_version
    version.restype = ctypes.c_char_p
    return {"path": os.path.abspath(path) if os.path.exists(path) else path, "version": version().decode()}


def main(name: str, *columns: str) -> None:
    """Writes the lines for these columns of one framework, or for the library, to the standard output.

    What the framework or the library itself prints goes to the standard error.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(column: str, text: str) -> None:
        print(json.dumps([column, text]), file=out, flush=True)

    if name == "library":
        try:
            for column, text in library().items():
                write(column, text)
        except (OSError, RuntimeError) as error:
            write("error", str(error))
        return
    framework = FRAMEWORKS[name]
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        write("error", "not found" if error.name in (name, name.partition(".")[0]) else f"cannot be imported: {error}")
        return
    except Exception as error:  # of any type: modules run code when they are imported
        write("error", f"cannot be imported: {type(error).__name__}: {error}")
        return
    write("version", _version(name, module))
    measurement = _Measurement(framework, module)
    for column in columns:
        try:
            write(column, COLUMNS[column](measurement))
        except Exception:  # of any type: each framework has its own
            write(column, "no")


if __name__ == "__main__":
    main(*sys.argv[1:])
