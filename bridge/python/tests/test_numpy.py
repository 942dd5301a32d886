"""Behaviour that all versions of NumPy must have. `make test-versions` runs this file with each of them."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from conftest import run_python

import dlbridge

VERSION = tuple(map(int, re.findall(r"\d+", np.__version__)[:3]))
ASKS_FOR_VERSIONS = VERSION >= (2, 1)
"""Whether numpy.from_dlpack accepts read-only memory. Older versions ask for the legacy form of DLPack."""
TAKES_WRITABLE = VERSION >= (2, 2, 5)
"""Whether numpy.from_dlpack makes writable arrays."""

TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
OF_ML_DTYPES = [
    name
    for name in "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split()
    if hasattr(ml_dtypes, name)
]
LAYOUTS = {
    "plain": lambda a: a,
    "of 0 dimensions": lambda a: a[1, 2, ...],
    "of one element": lambda a: a[:1, :1],
    "empty": lambda a: a[:, :0],
    "reversed": lambda a: a[::-1, ::-1],
    "with gaps": lambda a: a[:, ::2],
    "column-major": lambda a: a.T,
}


def new(name: str, layout: str) -> np.ndarray:
    dtype = getattr(ml_dtypes, name) if name in OF_ML_DTYPES else name
    memory = np.arange(1, 13).reshape(3, 4).astype(dtype)
    return LAYOUTS[layout](memory)


def same_memory(array: np.ndarray, tensor: dlbridge.Tensor) -> bool:
    itemsize = array.dtype.itemsize
    strides = tuple(stride * itemsize for stride in tensor.strides)
    matters = [size > 1 and array.size > 0 for size in array.shape]  # the strides of other dimensions are not used
    return (
        array.shape == tensor.shape
        and tensor.dtype == array.dtype
        and (array.size == 0 or array.ctypes.data == tensor.data_ptr)
        and all(a == b for a, b, used in zip(array.strides, strides, matters) if used)
    )


# ---- arrays as tensors, and tensors as arrays ----------------------------------------------------------------


@pytest.mark.parametrize("writable", [True, False], ids=["writable", "read-only"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", TYPES + OF_ML_DTYPES)
def test_arrays_become_tensors_and_tensors_arrays(name, layout, writable):
    array = new(name, layout)
    array.flags.writeable = writable
    tensor = dlbridge.from_dlpack(array)
    assert same_memory(array, tensor) and tensor.readonly is not writable
    for back in (tensor.numpy(), np.asarray(tensor), np.array(tensor, copy=False), tensor.__array__(), tensor.__array__(copy=False)):
        assert same_memory(back, tensor) and (back.flags.writeable is writable or back.size == 0)
        assert back.dtype == array.dtype and (back == array).all()
    if writable and array.size > 0:
        tensor.numpy()[...] = np.ones((), array.dtype)
        assert (array == np.ones((), array.dtype)).all()
    again = dlbridge.from_dlpack(tensor.numpy())
    assert same_memory(array, again) and (again.readonly is tensor.readonly or again.size == 0)


@pytest.mark.parametrize("name", TYPES)
def test_memory_of_ours_becomes_a_writable_array(name):
    for shape in [(), (3,), (2, 0), (2, 3, 4)]:
        tensor = dlbridge.empty(shape, name)
        array = tensor.numpy()
        assert array.dtype == name and same_memory(array, tensor)
        assert array.flags.writeable and not tensor.readonly
        array[...] = 1
        assert dlbridge.from_dlpack(array).tolist() == np.ones(shape, name).tolist()


def test_read_only_buffers_become_read_only_arrays():
    tensor = dlbridge.from_buffer(b"abc")
    array = tensor.numpy()
    assert array.tolist() == [97, 98, 99] and tensor.readonly and not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0
    assert not np.asarray(tensor).flags.writeable


def test_array_copies_if_it_must_or_may():
    tensor = dlbridge.from_dlpack(np.arange(3))
    for copied in (tensor.__array__(copy=True), tensor.__array__("float32"), tensor.__array__("float32", copy=True)):
        assert copied.tolist() == [0, 1, 2] and not np.shares_memory(copied, tensor.numpy())
    with pytest.raises(ValueError, match="(?i)unable to avoid copy"):
        tensor.__array__("float32", copy=False)


def test_subclasses_of_arrays_are_taken_as_arrays_are(tmp_path):
    on_file = np.memmap(tmp_path / "file", "uint8", "w+", shape=(5,))
    for array in (np.zeros((2, 2)).view(np.matrix), on_file, np.ma.zeros(3), np.zeros(3).view(np.recarray)):
        tensor = dlbridge.from_dlpack(array)
        assert tensor.shape == array.shape and not tensor.readonly
    assert dlbridge.from_dlpack(np.memmap(tmp_path / "file", "uint8", "r")).readonly
    assert not dlbridge.from_dlpack(np.float32(7)).readonly


def test_a_subclass_may_answer_for_itself():
    class Other(np.ndarray):
        def __dlpack__(self, **keywords):
            return dlbridge.from_buffer(b"other").__dlpack__(**keywords)

    assert dlbridge.from_dlpack(np.zeros(3).view(Other)).tolist() == list(b"other")


@pytest.mark.parametrize("kind", ["M8[s]", "m8[s]", "S3", "U3", "O", "V4", "i4,f4", "g", ">f4", ">i2", ">c8"])
def test_what_dlpack_lacks_is_refused(kind):
    if (kind[0] in "<>") and np.dtype(kind).isnative:
        kind = "<" + kind[1:]
    with pytest.raises(BufferError):
        dlbridge.from_dlpack(np.zeros(3, kind))


def test_strides_that_split_elements_are_refused():
    with pytest.raises(BufferError, match="multiple"):
        dlbridge.from_dlpack(np.zeros(3, "i4,i2")["f0"])


def test_arguments_of_from_dlpack_mean_the_same():
    array = np.zeros(3)
    copied = dlbridge.from_dlpack(array, copy=True)
    assert copied.data_ptr != array.ctypes.data and not copied.readonly
    for keywords in ({"copy": False}, {"copy": None}, {"device": "cpu"}, {"device": (1, 0), "copy": False}):
        assert dlbridge.from_dlpack(array, **keywords).data_ptr == array.ctypes.data
    with pytest.raises((BufferError, ValueError), match="device"):  # NumPy 2.1 and 2.2 have a ValueError
        dlbridge.from_dlpack(array, device="cuda")


def test_arrays_and_tensors_hold_the_memory():
    array = np.arange(1000)
    tensor, released = dlbridge.from_dlpack(array), []
    tensor.on_release(lambda: released.append(True))
    del array
    back = tensor.numpy()
    tensor.close()
    assert not released and back.sum() == 499500
    view = back[::2]
    del back
    assert not released and view[-1] == 998
    del view
    assert released


# ---- numpy.from_dlpack, which differs between versions ------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_from_dlpack_of_numpy_shares_the_memory(name):
    tensor = dlbridge.empty((2, 3), name)
    array = np.from_dlpack(tensor)
    assert same_memory(array, tensor) and array.flags.writeable is TAKES_WRITABLE


def test_from_dlpack_of_numpy_takes_read_only_memory_from_2_1_on():
    tensor = dlbridge.from_buffer(b"abc")
    if ASKS_FOR_VERSIONS:
        assert not np.from_dlpack(tensor).flags.writeable
    else:
        with pytest.raises(BufferError, match=r"tensor.numpy\(\)"):
            np.from_dlpack(tensor)


@pytest.mark.parametrize("name", OF_ML_DTYPES)
def test_from_dlpack_of_numpy_refuses_types_that_it_lacks(name):
    with pytest.raises((BufferError, RuntimeError), match="Unsupported dtype"):
        np.from_dlpack(dlbridge.empty(3, name))


def test_a_type_that_is_registered_with_numpy_crosses_by_dlpack_too():
    """Runs in its own process, because the registration that NumPy 2.5 has cannot be undone."""
    run_python("""
        import dlbridge, ml_dtypes, numpy as np
        register = getattr(np.dtypes, "register_dlpack_dtype", lambda code_and_bits, dtype: None)
        register((4, 16), np.dtype(ml_dtypes.bfloat16))
        tensor = dlbridge.empty(3, "bfloat16")
        arrays = [tensor.numpy(), np.asarray(tensor)]
        try:
            arrays.append(np.from_dlpack(tensor))
        except (BufferError, RuntimeError):
            assert not hasattr(np.dtypes, "register_dlpack_dtype")
        for array in arrays:
            assert array.dtype == ml_dtypes.bfloat16 and array.ctypes.data == tensor.data_ptr and array.flags.writeable
            assert dlbridge.from_dlpack(array).dtype == "bfloat16" and not dlbridge.from_dlpack(array).readonly
    """)


# ---- the oldest version -------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", ["dlbridge.from_dlpack(np.zeros(3))", "t.numpy()", "t.__array__()", "dlbridge.empty(3, 'bfloat16').numpy()"])
def test_a_numpy_that_is_too_old_is_named_with_the_way_out(use):
    printed = run_python(f"""
        import dlbridge, numpy as np
        t = dlbridge.empty(3, "int8")
        for version in "1.25.2", "0.9":
            np.__version__ = version
            try:
                {use}
            except ImportError as error:
                print(error)
        np.__version__ = "1.26.0rc1"
        {use}
    """)
    assert printed == "".join(
        f"dlbridge: NumPy {version} is too old; install 1.26 or later: pip install 'numpy>=1.26'\n" for version in ("1.25.2", "0.9")
    )


def test_numpy_is_imported_by_nothing_else():
    run_python("""
        import array, sys, dlbridge
        t = dlbridge.from_buffer(array.array("f", [1, 2, 3]))
        u = dlbridge.from_dlpack(dlbridge.from_dlpack(t.__dlpack__(max_version=(1, 3))))
        class Producer:
            def __dlpack__(self, **keywords):
                return t.__dlpack__(**keywords)
        assert dlbridge.from_dlpack(Producer()).tolist() == [1, 2, 3] and dlbridge.from_dlpack(2.5).item() == 2.5
        assert "numpy" not in sys.modules
    """)
