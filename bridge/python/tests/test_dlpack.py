"""The DLPack protocol."""

from __future__ import annotations

import copy
import ctypes
import gc
import itertools
import pickle
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from conftest import Producer, run_python
from formats import VALUES

import dlbridge

READ_ONLY, IS_COPIED, PADDED = 1, 2, 4
SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 1, 4, 8, 0x18  # PyBUF_*
NUMPY_DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
).split()
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, FULL = 0x38, 0x58, 0x98, 0x11C


def describe(c, capsule):
    """Returns the fields of the versioned managed tensor in a capsule."""
    assert c.capsule_name(capsule) == b"dltensor_versioned"
    return c.describe(c.capsule_pointer(capsule))


# ---- import ------------------------------------------------------------------------------------------


def test_from_dlpack_aliases_numpy_both_ways():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    t = dlbridge.from_dlpack(a)
    assert (t.shape, t.strides, t.ndim, t.size) == ((3, 4), (4, 1), 2, 12)
    assert (t.itemsize, t.nbytes, t.dtype, t.device) == (4, 48, "float32", (1, 0))
    assert t.readonly is False
    assert t.data_ptr == a.ctypes.data
    a[1, 2] = 99
    assert memoryview(t)[1, 2] == 99
    memoryview(t)[0, 0] = -5
    assert a[0, 0] == -5


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_every_numpy_dtype_crosses_both_ways(name):
    a = np.ones((2, 3), dtype=name)
    t = dlbridge.from_dlpack(a)
    assert t.dtype == name
    b = t.numpy()
    assert b.dtype == a.dtype and b.ctypes.data == a.ctypes.data
    b[1, 1] = 0
    assert a[1, 1] == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a[::2],
        lambda a: a[:, 1:3],
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: np.broadcast_to(a[0], (5, 6)),
        lambda a: a[:0],
        lambda a: a[1, 1:1],
        lambda a: a[2, 3, ...],
        lambda a: a[:, None, 2:3],
    ],
    ids="rows columns transposed reversed both broadcast empty empty-1d rank-0 size-1".split(),
)
def test_strided_views_keep_layout_and_memory(make):
    a = make(np.arange(24, dtype=np.int32).reshape(4, 6))
    t = dlbridge.from_dlpack(a)
    b = t.numpy()
    np.testing.assert_array_equal(b, a)
    assert t.shape == a.shape
    if a.size:
        assert t.data_ptr == b.ctypes.data == a.ctypes.data
        assert [s for s, n in zip(t.strides, t.shape) if n > 1] == [
            s // 4 for s, n in zip(a.strides, a.shape) if n > 1
        ]
    np.testing.assert_array_equal(np.asarray(memoryview(t)), a)


def test_random_views_agree_with_numpy():
    rng = np.random.default_rng(7)
    base = np.arange(4 * 5 * 6 * 7, dtype=np.int16).reshape(4, 5, 6, 7)
    for _ in range(500):
        slices = []
        for n in base.shape:
            step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
            slices.append(slice(None, None, step) if rng.random() < 0.5 else slice(*sorted(rng.integers(0, n + 1, 2))))
        view = base[tuple(slices)].transpose(rng.permutation(4))
        t = dlbridge.from_dlpack(view)
        np.testing.assert_array_equal(np.from_dlpack(t), view)
        copied = dlbridge.from_dlpack(t, copy=True)
        np.testing.assert_array_equal(np.asarray(memoryview(copied)), view)


def test_null_strides_are_row_major_in_any_version(c):
    for minor, legacy in [(0, 0), (3, 0), (0, 1)]:
        t = dlbridge.from_dlpack(c.new_capsule((2, 3, 4), None, minor=minor, legacy=legacy))
        assert t.strides == (12, 4, 1)
        exported = describe(c, t.__dlpack__(max_version=(1, 3)))
        assert exported["strides"] == (12, 4, 1)


def test_rank_0_with_and_without_shape(c):
    for shape, strides in [((), ()), (None, None), ((), None)]:
        t = dlbridge.from_dlpack(c.new_capsule(shape, strides))
        assert (t.shape, t.strides, t.ndim, t.size, t.nbytes) == ((), (), 0, 1, 4)
        a = np.from_dlpack(t)
        assert a.shape == () and a.ctypes.data == t.data_ptr
        assert memoryview(t)[()] == 0.0


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2**62)])
@pytest.mark.parametrize("null_data", [0, 1])
def test_tensors_without_elements(c, shape, null_data):
    before = c.deletes()
    t = dlbridge.from_dlpack(c.new_capsule(shape, (1,) * len(shape), null_data=null_data))
    assert (t.size, t.nbytes, t.data_ptr) == (0, 0, 0)
    assert describe(c, t.__dlpack__(max_version=(1, 0)))["data"] == 0
    view = memoryview(t)
    assert view.nbytes == 0 and view.contiguous
    view.release()
    del t
    assert c.deletes() == before + 1


def test_strides_of_size_1_dimensions_pass_through(c):
    t = dlbridge.from_dlpack(c.new_capsule((1, 4, 1), (77, 1, -5)))
    assert t.strides == (77, 1, -5)
    assert describe(c, t.__dlpack__(max_version=(1, 0)))["strides"] == (77, 1, -5)
    assert memoryview(t).c_contiguous


def test_negative_strides_start_at_the_far_end(c):
    t = dlbridge.from_dlpack(c.new_capsule((4,), (-1,), byte_offset=12))
    assert memoryview(t).tolist() == [3.0, 2.0, 1.0, 0.0]
    assert np.from_dlpack(t).tolist() == [3.0, 2.0, 1.0, 0.0]


def test_byte_offset_is_folded_on_the_host(c):
    managed = c.managed((4,), (1,), byte_offset=8)
    start = c.describe(managed)["data"]
    t = dlbridge.from_address(managed)
    assert t.data_ptr == start + 8
    assert memoryview(t).tolist() == [2.0, 3.0, 4.0, 5.0]
    exported = describe(c, t.__dlpack__(max_version=(1, 0)))
    assert (exported["data"], exported["byte_offset"]) == (start + 8, 0)
    assert np.asarray(memoryview(dlbridge.from_dlpack(t, copy=True))).tolist() == [2.0, 3.0, 4.0, 5.0]


def test_device_memory_is_carried_and_never_read(c):
    for kind, number in [(2, 0), (2, 5), (8, 0), (19, 1), (20, 0), (21, 7), (22, 0), (99, -3)]:
        t = dlbridge.from_dlpack(c.new_capsule(device_type=kind, device_id=number, byte_offset=16))
        assert t.device == t.__dlpack_device__() == (kind, number)
        exported = describe(c, t.__dlpack__(max_version=(1, 0), stream=-1))
        assert exported["device"] == (kind, number)
        assert exported["byte_offset"] == 16 and exported["data"] + 16 == t.data_ptr
        with pytest.raises(BufferError, match="host"):
            memoryview(t)
        with pytest.raises(BufferError, match="device type"):
            t.__dlpack__(max_version=(1, 0), copy=True)


@pytest.mark.parametrize("kind", [3, 11])
def test_page_locked_host_memory_is_host_memory(c, kind):
    t = dlbridge.from_dlpack(c.new_capsule(device_type=kind))
    assert t.device == (kind, 0)
    assert memoryview(t).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("kind", [3, 11])
def test_page_locked_memory_that_is_asked_for_on_the_cpu_is_there(c, kind):
    """No copy is made, whether the producer changes the device, does not know the keyword, or refuses."""

    def obliging(**keywords):
        return c.new_capsule(device_type=keywords.get("dl_device", (kind, 0))[0], data_at=memory.ctypes.data)

    def unknowing(*, max_version=None):
        return c.new_capsule(device_type=kind, data_at=memory.ctypes.data)

    def refusing(**keywords):
        calls.append(keywords)
        if "dl_device" in keywords:
            raise BufferError("not there")
        return unknowing()

    memory, calls = np.arange(4, dtype=np.float32), []
    for answer in (obliging, unknowing, refusing):
        methods = {"__dlpack__": lambda self, **keywords: answer(**keywords), "__dlpack_device__": lambda self: (kind, 0)}
        producer = type("PageLocked", (), methods)()
        if answer is unknowing:
            producer = type("PageLocked", (), methods | {"__dlpack__": staticmethod(unknowing)})()
        for copy in (None, False):
            t = dlbridge.from_dlpack(producer, device="cpu", copy=copy)
            assert (t.device, t.data_ptr, t.readonly) == ((1, 0), memory.ctypes.data, False)
        assert dlbridge.from_dlpack(producer, device="cpu", copy=True).data_ptr != memory.ctypes.data
        assert dlbridge.from_dlpack(producer).device == (kind, 0)
    assert calls[:2] == [{"max_version": (1, 3), "dl_device": (1, 0)}, {"max_version": (1, 3)}]
    t = dlbridge.from_dlpack(unknowing())
    for given in (t, unknowing()):
        assert dlbridge.from_dlpack(given, device=(1, 0)).device == (1, 0)
    assert t.device == (kind, 0)
    for copy in (None, False):
        there = describe(c, t.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=copy))
        assert (there["device"], there["data"]) == ((1, 0), t.data_ptr)
        assert describe(c, t.__dlpack__(max_version=(1, 0)))["device"] == (kind, 0)
    for other in ((2, 0), (10, 0), (14 - kind, 0), (13, 0)):
        with pytest.raises(BufferError, match="not on"):
            t.__dlpack__(dl_device=other)


@pytest.mark.parametrize("kind", [2, 13, 20])
def test_other_memory_of_a_device_is_not_on_the_cpu(c, kind):
    t = dlbridge.from_dlpack(c.new_capsule(device_type=kind))
    for ask in (lambda: t.__dlpack__(dl_device=(1, 0)), lambda: dlbridge.from_dlpack(t, device="cpu")):
        with pytest.raises(BufferError, match=rf"on device \({kind}, 0\), not on \(1, 0\)"):
            ask()
    t.close()  # the exception below is in a cycle with this frame
    refused = BufferError("not there")

    class Refusing:
        calls = 0

        def __dlpack__(self, **keywords):
            Refusing.calls += 1
            raise refused

        def __dlpack_device__(self):
            return (kind, 0)

    with pytest.raises(BufferError) as raised:
        dlbridge.from_dlpack(Refusing(), device="cpu")
    assert raised.value is refused and Refusing.calls == 1


def test_later_minors_and_unknown_flags_are_taken_and_not_passed_on(c):
    t = dlbridge.from_dlpack(c.new_capsule(minor=99, flags=1 << 40 | READ_ONLY))
    exported = describe(c, t.__dlpack__(max_version=(1, 0)))
    assert exported["version"] == (1, 3)
    assert exported["flags"] == READ_ONLY


DTYPES = {
    "bool": (6, 8), "int2": (0, 2), "int4": (0, 4), "int8": (0, 8), "int64": (0, 64), "uint4": (1, 4),
    "uint64": (1, 64), "float16": (2, 16), "float64": (2, 64), "bfloat16": (4, 16), "complex32": (5, 32),
    "complex128": (5, 128), "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8), "float6_e2m3fn": (15, 6), "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4),
    "handle64": (3, 64),
}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_keeps_code_and_bits(c, name):
    code, bits = DTYPES[name]
    t = dlbridge.from_dlpack(c.new_capsule((8,), (1,), code=code, bits=bits))
    assert t.dtype == name
    assert t.itemsize == t.dtype.itemsize == (bits + 7) // 8 and t.nbytes == bits
    assert describe(c, t.__dlpack__(max_version=(1, 0)))["dtype"] == (code, bits, 1)
    made = dlbridge.empty((8,), name)
    assert made.dtype == name and made.nbytes == bits


def test_lanes_are_carried_exactly(c):
    t = dlbridge.from_dlpack(c.new_capsule((4,), (1,), lanes=4))
    assert (t.dtype, t.itemsize, t.dtype.itemsize, t.nbytes) == ("float32x4", 16, 16, 64)
    assert describe(c, t.__dlpack__(max_version=(1, 0)))["dtype"] == (2, 32, 4)
    with pytest.raises(BufferError, match="float32x4"):
        memoryview(t)
    pair = dlbridge.from_dlpack(c.new_capsule((4,), (1,), code=17, bits=4, lanes=2))
    assert (pair.dtype, pair.nbytes) == ("float4_e2m1fnx2", 4)
    single = dlbridge.from_dlpack(c.new_capsule((4,), (1,), code=17, bits=4, lanes=1))
    assert (single.dtype, single.nbytes) == ("float4_e2m1fn", 2)
    assert dlbridge.empty(3, "float4_e2m1fn_x2").dtype == "float4_e2m1fnx2"


def test_packed_and_padded_elements_below_a_byte(c):
    packed = dlbridge.from_dlpack(c.new_capsule((3, 5), (5, 1), code=0, bits=4))
    padded = dlbridge.from_dlpack(c.new_capsule((3, 5), (5, 1), code=0, bits=4, flags=PADDED))
    assert (packed.nbytes, padded.nbytes) == (8, 15)
    assert describe(c, padded.__dlpack__(max_version=(1, 0)))["flags"] == PADDED
    copied = describe(c, padded.__dlpack__(max_version=(1, 0), copy=True))
    assert copied["flags"] == PADDED | IS_COPIED
    with pytest.raises(BufferError, match="padded"):
        padded.__dlpack__()
    assert c.capsule_name(packed.__dlpack__()) == b"dltensor"
    with pytest.raises(ValueError, match="row-major"):
        dlbridge.from_dlpack(c.new_capsule((3, 5), (1, 3), code=0, bits=4))


def test_bfloat16_of_ml_dtypes_crosses_as_bytes():
    a = np.arange(6, dtype=ml_dtypes.bfloat16)
    t = dlbridge.from_buffer(a.view(np.uint16), "bfloat16")
    assert (t.dtype, t.shape, t.data_ptr) == ("bfloat16", (6,), a.ctypes.data)
    back = dlbridge.from_dlpack(t)
    assert back.dtype == "bfloat16" and back.data_ptr == a.ctypes.data
    if not hasattr(np.dtypes, "register_dlpack_dtype"):
        with pytest.raises((RuntimeError, BufferError)):
            np.from_dlpack(t)
        return
    # NumPy 2.5 knows bfloat16 only in a process that has registered it. ml_dtypes 0.6 does not register it.
    script = """
        import dlbridge, ml_dtypes, numpy as np

        np.dtypes.register_dlpack_dtype((4, 16), np.dtype(ml_dtypes.bfloat16))
        a = np.arange(6, dtype=ml_dtypes.bfloat16)
        t = dlbridge.from_dlpack(a)
        assert (t.dtype, t.data_ptr, t.tolist()) == ("bfloat16", a.ctypes.data, [0, 1, 2, 3, 4, 5])
        back = np.from_dlpack(t)
        assert back.dtype == a.dtype and np.shares_memory(back, a)
        print("done")
    """
    assert run_python(script) == "done\n"


# ---- the protocol, as a producer -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, b"dltensor"),
        ((0, 0), b"dltensor"),
        ((0, 8), b"dltensor"),
        ((1, 0), b"dltensor_versioned"),
        ((1, 3), b"dltensor_versioned"),
        ((2, 0), b"dltensor_versioned"),
        ((100, 3), b"dltensor_versioned"),
        ((2**70, 0), b"dltensor_versioned"),
    ],
)
def test_version_is_negotiated(c, version, name):
    t = dlbridge.empty(4, "int8")
    capsule = t.__dlpack__(max_version=version)
    assert c.capsule_name(capsule) == name
    if name == b"dltensor_versioned":
        assert describe(c, capsule)["version"] == (1, 3)


def test_what_was_asked_before_decides_nothing(c):
    t = dlbridge.empty(4, "int8")
    closed = dlbridge.empty(4, "int8")
    closed.close()

    def ask(tensor, *args):
        if args == (constant,):
            capsule = tensor.__dlpack__(max_version=args[0])
        elif len(args) == 1:
            capsule = tensor.__dlpack__(copy=args[0])
        else:  # all calls pass the same tuple of keywords
            version, device, copy = args
            capsule = tensor.__dlpack__(max_version=version, dl_device=device, copy=copy)
        name = c.capsule_name(capsule)
        shared = name != b"dltensor_versioned" or describe(c, capsule)["data"] == t.data_ptr
        return name, shared

    constant = (1, 0)
    calls = [
        ((t, constant, None, None), (b"dltensor_versioned", True)),
        ((t, None, None, None), (b"dltensor", True)),
        ((t, constant, None, True), (b"dltensor_versioned", False)),
        ((t, constant, None, False), (b"dltensor_versioned", True)),
        ((t, constant, (1, 0), None), (b"dltensor_versioned", True)),
        ((t, constant, (2, 0), None), BufferError),
        ((t, [1, 0], None, None), TypeError),
        ((t, (0, 8), None, None), (b"dltensor", True)),
        ((t, constant, None, 1), TypeError),
        ((closed, constant, None, None), ValueError),
        ((t, constant), (b"dltensor_versioned", True)),
        ((t, None), (b"dltensor", True)),
        ((t, False), (b"dltensor", True)),
        ((t, "cpu"), ValueError),
        ((closed, constant), ValueError),
    ]
    for first, second in itertools.product(calls, repeat=2):
        for arguments, expected in (first, first, second, second):
            if isinstance(expected, tuple):
                assert ask(*arguments) == expected
            else:
                with pytest.raises(expected):
                    ask(*arguments)


def test_only_the_name_of_a_capsule_decides(c):
    for name in (b"dltensor2", b"arrow_array", b"", None):
        with pytest.raises(TypeError, match="capsule"):
            dlbridge.from_dlpack(c.bare_capsule(8, name))


def test_read_only_memory_needs_a_versioned_consumer(c):
    a = np.arange(4.0)
    a.flags.writeable = False
    t = dlbridge.from_dlpack(a)
    assert t.readonly is True
    for version in (None, (0, 5)):
        with pytest.raises(BufferError, match="read-only"):
            t.__dlpack__(max_version=version)
    assert describe(c, t.__dlpack__(max_version=(1, 0)))["flags"] == READ_ONLY
    b = t.numpy()
    assert not b.flags.writeable and b.ctypes.data == a.ctypes.data
    assert memoryview(t).readonly
    with pytest.raises(TypeError):
        memoryview(t)[0] = 1.0


def test_unstated_writability_is_readonly_but_goes_on_as_it_came(c):
    t = dlbridge.from_dlpack(c.new_capsule(legacy=1))
    assert t.readonly is True
    assert memoryview(t).readonly
    assert c.capsule_name(t.__dlpack__()) == b"dltensor"
    assert describe(c, t.__dlpack__(max_version=(1, 0)))["flags"] == READ_ONLY
    copied = dlbridge.from_dlpack(t, copy=True)
    assert copied.readonly is False


def test_tvm_ffi_imports_by_the_table_and_takes_read_only():
    a = np.arange(4, dtype=np.float32)
    t = dlbridge.from_dlpack(a)
    x = tvm_ffi.from_dlpack(t)
    assert x.data_ptr() == a.ctypes.data
    a[2] = 9
    assert np.from_dlpack(x)[2] == 9
    a.flags.writeable = False
    readonly = dlbridge.from_dlpack(a)
    assert tvm_ffi.from_dlpack(readonly).data_ptr() == a.ctypes.data


def test_copy_has_three_states(c):
    a = np.arange(6, dtype=np.int32)
    t = dlbridge.from_dlpack(a)
    for copy in (None, False):
        exported = describe(c, t.__dlpack__(max_version=(1, 0), copy=copy))
        assert (exported["data"], exported["flags"]) == (a.ctypes.data, 0)
        assert dlbridge.from_dlpack(a, copy=copy).data_ptr == a.ctypes.data
    exported = describe(c, t.__dlpack__(max_version=(1, 0), copy=True))
    assert exported["data"] != a.ctypes.data
    assert exported["flags"] == IS_COPIED
    b = np.from_dlpack(t, copy=True)
    assert b.ctypes.data != a.ctypes.data and b.flags.writeable
    b[:] = 0
    assert a.tolist() == [0, 1, 2, 3, 4, 5]
    copied = dlbridge.from_dlpack(a, copy=True)
    memoryview(copied)[0] = 70
    assert a[0] == 0
    assert describe(c, copied.__dlpack__(max_version=(1, 0)))["flags"] == 0  # the capsule aliases the copy
    legacy = t.__dlpack__(copy=True)
    assert c.capsule_name(legacy) == b"dltensor"


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t[1:],
        lambda t: t.copy(),
        lambda t: copy.copy(t),
        lambda t: pickle.loads(pickle.dumps(t)),
        lambda t: t.T.contiguous(),
        lambda t: t.T.reshape(6),
        lambda t: t.T.ravel(),
        lambda t: t.convert("int8"),
        lambda t: t.astype("float64"),
        lambda t: dlbridge.from_dlpack(t, copy=True),
        lambda t: dlbridge.from_dlpack(t.numpy(), copy=True),
        lambda t: dlbridge.from_buffer(t.tobytes(), "int32", 6),
        lambda t: dlbridge.shm.copy(t),
        *[lambda t, format=format: format.decode(format.encode(t), copy=True) for format in VALUES],
        lambda t: dlbridge.tens.decode(dlbridge.tens.encode([t], spread=8), join=True).tensors[0],
    ],
)
def test_only_an_export_that_is_a_copy_has_the_flag(c, make):
    t = make(dlbridge.from_dlpack(np.arange(6, dtype=np.int32).reshape(2, 3)))
    for export in (t.__dlpack__(max_version=(1, 0)), t.__dlpack__(max_version=(1, 0), copy=False)):  # shares the memory with t
        assert (describe(c, export)["data"], describe(c, export)["flags"] & IS_COPIED) == (t.data_ptr, 0)
    export = t.__dlpack__(max_version=(1, 0), copy=True)
    assert describe(c, export)["data"] != t.data_ptr and describe(c, export)["flags"] == IS_COPIED
    assert dlbridge.from_dlpack(t, copy=False).data_ptr == t.data_ptr


def test_copy_of_read_only_memory_is_writable():
    a = np.arange(4.0)
    a.flags.writeable = False
    copied = dlbridge.from_dlpack(dlbridge.from_dlpack(a), copy=True)
    assert copied.readonly is False
    assert copied.__dlpack__() is not None


def test_dl_device_of_the_same_device_is_nothing(c):
    t = dlbridge.empty((2, 2), "float32")
    assert describe(c, t.__dlpack__(max_version=(1, 0), dl_device=(1, 0)))["data"] == t.data_ptr
    for device in [(2, 0), (3, 0), (99, 0), (2**40, 0)]:
        with pytest.raises(BufferError):
            t.__dlpack__(max_version=(1, 0), dl_device=device)
    assert dlbridge.from_dlpack(t, device="cpu").data_ptr == t.data_ptr
    assert dlbridge.from_dlpack(t, device=(1, 0)).data_ptr == t.data_ptr
    with pytest.raises(BufferError):
        dlbridge.from_dlpack(t, device=(2, 0))
    assert np.from_dlpack(t, device="cpu", copy=False).ctypes.data == t.data_ptr


def test_streams(c):
    t = dlbridge.empty(4, "int8")
    for stream in (None, -1):
        assert t.__dlpack__(stream=stream) is not None
    for stream in (0, 1, 2, -2, 12345, 2**80):
        with pytest.raises(ValueError, match="stream"):
            t.__dlpack__(stream=stream)
    cuda = dlbridge.from_dlpack(c.new_capsule(device_type=2))
    for stream in (None, -1, 1):
        assert cuda.__dlpack__(max_version=(1, 0), stream=stream) is not None
    with pytest.raises(ValueError):
        cuda.__dlpack__(max_version=(1, 0), stream=0)
    with pytest.raises(BufferError, match="synchronise"):
        cuda.__dlpack__(max_version=(1, 0), stream=140000)
    rocm = dlbridge.from_dlpack(c.new_capsule(device_type=10))
    assert rocm.__dlpack__(max_version=(1, 0), stream=0) is not None
    with pytest.raises(ValueError):
        rocm.__dlpack__(max_version=(1, 0), stream=1)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda t: t.__dlpack__(None), TypeError),
        (lambda t: t.__dlpack__(strem=None), TypeError),
        (lambda t: t.__dlpack__(stream="1"), TypeError),
        (lambda t: t.__dlpack__(stream=1.0), TypeError),
        (lambda t: t.__dlpack__(max_version=1), TypeError),
        (lambda t: t.__dlpack__(max_version=(1,)), TypeError),
        (lambda t: t.__dlpack__(max_version=(1, 2, 3)), TypeError),
        (lambda t: t.__dlpack__(max_version=("1", "0")), TypeError),
        (lambda t: t.__dlpack__(max_version=(1.0, 0)), TypeError),
        (lambda t: t.__dlpack__(max_version=[1, 0]), TypeError),
        (lambda t: t.__dlpack__(dl_device=1), TypeError),
        (lambda t: t.__dlpack__(dl_device=(1,)), TypeError),
        (lambda t: t.__dlpack__(dl_device=("cpu", 0)), TypeError),
        (lambda t: t.__dlpack__(copy=1), TypeError),
        (lambda t: t.__dlpack__(copy="no"), ValueError),  # as NumPy
        (lambda t: t.__dlpack_device__(1), TypeError),
        (lambda t: dlbridge.from_dlpack(), TypeError),
        (lambda t: dlbridge.from_dlpack(t, None), TypeError),
        (lambda t: dlbridge.from_dlpack(t, nonsense=1), TypeError),
        (lambda t: dlbridge.from_dlpack(t, copy=1), TypeError),
        (lambda t: dlbridge.from_dlpack(t, device=1), TypeError),
        (lambda t: dlbridge.from_dlpack(t, device="gpu"), ValueError),
        (lambda t: dlbridge.from_dlpack([1, 2]), AttributeError),
        (lambda t: dlbridge.from_dlpack(None), AttributeError),
        (lambda t: dlbridge.from_address("x"), TypeError),
        (lambda t: dlbridge.from_address(0), ValueError),
        (lambda t: dlbridge.from_address(1001), ValueError),
        (lambda t: dlbridge.from_address(-8), ValueError),
        (lambda t: dlbridge.from_address(8), ValueError),
        (lambda t: dlbridge.from_address(4088), ValueError),
        (lambda t: dlbridge.from_address(2**64 - 8), ValueError),
        (lambda t: dlbridge.from_address(2**64), ValueError),
        (lambda t: dlbridge.to_address([3]), TypeError),
        (lambda t: dlbridge.empty((2, 2)), TypeError),
        (lambda t: dlbridge.empty((2, 2), np.ones(2)), TypeError),
        (lambda t: dlbridge.empty("22", "int8"), TypeError),
        (lambda t: dlbridge.empty((2.0,), "int8"), TypeError),
        (lambda t: dlbridge.empty((-1,), "int8"), ValueError),
        (lambda t: dlbridge.empty((2**32, 2**32), "int8"), ValueError),
        (lambda t: dlbridge.empty((2**70,), "int8"), ValueError),
        (lambda t: dlbridge.empty((1,) * 300, "int8"), ValueError),
        (lambda t: dlbridge.empty((2**62,), "int8"), MemoryError),
        (lambda t: dlbridge.empty(1, "float31"), TypeError),
        (lambda t: dlbridge.empty(1, "float32x0"), TypeError),
        (lambda t: dlbridge.empty(1, "float32x65536"), TypeError),
        (lambda t: dlbridge.empty(1, "float32\0"), TypeError),
        (lambda t: dlbridge.Tensor(), TypeError),
        (lambda t: type("Sub", (dlbridge.Tensor,), {}), TypeError),
    ],
)
def test_wrong_arguments_raise_the_right_error(call, error):
    with pytest.raises(error):
        call(dlbridge.empty(4, "int8"))


def test_our_objects_have_both_methods_and_capsules_are_taken(c):
    t = dlbridge.empty((2, 2), "float32")
    for version in (None, (1, 0)):
        capsule = t.__dlpack__(max_version=version)
        again = dlbridge.from_dlpack(capsule)
        assert again.data_ptr == t.data_ptr
        assert c.capsule_name(capsule).startswith(b"used_dltensor")
    assert t.__dlpack_device__() == (1, 0)


def test_a_capsule_is_consumed_once(c):
    for legacy in (0, 1):
        before = c.deletes()
        capsule = c.new_capsule(legacy=legacy)
        t = dlbridge.from_dlpack(capsule)
        name = c.capsule_name(capsule)
        assert name == (b"used_dltensor" if legacy else b"used_dltensor_versioned")
        with pytest.raises(ValueError, match="consumed"):
            dlbridge.from_dlpack(capsule)
        del capsule
        assert c.deletes() == before
        del t
        assert c.deletes() == before + 1


@pytest.mark.parametrize("legacy", [0, 1])
@pytest.mark.parametrize(
    ("fields", "arguments"),
    [({}, {"device": (2, 0)}), ({"device_type": 2}, {"device": "cpu"}), ({"device_type": 2}, {"copy": True})],
)
def test_a_capsule_on_the_wrong_device_still_owns_its_tensor(c, legacy, fields, arguments):
    before, live = c.deletes(), dlbridge.counters()
    capsule = c.new_capsule(legacy=legacy, **fields)
    with pytest.raises(BufferError):
        dlbridge.from_dlpack(capsule, **arguments)
    assert c.capsule_name(capsule) == (b"dltensor" if legacy else b"dltensor_versioned")
    assert (c.deletes(), dlbridge.counters()) == (before, live)
    t = dlbridge.from_dlpack(capsule)
    del capsule
    assert c.deletes() == before
    t.close()
    assert c.deletes() == before + 1


# ---- the protocol, as a consumer ---------------------------------------------------------------------


def test_from_dlpack_asks_with_the_version_and_only_what_was_given(c):
    p = Producer(c.new_capsule)
    dlbridge.from_dlpack(p)
    dlbridge.from_dlpack(p, copy=False)
    dlbridge.from_dlpack(p, device=(1, 0))
    dlbridge.from_dlpack(p, device="cpu", copy=True)
    assert p.calls == [
        {"max_version": (1, 3)},
        {"max_version": (1, 3), "copy": False},
        {"max_version": (1, 3), "dl_device": (1, 0)},
        {"max_version": (1, 3)},  # dlbridge makes the copy
    ]


def test_a_producer_without_the_keyword_gets_one_more_call(c):
    class Old:
        calls = 0

        def __dlpack__(self, stream=None):
            Old.calls += 1
            return c.new_capsule(legacy=1)

    t = dlbridge.from_dlpack(Old())
    assert (Old.calls, t.shape, t.readonly) == (1, (4,), True)
    copied = dlbridge.from_dlpack(Old(), device="cpu", copy=True)
    assert copied.readonly is False and Old.calls == 2

    class Older:
        def __dlpack__(self):
            return c.new_capsule(legacy=1)

    assert dlbridge.from_dlpack(Older()).shape == (4,)


@pytest.mark.parametrize(
    "text", ["inner", "unexpected keyword argument 'max_version'", "takes 1 positional argument"]
)
def test_a_type_error_from_inside_is_not_retried(text):
    class Broken:
        calls = 0

        def __dlpack__(self, *, max_version=None):
            Broken.calls += 1
            raise TypeError(text)

    with pytest.raises(TypeError, match=text):
        dlbridge.from_dlpack(Broken())
    assert Broken.calls == 1


def test_other_errors_of_the_producer_are_passed_on():
    for error in (BufferError("no"), KeyError("no"), RuntimeError("no")):

        class Broken:
            calls = 0

            def __dlpack__(self, **keywords):
                Broken.calls += 1
                raise error

        with pytest.raises(type(error)):
            dlbridge.from_dlpack(Broken())
        assert Broken.calls == 1


def test_the_method_of_a_subclass_or_an_object_is_called_also_if_it_is_set_later():
    class Array(np.ndarray):
        pass

    shape = lambda producer: dlbridge.from_dlpack(producer).shape
    plain, threes, fives = np.zeros(2), np.zeros(3), np.zeros(5)
    array = plain.view(Array)
    assert (shape(plain), shape(array)) == ((2,), (2,))
    Array.__dlpack__ = lambda self, **keywords: threes.__dlpack__()
    assert (shape(plain), shape(array)) == ((2,), (3,))
    array.__dlpack__ = fives.__dlpack__
    assert (shape(plain), shape(array)) == ((2,), (5,))
    with pytest.raises(BufferError):
        shape(np.array(["text"]))


def test_a_producer_that_returns_no_capsule_is_a_type_error():
    with pytest.raises(TypeError, match="not a capsule"):
        dlbridge.from_dlpack(Producer(lambda: 42))


def test_copy_true_is_a_copy_whatever_the_producer_does(c):
    shared = np.arange(4, dtype=np.float32)
    heedless = Producer(lambda: shared.__dlpack__(max_version=(1, 0)))
    liar = Producer(lambda: c.new_capsule(flags=IS_COPIED, data_at=shared.ctypes.data))
    for producer in (heedless, liar, liar.make(), shared, dlbridge.from_dlpack(liar)):
        t = dlbridge.from_dlpack(producer, copy=True)
        again = dlbridge.from_dlpack(t, copy=True), t.copy(), dlbridge.from_dlpack(t.__dlpack__(max_version=(1, 0)), copy=True)
        shared += 1
        assert all((x - shared == -1).all() for x in (t.numpy(), *(u.numpy() for u in again)))
        t.numpy()[:] = 7
        assert all((x.numpy() == shared - 1).all() for x in again)


def on_device(c, **answers):
    """Returns a producer on (2, 1) that exports as `answers` describes, for a request for its memory or for a copy."""

    class Device(Producer):
        def __dlpack__(self, **keywords):
            self.calls.append(keywords)
            answer = {"device_type": 2, "device_id": 1} | answers["copy" if keywords.get("copy") else "memory"]
            return c.new_capsule((4,), (1,), **answer)

    return Device(None, (2, 1))


@pytest.mark.parametrize("flags", [0, IS_COPIED])
@pytest.mark.parametrize(("at", "offset"), [(0x5000, 0), (0x500C, 0), (0x4FF4, 0), (0x4000, 0x1000)])
def test_a_copy_on_a_device_is_one_only_if_it_lies_apart(c, flags, at, offset):
    asked = [{"max_version": (1, 3)}, {"max_version": (1, 3), "copy": True}]
    before = c.deletes()
    p = on_device(c, memory={"data_at": 0x5000}, copy={"data_at": at, "byte_offset": offset, "flags": flags})
    with pytest.raises(BufferError, match=r"own memory although copy=True was passed.*device \(2, 1\); make the copy with its own"):
        dlbridge.from_dlpack(p, copy=True)
    assert (p.calls, c.deletes()) == (asked, before + 2)
    apart = on_device(c, memory={"data_at": 0x5000}, copy={"data_at": 0x5010, "flags": flags})
    with dlbridge.from_dlpack(apart, copy=True) as t:
        assert (t.data_ptr, t.device, apart.calls, c.deletes()) == (0x5010, (2, 1), asked, before + 3)
    assert c.deletes() == before + 4


def test_a_copy_that_a_device_puts_elsewhere_is_refused(c):
    p = on_device(c, memory={"data_at": 0x5000}, copy={"data_at": 0x6000, "device_id": 3})
    with pytest.raises(BufferError, match=r"on device \(2, 3\), not on \(2, 1\)"):
        dlbridge.from_dlpack(p, device="cuda:1", copy=True)
    with pytest.raises(BufferError, match="device"):  # it has no keyword copy, so nobody can copy it
        dlbridge.from_dlpack(type("Old", (), {"__dlpack__": lambda self, *, max_version=None: c.new_capsule(device_type=2)})(), copy=True)


def test_copy_false_refuses_what_was_copied(c):
    before = c.deletes()
    with pytest.raises(BufferError, match="copy=False"):
        dlbridge.from_dlpack(Producer(lambda: c.new_capsule(flags=IS_COPIED)), copy=False)
    assert c.deletes() == before + 1


def test_a_producer_on_another_device_than_asked_is_a_buffer_error(c):
    before = c.deletes()
    with pytest.raises(BufferError, match="device"):
        dlbridge.from_dlpack(Producer(lambda: c.new_capsule(device_type=2)), device="cpu")
    assert c.deletes() == before + 1


def test_exports_are_independent():
    a = np.arange(4.0)
    t = dlbridge.from_dlpack(a)
    arrays = [np.from_dlpack(t) for _ in range(10)]
    assert dlbridge.counters()["exports"] == 10
    t.close()
    arrays[0][0] = 42
    assert all(x[0] == 42 and x.ctypes.data == a.ctypes.data for x in arrays)
    for expected in range(9, -1, -1):
        arrays.pop()
        assert dlbridge.counters()["exports"] == expected


def test_references():
    a = np.arange(4.0)
    start = sys.getrefcount(a)
    t = dlbridge.from_dlpack(a)
    assert sys.getrefcount(a) == start + 1
    ours = sys.getrefcount(t)
    capsule = t.__dlpack__()
    assert sys.getrefcount(t) == ours  # a capsule refers to the memory, not to the Tensor
    del capsule
    b = np.from_dlpack(t)
    assert sys.getrefcount(t) == ours and sys.getrefcount(a) == start + 1
    del t
    assert sys.getrefcount(a) == start + 1
    del b
    assert sys.getrefcount(a) == start


# ---- addresses ----------------------------------------------------------------------------------------


def test_addresses_go_both_ways(c):
    a = np.arange(4, dtype=np.float32)
    address = dlbridge.to_address(a)
    exported = c.describe(address)
    assert (exported["data"], exported["shape"], exported["flags"]) == (a.ctypes.data, (4,), 0)
    t = dlbridge.from_address(address)
    memoryview(t)[3] = 7
    assert a[3] == 7


def test_to_address_ends_with_the_deleter(c):
    a = np.arange(4, dtype=np.float32)
    start = sys.getrefcount(a)
    address = dlbridge.to_address(a)
    assert sys.getrefcount(a) == start + 1
    c.delete(address)
    assert sys.getrefcount(a) == start


def test_exports_always_have_a_deleter(c):
    managed = c.managed(null_deleter=1)
    t = dlbridge.from_address(managed)
    assert c.deleter(c.capsule_pointer(t.__dlpack__(max_version=(1, 0)))) is not None
    address = dlbridge.to_address(t)
    assert c.deleter(address) is not None
    del t
    c.delete(address)
    c.free(managed)


def test_memory_of_ours_is_aligned_and_writable():
    for shape, dtype in itertools.product([(), 1, (3, 5), (0,), [2, 2]], ["bool", "float64", "bfloat16"]):
        t = dlbridge.empty(shape, dtype)
        assert t.data_ptr % 256 == 0 and t.readonly is False
    assert dlbridge.empty(shape=(2, 3), dtype="int8").strides == (3, 1)
    assert dlbridge.empty(5, "int8").shape == (5,)


# ---- buffers --------------------------------------------------------------------------------------------


def test_from_buffer_aliases_any_buffer():
    b = bytearray(b"\x01\x02\x03\x04")
    t = dlbridge.from_buffer(b)
    assert (t.dtype, t.shape, t.readonly) == ("uint8", (4,), False)
    memoryview(t)[0] = 9
    assert b[0] == 9
    b[1] = 8
    assert memoryview(t)[1] == 8
    with pytest.raises(BufferError):
        b.append(1)  # the buffer is held
    del t
    b.append(1)
    assert dlbridge.from_buffer(b"abc").readonly is True


def test_from_buffer_reads_bytes_anew():
    b = bytearray(24)
    assert dlbridge.from_buffer(b, "float32").shape == (6,)
    assert dlbridge.from_buffer(b, dtype="int16", shape=(3, 4)).strides == (4, 1)
    assert dlbridge.from_buffer(b, shape=(4, 6)).dtype == "uint8"
    assert dlbridge.from_buffer(b, "float4_e2m1fn", 48).nbytes == 24
    assert dlbridge.from_buffer(bytearray(4), "float32", ()).shape == ()
    assert dlbridge.from_buffer(b, "float4_e2m1fn").shape == dlbridge.from_buffer(b, "int4").shape == (48,)
    assert dlbridge.from_buffer(np.zeros((4, 6), "u1"), "int8").shape == (4, 6)
    assert dlbridge.from_buffer(b, shape=np.int64(24)).shape == (24,)
    for dtype, shape in [("float64", (4,)), ("int8", (25,)), ("complex128", None)]:
        with pytest.raises(ValueError, match="bytes"):
            dlbridge.from_buffer(b, dtype, shape)


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_buffers_have_struct_letters_like_numpy(name):
    a = np.ones((2, 3), dtype=name)
    t = dlbridge.from_buffer(a)
    assert t.dtype == name and t.data_ptr == a.ctypes.data
    assert memoryview(t).format == memoryview(a).format
    b = np.asarray(memoryview(t))
    assert b.dtype == a.dtype and b.ctypes.data == a.ctypes.data


def test_from_buffer_never_reads_references_to_objects_as_numbers():
    fields = np.zeros(2, [("Offset", "f8"), ("value", "O")])
    for objects in np.array([object()]), fields:
        for arguments in ("uint64",), ("uint8", (objects.nbytes,)):
            with pytest.raises(BufferError, match="references to objects"):
                dlbridge.from_buffer(objects, *arguments)
        with pytest.raises(BufferError, match="DLPack has no dtype"):
            dlbridge.from_buffer(objects, shape=(2, 1))
    numbers = np.zeros(2, [("Offset", "f8"), ("O", "f8")])
    assert dlbridge.from_buffer(numbers, "float64").shape == (4,)


def test_from_buffer_takes_ctypes_and_strided_arrays():
    values = (ctypes.c_int64 * 3)(1, 2, 3)
    t = dlbridge.from_buffer(values)
    assert (t.dtype, t.data_ptr) == ("int64", ctypes.addressof(values))
    a = np.arange(24, dtype=np.int16).reshape(4, 6)[::-2, ::3]
    t = dlbridge.from_buffer(a)
    assert (t.strides, t.data_ptr) == ((-12, 3), a.ctypes.data)
    assert memoryview(t).tolist() == a.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros(3, dtype=[("a", "i4"), ("b", "f4")]),
        lambda: np.zeros(3, dtype="S5"),
        lambda: np.zeros(3, dtype=np.longdouble),
        lambda: np.zeros(3, dtype=">f4"),
        lambda: np.zeros(3, dtype=[("a", "i1"), ("b", "i4")])["b"],
        lambda: memoryview(b"abc").cast("c"),
    ],
    ids="struct bytes longdouble byteorder odd-stride char".split(),
)
def test_from_buffer_refuses_what_dlpack_cannot_carry(make):
    with pytest.raises(BufferError):
        dlbridge.from_buffer(make())


class PyBuffer(ctypes.Structure):
    """C: Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


def test_from_buffer_refuses_a_buffer_whose_shape_needs_more_than_it_has():
    memory = ctypes.create_string_buffer(8)
    shape, strides = (ctypes.c_ssize_t * 2)(100, 100), (ctypes.c_ssize_t * 2)(100, 1)
    of = ctypes.pythonapi.PyMemoryView_FromBuffer
    of.restype, of.argtypes = ctypes.py_object, [ctypes.POINTER(PyBuffer)]
    lying = PyBuffer(ctypes.addressof(memory), None, 8, 1, 0, 2, b"B", shape, strides)
    view = of(ctypes.byref(lying))
    with pytest.raises(ValueError, match="the buffer has 8 bytes, but its shape requires 10000"):
        dlbridge.from_buffer(view)


def test_a_shape_whose_length_raises_passes_that_on():
    class Interrupted:
        def __len__(self):
            raise KeyboardInterrupt

        def __getitem__(self, i):
            return 1

    with pytest.raises(KeyboardInterrupt):
        dlbridge.empty(Interrupted(), "int8")


@pytest.mark.parametrize("asks", [{"device": "cpu"}, {"device": "cuda:0", "copy": True, "stream": 5}])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, KeyError])
def test_only_an_exception_of_dlpack_device_is_dropped(asks, error):
    class Kind:
        @property
        def value(self):
            raise error

    class Refusing:
        def __dlpack__(self, **keywords):
            raise BufferError("not exported")

        def __dlpack_device__(self):
            raise error

    class Typed(Refusing):
        def __dlpack_device__(self):
            return Kind(), 0

    for producer in (Refusing(), Typed()):
        with pytest.raises(BufferError if error is KeyError else error):
            dlbridge.from_dlpack(producer, **asks)


def test_an_interrupted_view_of_an_array_of_ml_dtypes_is_an_interrupt():
    class Interrupted(np.ndarray):
        def view(self, *arguments):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dlbridge.from_dlpack(np.ndarray.view(np.zeros(3, ml_dtypes.bfloat16), Interrupted))


def test_from_buffer_of_no_buffer_is_a_type_error():
    with pytest.raises(TypeError):
        dlbridge.from_buffer([1, 2, 3])


def test_buffer_layouts_and_requests(c):
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    row, column = dlbridge.from_dlpack(a), dlbridge.from_dlpack(a.T)
    gaps = dlbridge.from_dlpack(a[:, ::2])
    assert memoryview(row).c_contiguous and not memoryview(row).f_contiguous
    assert memoryview(column).f_contiguous and memoryview(column).strides == (4, 16)
    assert not memoryview(gaps).contiguous and memoryview(gaps).tolist() == a[:, ::2].tolist()
    assert bytes(memoryview(column)) == a.T.tobytes()
    granted = {
        SIMPLE: [row], FORMAT: [row], ND: [row], WRITABLE: [row], C_CONTIGUOUS: [row], F_CONTIGUOUS: [column],
        ANY_CONTIGUOUS: [row, column], STRIDES: [row, column, gaps], FULL | WRITABLE: [row, column, gaps],
    }  # fmt: skip
    for flags, tensors in granted.items():
        for t in (row, column, gaps):
            if t not in tensors:
                with pytest.raises(BufferError):
                    c.buffer(t, flags)
                continue
            data, size, form, ndim, shape, strides, suboffsets = c.buffer(t, flags)
            assert (data, size, ndim) == (t.data_ptr, t.nbytes, 2 if flags & ND else 1)
            assert form == ("i" if flags & FORMAT else None)
            assert shape == (t.shape if flags & ND else None)
            assert strides == (tuple(4 * s for s in t.strides) if flags & STRIDES == STRIDES else None)
            assert suboffsets is None


def test_a_buffer_without_a_shape_has_at_most_one_dimension(c):
    """Consumers use the shape of a buffer with several dimensions, such as the memoryview that __buffer__ returns."""
    for shape, ndim in [((), 0), ((0,), 1), ((6,), 1), ((2, 3), 1), ((2, 0, 3), 1), ((1,) * 64, 1)]:
        t = dlbridge.empty(shape, "float32")
        for flags in (SIMPLE, FORMAT, WRITABLE, FORMAT | WRITABLE):
            assert c.buffer(t, flags)[3:] == (ndim, None, None, None)
        assert c.buffer(t, FULL)[3:5] == (len(shape), shape if shape else None)


def test_overlapping_memory_cannot_be_written_through_a_buffer(c):
    for shape, strides in [((4,), (0,)), ((3, 3), (1, 1)), ((2, 2), (0, 1))]:
        t = dlbridge.from_dlpack(c.new_capsule(shape, strides))
        assert memoryview(t).readonly
        with pytest.raises(BufferError, match="overlap"):
            c.buffer(t, FULL | WRITABLE)
    for shape, strides in [((4,), (1,)), ((3, 2), (-2, 1)), ((2, 3), (1, 2)), ((3, 2), (8, 4))]:
        t = dlbridge.from_dlpack(c.new_capsule(shape, strides, byte_offset=256))
        assert not memoryview(t).readonly


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4", "float4_e2m1fn", "complex32", "float32x2"])
def test_dtypes_without_a_letter_have_no_buffer(name):
    with pytest.raises(BufferError, match=name):
        memoryview(dlbridge.empty(4, name))


def test_65_dimensions_have_no_buffer(c):
    t = dlbridge.from_dlpack(c.new_capsule((1,) * 65, (1,) * 65))
    assert t.ndim == 65
    with pytest.raises(BufferError):
        memoryview(t)
    assert memoryview(dlbridge.from_dlpack(c.new_capsule((1,) * 64, (1,) * 64))).ndim == 64


# ---- the object -----------------------------------------------------------------------------------------


def test_close_ends_the_tensor_and_not_what_was_exported():
    a = np.arange(4.0)
    with dlbridge.from_dlpack(a) as t:
        b = t.numpy()
    t.close()  # a second call has no effect
    b[0] = 5
    assert a[0] == 5
    uses = [
        *(lambda t, name=name: getattr(t, name) for name in
          "shape strides ndim size itemsize nbytes dtype device readonly data_ptr".split()),
        lambda t: t.__dlpack__(),
        lambda t: t.__dlpack__(max_version=(1, 0)),
        lambda t: t.__dlpack__(max_version=(1, 0), copy=True),
        lambda t: t.__dlpack_device__(),
        lambda t: memoryview(t),
        lambda t: dlbridge.from_dlpack(t),
        lambda t: dlbridge.from_dlpack(t, copy=True),
        lambda t: dlbridge.to_address(t),
        lambda t: t.__enter__(),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(ValueError, match="closed"):
            use(t)
    assert repr(t) == "<closed dlbridge.Tensor, float64(4,)>"


def test_buffers_outlive_close():
    loans = dlbridge.counters()["loans"]
    with dlbridge.from_buffer(bytearray(b"abcd")) as t:
        views = [memoryview(t), np.asarray(t), np.frombuffer(t, np.uint8)]
    assert t.closed and not dlbridge.empty(1, "int8").closed
    with pytest.raises(ValueError, match="closed"):
        memoryview(t)
    del t
    gc.collect()
    assert [bytes(view) for view in views] == [b"abcd"] * 3
    assert dlbridge.counters()["loans"] == loans + 1
    views.clear()
    gc.collect()
    assert dlbridge.counters()["loans"] == loans


def test_repr_says_what_it_is():
    assert repr(dlbridge.from_buffer(bytearray(24), "float32", (2, 3))) == "<dlbridge.Tensor, float32(2, 3):\n[[0., 0., 0.],\n [0., 0., 0.]]>"
    a = np.arange(6, dtype=np.int8).reshape(2, 3).T
    a.flags.writeable = False
    assert repr(dlbridge.from_dlpack(a)) == (
        "<dlbridge.Tensor, int8(3, 2), strides (1, 3), read-only:\n[[0, 3],\n [1, 4],\n [2, 5]]>"
    )


def test_memory_that_is_not_there_is_told_in_bytes():
    with pytest.raises(MemoryError, match=f"^dlbridge: empty: no memory for {2**62} bytes$"):
        dlbridge.empty((2**30, 2**30), "float32")


def test_numpy_and_bytes_take_a_tensor_as_a_buffer():
    a = np.arange(6, dtype=np.int16).reshape(2, 3)
    t = dlbridge.from_dlpack(a)
    assert np.asarray(t).ctypes.data == a.ctypes.data
    assert bytes(t) == a.tobytes()


def closed():
    t = dlbridge.empty(3, "float32")
    t.close()
    return t


# Tensors that cannot become an array, with the reason.
NO_BUFFER = {
    "closed": (closed, ValueError, "tensor is closed"),
    **{
        dtype: (
            lambda dtype=dtype: dlbridge.empty(3, dtype),
            BufferError,
            f"buffers have no format for {dtype}|neither NumPy nor ml_dtypes has {dtype}",
        )
        for dtype in ("complex32", "float32x4")
    },
    "rank": (lambda: dlbridge.empty((1,) * 65, "int8"), BufferError, "more than 64 dimensions"),
}
AS_ARRAY = {
    "asarray": np.asarray,
    "asarray with a dtype": lambda t: np.asarray(t, dtype=np.float64),
    "asarray without a copy": lambda t: np.asarray(t, copy=False),
    "asarray with a copy": lambda t: np.asarray(t, copy=True),
    "array": np.array,
    "array without a copy": lambda t: np.array(t, copy=False),
    "array if needed": lambda t: np.array(t, copy=None, dtype=np.int8),
    "array of objects": lambda t: np.array(t, dtype=object),
    "a list": lambda t: np.array([t]),
    "a list of two": lambda t: np.array([dlbridge.empty(3, "float32"), t]),
    "lists": lambda t: np.array([[t], [t]]),
    "stack": lambda t: np.stack([t, t]),
    "concatenate": lambda t: np.concatenate([t, t]),
    "ascontiguousarray": np.ascontiguousarray,
    "a sum": np.sum,
    "a ufunc": lambda t: np.add(t, 1),
    "an array on the left": lambda t: np.zeros(3) + t,
    "assignment": lambda t: np.zeros(3).__setitem__(slice(None), t),
    "frombuffer": np.frombuffer,
    "memoryview": memoryview,
    "bytearray": bytearray,
    "__array__": lambda t: t.__array__(),
    "__array__ with arguments": lambda t: t.__array__(np.float32, copy=True),
}


@pytest.mark.parametrize("how", AS_ARRAY)
@pytest.mark.parametrize("what", NO_BUFFER)
def test_a_tensor_without_a_buffer_is_an_error_and_no_array_of_objects(how, what):
    make, error, text = NO_BUFFER[what]
    with pytest.raises(error, match=text):
        AS_ARRAY[how](make())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "float4_e2m1fn"])
@pytest.mark.parametrize("how", ["frombuffer", "memoryview", "bytearray"])
def test_a_type_without_a_struct_letter_has_no_buffer(how, dtype):
    text = rf"buffer: Python's buffers have no format for {dtype}; use view\('uint8'\) or tobytes\(\) for the bytes, or pass the tensor to a consumer of DLPack"
    with pytest.raises(BufferError, match=text):
        AS_ARRAY[how](dlbridge.empty(3, dtype))


def test_memory_that_is_not_the_hosts_is_no_array(c):
    t = dlbridge.from_address(c.managed(device_type=2))
    text = r"not in the host; dlbridge\.from_dlpack\(x, device='cpu', copy=True\) asks the producer x for a copy on the CPU"
    with pytest.raises(BufferError, match=text):
        np.asarray(t)


@pytest.mark.parametrize("protocol", [lambda t, *a, **k: np.array(t, *a, **k), lambda t, *a, **k: t.__array__(*a, **k)])
def test_numpy_copies_a_tensor_when_it_is_asked_to(protocol):
    a = np.arange(6, dtype=np.int16).reshape(2, 3)
    t = dlbridge.from_dlpack(a)
    for same in (protocol(t, copy=False), protocol(t, copy=None), protocol(t, np.int16, copy=False)):
        assert (same.ctypes.data, same.shape, same.dtype) == (a.ctypes.data, (2, 3), np.int16)
        same[0, 0] += 1
    assert a[0, 0] == 3
    for copied in (protocol(t, copy=True), protocol(t, np.int16, copy=True), protocol(t, np.float32, copy=None)):
        assert copied.ctypes.data != a.ctypes.data and copied.tolist() == a.tolist()
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        protocol(t, np.float32, copy=False)
    a.flags.writeable = False
    assert not protocol(dlbridge.from_dlpack(a), copy=False).flags.writeable


def test_array_takes_what_numpy_passes():
    t = dlbridge.from_buffer(bytes(8), "int8")
    assert t.__array__().dtype == np.int8
    assert t.__array__(None, None).dtype == t.__array__(dtype=None).dtype == np.int8
    for wrong in ({"other": 1}, {"dtype": np.int8, "device": "cpu"}):
        with pytest.raises(TypeError, match="__array__: unexpected keyword"):
            t.__array__(**wrong)
    with pytest.raises(TypeError, match="positional"):
        t.__array__(None, None, None)


def test_the_extension_does_not_claim_to_work_without_the_gil():
    """The extension does not claim to work without the GIL, so a free-threaded Python enables the GIL on import."""
    init = ctypes.PyDLL(dlbridge._core.__file__).PyInit__core
    init.restype = ctypes.c_void_p
    m_slots = 72  # its place in PyModuleDef
    slot = ctypes.c_void_p.from_address(init() + m_slots).value
    found = []
    while number := ctypes.c_int.from_address(slot).value:
        found.append(number)
        slot += 16
    py_mod_exec, py_mod_gil = 2, 4
    assert py_mod_exec in found
    assert py_mod_gil not in found


# ---- arrays of Arrow -----------------------------------------------------------------------------------


class Arrow(ctypes.Structure):
    """The base class of ArrowArray and ArrowSchema, the structs of Arrow's C data interface, whose last fields are alike."""

    def release(self):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.end)(ctypes.addressof(self))
        assert not self.end

    def moved(self):
        """Moves the struct as a consumer does: the old struct needs no release afterwards."""
        copied = type(self).from_buffer_copy(self)
        self.end = None
        return copied


class ArrowSchema(Arrow):
    pass


class ArrowArray(Arrow):
    pass


END = [("dictionary", ctypes.c_void_p), ("end", ctypes.c_void_p), ("private", ctypes.c_void_p)]
ArrowSchema._fields_ = [
    *((name, ctypes.c_char_p) for name in ("format", "name", "metadata")),
    *((name, ctypes.c_int64) for name in ("flags", "n_children")),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))), *END,
]  # fmt: skip
ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))), *END,
]  # fmt: skip


def arrow(t):
    """Moves the schema and the array of a tensor out of their capsules."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    schema, array = t.__arrow_c_array__()
    return ArrowSchema.from_address(get(schema, b"arrow_schema")).moved(), ArrowArray.from_address(get(array, b"arrow_array")).moved()


@pytest.mark.parametrize(
    ("dtype", "letter"),
    list(zip("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split(), "csilCSILefg", strict=True)),
)
def test_an_array_of_arrow_is_on_the_memory_of_the_tensor(dtype, letter):
    t = dlbridge.empty(5, dtype)
    schema, array = arrow(t)
    assert (schema.format, schema.name, schema.n_children, schema.flags) == (letter.encode(), b"", 0, 2)
    assert (array.length, array.null_count, array.offset, array.n_buffers, array.n_children) == (5, 0, 0, 2, 0)
    assert (array.buffers[0], array.buffers[1]) == (None, t.data_ptr)
    schema.release()
    array.release()


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 1, 2), (0,), (3, 0), (0, 3), (1,) * 64])
def test_dimensions_are_lists_of_arrow(shape):
    t = dlbridge.empty(shape, "int16")
    schema, array = arrow(t)
    part, elements = schema, array
    for d in range(1, len(shape)):
        assert (part.format, part.n_children, elements.n_children, elements.n_buffers) == (b"+w:%d" % shape[d], 1, 1, 1)
        assert elements.length == int(np.prod(shape[:d]))
        part, elements = part.children[0].contents, elements.children[0].contents
        assert part.name == b"item"
    assert (part.format, part.n_children, elements.n_children, elements.length) == (b"s", 0, 0, t.size)
    assert elements.buffers[1] == t.data_ptr or (t.size == 0 and elements.buffers[1])
    schema.release()
    array.release()


def test_an_array_of_arrow_holds_the_memory_until_it_is_released(c):
    before = c.deletes()
    t = dlbridge.from_dlpack(c.new_capsule((2, 3), (3, 1)))
    capsules = t.__arrow_c_array__()
    schema, array = arrow(t)
    t.close()
    schema.release()
    del capsules  # no consumer has taken them over
    assert c.deletes() == before
    child = array.children[0].contents.moved()
    array.release()
    assert c.deletes() == before and ctypes.c_float.from_address(child.buffers[1] + 20).value == 5
    release = threading.Thread(target=child.release)
    release.start()
    release.join()
    assert c.deletes() == before + 1


@pytest.mark.parametrize(
    "view", [lambda t: t.T, lambda t: t[:, ::2], lambda t: t.flip(), lambda t: t[0].broadcast_to((4, 6)), lambda t: t[2]]
)
def test_elements_are_copied_for_arrow_unless_they_are_row_major(view):
    t = view(dlbridge.from_dlpack(np.arange(24, dtype=np.int32).reshape(4, 6)))
    schema, array = arrow(t)
    elements = array if t.ndim == 1 else array.children[0].contents
    assert (ctypes.c_int32 * t.size).from_address(elements.buffers[1])[:] == np.asarray(t).ravel().tolist()
    assert (elements.buffers[1] == t.data_ptr) == (t.ndim == 1)
    schema.release()
    array.release()


def test_unaligned_elements_are_copied_for_arrow():
    t = dlbridge.from_buffer(bytes(range(9)), "int64", 1, offset=1)
    schema, array = arrow(t)
    assert array.buffers[1] % 8 == 0 and ctypes.c_int64.from_address(array.buffers[1]).value == t.item()
    schema.release()
    array.release()


def test_what_arrow_lacks_is_refused(c):
    for t, text in [
        (dlbridge.empty(3, "bool"), r"Arrow stores a bool as one bit; pass tensor.numpy\(\)"),
        (dlbridge.empty(3, "bfloat16"), r"Arrow has no type bfloat16; use tensor.convert\(\)"),
        (dlbridge.empty(3, "complex64"), "Arrow has no type complex64"),
        (dlbridge.empty(3, "float32x4"), "Arrow has no type float32x4"),
        (dlbridge.empty(3, "int4"), "Arrow has no type int4"),
        (dlbridge.from_dlpack(2.5), "0 dimensions, not 1 to 64; reshape it"),
        (dlbridge.empty((1,) * 65, "int8"), "65 dimensions"),
        (dlbridge.empty((0, 2**31), "int8"), r"shape\[1\] is 2147483648, too large for a list of Arrow"),
        (dlbridge.from_dlpack(c.new_capsule(device_type=2)), "not in the host"),
    ]:
        with pytest.raises(BufferError, match=text):
            t.__arrow_c_array__()
        t.close()
        with pytest.raises(ValueError, match="the tensor is closed"):
            t.__arrow_c_array__()
    t = dlbridge.empty(3, "int8")
    assert len(t.__arrow_c_array__(None)) == len(t.__arrow_c_array__(requested_schema=None)) == 2
    with pytest.raises(TypeError, match="__arrow_c_array__: unexpected keyword"):
        t.__arrow_c_array__(schema=None)


@pytest.mark.parametrize("kind", [dlbridge.Tensor, type(dlbridge.wrap(ctypes.CFUNCTYPE(None)(lambda: None)))])
def test_types_are_immutable(kind):
    api = getattr(kind, "__dlpack_c_exchange_api__", None)
    for change in (
        lambda: setattr(kind, "__dlpack_c_exchange_api__", None),
        lambda: setattr(kind, "mine", 1),
        lambda: setattr(kind, "__module__", "mine"),
        lambda: delattr(kind, "__dlpack_c_exchange_api__"),
        lambda: delattr(kind, "__repr__"),
        lambda: type.__setattr__(kind, "mine", 1),
        lambda: setattr(kind, "__class__", type("Meta", (type,), {})),
        kind,
        lambda: kind.__new__(kind),
        lambda: object.__new__(kind),
        lambda: type("Mine", (kind,), {}),
    ):
        with pytest.raises(TypeError):
            change()
    assert getattr(kind, "__dlpack_c_exchange_api__", None) is api
    assert "mine" not in vars(kind)


def test_a_gibibyte_crosses_without_being_touched():
    big = np.zeros(1 << 28, dtype=np.float32)
    t = dlbridge.from_dlpack(big)
    assert t.data_ptr == np.from_dlpack(t).ctypes.data == big.ctypes.data


# ---- the C exchange API ---------------------------------------------------------------------------------


@pytest.fixture
def table(c):
    capsule = dlbridge.Tensor.__dlpack_c_exchange_api__
    assert c.capsule_name(capsule) == b"dlpack_exchange_api"
    return c.capsule_pointer(capsule)


def test_the_table_is_on_the_type(c, table):
    assert type(dlbridge.empty(1, "int8")).__dlpack_c_exchange_api__ is dlbridge.Tensor.__dlpack_c_exchange_api__
    assert c.exchange_header(table) == (1, 3, 1)
    assert c.exchange_stream(table) == 1


def test_tensors_go_out_and_come_in_by_the_table(c, table):
    a = np.arange(4, dtype=np.float32)
    a.flags.writeable = False
    t = dlbridge.from_dlpack(a)
    managed = c.exchange_from(table, t)
    exported = c.describe(managed)
    assert (exported["data"], exported["flags"]) == (a.ctypes.data, READ_ONLY)
    back = c.exchange_to(table, managed)
    assert isinstance(back, dlbridge.Tensor) and back.readonly and back.data_ptr == a.ctypes.data
    with pytest.raises(BufferError, match="read-only"):
        c.exchange_view(table, t)
    writable = dlbridge.empty(4, "float32")
    assert c.exchange_view(table, writable) == (writable.data_ptr, 1, 4, 1, 0)
    for call in (c.exchange_from, c.exchange_view):
        with pytest.raises(TypeError):
            call(table, a)
    t.close()
    for call in (c.exchange_from, c.exchange_view):
        with pytest.raises(ValueError, match="closed"):
            call(table, t)


# Ways in which read-only memory becomes a Tensor.
READ_ONLY_TENSORS = {
    "from_dlpack, of NumPy": lambda c, table: dlbridge.from_dlpack(frozen()),
    "from_dlpack, of a capsule": lambda c, table: dlbridge.from_dlpack(c.new_capsule(flags=READ_ONLY)),
    "from_dlpack, of a type with a table": lambda c, table: dlbridge.from_dlpack(with_table(c)),
    "from_dlpack, of a Tensor": lambda c, table: dlbridge.from_dlpack(dlbridge.from_dlpack(frozen())),
    "from_address": lambda c, table: dlbridge.from_address(c.managed(flags=READ_ONLY)),
    "from_address, of to_address": lambda c, table: dlbridge.from_address(dlbridge.to_address(frozen())),
    "from_buffer": lambda c, table: dlbridge.from_buffer(bytes(16), "float32"),
    "the table": lambda c, table: c.exchange_to(table, c.managed(flags=READ_ONLY)),
    "the table, with more flags": lambda c, table: c.exchange_to(table, c.managed(flags=READ_ONLY | IS_COPIED)),
    "a view": lambda c, table: dlbridge.from_dlpack(frozen())[1:],
    "another shape": lambda c, table: dlbridge.from_dlpack(frozen()).reshape(2, 2),
    "elements that meet": lambda c, table: dlbridge.empty(1, "float32").broadcast_to((4,)),
    "the result of a C function": lambda c, table: dlbridge.wrap(c_function(c, "return"))(frozen()),
}
# Ways to export a Tensor with flags. Each returns the flags of the export.
WITH_FLAGS = {
    "__dlpack__": lambda c, table, t: describe(c, t.__dlpack__(max_version=(1, 0)))["flags"],
    "__dlpack__ of the device": lambda c, table, t: describe(
        c, t.__dlpack__(max_version=(1, 3), dl_device=(1, 0), copy=False)
    )["flags"],
    "to_address": lambda c, table, t: flags_of(c, dlbridge.to_address(t)),
    "the table": lambda c, table, t: flags_of(c, c.exchange_from(table, t)),
    "a C function": lambda c, table, t: dlbridge.wrap(c_function(c, "flags"), args=["tensor"], returns=ctypes.c_int64)(t),
    "numpy.from_dlpack": lambda c, table, t: READ_ONLY * (not np.from_dlpack(t).flags.writeable),
    "numpy.asarray": lambda c, table, t: READ_ONLY * (not np.asarray(t).flags.writeable),
    "numpy()": lambda c, table, t: READ_ONLY * (not t.numpy().flags.writeable),
    "memoryview": lambda c, table, t: READ_ONLY * memoryview(t).readonly,
}
if np.lib.NumpyVersion(np.__version__) < "2.2.5":  # these versions make all arrays read-only
    del WITH_FLAGS["numpy.from_dlpack"]
# Ways to export without flags; they must refuse read-only memory.
WITHOUT_FLAGS = {
    "__dlpack__": lambda c, table, t: t.__dlpack__(),
    "__dlpack__ for 0.8": lambda c, table, t: t.__dlpack__(max_version=(0, 8)),
    "the DLTensor of the table": lambda c, table, t: c.exchange_view(table, t),
    "a writable buffer": lambda c, table, t: c.buffer(t, WRITABLE),
}


def frozen():
    a = np.arange(4, dtype=np.float32)
    a.flags.writeable = False
    return a


def with_table(c):
    """Returns an object of a type with a C exchange API, whose tensors are read-only."""
    api = c.table(ctypes.byref(c.description(flags=READ_ONLY)), b"dlpack_exchange_api", 0, 1)
    return type("Array", (), {"__dlpack_c_exchange_api__": api})()


def c_function(c, name):
    function = getattr(ctypes.CDLL(str(c.path)), "fixture_" + name)
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return function


def flags_of(c, managed):
    """Returns the flags of a managed tensor, and calls its deleter."""
    flags = c.describe(managed)["flags"]
    c.delete(managed)
    return flags


@pytest.mark.parametrize("made", READ_ONLY_TENSORS)
def test_read_only_memory_keeps_its_flag_in_every_way(c, table, made):
    t = READ_ONLY_TENSORS[made](c, table)
    assert t.readonly
    assert {way: export(c, table, t) for way, export in WITH_FLAGS.items()} == dict.fromkeys(WITH_FLAGS, READ_ONLY)
    for export in WITHOUT_FLAGS.values():
        with pytest.raises(BufferError, match="read-only"):
            export(c, table, t)


def test_unstated_writability_leaves_as_read_only(c, table):
    t = dlbridge.from_dlpack(c.new_capsule(legacy=1))
    assert {way: export(c, table, t) for way, export in WITH_FLAGS.items()} == dict.fromkeys(WITH_FLAGS, READ_ONLY)
    for way in ("the DLTensor of the table", "a writable buffer"):
        with pytest.raises(BufferError, match="read-only"):
            WITHOUT_FLAGS[way](c, table, t)


def test_writable_memory_leaves_without_the_flag(c, table):
    t = dlbridge.empty(4, "float32")
    assert {way: export(c, table, t) for way, export in WITH_FLAGS.items()} == dict.fromkeys(WITH_FLAGS, 0)
    for export in WITHOUT_FLAGS.values():
        assert export(c, table, t) is not None


def test_padded_elements_leave_only_with_their_flag(c, table):
    t = dlbridge.from_dlpack(c.new_capsule(code=17, bits=4, flags=PADDED))
    assert flags_of(c, c.exchange_from(table, t)) == PADDED
    for way in ("__dlpack__", "the DLTensor of the table"):
        with pytest.raises(BufferError, match="padded"):
            WITHOUT_FLAGS[way](c, table, t)


def test_the_table_takes_over_and_refuses_like_from_address(c, table):
    before = c.deletes()
    for fields, error in [({"major": 2}, BufferError), ({"ndim": -1}, ValueError), ({"code": 44}, BufferError)]:
        with pytest.raises(error):
            c.exchange_to(table, c.managed(**fields))
        before += 1
        assert c.deletes() == before


def test_the_allocator_makes_aligned_memory_and_says_what_is_wrong(c, table):
    managed = c.exchange_alloc(table, ctypes.byref(c.description((3, 5))))
    exported = c.describe(managed)
    assert exported["data"] % 256 == 0
    assert (exported["shape"], exported["strides"], exported["dtype"]) == ((3, 5), (5, 1), (2, 32, 1))
    c.delete(managed)
    for fields, text in [
        ({"ndim": -1}, b"ValueError: dlbridge: allocate: ndim = -1"),
        ({"code": 99}, b"BufferError: dlbridge: allocate: dtype"),
        ({"device_type": 2}, b"BufferError: dlbridge: allocate: no allocator for device type 2"),
        ({"shape": (2**31, 2**29)}, b"MemoryError: dlbridge: allocate: no memory"),
        ({"shape": (2**40, 2**40)}, b"ValueError: dlbridge: allocate: shape"),
    ]:
        assert c.exchange_alloc(table, ctypes.byref(c.description(**fields))) is None
        assert c.exchange_error().startswith(text)


def test_the_table_refuses_null(c, table):
    for address in (None, 0x1001):
        with pytest.raises(ValueError, match="no managed tensor"):
            c.exchange_to(table, address)
    # The allocator is the first function after version and prev_api.
    allocate = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(
        ctypes.c_void_p.from_address(table + 16).value
    )
    said = []
    set_error = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)(
        lambda _, kind, message: said.append((kind, message))
    )
    out = ctypes.c_void_p(1)
    for handler in (ctypes.cast(set_error, ctypes.c_void_p), None):
        assert allocate(None, ctypes.byref(out), None, handler) == -1
        assert out.value is None
    assert said == [(b"ValueError", b"dlbridge: allocate: the prototype is NULL")]


def test_tvm_ffi_calls_with_and_returns_our_tensors():
    t = dlbridge.empty((2, 2), "float32")
    echo = tvm_ffi.convert(lambda x: x)
    back = echo(t)
    assert isinstance(back, dlbridge.Tensor)
    assert back.data_ptr == t.data_ptr


def test_tvm_ffi_gets_and_returns_memory_of_a_device(c):
    """The functions find the device in the tensor, and use the stream that the C exchange API names for it."""
    seen = []
    echo = tvm_ffi.convert(lambda x: seen.append(x.device) or x)
    t = dlbridge.from_dlpack(c.new_capsule(device_type=2, device_id=1))
    assert (back := echo(t)).device == (2, 1) and back.data_ptr == t.data_ptr
    on_another = dlbridge.from_dlpack(Producer(lambda: c.new_capsule(device_type=2), (2, 0)), stream=7)
    with pytest.raises(BufferError, match="cannot synchronise with the default stream: from_dlpack with stream=7"):
        echo(on_another)
    assert [str(device) for device in seen] == ["cuda:1"]


def test_an_attribute_error_of_the_property_dlpack_is_passed_on():
    class Broken:
        @property
        def __dlpack__(self):
            raise AttributeError("the buffer is not allocated yet")

    class Without:
        pass

    with pytest.raises(AttributeError, match="the buffer is not allocated yet"):
        dlbridge.from_dlpack(Broken())
    with pytest.raises(AttributeError, match="has no __dlpack__"):
        dlbridge.from_dlpack(Without())
