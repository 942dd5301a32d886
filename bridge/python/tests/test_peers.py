"""Exchanges with PyTorch, JAX, TensorFlow and others, both ways. Addresses and writes show that both sides share one memory.

A peer that is not installed is skipped by name; with DLBRIDGE_PEERS=1 it fails.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import operator
import os
import sys
from collections.abc import Callable

import numpy as np
import pytest
from conftest import run_python

import dlbridge
from dlbridge import tens
from dlbridge._frameworks import FRAMEWORKS

pytestmark = pytest.mark.peers


def peer(name: str):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if os.environ.get("DLBRIDGE_PEERS") == "1":
            pytest.fail(f"{name} cannot be imported: {error}")
        pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def torch():
    return peer("torch")


@pytest.fixture(scope="module")
def jax():
    module = peer("jax")
    module.config.update("jax_platforms", "cpu")
    module.config.update("jax_enable_x64", True)
    return module


@pytest.fixture(scope="module")
def tf():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    return peer("tensorflow")


def new(shape, dtype="float32") -> tuple[dlbridge.Tensor, np.ndarray]:
    """Returns aligned memory with the values 0, 1, 2, …, as a Tensor and as a NumPy array."""
    tensor = dlbridge.empty(shape, dtype)
    array = np.from_dlpack(tensor)
    array[...] = np.arange(tensor.size).reshape(tensor.shape)
    return tensor, array


def read_only(tensor: dlbridge.Tensor) -> dlbridge.Tensor:
    array = np.from_dlpack(tensor)
    array.flags.writeable = False
    return dlbridge.from_dlpack(array)


# ---- PyTorch ------------------------------------------------------------------------------------------------


def test_torch_aliases_ours_and_we_alias_torch(torch):
    t, a = new((3, 4))
    x = torch.from_dlpack(t)
    assert x.data_ptr() == t.data_ptr and tuple(x.shape) == (3, 4)
    x[1, 2] = -1
    assert a[1, 2] == -1
    a[0, 0] = 50
    assert x[0, 0] == 50
    y = torch.arange(6.0).reshape(2, 3)
    u = dlbridge.from_dlpack(y)
    assert (u.data_ptr, u.shape, u.readonly) == (y.data_ptr(), (2, 3), False)
    memoryview(u)[1, 1] = 9
    assert y[1, 1] == 9
    assert torch.from_dlpack(u).data_ptr() == y.data_ptr()


DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bfloat16 "
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
).split()


@pytest.mark.parametrize("name", DTYPES)
def test_torch_dtypes_keep_their_names(torch, name):
    t = dlbridge.empty((2, 5), name)
    x = torch.from_dlpack(t)
    assert str(x.dtype) == "torch." + name and x.data_ptr() == t.data_ptr
    u = dlbridge.from_dlpack(x)
    assert (u.dtype, u.shape, u.data_ptr) == (name, (2, 5), t.data_ptr)


def test_torch_takes_float4_in_pairs(torch):
    pairs = dlbridge.empty(4, "float4_e2m1fnx2")
    x = torch.from_dlpack(pairs)
    assert str(x.dtype) == "torch.float4_e2m1fn_x2" and x.data_ptr() == pairs.data_ptr
    assert dlbridge.from_dlpack(x).dtype == "float4_e2m1fnx2"
    with pytest.raises((BufferError, RuntimeError)):
        torch.from_dlpack(dlbridge.empty(4, "float4_e2m1fn"))


def test_torch_layouts_come_over(torch):
    base = torch.arange(24.0).reshape(2, 3, 4)
    strided = [base.permute(2, 1, 0), base[:, 1:, ::2], base.transpose(0, 1), base[0].expand(5, 3, 4)]
    for x in (*strided, base[1, 2, 3], base[:0]):
        t = dlbridge.from_dlpack(x)
        assert t.shape == tuple(x.shape)
        assert x.numel() == 0 or (t.data_ptr == x.data_ptr() and t.strides == tuple(x.stride()))
        np.testing.assert_array_equal(np.asarray(memoryview(t)), x.numpy())
        y = torch.from_dlpack(t)
        assert torch.equal(x, y) and (x.numel() == 0 or y.data_ptr() == x.data_ptr())


def test_torch_keeps_its_own_safety_checks(torch):
    with pytest.raises(BufferError, match="grad"):
        dlbridge.from_dlpack(torch.ones(3, requires_grad=True))
    with pytest.raises(BufferError, match="conj"):
        dlbridge.from_dlpack(torch.ones(3, dtype=torch.complex64).conj())
    with pytest.raises((BufferError, NotImplementedError, RuntimeError)):
        dlbridge.from_dlpack(torch.ones(3).to_sparse())


def test_torch_refusals_release_once(torch, c):
    before = c.deletes()
    for strides, fields in [((-1,), {"byte_offset": 12}), ((1,), {"lanes": 4}), ((1,), {"code": 7, "bits": 8})]:
        with pytest.raises((RuntimeError, BufferError, ValueError)):
            torch.from_dlpack(dlbridge.from_dlpack(c.new_capsule((4,), strides, **fields)))
        gc.collect()
        before += 1
        assert c.deletes() == before


def test_torch_reads_read_only_memory_in_place(torch):
    t, a = new((4,))
    x = torch.from_dlpack(read_only(t))
    assert x.data_ptr() == t.data_ptr
    a[2] = 77
    assert x[2] == 77


def test_torch_copies_when_asked(torch):
    t, a = new((4,))
    x = torch.from_dlpack(t, copy=True)
    assert x.data_ptr() != t.data_ptr
    x[0] = 5
    assert a[0] == 0
    assert torch.from_dlpack(t, copy=False, device="cpu").data_ptr() == t.data_ptr
    y = torch.ones(3)
    assert dlbridge.from_dlpack(y, copy=True).data_ptr != y.data_ptr()


def test_torch_memory_lives_as_long_as_either(torch):
    x = torch.arange(5.0)
    t = dlbridge.from_dlpack(x)
    del x
    gc.collect()
    assert memoryview(t).tolist() == [0, 1, 2, 3, 4]
    y = torch.from_dlpack(t)
    t.close()
    gc.collect()
    assert y.tolist() == [0, 1, 2, 3, 4]


def test_torch_tensors_travel_in_messages(torch):
    x = torch.arange(12.0).reshape(3, 4)
    b = torch.ones(2, 2, dtype=torch.bfloat16)
    frames = tens.encode([x, x.T, b], metadata={"from": "torch"})
    message = tens.decode(frames)
    for i, original in enumerate((x, x.T, b)):
        y = torch.from_dlpack(message.tensors[i])
        assert y.data_ptr() == original.data_ptr() and y.stride() == original.stride()
        assert torch.equal(y, original)
    torch.from_dlpack(message.tensors[0])[0, 0] = 42
    assert x[0, 0] == 42


def test_wrap_converts_to_torch(torch, c):
    add = dlbridge.wrap(ctypes.CDLL(str(c.path)).fixture_add, args=["tensor", "tensor"], returns="tensor", to=torch.from_dlpack)
    x, y = torch.arange(4.0), torch.ones(4)
    z = add(x, y)
    assert isinstance(z, torch.Tensor)
    assert z.data_ptr() == x.data_ptr() and x.tolist() == [1, 2, 3, 4]


# ---- JAX ----------------------------------------------------------------------------------------------------


def test_jax_aliases_our_memory(jax):
    t, a = new((3, 4))
    x = jax.dlpack.from_dlpack(t, copy=False)
    assert x.unsafe_buffer_pointer() == t.data_ptr and x.shape == (3, 4)
    a[1, 1] = 100
    assert float(x[1, 1]) == 100


def test_we_alias_jax(jax):
    x = jax.numpy.arange(6, dtype=jax.numpy.float32).reshape(2, 3)
    t = dlbridge.from_dlpack(x)
    assert (t.data_ptr, t.shape, t.dtype) == (x.unsafe_buffer_pointer(), (2, 3), "float32")
    assert t.readonly  # jax exports the legacy form, which does not state writability
    assert np.from_dlpack(t).tolist() == x.tolist()
    back = jax.dlpack.from_dlpack(t, copy=False)
    assert back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()


@pytest.mark.parametrize("name", DTYPES)
def test_jax_dtypes_keep_their_names(jax, name):
    t = dlbridge.empty((2, 32), name)
    x = jax.dlpack.from_dlpack(t, copy=False)
    assert x.dtype.name == name and x.unsafe_buffer_pointer() == t.data_ptr
    u = dlbridge.from_dlpack(x)
    assert (u.dtype, u.data_ptr) == (name, t.data_ptr)


def test_jax_takes_a_tensor_wherever_it_takes_arrays_of_other_packages(jax):
    t, a = new((4, 16))
    x = jax.numpy.asarray(t)
    assert x.unsafe_buffer_pointer() == t.data_ptr and jax.numpy.array(t).unsafe_buffer_pointer() != t.data_ptr
    assert (jax.numpy.ones((4, 16)) + t == a + 1).all() and (t * jax.numpy.ones(16) == a).all()
    assert jax.numpy.asarray(t.T).shape == (16, 4)
    for view in (t[:, ::2], t.flip(), t[0].broadcast_to((3, 16))):
        assert jax.numpy.asarray(view).tolist() == view.tolist()
    b = t.convert("bfloat16")
    assert jax.numpy.asarray(b).unsafe_buffer_pointer() == b.data_ptr
    t.close()
    with pytest.raises(ValueError, match="the tensor is closed"):
        jax.numpy.asarray(t)
    a[0, 0] = 5
    assert x[0, 0] == 5


def test_jax_reads_read_only_memory_in_place(jax):
    t, a = new((4,))
    x = jax.dlpack.from_dlpack(read_only(t))
    assert x.unsafe_buffer_pointer() == t.data_ptr
    a[2] = 77
    assert x[2] == 77


def test_jax_refusals_release_once(jax, c):
    before = c.deletes()
    for shape, strides, fields in [
        ((4,), (-1,), {"byte_offset": 12}),
        ((2, 2), (4, 1), {}),
        ((4,), (0,), {}),
        ((4,), (1,), {"lanes": 2}),
        ((4,), (1,), {"code": 17, "bits": 4}),
    ]:
        with pytest.raises((RuntimeError, BufferError, ValueError)):
            jax.dlpack.from_dlpack(dlbridge.from_dlpack(c.new_capsule(shape, strides, legacy=1, **fields)))
        gc.collect()
        before += 1
        assert c.deletes() == before


def test_jax_takes_tensors_whose_producer_had_no_deleter(jax, c):
    managed = c.managed((64,), (1,), null_deleter=1, legacy=1)
    t = dlbridge.from_dlpack(c.capsule(managed, 1))
    x = jax.dlpack.from_dlpack(t)
    assert x.tolist() == list(range(64))
    del x
    t.close()
    gc.collect()
    c.free(managed)


def test_jax_arrays_travel_in_messages(jax):
    x = jax.numpy.arange(32.0).reshape(4, 8)
    frames = tens.encode([x])
    message = tens.decode(frames)
    assert message.tensors[0].data_ptr == x.unsafe_buffer_pointer()
    assert message.tensors[0].readonly
    writable = tens.decode([bytearray(f) for f in frames]).tensors[0]
    assert jax.dlpack.from_dlpack(writable).tolist() == x.tolist()


# ---- TensorFlow ------------------------------------------------------------------------------------------------


def test_tensorflow_aliases_our_memory(tf):
    t, a = new((3, 4))
    x = tf.experimental.dlpack.from_dlpack(t.__dlpack__())
    assert x.shape == (3, 4)
    a[2, 3] = 100
    assert x.numpy()[2, 3] == 100
    back = dlbridge.from_dlpack(tf.experimental.dlpack.to_dlpack(x))
    assert back.data_ptr == t.data_ptr


def test_we_alias_tensorflow(tf):
    x = tf.constant(np.arange(6, dtype=np.int64).reshape(2, 3))
    first = dlbridge.from_dlpack(tf.experimental.dlpack.to_dlpack(x))
    again = dlbridge.from_dlpack(x)
    assert first.data_ptr == again.data_ptr
    assert (first.dtype, first.shape, first.readonly) == ("int64", (2, 3), True)
    assert np.from_dlpack(first).tolist() == [[0, 1, 2], [3, 4, 5]]
    del x
    gc.collect()
    assert memoryview(first).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_tensorflow_cannot_have_read_only_memory(tf):
    t, _ = new((4,))
    with pytest.raises(BufferError, match="read-only"):
        tf.experimental.dlpack.from_dlpack(read_only(t).__dlpack__())


def test_tensorflow_takes_tensors_that_came_with_an_offset(tf, c):
    t = dlbridge.from_dlpack(c.new_capsule((4,), (1,), byte_offset=64, legacy=1))
    assert tf.experimental.dlpack.from_dlpack(t.__dlpack__()).numpy().tolist() == [16, 17, 18, 19]


def test_tensorflow_refusals_release_once(tf, c):
    before = c.deletes()
    for shape, strides, fields in [
        ((4,), (-1,), {"byte_offset": 12}),
        ((2, 2), (1, 2), {}),
        ((4,), (0,), {}),
        ((8,), (1,), {"code": 10, "bits": 8}),
    ]:
        capsule = dlbridge.from_dlpack(c.new_capsule(shape, strides, legacy=1, **fields)).__dlpack__()
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.experimental.dlpack.from_dlpack(capsule)
        del capsule
        gc.collect()
        before += 1
        assert c.deletes() == before


def test_tensorflow_tensors_travel_in_messages(tf):
    x = tf.reshape(tf.range(12, dtype=tf.float32), (3, 4))
    message = tens.decode(tens.encode([x]))
    assert message.tensors[0].data_ptr == dlbridge.from_dlpack(x).data_ptr
    # A frame may be at any address. Operators of TensorFlow abort, without a check, on memory that is not aligned to 64
    # bytes. A copy is aligned.
    aligned = dlbridge.from_dlpack(message.tensors[0], copy=True)
    y = tf.experimental.dlpack.from_dlpack(aligned.__dlpack__())
    assert bool(tf.reduce_all(tf.equal(x, y)))


# ---- all at once -------------------------------------------------------------------------------------------------


def test_one_memory_in_every_library(torch, jax, tf):
    t, a = new((4, 16))
    views = {
        "numpy": lambda: a[2, 3],
        "torch": lambda x=torch.from_dlpack(t): x[2, 3].item(),
        "jax": lambda x=jax.dlpack.from_dlpack(t, copy=False): float(x[2, 3]),
        "tensorflow": lambda x=tf.experimental.dlpack.from_dlpack(t.__dlpack__()): x.numpy()[2, 3],
    }
    memoryview(t)[2, 3] = 1234
    assert {name: float(read()) for name, read in views.items()} == dict.fromkeys(views, 1234.0)
    references = sys.getrefcount(t)
    views.clear()
    gc.collect()
    assert sys.getrefcount(t) == references


# ---- pyarrow, MLX, cuda.core, ONNX Runtime, polars ---------------------------------------------------------
#
# FRAMEWORKS says how each framework accepts a tensor and gives an array. These tests also compare the elements.

ELEMENTS: dict[str, Callable] = {
    "pyarrow": lambda x: x.to_numpy(),
    "mlx.core": np.array,
    "cuda.core": np.from_dlpack,
    "onnxruntime": lambda x: x.numpy(),
    "polars": lambda x: x.to_numpy(),
}
each_framework = pytest.mark.parametrize("name", ELEMENTS)


def take(name: str, tensor: dlbridge.Tensor):
    return FRAMEWORKS[name].take(peer(name), tensor)


@each_framework
def test_frameworks_read_what_we_write(name):
    t, a = new((3, 64))
    x = take(name, t)
    assert ELEMENTS[name](x).tolist() == a.tolist()
    a[1, 1] = 1000
    copied = name == "mlx.core"  # MLX does not share memory of the CPU; with copy=False it raises a ValueError
    assert ELEMENTS[name](x)[1, 1] == (65 if copied else 1000)
    assert copied == (FRAMEWORKS[name].address(peer(name), x) != t.data_ptr)


@each_framework
def test_memory_of_ours_lives_as_long_as_an_array_of_a_framework(name, c):
    t = dlbridge.from_dlpack(c.new_capsule((64,), (1,)))
    before = c.deletes()
    x = take(name, t)
    t.close()
    gc.collect()
    assert c.deletes() == before + (name == "mlx.core")
    assert ELEMENTS[name](x).tolist() == list(range(64))
    del x
    gc.collect()
    assert c.deletes() == before + 1


@each_framework
def test_memory_of_a_framework_lives_as_long_as_ours(name):
    array = FRAMEWORKS[name].make(peer(name))
    t = dlbridge.from_dlpack(FRAMEWORKS[name].give(peer(name), array))
    assert t.data_ptr == FRAMEWORKS[name].address(peer(name), array)
    elements = t.tolist()
    del array
    gc.collect()
    assert t.tolist() == elements and len(elements) == 4


@each_framework
@pytest.mark.parametrize("name_of_type", "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())
def test_frameworks_keep_the_names_of_types(name, name_of_type):
    t, _ = new((2, 64), name_of_type)
    back = dlbridge.from_dlpack(FRAMEWORKS[name].give(peer(name), take(name, t)))
    kept = "float32" if (name, name_of_type) == ("mlx.core", "float64") else name_of_type  # MLX has float64 for some devices only
    assert (back.dtype, back.shape, back.tolist()) == (kept, (2, 64), t.tolist())


@pytest.mark.parametrize(
    ("name", "strides", "fields"),
    [
        ("pyarrow", (1,), {"lanes": 4}), ("pyarrow", (1,), {"code": 4, "bits": 16}),
        ("mlx.core", (1,), {"lanes": 4}), ("mlx.core", (-1,), {"byte_offset": 12}), ("mlx.core", (1,), {"code": 10, "bits": 8}),
        ("onnxruntime", (1,), {"lanes": 4}), ("onnxruntime", (2,), {}), ("onnxruntime", (1,), {"code": 5, "bits": 64}),
    ],
)  # fmt: skip
def test_refusals_of_frameworks_release_once(name, strides, fields, c):
    before = c.deletes()
    t = dlbridge.from_dlpack(c.new_capsule((4,), strides, **fields))
    with pytest.raises((BufferError, RuntimeError, TypeError, ValueError)):
        take(name, t)
    del t
    gc.collect()
    assert c.deletes() == before + 1


def test_onnxruntime_cannot_have_read_only_memory():
    with pytest.raises(BufferError, match="read-only"):
        take("onnxruntime", read_only(new((4,))[0]))


def test_cuda_core_passes_on_the_flag_for_read_only_memory():
    t, _ = new((4,))
    for tensor, readonly in ((t, False), (read_only(t), True)):
        view = take("cuda.core", tensor)
        assert view.readonly == readonly == dlbridge.from_dlpack(view).readonly


# ---- what would be lost without a word -------------------------------------------------------------


def test_arrays_of_torch_are_not_compared_silently(torch):
    t = new(3)[0]
    for other in (torch.arange(3.0), torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(3)), torch.Size([3])):
        refuses_comparison(t, other)


def test_jax_compares_elements_on_its_side(jax):
    t = new(3)[0]
    for other in (jax.numpy.arange(3.0), jax.random.key(0)):
        with pytest.raises(TypeError, match="does not compare its elements"):
            t == other  # noqa: B015
    assert (jax.numpy.arange(3.0) == t).all() and not (jax.numpy.arange(3.0) != t).any()


def test_tensorflow_compares_elements_on_its_side(tf):
    t = new(3)[0]
    with pytest.raises(TypeError, match="does not compare its elements"):
        t == tf.range(3.0)  # noqa: B015
    assert (tf.range(3.0) == t).numpy().all()


def refuses_comparison(t: dlbridge.Tensor, other) -> None:
    for compare in (operator.eq, operator.ne):
        for pair in ((t, other), (other, t)):
            with pytest.raises(TypeError, match=r"does not compare its elements with those of .*; compare t.item\(\), t.tolist\(\) or t.numpy"):
                compare(*pair)


def test_arithmetic_in_place_with_an_array_of_torch_is_refused(torch):
    t, array = new(3)
    before = array.copy()
    with pytest.raises(TypeError, match="no arithmetic in place"):
        t += torch.ones(3)
    assert (array == before).all()


def test_tensors_of_torch_with_more_than_numbers_are_refused(torch):
    scaled = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    masked = torch.masked.masked_tensor(torch.arange(3.0), torch.tensor([True, False, True]))
    for tensor in (torch.eye(3).to_sparse(), scaled, torch.ones(3, dtype=torch.complex64).conj(), torch.ones(3, device="meta"), masked):
        with pytest.raises((BufferError, ValueError)):
            dlbridge.from_dlpack(tensor)


def test_an_array_of_jax_on_several_devices_is_refused():
    script = """
        import os
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
        os.environ["JAX_PLATFORMS"] = "cpu"
        import dlbridge, jax, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        sharded = jax.device_put(np.arange(4.0), NamedSharding(Mesh(jax.devices(), "x"), PartitionSpec("x")))
        try:
            print(dlbridge.from_dlpack(sharded))
        except Exception as error:
            print(type(error).__name__)
    """
    peer("jax")
    assert run_python(script) in ("BufferError\n", "ValueError\n", "RuntimeError\n")
