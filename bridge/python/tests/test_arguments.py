"""Arguments in the forms that people write: names of data types, numbers in place of tensors, parts of buffers, devices."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import weakref
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from conftest import run_python
from formats import FORMATS, VALUES

import dlbridge
from dlbridge import shm, tens

each_value = pytest.mark.parametrize("format", VALUES, ids=str)

# ---- data types ------------------------------------------------------------------------------------

SPELLINGS = {
    "float32": ["float32", "<f4", "=f4", "f4", np.float32, np.dtype("float32"), np.single],
    "float64": [float, "f8", np.float64, np.double],
    "int64": [int, "<i8", np.int64, np.longlong, np.dtype("int64")],
    "uint64": ["u8", np.uint64, np.ulonglong],
    "int32": [np.intc, "int32"],
    "bool": [bool, "?", "|b1", np.bool_, np.dtype(bool)],
    "complex128": [complex, "c16", np.complex128],
    "float16": [np.half, "e"[:0] + "f2"],
    "bfloat16": ["bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)],
    "float8_e4m3fn": [ml_dtypes.float8_e4m3fn, "float8_e4m3fn"],
    "int4": [ml_dtypes.int4, np.dtype(ml_dtypes.int4)],
    "float32x4": ["float32x4", "float32_x4"],
}


class Foreign:
    """A data type of a package, like those of PyTorch and TensorFlow: its name is in its text, or an attribute."""

    __module__ = "torch.types"

    def __init__(self, text: str, **attributes) -> None:
        self.text = text
        vars(self).update(attributes)

    def __repr__(self) -> str:
        return self.text


SPELLINGS["float32"] += [Foreign("torch.float32"), Foreign("<dtype>", name="float32"), Foreign("", dtype=np.dtype("float32"))]
SPELLINGS["bfloat16"] += [Foreign("torch.bfloat16")]


@pytest.mark.parametrize(("name", "spelling"), [(name, each) for name in SPELLINGS for each in SPELLINGS[name]], ids=repr)
def test_a_data_type_is_whatever_names_it(name, spelling):
    t = dlbridge.empty(8, spelling)
    assert t.dtype == name
    assert dlbridge.from_buffer(bytes(t.nbytes), spelling, 8).dtype == name
    assert dlbridge.empty(8, t.dtype).dtype == name
    if "x" not in name:
        assert dlbridge.from_dlpack(np.arange(8)).convert(spelling).dtype == name


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c16", np.dtype(">f4"), np.dtype(np.int16).newbyteorder()])
def test_a_data_type_of_the_other_byte_order_is_refused(dtype):
    for use in (lambda: dlbridge.empty(3, dtype), lambda: dlbridge.from_buffer(bytes(16), dtype)):
        with pytest.raises(BufferError, match="dtype '>..?.?' is not in native byte order, .*; swap the bytes first"):
            use()
    assert dlbridge.empty(3, ">u1").dtype == "uint8"


@pytest.mark.parametrize(
    ("dtype", "error"),
    [
        ("floats", TypeError),
        ("f5", TypeError),
        ("", TypeError),
        (">", TypeError),
        ("float32\0", TypeError),
        ("float32x0", TypeError),
        ("\ud800", UnicodeEncodeError),
        (np.str_, TypeError),
        (np.dtype("S4"), TypeError),
        (np.dtype("O"), TypeError),
        (np.dtype([("a", "f4")]), TypeError),
        (np.longdouble, TypeError),
        (Foreign("torch.quint8"), TypeError),
        (Foreign("torch"), TypeError),
        (None, TypeError),
        (4, TypeError),
        (str, TypeError),
        (object, TypeError),
        (["float32"], TypeError),
        (("float32",), TypeError),
        ((), TypeError),
        (np.ones(3), TypeError),
        (b"float32", TypeError),
    ],
    ids=repr,
)
def test_what_names_no_data_type_is_refused(dtype, error):
    for use in (lambda: dlbridge.empty(3, dtype), lambda: dlbridge.from_dlpack(np.ones(3)).convert(dtype)):
        with pytest.raises(error, match="surrogates" if error is UnicodeEncodeError else "^dlbridge: dtype "):
            use()


def test_an_object_that_may_change_is_read_each_time():
    changing = Foreign("", name="float32")
    assert dlbridge.empty(1, "float32").dtype == changing
    changing.name = "int8"
    assert dlbridge.empty(1, "int8").dtype == changing
    assert dlbridge.empty(1, "float32").dtype != changing


def test_a_bounded_number_of_types_is_remembered():
    types, names = [type(f"T{i}", (np.float32,), {}) for i in range(100)], [f"float32x{lanes}" for lanes in range(2, 102)]
    for each, name in zip(types, names, strict=True):
        assert dlbridge.empty(1, each).dtype == each and dlbridge.empty(1, "float32").dtype == np.float32
        assert dlbridge.empty(1, name).dtype == name != each
    alive = [weakref.ref(each) for each in types]
    del types, each
    gc.collect()
    assert sum(each() is not None for each in alive) <= 32


def test_names_need_no_numpy():
    script = """
        import sys
        sys.modules["numpy"] = None
        import dlbridge
        print([dlbridge.empty(1, dtype).dtype for dtype in (float, int, bool, complex, "<f4", "bfloat16")])
    """
    assert run_python(script) == "['float64', 'int64', 'bool', 'complex128', 'float32', 'bfloat16']\n"


# ---- numbers in place of tensors -------------------------------------------------------------------

NUMBERS = [
    (True, "bool"),
    (3, "int64"),
    (-(2**63), "int64"),
    (2**63, "uint64"),
    (2**64 - 1, "uint64"),
    (2.5, "float64"),
    (1 - 2j, "complex128"),
    (np.float32(2.5), "float32"),
    (np.float64(2.5), "float64"),
    (np.int8(-3), "int8"),
    (np.bool_(True), "bool"),
    (np.complex64(1j), "complex64"),
]


@pytest.mark.parametrize(("number", "dtype"), NUMBERS, ids=repr)
def test_a_number_is_a_tensor_of_no_dimensions(number, dtype):
    t = dlbridge.from_dlpack(number)
    assert (t.shape, t.dtype, t.item(), t.device) == ((), dtype, number, (1, 0))
    assert dlbridge.from_dlpack(number, device="cpu", copy=True).item() == number
    assert dlbridge.from_address(dlbridge.to_address(number)).item() == number
    with pytest.raises(BufferError, match="has copied although copy=False"):
        dlbridge.from_dlpack(number, copy=False)
    with pytest.raises(BufferError, match=r"not on \(2, 0\)"):
        dlbridge.from_dlpack(number, device="cuda")


# ---- arrays with a mask ----------------------------------------------------------------------------

WAYS_IN = {
    "from_dlpack": dlbridge.from_dlpack,
    "from_dlpack with copy": lambda x: dlbridge.from_dlpack(x, copy=True),
    "from_buffer": dlbridge.from_buffer,
    "from_buffer with dtype": lambda x: dlbridge.from_buffer(x, "uint8"),
    "to_address": lambda x: dlbridge.from_address(dlbridge.to_address(x)),
    "shm.copy": shm.copy,
    **{f"{format.name}.encode": lambda x, format=format: format.decode(format.encode(x)) for format in FORMATS},
}


class Astropys(np.ndarray):
    """An array with its own mask, like astropy.utils.masked.Masked."""

    mask = np.array([False, True, False])

    def filled(self, value):
        return np.where(self.mask, value, self.view(np.ndarray))


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize(
    "array",
    [
        np.ma.array([1.0, -9999.0, 3.0], mask=[0, 1, 0]),
        np.ma.masked_all((2, 2)),
        np.ma.array([[1, 2], [3, 4]], mask=[[1, 0], [0, 0]])[0],
        np.ma.masked,
        np.ma.array(np.ones(2), mask=True, hard_mask=True),
        np.ones(3).view(Astropys),
    ],
    ids=repr,
)
def test_masked_elements_are_refused(way, array):
    loans = dlbridge.counters()["loans"]
    with pytest.raises(BufferError, match=r"elements of the array are masked, .*; array.filled\(value\) puts numbers in their place"):
        WAYS_IN[way](array)
    for x in (array.filled(0), np.asarray(array.data)):
        assert WAYS_IN[way](x).nbytes == x.nbytes
    assert dlbridge.counters()["loans"] == loans


@pytest.mark.parametrize("way", WAYS_IN)
def test_an_array_without_masked_elements_is_an_array(way):
    for array in (np.ma.array([1.0, 2.0]), np.ma.array([1.0, 2.0], mask=[0, 0]), np.ma.array([1.0, 2.0], mask=[0, 1])[:1]):
        assert WAYS_IN[way](array).nbytes == array.nbytes
    assert dlbridge.from_dlpack(np.ma.array([1.0, 2.0])).tolist() == [1, 2]


def test_an_attribute_of_another_meaning_is_no_mask():
    class Image(np.ndarray):
        filled = True

        def mask(self):
            return self

    assert dlbridge.from_dlpack(np.ones(2).view(Image)).tolist() == [1, 1]
    records = np.ma.array([(1, 2.0)], mask=[(True, False)], dtype=[("a", "i4"), ("b", "f8")])
    with pytest.raises(BufferError, match="are masked"):
        dlbridge.from_buffer(records, "uint8")


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_formats_take_numbers(format):
    for number in (2.5, 3, np.int8(3), np.float32(2.5)):
        assert format.decode(format.encode(number)).item() == number


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, np.longdouble(1)], ids=repr)
def test_a_number_that_dlpack_lacks_is_a_buffer_error(number):
    with pytest.raises(BufferError):
        dlbridge.from_dlpack(number)


@pytest.mark.parametrize("what", ["3", b"3", None, [1.0], (1,), {}, object(), float, np.str_("x")], ids=repr)
def test_what_is_no_number_is_still_refused(what):
    with pytest.raises((AttributeError, BufferError)):
        dlbridge.from_dlpack(what)


# ---- parts of buffers ------------------------------------------------------------------------------


def test_a_tensor_is_a_part_of_a_buffer():
    data = bytearray(range(24))
    for arguments, want in [
        ((np.uint8, (2, 3), 4), np.frombuffer(data, np.uint8, 6, 4).reshape(2, 3)),
        (("<u2", None, 2), np.frombuffer(data, "<u2", -1, 2)),
        ((None, None, 20), np.frombuffer(data, np.uint8, -1, 20)),
        ((None, 3, 0), np.frombuffer(data, np.uint8, 3)),
        (("u4", (), 8), np.frombuffer(data, "u4", 1, 8)[0]),
        ((None, None, 24), np.zeros(0, np.uint8)),
        ((None, 0, 24), np.zeros(0, np.uint8)),
    ]:
        dtype, shape, offset = arguments
        t = dlbridge.from_buffer(data, dtype, shape, offset=offset)
        np.testing.assert_array_equal(t.numpy(), want)
        assert not t.readonly
        if t.size:
            assert t.data_ptr == np.frombuffer(data, np.uint8).ctypes.data + offset
    assert dlbridge.from_buffer(np.arange(6.0).reshape(2, 3), offset=8).tolist() == [1, 2, 3, 4, 5]
    assert dlbridge.from_buffer(bytes(3), "int4", 4, offset=np.int8(1)).nbytes == 2


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"offset": 9}, ValueError, r"offset = 9 is not in 0\.\.8, the size of the buffer"),
        ({"offset": -1}, ValueError, "offset = -1 is not in"),
        ({"offset": 2**70}, ValueError, "cannot fit"),
        ({"offset": 1.5}, TypeError, "integer"),
        ({"offset": 6, "dtype": "float32"}, ValueError, "the buffer has 2 bytes, which is not a multiple of the 4 bytes of an element"),
        ({"offset": 5, "dtype": "u1", "shape": 4}, ValueError, "the tensor has 4 bytes, but the buffer has 3 from offset on"),
        ({"dtype": "u1", "shape": 9}, ValueError, "the tensor has 9 bytes, but the buffer has 8$"),
    ],
)
def test_a_tensor_beyond_the_buffer_is_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        dlbridge.from_buffer(bytes(8), **arguments)
    with pytest.raises(BufferError, match="needs a row-major buffer"):
        dlbridge.from_buffer(np.zeros((3, 4)).T, offset=8)


# ---- devices and counters --------------------------------------------------------------------------


def test_devices_have_names(c):
    t = dlbridge.from_address(c.managed((3,), None, device_type=2, device_id=1))
    assert dlbridge.from_dlpack(t, device="cuda:1").device == (2, 1)
    with pytest.raises(BufferError, match=r"on device \(2, 1\), not on \(1, 0\)"):
        dlbridge.from_dlpack(t, device="cpu")
    for name, device in {"tpu": (19, 0), "tpu_host:1": (20, 1), "ascend:7": (21, 7), "22:3": (22, 3)}.items():
        t = dlbridge.from_address(c.managed((3,), None, device_type=device[0], device_id=device[1]))
        assert dlbridge.from_dlpack(t, device=name).device == device
    for wrong in ("gpu", "cuda:x", "", "\ud800", "cpux", "cpu\0", "cpu\0x"):
        with pytest.raises(ValueError, match="device .* is not known; the names are such as 'cpu' or 'cuda:0'"):
            dlbridge.from_dlpack(t, device=wrong)


def test_counters_have_all_fields_of_dlb_counters():
    fields = {"exports", "imports", "messages", "double_deletes", "elements", "pinned_bytes", "files"}
    assert set(dlbridge.counters()) == fields | {"loans"}
    message = tens.decode(tens.encode([1.0]))
    assert dlbridge.counters()["imports"] >= 1
    del message
    done = subprocess.run(
        [sys.executable, "-c", "import dlbridge; print(sum(dlbridge.counters().values()))"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"


# ---- decoders that return one kind -----------------------------------------------------------------


@each_value
def test_a_decoder_of_one_kind_refuses_the_other(format):
    module = format.module
    numbers, strings = format.encode(np.arange(3.0)), format.encode(format.elements[0])
    assert module.decode_tensor(numbers).tolist() == [0, 1, 2]
    assert module.decode_elements(strings) == format.elements[0]
    with pytest.raises(TypeError, match="decode_tensor: the data has elements of type string, .* decode_elements returns them"):
        module.decode_tensor(strings)
    with pytest.raises(TypeError, match="decode_elements: the data has a tensor of float64; decode_tensor returns it"):
        module.decode_elements(numbers)
    for decode in (module.decode_tensor, module.decode_elements):
        with pytest.raises(ValueError, match="dlbridge: "):
            decode(b"\xff")


@pytest.mark.parametrize("format", [f for f in FORMATS if "limit" in inspect.signature(f.module.decode).parameters], ids=str)
def test_a_limit_is_a_number_of_bytes(format):
    data = tens.encode([ARRAY]) if format.module is tens else format.encode(ARRAY)
    decode = format.module.decode
    for limit in (0, 1 << 100):
        decode(data, limit=limit)
    with pytest.raises(ValueError, match="limit = -1 is negative"):
        decode(data, limit=-1)
    for wrong in ("1", 1.5, None):
        with pytest.raises(TypeError):
            decode(data, limit=wrong)


@each_value
def test_copy_says_whether_decoded_elements_may_be_a_copy(format):
    encoded = format.encode(np.arange(3.0))
    kinds = set()
    for start in range(8):  # the elements are aligned in one of these places
        memory = bytearray(start) + bytearray(encoded)
        data = memoryview(memory)[start:]
        copy = format.module.decode_tensor(data, copy=True)
        copy.numpy()[:] = 7
        assert format.decode(data).tolist() == [0, 1, 2]
        try:
            t = format.module.decode_tensor(data, copy=False)
        except BufferError as error:
            assert "use copy=None to allow it" in str(error)
            kinds.add("copy")
        else:
            t.numpy()[:] = 7
            assert format.decode(data).tolist() == [7, 7, 7]
            kinds.add("alias")
    assert kinds == {"copy", "alias"}
    strings = format.encode(dlbridge.Elements("string", (1,), ["a"]))
    assert isinstance(format.decode(strings, copy=False), dlbridge.Elements)
    assert format.module.decode_tensor(format.encode(np.zeros(0)), copy=False).size == 0


NUMPYS = (
    "half single double float csingle cdouble complex int uint byte ubyte short ushort intc uintc long ulong longlong ulonglong intp uintp "
    "e f d F D b B h H i I l L q Q ? <f =d <l |b >B"
)


@pytest.mark.parametrize("name", NUMPYS.split())
def test_names_of_numpy_are_data_types(name):
    assert dlbridge.empty(1, name).dtype == np.dtype(name).name


@pytest.mark.parametrize("name", ["<half", "float_", "g", "O", "fx2", "halfx2", "f\0"])
def test_other_names_of_numpy_are_not(name):
    with pytest.raises(TypeError, match="is not known"):
        dlbridge.empty(1, name)


MISTAKES = {
    "dtype of Python": (lambda: dlbridge.empty(1, str), TypeError, "and float do, not <class 'str'>"),
    "no dtype": (lambda: dlbridge.empty(3), TypeError, "empty: dtype is missing"),
    "no dtype of zeros": (lambda: dlbridge.zeros(3), TypeError, "zeros: dtype is missing"),
    "no shape": (lambda: dlbridge.empty(dtype="int8"), TypeError, "empty: shape is missing"),
    "size -1": (lambda: dlbridge.from_buffer(bytes(8), shape=(-1, 2)), ValueError, r"from_buffer: shape\[0\] is -1, but must not be negative; only reshape accepts"),
    "bytes": (lambda: dlbridge.from_dlpack(b"abc"), AttributeError, "has no __dlpack__; use from_buffer for objects with a buffer"),
    "astype with copy": (lambda: dlbridge.empty(1, "int8").astype("int8", copy=False), TypeError, "astype: unexpected keyword"),
    "level": (lambda: setattr(m := tens.Message(), "level", 99) or m.frames(), ValueError, "level 99 is not in 0..8"),
    "form": (lambda: setattr(m := tens.Message(), "form", "TOOLONG") or m.frames(), ValueError, "form b'TOOLONG' has more than four"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_say_what_is_wrong(name):
    call, error, text = MISTAKES[name]
    with pytest.raises(error, match=text):
        call()


def test_a_form_may_be_set_as_str():
    message = tens.Message()
    message.form = "TEXT"
    assert bytes(message.frames()[0]) == b"ZIO0TEXT"


def test_numbers_are_taken_where_numpy_is_blocked():
    program = "import sys; sys.modules['numpy'] = None; import dlbridge; print(dlbridge.from_dlpack(2).item())"
    assert run_python(program) == "2\n"


# ---- the exceptions of arguments --------------------------------------------------------------------

ARRAY = np.arange(6.0).reshape(2, 3)
TENSOR = dlbridge.from_dlpack(ARRAY)
FRAMES = [bytes(frame) for frame in tens.encode([TENSOR])]  # copies, which hold no export


def calls_of(name: str, function, argument=None) -> dict:
    """Returns calls of a function that vary one argument: the first, otherwise `argument`, or a keyword that is no bool."""

    def call(*arguments, **keywords):
        result = function(*arguments, **keywords)
        return list(result) if isinstance(result, Iterator) else result

    first = () if argument is None else (argument,)
    named = [p for p in inspect.signature(function).parameters.values() if p.default is not p.empty and type(p.default) is not bool]
    return {name: call} | {f"{name} {p.name}": lambda x, key=p.name: call(*first, **{key: x}) for p in named}


def calls_of_format(format) -> dict:
    """Returns the calls of all functions of a format that encode or decode."""
    if format.module is tens:
        given = {"encode": [TENSOR], "encode_frames": FRAMES, "decode": FRAMES, "": tens.encode_frames(FRAMES)}
    else:
        given = {"encode": TENSOR, "decode_elements": format.encode(format.elements[0]), "": format.encode(TENSOR)}
    calls = {f"{format.name}.{name}": call for name, call in format.more.items()}
    for name in format.module.__all__:
        if name.startswith(("encode", "decode")):
            calls |= calls_of(f"{format.name}.{name}", getattr(format.module, name), given.get(name, given[""]))
    return calls


ARGUMENTS = {
    "from_dlpack device": lambda x: dlbridge.from_dlpack(TENSOR, device=x),
    "from_dlpack copy": lambda x: dlbridge.from_dlpack(TENSOR, copy=x),
    "from_buffer": dlbridge.from_buffer,
    "from_buffer dtype": lambda x: dlbridge.from_buffer(b"abcd", dtype=x),
    "from_buffer shape": lambda x: dlbridge.from_buffer(b"abcd", shape=x),
    "from_buffer offset": lambda x: dlbridge.from_buffer(b"abcd", offset=x),
    "from_address": dlbridge.from_address,
    "to_address": dlbridge.to_address,
    "empty shape": lambda x: dlbridge.empty(x, "f4"),
    "empty dtype": lambda x: dlbridge.empty(3, x),
    "zeros shape": lambda x: dlbridge.zeros(x, "f4"),
    "zeros dtype": lambda x: dlbridge.zeros(3, x),
    "asarray": dlbridge.asarray,
    "asarray in a list": lambda x: dlbridge.asarray([1, x], "int8"),
    "asarray dtype": lambda x: dlbridge.asarray([1], x),
    "reshape shape": TENSOR.reshape,
    "reshape copy": lambda x: TENSOR.reshape(6, copy=x),
    "transpose": TENSOR.transpose,
    "squeeze": TENSOR.squeeze,
    "swapaxes axis1": lambda x: TENSOR.swapaxes(x, 0),
    "swapaxes axis2": lambda x: TENSOR.swapaxes(axis1=0, axis2=x),
    "moveaxis source": lambda x: TENSOR.moveaxis(x, 0),
    "moveaxis destination": lambda x: TENSOR.moveaxis(0, x),
    "view": TENSOR.view,
    "flip": TENSOR.flip,
    "broadcast_to": TENSOR.broadcast_to,
    "item": TENSOR.item,
    "convert": TENSOR.convert,
    "convert out": lambda x: TENSOR.convert(out=x),
    "astype": TENSOR.astype,
    "__array__ dtype": lambda x: TENSOR.__array__(dtype=x),
    "__dlpack__ stream": lambda x: TENSOR.__dlpack__(stream=x),
    "__dlpack__ max_version": lambda x: TENSOR.__dlpack__(max_version=x),
    "__dlpack__ dl_device": lambda x: TENSOR.__dlpack__(dl_device=x),
    "__dlpack__ copy": lambda x: TENSOR.__dlpack__(copy=x),
    **{name: call for format in FORMATS for name, call in calls_of_format(format).items()},
    **calls_of("tens.Message", tens.Message),
    "Elements type": lambda x: dlbridge.Elements(x, (1,), ["a"]),
    "Elements shape": lambda x: dlbridge.Elements("string", x, ["a"]),
    "Elements values": lambda x: dlbridge.Elements("string", (1,), x),
    "wrap": lambda x: dlbridge.wrap(x, args=[], returns=None),
}
TAKES_NUMBERS = {"to_address", "asarray", "asarray in a list", *(f"{format.name}.{name}" for format in VALUES for name in ("encode", *format.more))}
TAKES_TEXT = {"tens.encode form", "tens.Message form", "tens.Message label", "Elements type"}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_of_a_wrong_type_is_a_type_error(argument):
    call = ARGUMENTS[argument]
    for wrong in (object(), 1.5, len):
        if wrong != 1.5 or argument not in TAKES_NUMBERS:
            with pytest.raises(TypeError):
                call(wrong)
    if argument not in TAKES_TEXT:
        with pytest.raises((TypeError, ValueError)):
            call("nope")


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: TENSOR.astype(x), lambda x: ARRAY.astype(x)),
        (lambda x: TENSOR.astype(dtype=x), lambda x: ARRAY.astype(dtype=x)),
        (lambda x: dlbridge.empty(1, x), lambda x: np.empty(1, x)),
        (lambda x: dlbridge.zeros(1, x), lambda x: np.zeros(1, x)),
        (lambda x: dlbridge.asarray([1], x), lambda x: np.asarray([1], x)),
        (lambda x: dlbridge.from_buffer(bytes(8), dtype=x), lambda x: np.frombuffer(bytes(8), dtype=x)),
    ],
    ids=["astype", "astype dtype", "empty", "zeros", "asarray", "from_buffer"],
)
@pytest.mark.parametrize("dtype", ["nope", "", "f5", "\ud800", 4, 1.5, object(), b"nope", len, np.ones(2), ("f4",), "f4", float], ids=repr)
def test_data_types_raise_the_exceptions_of_numpy(ours, numpys, dtype):
    try:
        expected = numpys(dtype).dtype
    except Exception as error:
        expected = type(error)
    if isinstance(expected, type):
        with pytest.raises((TypeError, expected) if expected is ValueError else expected):
            ours(dtype)
    else:
        assert ours(dtype).dtype == expected


def test_astype_of_none_is_that_of_numpy():
    t = dlbridge.from_buffer(b"abc")
    assert t.astype(None).dtype == np.frombuffer(b"abc", np.uint8).astype(None).dtype == "float64"
    with pytest.raises(TypeError, match="dtype must name a type"):
        t.convert(None)


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: TENSOR.__dlpack__(copy=x), lambda x: ARRAY.__dlpack__(copy=x)),
        (lambda x: dlbridge.from_dlpack(TENSOR, copy=x), lambda x: np.from_dlpack(ARRAY, copy=x)),
        (lambda x: TENSOR.reshape(6, copy=x), lambda x: ARRAY.reshape(6, copy=x)),
        (lambda x: TENSOR.__array__(copy=x), lambda x: np.array(ARRAY, copy=x)),
        *[(lambda x, f=f: f.decode(f.encode(TENSOR), copy=x), lambda x: np.array(ARRAY, copy=x)) for f in VALUES],
    ],
    ids=["__dlpack__", "from_dlpack", "reshape", "__array__", *map(str, VALUES)],
)
def test_texts_for_copy_raise_the_exception_of_numpy(ours, numpys):
    for text in ("x", "", "no", "always"):
        for call in (ours, numpys):
            with pytest.raises(ValueError, match="copy"):
                call(text)
