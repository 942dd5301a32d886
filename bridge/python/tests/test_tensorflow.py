"""TensorProto: all vectors that TensorFlow has written, and TensorFlow itself."""

from __future__ import annotations

import gc
import mmap
import os

import ml_dtypes
import numpy as np
import pytest
from conftest import Entry, count_ours, elements_of, resident, vectors
from formats import QINT32, STRING, of, proto

import dlbridge
from dlbridge import Elements, tensorflow

pytestmark = pytest.mark.usefixtures("nothing_left_alive_in_go")

MANIFEST = vectors("tensorflow")
NAMES = {d["enum"]: d["string"] for d in MANIFEST["dtypes"]}
# Types that become a Tensor, by their names in TensorFlow. The others become Elements.
TENSORS = {
    **{name: name for name in NAMES.values() if not name.startswith("q") and name not in ("string", "resource", "variant")},
    "float": "float32",
    "double": "float64",
    "half": "float16",
}
BITS = {d["string"]: d.get("significant_bits", 8) for d in MANIFEST["dtypes"]}


def read(vector: Entry) -> bytes:
    return vector.read(vector["file"])


def masked(name: str, data: bytes) -> bytes:
    """Returns the significant bits."""
    return bytes(b & ((1 << BITS[name]) - 1) for b in data) if BITS[name] < 8 else data


def check(got, name: str, shape, data) -> None:
    assert got.shape == tuple(shape)
    if name in TENSORS:
        assert isinstance(got, dlbridge.Tensor) and got.dtype == TENSORS[name] and got.nbytes == len(data)
        assert masked(name, elements_of(got)) == data
    else:
        assert isinstance(got, Elements) and got.type == name
        assert all(type(value) is bytes for value in got.values)
        assert got.values == data if isinstance(data, list) else b"".join(got.values) == data


def test_the_vectors_are_all_there():
    assert [count_ours(MANIFEST[name]) for name in ("dtypes", "tensors", "malformed")] == [31, 119, 21]
    assert len(TENSORS) == 25 and {v["dtype"] for v in MANIFEST["tensors"]} >= {k for k, n in NAMES.items() if n in TENSORS}


@pytest.mark.parametrize("vector", MANIFEST["tensors"], ids=lambda v: v["id"])
def test_every_vector_is_read_and_written_byte_for_byte(vector):
    data, name, writers = read(vector), NAMES[vector["dtype"]], vector["writers"]
    value = bytes.fromhex(vector["data_hex"]) if "data_hex" in vector else [bytes.fromhex(s) for s in vector["strings_hex"]]
    got = tensorflow.decode(data)
    check(got, name, vector["shape"], value)
    content, fields = (bytes.fromhex(writers[k]) for k in ("AsProtoTensorContent_hex", "AsProtoField_hex"))
    assert tensorflow.encode(got, fields=True) == fields
    assert tensorflow.encode(got) == (fields if name == "string" else content)
    for written in (content, fields, tensorflow.encode(got, pad=True)):
        check(tensorflow.decode(written), name, vector["shape"], value)
    if name not in TENSORS:
        made = Elements(name, vector["shape"], got.values)
        assert tensorflow.encode(made, fields=True) == fields


@pytest.mark.parametrize("vector", MANIFEST["malformed"], ids=lambda v: v["id"])
def test_malformed_vectors_are_refused(vector):
    with pytest.raises(ValueError, match=r"dlbridge: tensorflow: byte \d+: "):
        tensorflow.decode(read(vector))


def test_messages_that_are_cut_are_refused_or_other_messages():
    for vector in MANIFEST["tensors"]:
        data = read(vector)
        for n in range(len(data)):
            try:
                got = tensorflow.decode(data[:n])
            except ValueError as error:
                assert str(error).startswith("dlbridge: tensorflow: byte ")
            else:
                assert tensorflow.decode(tensorflow.encode(got)).shape == got.shape


# ---- memory -------------------------------------------------------------------------------------------------


def address(buffer) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_what_is_aligned_is_aliased_and_all_else_is_copied(name):
    content = next(v for v in MANIFEST["tensors"] if NAMES[v["dtype"]] == name and v["elements"] > 0 and v["origin"] == "tensor_content")
    data = read(content)
    at = data.index(bytes.fromhex(content["data_hex"]))
    shape, size = tuple(content["shape"]), len(data) - at
    need = dlbridge.empty((), TENSORS[name]).itemsize // (2 if name.startswith("complex") else 1)
    for shift in range(17):
        room = bytearray(len(data) + 128)
        start = -address(room) % 64 + shift
        view = memoryview(room)[start : start + len(data)]
        view[:] = data
        for given in (view, view.toreadonly()):
            tensor = tensorflow.decode(given)
            aliases = tensor.data_ptr == address(view) + at
            assert tensor.shape == shape and tensor.readonly == (given.readonly and aliases)
            assert aliases == ((address(view) + at) % need == 0)
            view[at:] = bytes(size)
            assert (elements_of(tensor) == bytes(size)) == aliases
            view[at:] = data[at:]
            assert masked(name, elements_of(tensor)) == bytes.fromhex(content["data_hex"])


def test_padded_elements_are_aligned_from_the_beginning():
    for a in (np.arange(5.0), np.arange(6, dtype=np.complex128).reshape(2, 3), np.ones((3, 0), np.int8), np.array(7, np.int16)):
        data = tensorflow.encode(a, pad=True)
        assert data.endswith(a.tobytes()) and (len(data) - a.nbytes) % 64 == 0 or a.size == 0
        assert tensorflow.encode(tensorflow.decode(data)) == tensorflow.encode(a)
        room = dlbridge.empty(len(data), "uint8")
        memoryview(room)[:] = data
        if a.size > 0:
            assert tensorflow.decode(room).data_ptr == room.data_ptr + len(data) - a.nbytes


def test_a_decoded_tensor_keeps_its_buffer():
    room = bytearray(tensorflow.encode(np.arange(40, dtype=np.int8)))
    tensor = tensorflow.decode(room)
    with pytest.raises(BufferError):
        room.append(0)
    array = np.from_dlpack(tensor)
    array[0] = 9
    assert room[-40] == 9
    del tensor, array
    gc.collect()
    room.append(0)
    with pytest.raises(ValueError):
        tensorflow.decode(room)
    room.append(0)
    strings = bytearray(tensorflow.encode(Elements("string", (1,), [b"x"])))
    got = tensorflow.decode(strings)
    strings.append(0)  # bytes do not alias the data
    assert got.values == [b"x"]


def test_values_that_are_put_together_lie_in_memory_of_their_own():
    room = bytearray(tensorflow.encode(np.arange(5, dtype=np.int32), fields=True))
    tensor = tensorflow.decode(room)
    room.append(0)
    assert tensor.data_ptr % 256 == 0 and not tensor.readonly
    assert np.from_dlpack(tensor).tolist() == [0, 1, 2, 3, 4]
    assert not tensorflow.decode(bytes(room[:-1])).readonly


def test_equal_values_share_one_object():
    for data, want in [(proto(STRING, 1000, of(8, b"x" * 1000)), b"x" * 1000), (proto(QINT32, 1000, of(7, b"\x80\x01")), b"\x80\0\0\0")]:
        values = tensorflow.decode(data).values
        assert len(set(map(id, values))) == 1
        assert values == [want] * 1000


def test_the_limit_says_how_to_go_on():
    with pytest.raises(ValueError, match="more memory than is allowed"):
        tensorflow.decode(proto(STRING, 1000), limit=23_999)
    assert len(tensorflow.decode(proto(STRING, 1000), limit=24_000).values) == 1000


def test_quantised_numbers_are_decoded_as_integers():
    data = tensorflow.encode(Elements("qint8", (2,), [b"\x01", b"\xff"]))
    assert tensorflow.decode(data).type == "qint8"
    for decode in (tensorflow.decode, tensorflow.decode_tensor):
        t = decode(data, integers=True)
        assert (t.dtype, t.tolist()) == ("int8", [1, -1])


def test_lenient_is_as_lenient_as_tensorflows_own_reader():
    scalar = bytes.fromhex("08011200 2a08 0000803f 00000040")  # float_val has 2 values, the shape 1
    with pytest.raises(ValueError, match="tensorflow"):
        tensorflow.decode(scalar)
    assert tensorflow.decode(scalar, lenient=True).item() == 1.0
    assert tensorflow.decode_tensor(scalar, lenient=True).item() == 1.0


def test_small_elements_have_bytes_of_their_own():
    packed = dlbridge.from_buffer(bytes([0x21, 0x43]), "uint4", (4,))
    data = tensorflow.encode(packed)
    assert data.endswith(bytes([1, 2, 3, 4]))
    padded = tensorflow.decode(data)
    assert (padded.dtype, padded.nbytes, packed.nbytes) == ("uint4", 4, 2)
    assert tensorflow.encode(padded) == data
    assert tensorflow.encode(packed, fields=True).endswith(b"\x3a\x04\1\2\3\4")


# ---- writing ------------------------------------------------------------------------------------------------

NUMPY = {
    **{name: np.dtype(name) for name in TENSORS.values() if name.startswith(("int", "uint", "bool", "complex"))
       and not name.endswith(("t2", "t4"))},
    **{name: np.dtype(name) for name in ("float16", "float32", "float64")},
}  # fmt: skip


@pytest.mark.parametrize("dtype", sorted(NUMPY))
def test_tensors_are_written_in_any_layout(dtype):
    a = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for view in (a, a.T, a[:, ::-1], a[::2, 1:, ::3], np.broadcast_to(a[0], (5, 3, 4)), a[0, 0, 1, ...], a[:0], np.asfortranarray(a)):
        for options in ({}, {"fields": True}, {"pad": True}):
            got = tensorflow.decode(tensorflow.encode(view, **options))
            assert got.dtype == dtype
            np.testing.assert_array_equal(np.from_dlpack(got), view)


def test_large_tensors_are_written_where_they_stay():
    a = np.random.default_rng(1).random((300, 1000))
    for view in (a, a.T, a[::3, ::7]):
        assert tensorflow.encode(view).endswith(view.tobytes())
        np.testing.assert_array_equal(np.from_dlpack(tensorflow.decode(tensorflow.encode(view, fields=True))), view)


def test_elements_are_written_of_what_they_may_be():
    for values in (["a", "é"], [b"a", "é".encode()], (bytearray(b"a"), memoryview("é".encode()))):
        got = tensorflow.decode(tensorflow.encode(Elements("string", (2,), values)))
        assert got == Elements("string", (2,), [b"a", b"\xc3\xa9"])
    quantised = Elements("qint32", (2, 1), [b"\1\0\0\0", b"\xff\xff\xff\xff"])
    for fields in (False, True):
        assert tensorflow.decode(tensorflow.encode(quantised, fields=fields)) == quantised
    variant = Elements("variant", (), [b"\x0a\1t"])
    assert tensorflow.decode(tensorflow.encode(variant)) == variant


A = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tensorflow.decode("text"), TypeError),
        (lambda: tensorflow.decode(None), TypeError),
        (lambda: tensorflow.decode(b""), ValueError),
        (lambda: tensorflow.decode(b"\xff"), ValueError),
        (lambda: tensorflow.encode([1, 2]), TypeError),
        (lambda: tensorflow.encode("text"), TypeError),
        (lambda: tensorflow.encode(np.array(["text"])), BufferError),
        (lambda: tensorflow.encode(dlbridge.from_buffer(A, "float16x2", (2,))), BufferError),
        (lambda: tensorflow.encode(dlbridge.from_buffer(A, "float8_e3m4", (8,))), BufferError),
        (lambda: tensorflow.encode(dlbridge.from_buffer(b"\2", "bool")), ValueError),
        (lambda: tensorflow.encode(dlbridge.empty((1,) * 255, "int8")), ValueError),
        (lambda: tensorflow.encode(Elements("binary", (1,), [b"x"])), ValueError),
        (lambda: tensorflow.encode(Elements("int8", (1,), [b"x"])), ValueError),
        (lambda: tensorflow.encode(Elements("qint8", (1,), [b"xy"])), ValueError),
        (lambda: tensorflow.encode(Elements("qint8", (1,), ["x"])), TypeError),
        (lambda: tensorflow.encode(Elements("string", (2,), [b"x"])), ValueError),
        (lambda: tensorflow.encode(Elements("string", (-1,), [])), ValueError),
        (lambda: tensorflow.encode(Elements("string", (1,), [5])), TypeError),
    ],
)
def test_wrong_arguments_raise_the_right_error(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.memory
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_values_and_refusals_do_not_leak():
    a = np.arange(500.0)
    strings = Elements("string", (2,), ["x" * 500, ""])

    def work(times):
        for _ in range(times):
            for x in (a, strings):
                for fields in (False, True):
                    data = tensorflow.encode(x, fields=fields)
                    tensorflow.decode(data)
                    try:
                        tensorflow.decode(data[:-1])
                    except ValueError:
                        pass
                    else:
                        raise AssertionError("taken")

    work(1000)
    before = resident()
    work(4000)
    assert resident() - before < 8 << 20


# ---- TensorFlow -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tf():
    from test_peers import peer

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    return peer("tensorflow")


def random_shape(rng) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(0, 5, rng.integers(0, 5)))


def random_array(rng, dtype, bits=None) -> np.ndarray:
    """Returns random bits, except for bool."""
    shape, dtype = random_shape(rng), np.dtype(dtype)
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if bits is not None:
        raw &= (1 << bits) - 1
    return raw.view(dtype).reshape(shape)


ROUNDS = 20
# The types of tf.io.serialize_tensor; tf.make_tensor_proto has all types.
SERIALIZED = {name for name in TENSORS if not name.startswith("float8") and BITS[name] == 8}


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(TENSORS))
def test_tensorflow_and_we_read_what_the_other_wrote(tf, name):
    rng = np.random.default_rng(sorted(TENSORS).index(name))
    dtype = tf.dtypes.as_dtype({v: k for k, v in NAMES.items()}[name])
    bits = BITS[name] if BITS[name] < 8 else None
    proto = tf.make_tensor_proto(0)
    for _ in range(ROUNDS):
        a = random_array(rng, dtype.as_numpy_dtype, bits)
        ours = None if bits else dlbridge.from_buffer(a.tobytes(), TENSORS[name], a.shape)
        written = []
        if a.size > 1 or not name.endswith("fnuz"):  # TensorFlow writes the fnuz types only as tensor_content
            written.append(tf.make_tensor_proto(a, dtype=dtype).SerializeToString())
        if name in SERIALIZED:
            written.append(tf.io.serialize_tensor(tf.constant(a, dtype=dtype)).numpy())
        for data in written:
            got = tensorflow.decode(data)
            assert (got.dtype, got.shape) == (TENSORS[name], a.shape)
            assert masked(name, elements_of(got)) == a.tobytes()
            ours = got if ours is None else ours
            assert tensorflow.encode(ours) == tensorflow.encode(got)
        for options in ({}, {"fields": True}, {"pad": True}):
            data = tensorflow.encode(ours, **options)
            parsed = tf.io.parse_tensor(data, dtype).numpy()
            assert (parsed.dtype, parsed.shape) == (a.dtype, a.shape) and masked(name, parsed.tobytes()) == a.tobytes()
            if name.startswith("float8") and ("fields" in options or a.size == 0):
                continue  # TensorFlow's Python decoder lacks float8_val, and decodes the fnuz types only from tensor_content
            proto.ParseFromString(data)
            read = tf.make_ndarray(proto)
            assert read.shape == a.shape and masked(name, read.tobytes()) == a.tobytes()
            if a.size > 1 and not options:
                assert data == proto.SerializeToString()  # the fields are in order, and TensorFlow knows all of them


@pytest.mark.peers
def test_tensorflow_and_we_read_each_others_strings(tf):
    rng = np.random.default_rng(3)
    for _ in range(ROUNDS):
        shape = random_shape(rng)
        values = [rng.bytes(int(rng.integers(0, 300))) for _ in range(int(np.prod(shape, dtype=int)))]
        tensor = tf.constant(values, tf.string, shape) if values else tf.zeros(shape, tf.string)
        data = tf.io.serialize_tensor(tensor).numpy()
        got = tensorflow.decode(data)
        assert got == Elements("string", shape, values)
        assert tensorflow.encode(got) == data
        assert tf.reshape(tf.io.parse_tensor(tensorflow.encode(got), tf.string), [-1]).numpy().tolist() == values


@pytest.mark.peers
@pytest.mark.parametrize("name", ["qint8", "quint8", "qint16", "quint16", "qint32"])
def test_tensorflow_and_we_read_each_others_quantised_numbers(tf, name):
    rng = np.random.default_rng(4)
    dtype, plain = tf.dtypes.as_dtype(name), tf.dtypes.as_dtype(name[1:])
    for _ in range(ROUNDS):
        a = random_array(rng, plain.as_numpy_dtype)
        data = tf.make_tensor_proto(a, dtype=dtype).SerializeToString()
        got = tensorflow.decode(data)
        assert (got.type, got.shape, b"".join(got.values)) == (name, a.shape, a.tobytes())
        for fields in (False, True):
            parsed = tf.bitcast(tf.io.parse_tensor(tensorflow.encode(got, fields=fields), dtype), plain).numpy()
            np.testing.assert_array_equal(parsed, a)


@pytest.mark.peers
def test_tensorflow_and_we_read_each_others_resources_and_variants(tf):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)
    lists = tf.raw_ops.TensorListFromTensor(tensor=tf.constant([[1.0, 2.0], [3.0, 4.0]]), element_shape=[2])
    for tensor in (table.resource_handle, lists):
        got = tensorflow.decode(tf.io.serialize_tensor(tensor).numpy())
        assert (got.type, got.shape, len(got.values)) == (tensor.dtype.name, (), 1)
        again = tf.io.parse_tensor(tensorflow.encode(got), tensor.dtype)
        if tensor.dtype == tf.variant:
            items = tf.raw_ops.TensorListStack(input_handle=again, element_shape=[2], element_dtype=tf.float32)
            assert items.numpy().tolist() == [[1, 2], [3, 4]]
        else:
            assert tensorflow.decode(tf.io.serialize_tensor(again).numpy()) == got


@pytest.mark.parametrize("fields", [False, True])
def test_what_no_reader_accepts_is_not_written(fields):
    """Readers of protocol buffers accept at most 2**31 - 1 bytes. The arrays and the pages of zeros take no memory."""
    zeros = memoryview(mmap.mmap(-1, 1 << 30))
    for value in (
        np.broadcast_to(np.uint8(7), 1 << 31),
        np.broadcast_to(np.float64(7), (1 << 15, 1 << 13)),
        Elements("string", (2,), [zeros, zeros]),
    ):
        with pytest.raises(ValueError, match=r"bytes, but readers of protocol buffers accept at most 2147483647 .*encode it as TENS"):
            tensorflow.encode(value, fields=fields)


@pytest.mark.peers
@pytest.mark.parametrize("dtype", sorted([*NUMPY, "bfloat16"]))
def test_decoded_tensors_go_to_tensorflow_and_back_as_capsules(tf, dtype):
    rng = np.random.default_rng(5)
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    for _ in range(ROUNDS):
        a = random_array(rng, numpy_dtype)
        data = bytearray(tensorflow.encode(dlbridge.from_buffer(a.tobytes(), dtype, a.shape)))
        tensor = dlbridge.from_dlpack(tensorflow.decode(data), copy=True)  # aligned as TensorFlow needs it
        theirs = tf.experimental.dlpack.from_dlpack(tensor.__dlpack__())
        assert theirs.shape == a.shape and theirs.numpy().tobytes() == a.tobytes()
        assert tf.reverse(tf.reshape(theirs, [-1]), [0]).numpy().tobytes() == a.reshape(-1)[::-1].tobytes()  # TensorFlow can compute on it
        back = dlbridge.from_dlpack(tf.experimental.dlpack.to_dlpack(theirs))
        assert (back.dtype, back.shape) == (dtype, a.shape)
        if a.size > 0:
            assert back.data_ptr == tensor.data_ptr
        assert tensorflow.encode(back) == data
        del theirs, back
