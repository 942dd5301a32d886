"""Messages and the tensors in them: all vectors that the ZIO peer has written, and more."""

from __future__ import annotations

import collections
import copy
import gc
import hashlib
import json
import mmap
import os
import pathlib
import random
import shutil
import subprocess
import sys
import textwrap
import types
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from conftest import Entry, Lazy, Producer, count_ours, on_threads, resident, run_python, settled, vectors

import dlbridge
from dlbridge import _core, _json, tens


class Vector:
    def __init__(self, fields: Entry) -> None:
        self.fields = fields
        self.id, self.verdict = fields["id"], fields["verdict"]
        self.message, self.tens = fields.get("message"), fields.get("tens")

    def packed(self) -> bytes | None:
        name = self.fields.get("encoded", {}).get("file")
        return self.fields.read(name) if name else None

    def frames(self, kind=bytes) -> list | None:
        names = self.fields.get("frames")
        return None if names is None else [kind(self.fields.read(name)) for name in names]


VECTORS = [
    Vector(fields)
    for group in ("message", "tens", "layout", "wirecell", "invalid")
    for fields in vectors("zio", group)["vectors"]
]
# These vectors have errors in the message itself. In the others, the label or a part is wrong.
NO_MESSAGE = ["too-few-frames", "prefix-short", "bad-magic", "bad-level", "header-size", "encoding-truncated"]
KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}
every = pytest.mark.parametrize("vector", VECTORS, ids=[v.id for v in VECTORS])


def sha(data) -> str:
    return hashlib.sha256(data).hexdigest()


def address(view) -> int:
    return np.frombuffer(view, np.uint8).ctypes.data


@pytest.fixture(autouse=True)
def nothing_left_alive_in_go():
    before = _core.library_counters()
    yield
    assert settled(_core.library_counters, before) == before


def test_the_vectors_are_all_there():
    assert count_ours([v.fields for v in VECTORS]) == 228


# ---- the vectors ------------------------------------------------------------------------------------------


def check_message(message: tens.Message, expected: dict) -> None:
    assert message.level == expected["level"]
    assert message.form == bytes.fromhex(expected["form_hex"])
    assert sha(message.label_bytes) == expected["label_sha256"]
    for name in ("origin", "granule", "seqno"):
        assert getattr(message, name) == int(expected[name])
    assert [sha(part) for part in message.parts] == [part["sha256"] for part in expected["parts"]]
    assert all(part.format == "B" and part.ndim == 1 for part in message.parts)


def check_tensor(message: tens.Message, i: int, expected: dict) -> None:
    if "metadata" in expected:
        assert message.tensor_metadata[i] == expected["metadata"]
    if expected.get("only_metadata"):
        assert message.tensors[i] is None
        return
    tensor, part = message.tensors[i], message.parts[expected["part"]]
    word = expected["word"]
    bits = "" if expected["dtype"] == "b" else str(8 * word)
    assert tensor.dtype == KINDS[expected["dtype"]] + bits
    assert tensor.shape == tuple(expected["shape"])
    assert (tensor.size, tensor.nbytes, tensor.itemsize) == (expected["count"], expected["nbytes"], word)
    if expected["count"] > 0:
        if expected.get("strides") is not None:
            assert [s for s, n in zip(tensor.strides, tensor.shape) if n > 1] == [
                s for s, n in zip(expected["strides"], expected["shape"]) if n > 1
            ]
        assert tensor.data_ptr == address(part) + expected["offset"] * word
    if tensor.dtype != "complex32":
        assert sha(np.asarray(memoryview(tensor)).tobytes()) == expected["logical_sha256"]


def check_tens(message: tens.Message, expected: dict) -> None:
    assert len(message.tensors) == len(expected["tensors"])
    for i, tensor in enumerate(expected["tensors"]):
        check_tensor(message, i, tensor)
    if not expected.get("metadata_omitted"):
        assert message.metadata == expected["metadata"]


def untyped(vector: Vector) -> bool:
    """80-bit floats, which a ZIO peer writes, but DLPack cannot describe."""
    return any(t.get("typed") is False for t in (vector.tens or {}).get("tensors", []))


def read(vector: Vector, kind=bytes):
    """Returns the frames of a vector, or the exception that decoding its packed form raises."""
    frames = vector.frames(kind)
    return tens.decode_frames(kind(vector.packed())) if frames is None else frames


@every
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_every_vector_is_read_as_it_says(vector, kind):
    if vector.verdict == "reject" and vector.fields["error"] in NO_MESSAGE:
        with pytest.raises(ValueError, match="dlbridge: "):
            tens.decode(read(vector, kind), message_only=True)
        with pytest.raises(ValueError, match="dlbridge: "):
            tens.decode(read(vector, kind))
        return
    frames = read(vector, kind)
    message = tens.decode(frames, message_only=True)
    assert message.tensors == [] and message.metadata is None
    if vector.message is not None:
        check_message(message, vector.message)
    try:
        message = tens.decode(frames)
    except (ValueError, BufferError) as error:
        assert str(error).startswith("dlbridge: ")
        assert isinstance(error, BufferError) == untyped(vector)
        # Vectors of the message layer do not describe tensors, as the form TENS requires.
        no_tensors = vector.tens is None and bytes(frames[0][4:8]) == b"TENS"
        assert vector.verdict != "accept" or untyped(vector) or no_tensors
        return
    assert vector.verdict != "reject"
    if vector.message is not None:
        check_message(message, vector.message)
    if vector.tens is not None:
        check_tens(message, vector.tens)
    # A tensor is read-only exactly when its frame is.
    assert all(t is None or t.readonly is (kind is bytes) for t in message.tensors)


@every
def test_every_message_is_written_byte_for_byte(vector):
    frames = vector.frames()
    if vector.verdict == "reject" or vector.message is None or frames is None:
        return
    fields, read = vector.message, tens.decode(frames, message_only=True)
    made = tens.Message(
        fields["level"], bytes.fromhex(fields["form_hex"]), read.label_bytes,
        int(fields["origin"]), int(fields["granule"]), int(fields["seqno"]), read.parts,
    )  # fmt: skip
    for message in (read, made):
        written = message.frames()
        assert [bytes(f) for f in written] == frames
        for part, again in zip(read.parts, written[2:]):
            assert len(part) == 0 or address(part) == address(again)
    packed = tens.encode_frames(frames)
    assert [bytes(f) for f in tens.decode_frames(packed)] == frames
    encoded = vector.fields.get("encoded")
    if encoded is not None and encoded.get("canonical", True):
        assert (len(packed), sha(packed)) == (encoded["len"], encoded["sha256"])


@every
def test_single_part_forms_are_read(vector):
    packed = vector.packed()
    if packed is None or vector.verdict == "reject":
        return
    frames = tens.decode_frames(packed)
    base = address(packed)
    for part in frames[2:]:
        assert len(part) == 0 or base <= address(part) <= base + len(packed)
    if vector.message is not None:
        check_message(tens.decode(frames, message_only=True), vector.message)


@every
def test_tensors_of_a_vector_are_written_again(vector):
    if vector.verdict != "accept" or vector.tens is None or untyped(vector):
        return
    message = tens.decode(read(vector))
    if None in message.tensors:
        return
    frames = tens.encode(
        message.tensors, metadata=message.metadata, tensor_metadata=message.tensor_metadata,
        form=message.form, level=message.level, origin=message.origin, granule=message.granule,
        seqno=message.seqno,
    )  # fmt: skip
    again = tens.decode(frames)
    assert (again.form, again.seqno, again.metadata) == (message.form, message.seqno, message.metadata or {})
    assert again.tensor_metadata == message.tensor_metadata
    for old, new in zip(message.tensors, again.tensors):
        assert (new.dtype, new.shape, new.readonly) == (old.dtype, old.shape, True)
        assert new.data_ptr == old.data_ptr  # layouts without gaps are not copied
        assert [s for s, n in zip(new.strides, new.shape) if n > 1 and new.size] == [
            s for s, n in zip(old.strides, old.shape) if n > 1 and old.size
        ]


@every
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_messages_are_relayed_byte_for_byte(vector, kind):
    frames = vector.frames(kind)
    if vector.verdict != "accept" or vector.tens is None or untyped(vector) or frames is None:
        return
    message = tens.decode(frames)
    relayed = tens.encode(message.tensors, relay=message)
    assert [bytes(frame) for frame in relayed] == [bytes(frame) for frame in frames]
    assert [bytes(frame) for frame in tens.encode(message)] == [bytes(frame) for frame in frames]
    for part, frame in zip(message.parts, relayed[2:], strict=True):
        assert len(part) == 0 or (address(part) == address(frame) and frame.readonly is (kind is bytes))


FRAME = {"datapath": "frames/0", "tags": ["gauss", "größe"], "masks": {"bad": {"7": [[0, 10]]}}, "tick": 5e-1}
TRACE = {"name": "trace", "tbins": [0, 4]}


def relayed_message():
    """A message with a part of another use, a tensor that is only metadata, one with lists in its metadata, and a packed one."""
    tensors = [
        {"dtype": "?", "word": 0, "shape": [], "part": 1, "metadata": FRAME},
        {"dtype": "f", "word": 4, "shape": [3], "part": 2, "metadata": TRACE},
        {"dtype": "f", "word": 8, "shape": [100], "part": 3, "packing": "zip"},
    ]
    label = {"flow": "DAT", "TENS": {"tensors": tensors}}
    return tens.Message(3, "FLOW", json.dumps(label), 1, 2, 4, [b"other", b"", np.arange(3, dtype=np.float32), b"zipped"])


def test_metadata_of_named_tensors_may_have_their_names():
    a, b = np.arange(3), np.ones(2)
    message = tens.decode(tens.encode({"a": a, "b": b}, tensor_metadata={"b": {"unit": "mm"}}))
    assert message.tensor_metadata == [{"name": "a"}, {"name": "b", "unit": "mm"}]
    changed = tens.decode(tens.encode(message, tensor_metadata={}, metadata={"run": 7}))
    assert changed.tensor_metadata == message.tensor_metadata and changed.metadata == {"run": 7}
    with pytest.raises(ValueError, match=r"^dlbridge: encode: tensor_metadata\['c'\]: no tensor has this name; the names are 'a', 'b'$"):
        tens.encode({"a": a, "b": b}, tensor_metadata={"c": {}})
    with pytest.raises(ValueError, match=r"the tensors have no names: encode\({'w': a}, ...\) gives them names$"):
        tens.encode([a], tensor_metadata={"a": {}})


def test_a_relayed_message_may_have_other_tensors():
    message = tens.decode(relayed_message().frames())
    assert [t is None for t in message.tensors] == [True, False, True]
    with pytest.raises(ValueError, match="must be a scalar; TENS.metadata accepts any value, and relay= keeps the metadata of a decoded message"):
        tens.encode([np.zeros(2)], tensor_metadata=[TRACE])
    with pytest.raises(TypeError):
        tens.encode(message.tensors)
    x = np.arange(4, dtype=np.int16)
    read = tens.decode(tens.encode([None, x, None], relay=message, metadata={"n": 1}, seqno=9))
    assert (read.form, read.level, read.origin, read.granule, read.seqno) == (b"FLOW", 3, 1, 2, 9)
    assert read.label["flow"] == "DAT" and read.metadata == {"n": 1}
    assert read.tensor_metadata == [FRAME, TRACE, None] == message.tensor_metadata
    assert [bytes(part) for part in read.parts] == [b"other", b"", x.tobytes(), b"zipped"]
    assert read.tensors[1].data_ptr == x.ctypes.data and read["trace"].tolist() == [0, 1, 2, 3]
    changed = tens.decode(tens.encode([None, x, None], relay=message, tensor_metadata=[None, {"name": "trace", "tbins": [8]}, None]))
    assert changed.tensor_metadata == [FRAME, {"name": "trace", "tbins": [8]}, None]
    del message, x
    assert bytes(changed.parts[3]) == b"zipped" and changed.tensors[1].tolist() == [0, 1, 2, 3]


def test_relay_refuses_what_it_cannot_place():
    message = tens.decode(relayed_message().frames())
    for tensors, error, text in [
        ([], ValueError, "relay: 0 tensors, but the decoded message has 3"),
        ([None] * 3, ValueError, "tensor 1: relay: the tensor is nil, but this tensor of the decoded message has elements"),
        ({"trace": np.zeros(2)}, ValueError, "the name of tensor 0 in the message to relay is None, not 'trace'"),
    ]:
        with pytest.raises(error, match=text):
            tens.encode(tensors, relay=message)
    with pytest.raises(TypeError, match="relay must be a decoded Message, not <class 'list'>"):
        tens.encode([], relay=[])
    with pytest.raises(ValueError, match="relay: tens: "):
        tens.encode([], relay=tens.Message(label="no json"))
    pieces = tens.decode(tens.encode([np.arange(4)], spread=16))
    with pytest.raises(ValueError, match="relay: 2 tensors, but the decoded message has 1, where a tensor in several parts counts once"):
        tens.encode(pieces.tensors, relay=pieces)
    frames = tens.encode({"x": np.arange(4)}, spread=16)
    whole = tens.decode(frames, join=True)
    assert [bytes(f) for f in tens.encode(dict(whole), relay=whole)] == [bytes(f) for f in frames]


# ---- one memory ---------------------------------------------------------------------------------------------


def frames_of(*arrays, **fields):
    return [bytearray(f) for f in tens.encode(arrays, **fields)]


def test_a_write_on_one_side_is_read_on_the_other():
    frames = frames_of(np.arange(6, dtype=np.float32).reshape(2, 3))
    message = tens.decode(frames)
    t = message.tensors[0]
    assert t.data_ptr == address(frames[2]) == address(message.parts[0])
    a = np.from_dlpack(t)
    a[1, 2] = -1
    assert np.frombuffer(frames[2], np.float32)[5] == -1
    np.frombuffer(frames[2], np.float32)[0] = 5
    assert memoryview(t)[0, 0] == 5 and np.from_dlpack(tvm_ffi.from_dlpack(t))[0, 0] == 5


def test_packed_payloads_alias_the_tensors():
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for view in (a, a.T, a.transpose(1, 0, 2), a[::-1], a[:, ::-1, ::-1].T, np.asfortranarray(a)):
        frames = tens.encode([view])
        assert address(frames[2]) == np.lib.array_utils.byte_bounds(view)[0]
        back = np.from_dlpack(tens.decode(frames).tensors[0])
        np.testing.assert_array_equal(back, view)
        assert back.ctypes.data == view.ctypes.data and back.strides == view.strides


def test_gaps_and_broadcasts_are_compacted():
    a = np.arange(24, dtype=np.int16).reshape(4, 6)
    for view in (a[:, ::2], a[1::2], np.broadcast_to(a[0], (3, 6))):
        frames = tens.encode([view])
        assert frames[2].nbytes == view.size * 2
        np.testing.assert_array_equal(np.from_dlpack(tens.decode(frames).tensors[0]), view)


def test_a_tensor_keeps_its_frame_and_only_its_frame():
    frames = frames_of(np.arange(4.0), np.ones(3))
    message = tens.decode(frames)
    tensor = message.tensors[0]
    with pytest.raises(BufferError):
        frames[3].append(0)
    del message
    frames[3].append(0)  # no holder of the second tensor is left
    with pytest.raises(BufferError):
        frames[2].append(0)
    array = np.from_dlpack(tensor)
    del tensor
    kept = frames[2]
    del frames
    gc.collect()
    assert array.tolist() == [0, 1, 2, 3]
    del array
    kept.append(0)


def test_encoded_frames_keep_the_tensors():
    a = np.arange(4.0)
    references = sys.getrefcount(a)
    frames = tens.encode([a, a])
    assert sys.getrefcount(a) > references
    part = frames[2]
    del frames
    assert np.frombuffer(part).tolist() == [0, 1, 2, 3]
    a[0] = 9
    assert np.frombuffer(part)[0] == 9
    del part
    gc.collect()
    assert sys.getrefcount(a) == references


def test_unaligned_parts_are_read_where_they_lie():
    raw = tens.encode([np.arange(5.0)])
    room = bytearray(41)
    room[1:] = raw[2]
    message = tens.decode([*raw[:2], memoryview(room)[1:]])
    assert message.tensors[0].data_ptr == address(room) + 1
    assert np.from_dlpack(message.tensors[0]).tolist() == [0, 1, 2, 3, 4]


def test_read_only_frames_stay_read_only():
    a = np.arange(3.0)
    a.flags.writeable = False
    frames = tens.encode([a, np.ones(2)])
    assert [f.readonly for f in frames[2:]] == [True, False]
    message = tens.decode(frames)
    assert [t.readonly for t in message.tensors] == [True, False]
    assert [p.readonly for p in message.parts] == [True, False]
    assert not np.from_dlpack(message.tensors[0]).flags.writeable


def test_dtypes_without_a_letter_cross_by_the_extension():
    a = np.arange(6).astype(ml_dtypes.bfloat16)
    tensors = [
        dlbridge.from_buffer(a.view(np.uint16), "bfloat16", (2, 3)),
        dlbridge.from_buffer(bytearray(range(4)), "float8_e4m3fn"),
        dlbridge.from_buffer(bytearray(range(4)), "float4_e2m1fn", (8,)),
        dlbridge.from_buffer(bytearray(32), "float32x4"),
    ]
    frames = tens.encode(tensors)
    label = tens.decode(frames, message_only=True).label["TENS"]["tensors"]
    assert [t["dtype"] for t in label] == ["V"] * 4
    assert label[0]["dlpack"] == [4, 16, 1] and label[0]["word"] == 2
    again = tens.decode(frames).tensors
    assert [t.dtype for t in again] == [t.dtype for t in tensors]
    assert [t.shape for t in again] == [t.shape for t in tensors]
    assert [t.data_ptr for t in again] == [t.data_ptr for t in tensors]


def test_legacy_producers_travel_read_only(c):
    t = dlbridge.from_dlpack(c.new_capsule(legacy=1))
    frames = tens.encode([t])
    assert frames[2].readonly
    assert np.frombuffer(frames[2], np.float32).tolist() == [0, 1, 2, 3]


def test_tensors_of_any_producer_are_taken(c):
    a = np.arange(4, dtype=np.float32)
    frames = tens.encode([a, tvm_ffi.from_dlpack(a), dlbridge.from_dlpack(a), a.__dlpack__()])
    assert {address(f) for f in frames[2:]} == {a.ctypes.data}
    with pytest.raises(BufferError):
        tens.encode([dlbridge.from_dlpack(c.new_capsule(device_type=2))])


def test_tensors_without_elements_and_messages_without_tensors():
    frames = tens.encode([np.zeros((0, 3)), np.array(7, np.float32)])
    assert [f.nbytes for f in frames[2:]] == [0, 4]
    message = tens.decode(frames)
    assert [t.shape for t in message.tensors] == [(0, 3), ()]
    assert np.from_dlpack(message.tensors[1]) == 7
    nothing = tens.decode(tens.encode([]))
    assert (nothing.tensors, nothing.parts, nothing.metadata) == ([], [], {})


# ---- fields -------------------------------------------------------------------------------------------------


def test_fields_of_a_message_go_out_and_come_in():
    frames = tens.encode(
        [np.zeros(2)], metadata={"run": 7, "é": [1, None]}, tensor_metadata=[{"unit": "mV"}], form="FLOW",
        level=8, label={"flow": "DAT"}, origin=2**64 - 1, granule=1, seqno=2,
    )  # fmt: skip
    m = tens.decode(frames)
    assert (m.level, m.form, m.origin, m.granule, m.seqno) == (8, b"FLOW", 2**64 - 1, 1, 2)
    assert m.metadata == {"run": 7, "é": [1, None]} and m.tensor_metadata == [{"unit": "mV"}]
    assert m.label["flow"] == "DAT" and json.loads(m.label_bytes) == m.label
    assert m.label is m.label and m.metadata is m.metadata and m.tensor_metadata is m.tensor_metadata
    assert all(f.format == "B" for f in frames)
    assert tens.decode(tens.encode([], label=b'{"x":1}', form=b"A"), message_only=True).form == b"A   "
    assert tens.decode(tens.encode([], label='{"x":1}'), message_only=True).label["x"] == 1
    plain = tens.decode(tens.encode([np.zeros(2)]))
    assert (plain.level, plain.form, plain.origin, plain.metadata) == (0, b"TENS", 0, {})
    assert plain.tensor_metadata == [None]


def test_messages_are_made_of_their_fields():
    part = bytearray(b"abcd")
    m = tens.Message(2, "GO", {"a": [1]}, 1, 2, 3, [part, np.arange(3, dtype=np.int16)])
    assert (m.form, m.label, m.label_bytes, m.tensors) == (b"GO  ", {"a": [1]}, b'{"a":[1]}', [])
    frames = m.frames()
    assert bytes(frames[0]) == b'ZIO2GO  {"a":[1]}' and frames[1].nbytes == 24
    assert address(frames[2]) == address(part) and frames[3].nbytes == 6
    assert not frames[2].readonly
    back = tens.decode(frames, message_only=True)
    assert (back.level, back.form, back.seqno, back.label) == (2, b"GO  ", 3, {"a": [1]})
    assert "2 parts" in repr(back)
    for label in ("text", b"\xff", "[1]", '{"a":1,"a":2}', '{"a":NaN}'):
        assert tens.Message(0, "", label).label is None
    assert tens.Message(0, "", "{}").label == {}
    assert bytes(tens.Message(form="").frames()[0]) == b"ZIO0    "


@pytest.mark.parametrize("dtype", ["f4", "c8", "?", ">i4"])
def test_parts_are_anything_with_contiguous_bytes(dtype):
    for shape in ((), (3,), (2, 3), (0,), (0, 3), (3, 0)):
        a = np.ones(shape, dtype)
        assert bytes(tens.Message(parts=[a]).frames()[2]) == a.tobytes()


def test_producers_cannot_reach_the_tensors_being_encoded():
    a = np.zeros(2)

    class Clearing:
        def __dlpack__(self, **arguments):
            for listed in gc.get_referrers(self):
                if isinstance(listed, list):
                    listed.clear()
            return a.__dlpack__(**arguments)

    assert len(tens.encode(iter([Clearing(), a, a]))) == 5
    with pytest.raises(TypeError):
        _core.tens_encode((0, b"TENS", None, 0, 0, 0), None, [a], [None], 0)


def test_a_form_other_than_tens_needs_no_tensors():
    assert tens.decode([b"ZIO0FLOWno json", bytes(24), b"part"]).tensors == []
    assert tens.decode([b"ZIO0FLOW{}", bytes(24)]).label == {}
    for label in (b"", b"no json", b"{}", b"[]"):
        with pytest.raises(ValueError, match="dlbridge: "):
            tens.decode([b"ZIO0TENS" + label, bytes(24)])


def nested(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda a: tens.decode(b"ZIO0TENS"), TypeError),
        (lambda a: tens.decode("ZIO0TENS"), TypeError),
        (lambda a: tens.decode(5), TypeError),
        (lambda a: tens.decode([1, 2]), TypeError),
        (lambda a: tens.decode([b"ZIO0TENS", "text"]), TypeError),
        (lambda a: tens.decode([]), ValueError),
        (lambda a: tens.decode([b"ZIO0TENS{}"]), ValueError),
        (lambda a: tens.decode([b"ZIO9TENS{}", bytes(24)], message_only=True), ValueError),
        (lambda a: tens.decode([b"ZIO0TENS{}", bytes(23)], message_only=True), ValueError),
        (lambda a: tens.encode_frames([b"nonsense", bytes(24)]), ValueError),
        (lambda a: tens.encode_frames(b"nonsense"), TypeError),
        (lambda a: tens.decode_frames(b"\xff"), ValueError),
        (lambda a: tens.decode_frames("text"), TypeError),
        (lambda a: tens.encode([a], level=9), ValueError),
        (lambda a: tens.encode([a], level=-1), ValueError),
        (lambda a: tens.encode([a], level="0"), TypeError),
        (lambda a: tens.encode([a], form="FORMS"), ValueError),
        (lambda a: tens.encode([a], form=5), TypeError),
        (lambda a: tens.encode([a], origin=-1), ValueError),
        (lambda a: tens.encode([a], seqno=2**64), ValueError),
        (lambda a: tens.encode([a], granule=1.5), TypeError),
        (lambda a: tens.encode([a], metadata=[1]), TypeError),
        (lambda a: tens.encode([a], metadata=nested(300)), ValueError),
        (lambda a: tens.encode([a], metadata=nested(100000)), ValueError),
        (lambda a: tens.encode([a], tensor_metadata=[nested(100000)]), ValueError),
        (lambda a: tens.encode([a], tensor_metadata=[{"a": {}}]), ValueError),
        (lambda a: tens.encode([a], tensor_metadata=[{"a": [1]}]), ValueError),
        (lambda a: tens.encode([a], label=nested(100000)), ValueError),
        (lambda a: tens.encode([a], metadata={"x": float("nan")}), ValueError),
        (lambda a: tens.encode([a], metadata={"x": object()}), TypeError),
        (lambda a: tens.encode([a], tensor_metadata=[{}, {}]), ValueError),
        (lambda a: tens.encode([a], tensor_metadata=[5]), TypeError),
        (lambda a: tens.encode([a], label="no json"), ValueError),
        (lambda a: tens.encode([a], label=5), TypeError),
        (lambda a: tens.encode([a, [1, 2]]), TypeError),
        (lambda a: tens.encode(5), TypeError),
        (lambda a: tens.Message(9).frames(), ValueError),
        (lambda a: tens.Message(form="FORMS"), ValueError),
        (lambda a: tens.Message(label=5), TypeError),
        (lambda a: tens.Message(parts=[5]), TypeError),
    ],
)
def test_wrong_arguments_raise_the_right_error(call, error):
    with pytest.raises(error):
        call(np.zeros(2))


def test_errors_say_where():
    label = b'{"TENS":{"tensors":[{"shape":[2],"word":4,"dtype":"f"},{"shape":[-3],"word":4,"dtype":"f"}]}}'
    with pytest.raises(ValueError, match=r"tensor 1.*shape"):
        tens.decode([b"ZIO0TENS" + label, bytes(24), bytes(8), bytes(8)])


def test_a_refused_message_holds_no_frame():
    frames = frames_of(np.arange(4.0))
    frames[0][3:4] = b"9"
    with pytest.raises(ValueError):
        tens.decode(frames)
    for frame in frames:
        frame.append(0)


def test_cut_messages_are_refused():
    whole = tens.encode_frames(tens.encode([np.arange(3, dtype=np.int8)], metadata={"k": "v"}))
    for n in range(len(whole)):
        with pytest.raises(ValueError, match="dlbridge: "):
            tens.decode(tens.decode_frames(whole[:n]))


def messages_of(count: int) -> list[bytes]:
    return [tens.encode_frames(tens.encode([np.full(n, n, np.float32)], seqno=n)) for n in range(count)]


def test_a_second_message_is_not_part_of_the_first():
    first, second = messages_of(2)
    for rest in (second, second[: second.index(b"}}") + 2], bytes([255, 0, 0, 0, 8]) + b"ZIO0TEXT"):
        with pytest.raises(ValueError, match=r'frame 3 begins with "ZIO0TE.*, like another message; decode_all\(\) reads several'):
            tens.decode_frames(first + rest)
    assert dlbridge.counters()["loans"] == 0


def test_a_part_that_looks_like_a_prefix_has_no_single_part_form():
    message = tens.Message(form="TEXT", parts=[b"part", b"ZIO0TENS"])
    with pytest.raises(ValueError, match=r'part 1 begins with "ZIO0TENS", like another message; .* send separate frames'):
        tens.encode_frames(message.frames())
    assert tens.decode(message.frames()).parts == message.parts
    for part in (b"ZIO9TENS", b"ZIO0TEN", b" ZIO0TENS", b"ZIO"):
        frames = tens.Message(form="TEXT", parts=[part, part]).frames()
        assert tens.decode_frames(tens.encode_frames(frames)) == frames


def test_messages_are_read_one_after_another():
    each = messages_of(5)
    for kind in (bytes, bytearray, memoryview, lambda data: memoryview(data).toreadonly(), lambda data: dlbridge.from_buffer(bytearray(data))):
        for count in range(len(each) + 1):
            data = kind(b"".join(each[:count]))
            messages = list(tens.decode_all(data))
            assert [message.seqno for message in messages] == list(range(count))
            for n, message in enumerate(messages):
                assert message.tensors[0].tolist() == [n] * n
                assert message.tensors[0].readonly == memoryview(data).readonly
                assert n == 0 or address(data) < message.tensors[0].data_ptr < address(data) + len(data)
                assert tens.encode_frames(message.frames()) == each[n]
    assert list(tens.decode_all(b"")) == []
    del message, messages, data
    gc.collect()
    assert dlbridge.counters()["loans"] == 0


def test_the_iterator_over_messages_takes_the_arguments_of_decode():
    data = tens.encode_frames(tens.encode([np.arange(6, dtype=np.int8)], spread=2)) * 2
    assert [len(message.tensors) for message in tens.decode_all(data)] == [3, 3]
    assert [message.tensors[0].tolist() for message in tens.decode_all(data, join=True)] == [[0, 1, 2, 3, 4, 5]] * 2
    assert [(message.tensors, len(message.parts)) for message in tens.decode_all(data, message_only=True)] == [([], 3)] * 2
    for wrong, error in ((-1, ValueError), ("x", TypeError), (None, TypeError)):
        with pytest.raises(error):
            tens.decode_all(data, limit=wrong)
    with pytest.raises(TypeError):
        tens.decode_all("text")
    tensor = {"shape": [1000], "word": 1, "dtype": "u", "part": 0, "parts": 1000}
    shared = tens.Message(label={"TENS": {"tensors": [tensor] * 4}}, parts=[b"1"] * 1000)
    messages = tens.decode_all(data + tens.encode_frames(shared.frames()), limit=6_000_000)
    assert len(next(messages).tensors) == len(next(messages).tensors) == 3
    with pytest.raises(ValueError, match="limit="):
        next(messages)


@pytest.mark.parametrize(
    "rest",
    [b"\xff", b"\x08ZIO0TENS", b"\x08ZIO0TENS\x17" + bytes(23), b"\xff\xff\xff\xff\xff", b"\x03", b"\x0aZIO0TENS{}\x18" + bytes(24)],
    ids=["a size that is cut", "a prefix alone", "a header that is too short", "4 GiB", "a frame that is cut", "a label without TENS"],
)
def test_the_iterator_over_messages_ends_with_an_error(rest):
    messages = tens.decode_all(b"".join(messages_of(3)) + rest)
    with pytest.raises(ValueError, match="dlbridge: "):
        for _ in messages:
            pass
    assert list(messages) == []


def test_a_cut_message_is_refused_after_those_before_it():
    each = messages_of(3)
    for cut in range(1, len(each[2])):
        with pytest.raises(ValueError, match="dlbridge: "):
            list(tens.decode_all(b"".join(each)[:-cut]))
        messages = tens.decode_all(b"".join(each)[:-cut])
        assert next(messages).seqno == 0


def test_threads_read_and_write_messages():
    def work(n):
        a = np.full((50, 20), n, np.int32)
        for i in range(100):
            m = tens.decode(tens.encode([a, a.T], seqno=i))
            assert m.seqno == i and np.from_dlpack(m.tensors[1])[19, 49] == n

    on_threads(8, work)


@pytest.mark.memory
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_messages_and_refusals_do_not_leak():
    a = np.arange(64.0)

    def work(times):
        for _ in range(times):
            frames = tens.encode([a, a[::2]], metadata={"k": "v"})
            tens.decode(tens.decode_frames(tens.encode_frames(frames)))
            bad = [bytearray(frames[0]), *frames[1:]]
            bad[0] += b"}"
            for refused in (lambda bad=bad: tens.decode(bad), lambda: tens.encode([a, a], label="[]")):
                try:
                    refused()
                except ValueError:
                    pass
                else:
                    raise AssertionError("taken")

    work(1000)
    before = resident()
    work(4000)
    assert resident() - before < 8 << 20


# ---- the library ----------------------------------------------------------------------------------------------


def test_codec_calls_in_a_forked_child_raise_at_once():
    script = """
        import os, warnings
        import numpy as np
        import dlbridge
        from dlbridge import tens
        frames = tens.encode([np.arange(4.0)], metadata={})
        message = tens.decode(frames)
        warnings.simplefilter("ignore")  # later versions of Python warn of fork with threads
        child = os.fork()
        if child == 0:
            status = 1
            try:
                calls = [lambda: tens.decode(frames), lambda: tens.encode([np.zeros(2)]),
                         lambda: tens.encode_frames(frames), lambda: tens.decode_frames(b"x"), lambda: tens.decode(frames, message_only=True),
                         lambda: message.frames()]
                for call in calls:
                    try:
                        call()
                    except RuntimeError as e:
                        assert "spawn" in str(e) and "forkserver" in str(e)
                    else:
                        raise AssertionError("no error")
                assert np.from_dlpack(message.tensors[0]).tolist() == [0, 1, 2, 3]
                del message, frames
                status = 0
            except BaseException as e:
                os.write(1, repr(e).encode())
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert tens.decode(frames).tensors[0].shape == (4,)
        print("ok")
    """
    assert run_python(script) == "ok\n"


def test_a_child_may_load_the_library_itself():
    script = """
        import os
        import numpy as np
        from dlbridge import tens
        child = os.fork()
        if child == 0:
            os._exit(0 if tens.decode(tens.encode([np.zeros(3)])).tensors[0].shape == (3,) else 1)
        assert os.waitpid(child, 0)[1] == 0
        print(tens.decode(tens.encode([np.zeros(3)])).tensors[0].shape)
    """
    assert run_python(script) == "(3,)\n"


def test_a_child_forked_while_the_library_is_loaded_raises_at_once(tmp_path):
    """Loading this library never ends, because its constructor waits."""
    source, slow = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text("""
        #include <unistd.h>
        __attribute__((constructor)) static void start(void) { if (write(1, "loading", 7)) sleep(60); }
    """)
    subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-o", slow, source], check=True)
    script = """
        import os, signal, threading, warnings
        from dlbridge import tens
        read, write = os.pipe()
        out = os.dup(1)
        os.dup2(write, 1)
        threading.Thread(target=lambda: tens.encode([]), daemon=True).start()
        assert os.read(read, 7) == b"loading"
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                tens.encode([])
            except RuntimeError as e:
                os._exit(0 if "spawn" in str(e) else 1)
            os._exit(2)
        os.write(out, b"%d" % os.waitpid(child, 0)[1])
        os._exit(0)
    """
    assert run_python(script, DLBRIDGE_LIBRARY=str(slow)) == "0"


def test_spawned_workers_have_codecs(tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import numpy as np
            from dlbridge import tens

            def total(frames):
                return float(np.from_dlpack(tens.decode(frames).tensors[0]).sum())

            if __name__ == "__main__":
                frames = [bytes(f) for f in tens.encode([np.arange(5.0)])]
                for method in ("spawn", "forkserver"):
                    with multiprocessing.get_context(method).Pool(2) as pool:
                        print(pool.map(total, [frames] * 3))
            """
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[10.0, 10.0, 10.0]\n" * 2)


def test_a_process_may_leave_messages_tensors_and_frames():
    for left in (
        "kept = [tens.decode(frames) for _ in range(1000)]",
        "kept = [tens.decode([bytearray(f) for f in frames]).tensors[0] for _ in range(1000)]",
        "kept = [tens.encode([a]) for _ in range(1000)]",
        "kept = [tens.encode([a])[2] for _ in range(1000)]; del tens, np",
        "kept = [np.from_dlpack(tens.decode(frames).tensors[0]) for _ in range(1000)]",
        "threading.Thread(target=lambda: [tens.decode(frames) for _ in range(10**6)], daemon=True).start()",
    ):
        script = f"""
            import threading, numpy as np
            from dlbridge import tens
            a = np.arange(100.0)
            frames = tens.encode([a])
            {left}
            print("left")
        """
        assert run_python(script) == "left\n"


def test_load_names_the_library():
    loaded = os.environ.get("DLBRIDGE_LIBRARY") or str(
        pathlib.Path(_core.__file__).parent / "_lib" / "libdlbridge.so"
    )
    script = f"""
        import dlbridge, numpy as np
        for wrong in ("/nonexistent/libx.so", {_core.__file__!r}):
            try:
                dlbridge.load(wrong)
            except OSError as e:
                assert wrong in str(e), e
                hints = ("is not a dlbridge library", "bridge/capi", "ctypes.CDLL", "dlbridge.wrap")
                assert all(hint in str(e) for hint in hints) == (wrong == {_core.__file__!r}), e
            else:
                raise AssertionError(wrong)
        dlbridge.load({loaded!r})
        import os, tempfile
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "another name.so")
            os.symlink(os.path.realpath({loaded!r}), link)
            for same in {loaded!r}, os.path.relpath({loaded!r}), link:
                dlbridge.load(same)
        assert len(dlbridge.tens.encode([np.zeros(2)])) == 3
        for other in "/nonexistent/libx.so", {_core.__file__!r}:
            try:
                dlbridge.load(other)
            except (OSError, RuntimeError) as e:
                print(e)
    """
    missing, other = run_python(script, DLBRIDGE_LIBRARY="/nonexistent/other.so").splitlines()
    assert missing.endswith("/nonexistent/libx.so: No such file or directory")
    assert f"{loaded} is loaded already" in other and "put the functions of" in other and "plain C library" in other


def test_load_after_a_format_says_what_has_loaded_a_library():
    script = f"""
        import dlbridge
        dlbridge.tens.encode([])
        try:
            dlbridge.load({_core.__file__!r})
        except RuntimeError as e:
            print(e)
    """
    loaded = os.environ.get("DLBRIDGE_LIBRARY") or str(pathlib.Path(_core.__file__).parent / "_lib" / "libdlbridge.so")
    text = f"load: the first use of a format has loaded {loaded}, and"
    text += f" a process can have only one Go library: call load before it, or set DLBRIDGE_LIBRARY={_core.__file__} in"
    said = run_python(script)
    assert text in said and "load a plain C library with ctypes.CDLL" in said


def test_a_missing_library_is_an_os_error_and_leaves_the_protocol():
    script = """
        import dlbridge, numpy as np
        try:
            dlbridge.tens.encode([np.zeros(2)])
        except OSError as e:
            print(e)
        assert np.from_dlpack(dlbridge.from_dlpack(np.ones(3))).sum() == 3
    """
    assert "cannot load /nonexistent/other.so" in run_python(script, DLBRIDGE_LIBRARY="/nonexistent/other.so")


def test_a_package_that_was_built_without_go_says_what_to_do(tmp_path):
    package = pathlib.Path(dlbridge.__file__).parent
    shutil.copytree(package, tmp_path / "dlbridge", ignore=shutil.ignore_patterns("_lib", "__pycache__"))
    script = """
        import dlbridge, numpy as np
        try:
            dlbridge.tens.encode([np.zeros(2)])
        except OSError as e:
            print(e)
    """
    said = run_python(script, PYTHONPATH=str(tmp_path), DLBRIDGE_LIBRARY="")
    assert "built without Go, which its formats need: install Go 1.26 or later" in said
    assert "set DLBRIDGE_LIBRARY" in said and str(tmp_path) in said


def test_the_single_part_form_is_no_list_of_frames():
    packed = tens.encode_frames(tens.encode([np.zeros(2)]))
    for data in (packed, bytearray(packed), memoryview(packed)):
        with pytest.raises(TypeError, match="tens.decode_frames splits the packed form"):
            tens.decode(data)
    with pytest.raises(ValueError, match=r"1 frame, want at least 2; decode_frames\(\) splits the packed form"):
        tens.decode([packed])
    assert tens.decode(tens.decode_frames(packed)).tensors[0].shape == (2,)


def test_importing_starts_no_go():
    script = """
        import pathlib, dlbridge, numpy as np
        maps = pathlib.Path("/proc/self/maps")
        np.from_dlpack(dlbridge.from_dlpack(np.ones(3)))
        assert "libdlbridge" not in maps.read_text()
        dlbridge.tens.encode([])
        assert "libdlbridge" in maps.read_text()
    """
    run_python(script)


def test_the_keyboard_interrupt_and_faulthandler_still_work():
    script = """
        import os, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores the signal by default
        from dlbridge import tens
        tens.encode([])
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(10**8):
                pass
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert run_python(script) == "interrupted\n"


def test_encode_refuses_one_tensor_that_is_not_in_a_list():
    with pytest.raises(TypeError, match=r"encode\(\[t\]\), or encode\(\{'name': t\}\)$"):
        tens.encode(np.zeros((3, 2)))


def test_named_tensors_are_found_by_their_names():
    w, b = np.arange(6.0).reshape(2, 3), np.ones(2, np.int8)
    for given in ({"w": w, "é\n\"\0": b}, types.MappingProxyType({"w": w, "é\n\"\0": b})):
        message = tens.decode(tens.encode(given))
        assert message.tensor_metadata == [{"name": "w"}, {"name": "é\n\"\0"}]
        assert message["w"] is message.tensors[0] and (message["w"].numpy() == w).all()
        assert list(message.keys()) == list(given) and "w" in message and "b" not in message and 0 not in message
        assert {name: t.tolist() for name, t in dict(message).items()} == {name: a.tolist() for name, a in given.items()}
        whole = dict(zip(given, message.tensors))
        assert isinstance(message, Mapping) and len(message) == 2 and list(message) == list(given)
        assert dict(message) == whole == dict(**message) == dict(message.items()) and list(message.values()) == message.tensors
        assert message.get("w") is message.tensors[0] and message.get("b") is None and message.get("b", 7) == 7
        assert message == message and message != dict(message)
    for of in (message, dict(message)):
        assert tens.decode(tens.encode(of)).label_bytes == message.label_bytes
    assert list(copy.copy(message).keys()) == list(message.keys())
    assert tens.decode(tens.encode({})).tensors == []


def test_the_text_of_a_message_has_names_types_and_shapes():
    message = tens.decode(tens.encode({"w": np.zeros((2, 3)), "b\n": np.ones(2, np.int8)}, seqno=5))
    head = "<dlbridge.tens.Message, level 0, form b'TENS', seqno 5, 2 parts, 2 tensors"
    assert repr(message) == head + r": 'w' float64(2, 3), 'b\n' int8(2,)>"
    message.tensors[0].close()
    assert repr(message) == head + r": 'w' closed, 'b\n' int8(2,)>"
    prefix, *rest = tens.encode([np.zeros(1), np.zeros(2)], tensor_metadata=[{"name": 1234}, {"name": 3}], seqno=5)
    unread = bytes(prefix).replace(b"1234", b"9" * 5000)  # more digits than Python converts to an int
    assert repr(tens.decode([unread, *rest])) == head + ": float64(1,), float64(2,)>"
    many = tens.decode(tens.encode({f"{i}" * 1000: np.zeros(i + 1) for i in range(1000)}))
    assert repr(many).endswith(f"1000 tensors: {', '.join(f'{str(i) * 64!r} float64({i + 1},)' for i in range(8))}, ...>")
    assert repr(tens.decode(tens.encode([]))).endswith("0 parts, 0 tensors>")


def test_names_and_metadata_of_tensors_travel_together():
    given = [{"unit": "m"}, None, {"name": "c", "gain": 2}]
    message = tens.decode(tens.encode(dict.fromkeys("abc", np.zeros(1)), tensor_metadata=given))
    assert message.tensor_metadata == [{"name": "a", "unit": "m"}, {"name": "b"}, {"name": "c", "gain": 2}]
    # Names that are given as metadata, and metadata without a name.
    given = [{"name": "x"}, {"name": 7}, None, {"name": ""}, {}]
    message = tens.decode(tens.encode([np.zeros(1)] * 5, tensor_metadata=given))
    assert message.tensor_metadata == given and list(message.keys()) == ["x"] and "" not in message


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda a: tens.encode({3: a}), TypeError, "dlbridge: encode: the name of tensor 0 must be a str, not 3"),
        (lambda a: tens.encode({"w": a, "": a}), ValueError, "dlbridge: encode: the name of tensor 1 is empty"),
        (lambda a: tens.encode(Twice({"w": a})), ValueError, "dlbridge: encode: tensors 0 and 1 are both named 'w'"),
        (
            lambda a: tens.encode({"w": a, "b": a}, tensor_metadata=[None, {"name": "x"}]),
            ValueError,
            "dlbridge: tensor_metadata[1]: the name is 'x', but the tensor's name is 'b'",
        ),
        (
            lambda a: tens.encode({"w": a}, tensor_metadata=[{"name": 5}]),
            ValueError,
            "dlbridge: tensor_metadata[0]: the name is 5, but the tensor's name is 'w'",
        ),
        (lambda a: tens.encode({"w": a}, tensor_metadata=[5]), TypeError, "dlbridge: tensor_metadata[0] must be a mapping, not <class 'int'>"),
    ],
)
def test_names_that_cannot_be_written_are_refused(call, error, text):
    with pytest.raises(error) as raised:
        call(np.zeros(2))
    assert str(raised.value) == text


def test_other_wrong_names_and_numbers_of_metadata_are_refused():
    with pytest.raises(ValueError, match='^dlbridge: encode: "\ud800": '):
        tens.encode({"w": np.zeros(1), "\ud800": np.zeros(1)})
    for wrong in ([], [None, None]):
        with pytest.raises(ValueError, match=f"tensor_metadata has {len(wrong)} items, but the message has 1 tensor$"):
            tens.encode({"w": np.zeros(1)}, tensor_metadata=wrong)


class Twice(collections.UserDict):
    """A mapping that has each item twice, which multidict.MultiDict allows."""

    def items(self):
        return [*self.data.items()] * 2


def test_names_that_are_not_of_one_tensor_are_errors():
    a = np.zeros(1)
    message = tens.decode(tens.encode([a] * 4, tensor_metadata=[{"name": "w"}, {"name": "b"}, None, {"name": "w"}]))
    assert len(message.tensors) == 4 and list(message.keys()) == ["w", "b"] and "w" in message
    assert message["b"] is message.tensors[1]
    with pytest.raises(ValueError, match=r"^dlbridge: message\['w'\]: tensors 0 and 3 both have this name: message.tensors has them by index; "):
        message["w"]
    with pytest.raises(KeyError) as missing:
        message["x"]
    assert missing.value.args == ("dlbridge: message['x']: no tensor has this name; the names are 'w', 'b'",)
    with pytest.raises(KeyError, match="'7', ...\""):
        tens.decode(tens.encode(dict.fromkeys("0123456789", a)))["x"]
    for wrong in (0, b"w", None, [], slice(None)):
        with pytest.raises(TypeError, match="a name must be a str"):
            message[wrong]
    for read in (dict, lambda message: list(message.values()), lambda message: message.get("w")):
        with pytest.raises(ValueError, match="both have this name"):
            read(message)
    for nameless in (
        tens.decode(tens.encode([a])), tens.decode(tens.encode({"w": a}), message_only=True), tens.Message(label='{"TENS":{}}')
    ):  # fmt: skip
        with pytest.raises(KeyError, match="none has a name"):
            nameless["w"]
        assert list(nameless.keys()) == [] and "w" not in nameless and list(nameless) == [] and len(nameless) == 0
        assert nameless and nameless != copy.copy(nameless) and len({nameless, nameless}) == 1


def test_pieces_have_the_name_of_their_tensor():
    frames = tens.encode({"b": np.zeros(1, np.int8), "w": np.arange(5, dtype=np.int8)}, spread=2)
    message = tens.decode(frames)
    assert len(message.tensors) == 4 and list(message.keys()) == ["b", "w"] and message["b"].tolist() == [0]
    with pytest.raises(ValueError, match="tensors 1 and 2 .*join=True"):
        message["w"]
    assert tens.decode(frames, join=True)["w"].tolist() == [0, 1, 2, 3, 4]


def test_numbers_of_the_header_may_be_numpys():
    frames = tens.encode([], level=np.int64(3), origin=np.uint64(2**64 - 1), seqno=np.int8(7))
    message = tens.decode(frames, message_only=True)
    assert (message.level, message.origin, message.granule, message.seqno) == (3, 2**64 - 1, 0, 7)
    assert tens.decode(tens.Message(level=np.int64(2)).frames(), message_only=True).level == 2
    with pytest.raises(TypeError):
        tens.Message(level="a")
    with pytest.raises(TypeError):
        tens.encode([], seqno=1.0)


def test_what_json_cannot_say_is_told_with_our_name():
    assert tens.decode(tens.encode([], metadata={"a": np.float32(2), "b": [np.int64(3)]})).metadata == {"a": 2.0, "b": [3]}
    with pytest.raises(ValueError, match=r"dlbridge: metadata\['gain'\]: Out of range float"):
        tens.encode([], metadata={"gain": float("nan")})
    with pytest.raises(TypeError, match=r"dlbridge: metadata\['gain'\]: .*not JSON serializable"):
        tens.encode([], metadata={"gain": object()})


@pytest.mark.parametrize(
    "make", [lambda: json.loads("{"), lambda: b"\xff".decode(), lambda: "\ud800".encode()], ids=["json", "read", "write"]
)
def test_an_error_of_a_mapping_is_a_value_error_and_its_cause(make):
    with pytest.raises(ValueError) as wrong:
        make()
    for what, call in [
        ("metadata", lambda: tens.encode([], metadata=Lazy(make))),
        ("label", lambda: tens.Message(label=Lazy(make))),
    ]:
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == f"dlbridge: {what}: {wrong.value}"
        assert type(error.value.__cause__) is wrong.type


def test_integers_longer_than_python_reads_are_told_with_our_name():
    number = b"1" * (sys.get_int_max_str_digits() + 1)
    label = b'{"TENS":{"metadata":{"a":%s},"tensors":[{"shape":[0],"word":1,"dtype":"u","metadata":{"a":%s}}]}}'
    message = tens.decode([b"ZIO0TENS" + label % (number, number), bytes(24), b""])
    assert message.tensors[0].shape == (0,)
    assert message.label is None
    for attribute in ["metadata", "tensor_metadata"]:
        with pytest.raises(ValueError, match="dlbridge: metadata: .*digits"):
            getattr(message, attribute)


class Mine(Exception):
    """An error that a producer defines."""


def raise_mine():
    raise Mine("mine", 7)


def test_errors_say_which_tensor_or_frame_is_meant():
    closed = dlbridge.empty(2, "int8")
    closed.close()
    a, gaps = np.zeros(2), memoryview(bytes(8))[::2]
    for call, error, note in [
        (lambda: tens.encode([a, a, closed]), ValueError, "tensors[2]"),
        (lambda: tens.encode([a, [1]]), TypeError, "tensors[1]"),
        (lambda: tens.encode([np.zeros(2, ">f4")]), BufferError, "tensors[0]"),
        (lambda: tens.encode({"w": a, "b": [1]}), TypeError, 'encode: "b"'),
        (lambda: tens.encode({"w": a, "b\n": closed}), ValueError, 'encode: "b\n"'),
        (lambda: tens.encode({"w": a, "b": a}, tensor_metadata=[None, {"x": {}}]), ValueError, 'encode: "b"'),
        (lambda: tens.decode([b"ZIO0TENS", "text"]), TypeError, "frames[1]"),
        (lambda: tens.encode_frames([b"ZIO0TENS{}", bytes(24), gaps]), BufferError, "frames[2]"),
    ]:
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value).startswith(f"dlbridge: {note}: ")
    for given, note in (([a, Producer(raise_mine)], "tensors[1]"), ({"w": a, "b": Producer(raise_mine)}, 'encode: "b"')):
        with pytest.raises(Mine) as raised:
            tens.encode(given)
        assert (raised.value.args, raised.value.__notes__) == (("mine", 7), [f"dlbridge: {note}"])
    message = tens.Message(parts=[b"x"])
    message.parts.append(None)
    with pytest.raises(TypeError) as raised:
        message.frames()
    assert str(raised.value) == "dlbridge: parts[1]: a bytes-like object is required, not 'NoneType'"


def test_a_file_that_was_cut_is_a_value_error_whose_text_is_prefixed_once(tmp_path, nothing_left_alive_in_go):
    path = tmp_path / "message"
    path.write_bytes(tens.encode_frames(tens.encode([np.arange(1000)])))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        os.truncate(path, 0)
        with pytest.raises(ValueError, match=r"^dlbridge: the memory at 0x[0-9a-f]+ cannot be accessed$"):
            tens.decode_frames(data)


# ---- JSON and the caller's stack ---------------------------------------------------------------------------


def nested(levels: int) -> dict:
    value: dict = {}
    for i in range(levels - 1):
        value = {"a": value} if i % 2 else {"b": [1, {}], "c": value}
    return value


def levels_of(value) -> int:
    return 1 + max((levels_of(v) for v in value.values()), default=0) if isinstance(value, dict) else 0


def with_frames_left(left: int, read):
    """Returns the result of `read`, called with this many frames left before the recursion limit."""

    def room():
        try:
            return 1 + room()
        except RecursionError:
            return 0

    def descend(more):
        return descend(more - 1) if more > 0 else read()

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 400)
    try:
        return descend(room() - 2 - left)
    finally:
        sys.setrecursionlimit(limit)


def deep_frames(metadata, tensor_metadata, label):
    """Returns a message of one tensor. encode refuses metadata of a tensor that has more than one level."""
    tensor = {"shape": [1], "word": 8, "dtype": "f", "metadata": tensor_metadata}
    label = label | {"TENS": {"metadata": metadata, "tensors": [tensor]}}
    return tens.Message(label=label, parts=[bytes(8)]).frames()


@pytest.mark.parametrize("left", [10, 12, 15, 20, 30, 50, 100, 200, 300, 390])
def test_label_and_metadata_are_read_near_the_recursion_limit(left):
    metadata, tensor_metadata, label = nested(253), nested(251), {"x": nested(254)}
    message = tens.decode(deep_frames(metadata, tensor_metadata, label))
    assert with_frames_left(left, lambda: message.label)["x"] == label["x"]
    assert with_frames_left(left, lambda: message.metadata) == metadata
    assert with_frames_left(left, lambda: message.tensor_metadata) == [tensor_metadata]


def test_a_caller_without_stack_is_told_so():
    frames = deep_frames(nested(253), nested(251), {"x": nested(254)})
    said = set()
    for left in range(1, 30):
        for what in ("label", "metadata", "tensor_metadata"):
            message = tens.decode(frames)
            try:
                assert with_frames_left(left, lambda: getattr(message, what)) is not None
            except ValueError as error:
                said.add(str(error))
            except RecursionError:
                assert left < 8, f"{what} with {left} frames left"
            assert getattr(message, what) is not None  # it can still be read later
    assert said == {
        f"dlbridge: {what}: not enough stack is left to decode it; read it before the recursion"
        for what in ("label", "metadata", "tensor_metadata")
    }


@pytest.mark.parametrize("levels", [256, 257, 600, 100_000])
@pytest.mark.parametrize("left", [20, 390])
def test_labels_are_nested_256_levels_deep_at_most(levels, left):
    frames = tens.Message(form="FLOW", label=b'{"a":' * levels + b"1" + b"}" * levels).frames()
    message = tens.decode(frames, message_only=True)
    if levels <= 256:
        assert levels_of(with_frames_left(left, lambda: message.label)) == levels
        assert tens.decode(frames).tensors == []
        return
    for _ in range(2):
        with pytest.raises(ValueError, match="^dlbridge: label: .* more than 256 levels deep$"):
            with_frames_left(left, lambda: message.label)
    with pytest.raises(ValueError, match="nested too deep"):
        tens.decode(frames)


@pytest.mark.parametrize("levels", [300, 50_000])
def test_labels_that_are_no_json_are_nested_256_levels_deep_at_most(levels):
    message = tens.decode(tens.Message(form="FLOW", label=b'{"a":' + b"[" * levels).frames(), message_only=True)
    with pytest.raises(ValueError, match="^dlbridge: label: .* more than 256 levels deep$"):
        _ = message.label
    assert tens.decode(tens.Message(form="FLOW", label=b'{"a":]' + b"[" * levels).frames(), message_only=True).label is None


@pytest.mark.parametrize("text, value", [
    (r"\ud83d\ude00", "\U0001f600"), (r"\uD83D\uDE00\u0041", "\U0001f600A"), (r"\\ud800", r"\ud800"),
    (r"\ud7ff\ue000", "\ud7ff\ue000"), (r"\ud800", None), (r"\uDC00", None), (r"\ude00\ud83d", None),
    (r"\ud83d\ud83d\ude00", None), (r"\ud83d\\ude00", None), (r"\\\ud83d", None), (r"\ud83d\ude00\ude00", None),
])  # fmt: skip
def test_labels_with_a_lone_surrogate_are_no_json(text, value):
    for label in ('{"a":"%s"}' % text, '{"%s":0}' % text):
        message = tens.decode(tens.Message(form="FLOW", label=label.encode()).frames(), message_only=True)
        if value is None:
            assert message.label is None
        else:
            assert message.label in ({"a": value}, {value: 0})


def test_metadata_and_labels_that_are_nested_deeper_are_not_written():
    for keywords in ({"metadata": nested(255)}, {"tensor_metadata": [nested(253)]}, {"label": {"x": nested(256)}}):
        with pytest.raises(ValueError, match="nested too deep"):
            tens.encode([np.zeros(1)], **keywords)
    for levels in (2000, 100_000):
        deep: list = []
        for _ in range(levels):
            deep = [deep]
        with pytest.raises(ValueError, match="nested too deep"):
            tens.encode([np.zeros(1)], metadata={"x": deep})


READ = [
    "{}", "[]", " [ ] ", '{"a":1}', '{ "a" : [ 1 , 2.5 , -3e2 , 1E-2, -0, 0.0, 1e999 ] , "b" : { } }', "true", "false", "null",
    '"\\u00e9\\ud83d\\ude00\\n\\ud800"', "12345678901234567890", "-1", '[[],{},"",[null]]', '[{"a":{"b":[{}]}},[[1],2]]',
    '{"é":"\u2028"}', "[1]\n", '{"a":1,"b":{"a":1}}', '"[{]}"', "[true,false,null]",
]  # fmt: skip
NOT_READ = [
    "", " ", "[", "]", "{", "}", "[1", '{"a"', '{"a":', '{"a":1', "[1,]", "[,1]", '{"a":1,}', "{,}", "{1:2}", '{"a" 1}', "[1 2]",
    "[}", "{]", "[1}", '{"a":1]', "01", "1.", ".5", "+1", "-", "1e", "NaN", "[Infinity]", "-Infinity", "nul", "truefalse", "1 2",
    "[] []", '"a', '"\\x"', '"\n"', '"\\ud8"', "\ufeff{}", "\u00a01", "'a'", "//", '{"a":1,"a":2}', '{"a":1,"\\u0061":2}', "[1],",
    "\x0b1", ":", ",", '{"a":}', '{:1}', '{"a"}', "٣",
]  # fmt: skip


@pytest.mark.parametrize("text", READ + NOT_READ)
def test_what_is_read_near_the_recursion_limit_is_what_json_reads(text):
    deep = '{"a":' * 200 + text + "}" * 200

    def label(left):
        message = tens.decode(tens.Message(form="FLOW", label=deep).frames(), message_only=True)
        return with_frames_left(left, lambda: message.label)

    assert repr(label(20)) == repr(label(390))
    assert (label(20) is None) == (text in NOT_READ or "ud800" in text)
    if text in READ and "ud800" not in text:
        assert repr(label(20)) == repr(json.loads(deep))


@pytest.mark.parametrize("text", READ + NOT_READ)
def test_what_is_read_without_recursion_is_what_json_reads(text):
    def strictly():
        return json.loads(text, object_pairs_hook=_json._no_duplicates, parse_constant=_json._no_constant)

    if text in READ:
        assert repr(_json._read_value(text)) == repr(strictly())
    else:
        for read in (strictly, lambda: _json._read_value(text)):
            with pytest.raises(ValueError):
                read()


def test_random_json_is_read_alike_without_recursion():
    chance = random.Random(7)

    def value(depth):
        kind = chance.randrange(8 if depth < 6 else 5)
        if kind < 5:
            return [None, True, chance.randrange(-(10**20), 10**20), chance.uniform(-1e9, 1e9), chance.choice(["", "é\n", '"\\'])][kind]
        if kind == 5:
            return [value(depth + 1) for _ in range(chance.randrange(4))]
        return {f"{chance.randrange(99)}": value(depth + 1) for _ in range(chance.randrange(4))}

    for _ in range(300):
        text = json.dumps(value(0), ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))
        assert repr(_json._read_value(text)) == repr(json.loads(text))
        cut = text[: chance.randrange(len(text))] + chance.choice(["", "]", "}", ",", '"', "1"])
        try:
            want = repr(json.loads(cut, object_pairs_hook=_json._no_duplicates, parse_constant=_json._no_constant))
        except ValueError:
            want = None
        try:
            got = repr(_json._read_value(cut))
        except ValueError:
            got = None
        assert got == want, cut


DEEP_LABEL = """
import sys
from dlbridge import tens

message = tens.decode(tens.Message(form="FLOW", label='{"a":' * 256 + "1" + "}" * 256).frames(), message_only=True)
"""


def test_a_finalizer_at_the_end_may_read_a_deep_label():
    code = DEEP_LABEL + """
class AtTheEnd:
    def __del__(self, message=message, write=sys.stdout.write, flush=sys.stdout.flush):
        write(str(len(message.label)))
        flush()

sys.setrecursionlimit(150)
kept = AtTheEnd()
sys.modules["kept"] = kept
"""
    assert run_python(code) == "1"


def test_deep_labels_are_read_with_a_low_recursion_limit():
    assert run_python(DEEP_LABEL + "sys.setrecursionlimit(150)\nprint(len(message.label))") == "1\n"


def test_random_labels_are_too_deep_where_the_library_says_so():
    chance = random.Random(7)
    outcomes = set()
    for _ in range(1000):
        pieces = chance.choices(["[", '{"a":', '{"[":[[],{"]":"\\"["}],"b":', '[1,"[[",'], k=chance.choice([150, 254, 256, 257, 300]))
        if chance.random() < 0.5:
            pieces[chance.randrange(len(pieces))] = chance.choice(["]", "}", ",", '"', "1", "[]", '"\\', "{1:"])
        text = '{"a":' + "".join(pieces)
        frames = tens.Message(form="FLOW", label=text).frames()

        def is_too_deep(read):
            try:
                read()
            except ValueError as error:
                assert "deep" in str(error)
                return True
            return False

        too_deep = is_too_deep(lambda: tens.decode(frames))
        assert is_too_deep(lambda: tens.decode(frames, message_only=True).label) == too_deep, text
        outcomes.add(too_deep)
    assert outcomes == {False, True}


def test_a_part_of_4_gib_has_no_single_part_form():
    big = mmap.mmap(-1, 1 << 32)  # pages of zeros; none of them is read
    frames = tens.Message(form="TEXT", label="x", parts=[big]).frames()
    with pytest.raises(ValueError, match="frame 2 of 4294967296 bytes: frame too large .* separate frames have no limit"):
        tens.encode_frames(frames)


def test_an_integer_of_too_many_digits_is_no_label_and_a_value_error_near_the_limit_too():
    digits = "1" * (sys.get_int_max_str_digits() + 1)
    label = ('{"TENS":{"tensors":[],"metadata":{"n":%s,"deep":%s1%s}}}' % (digits, '{"a":' * 200, "}" * 200)).encode()
    message = tens.decode(tens.Message(label=label).frames())
    for left in (20, 390):
        assert with_frames_left(left, lambda: message.label) is None
        with pytest.raises(ValueError, match="digits"):
            with_frames_left(left, lambda: message.metadata)


# ---- the form -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, written",
    [
        (bytes(4), bytes(4)),
        ("\0\0\0\0", bytes(4)),
        (b"\0", b"\0   "),
        (b"", b"    "),
        ("", b"    "),
        (b"TENS", b"TENS"),
        (b"\0\0\0S", b"\0\0\0S"),
        (b"\xff\xff\xff\xff", b"\xff\xff\xff\xff"),
    ],
)
def test_the_form_that_is_given_is_written(given, written):
    x = np.arange(3.0)
    frames = tens.encode([x], form=given, metadata={"n": 1})
    message = tens.decode(frames)
    assert bytes(frames[0][4:8]) == message.form == written
    assert (message.metadata, memoryview(message.tensors[0]).tolist()) == ({"n": 1}, [0, 1, 2])
    assert message.tensors[0].data_ptr == x.ctypes.data
    assert tens.decode(tens.decode_frames(tens.encode_frames(frames))).form == written
    assert bytes(tens.Message(form=given, label=message.label_bytes, parts=[x]).frames()[0]) == bytes(frames[0])


def test_an_unknown_packing_refuses_its_own_tensor():
    dense = {"shape": [3], "word": 2, "dtype": "i", "part": 1}
    for part in (0, 1, 9):
        sparse = {"shape": [1000], "word": 8, "dtype": "f", "part": part, "packing": "sparse", "metadata": {"a": 1}}
        label = {"TENS": {"tensors": [sparse, dense, sparse]}}
        message = tens.decode(tens.Message(label=label, parts=[b"xyz", np.arange(3, dtype=np.int16)]).frames())
        assert message.tensors[0] is None and message.tensors[2] is None
        assert message.tensors[1].tolist() == [0, 1, 2]
        assert message.tensor_metadata == [{"a": 1}, None, {"a": 1}]
        assert message.label["TENS"]["tensors"][0]["packing"] == "sparse"
    with pytest.raises(ValueError, match="must be a scalar; TENS.metadata accepts any value"):
        tens.encode([np.zeros(1)], tensor_metadata=[{"a": [1]}])


@pytest.mark.parametrize("spread", [1, 8, 40, 47, 48, 100, 2**70])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(30, dtype=np.float32).reshape(5, 6),
        np.arange(30, dtype=np.float32).reshape(5, 6).T,
        np.arange(60, dtype=np.int16).reshape(1, 5, 12)[:, ::-1, ::-1],
        np.arange(60, dtype=np.int16).reshape(5, 12)[:, ::2],  # is copied
        np.broadcast_to(np.arange(5, dtype=np.int64), (7, 5)),  # is copied
        np.array(7.0),
        np.zeros((0, 5)),
    ],
)
def test_tensors_are_spread_across_parts(array, spread):
    frames = tens.encode([array, array], spread=spread)
    whole = tens.encode([array])[2]
    label = json.loads(bytes(frames[0])[8:])["TENS"]["tensors"]
    count = label[0].get("parts", 1)
    assert len(frames) == 2 + 2 * count and label[1]["part"] == count
    assert (count > 1) == (array.nbytes > spread and array.size > 1)
    assert b"".join(bytes(frame) for frame in frames[2 : 2 + count]) == bytes(whole)
    joined = tens.decode(frames, join=True)
    assert len(joined.tensors) == 2
    for tensor in joined.tensors:
        np.testing.assert_array_equal(np.from_dlpack(tensor), array)
        if count > 1:
            assert tensor.numpy().flags.writeable and tensor.numpy().ctypes.data % 256 == 0
    message = tens.decode(frames)
    assert len(message.tensors) == len(message.tensor_metadata) == 2 * count
    pieces = [tensor.numpy() for tensor in message.tensors[count:]]
    assert sum(piece.size for piece in pieces) == array.size
    if count > 1:
        axis = next(d for d in range(array.ndim) if pieces[0].shape[d] != array.shape[d])
        order = pieces[::-1] if label[0].get("ascend", [True] * array.ndim)[axis] is False else pieces
        np.testing.assert_array_equal(np.concatenate(order, axis), array)
    del message, joined, frames
    for piece in pieces:
        piece.sum()


def test_pieces_alias_the_tensor_and_joined_copies_do_not():
    array = np.zeros((4, 3), dtype=np.int32)
    frames = tens.encode([array], spread=12)
    pieces, joined = tens.decode(frames).tensors, tens.decode(frames, join=True).tensors[0]
    array[2, 1] = 7
    assert [piece.tolist() for piece in pieces] == [[[0, 0, 0]], [[0, 0, 0]], [[0, 7, 0]], [[0, 0, 0]]]
    assert joined.tolist() == [[0, 0, 0]] * 4
    for spread in (0, -1):
        with pytest.raises(ValueError, match="spread must be at least 1 byte"):
            tens.encode([array], spread=spread)
    with pytest.raises(TypeError):
        tens.encode([array], spread=1.5)


def test_what_pieces_and_joined_copies_take_is_bounded():
    def message(count, rank, parts):
        tensor = {"shape": [parts] + [1] * rank, "word": 1, "dtype": "u", "part": 0, "parts": parts}
        return tens.Message(label={"TENS": {"tensors": [tensor] * count}}, parts=[b"1"] * parts).frames()

    assert len(tens.decode(message(4, 0, 1000)).tensors) == 4000
    assert len(tens.decode(message(4, 0, 1000), join=True).tensors) == 4
    with pytest.raises(ValueError, match="the tensors have more than 5024 pieces"):
        tens.decode(message(6, 0, 1000))
    with pytest.raises(ValueError, match="joining the tensors that are in several parts needs 578560000 bytes, but the limit leaves"):
        tens.decode(message(4, 200, 10_000))
    assert tens.decode(message(4, 200, 10_000), join=True).tensors[3].shape[0] == 10_000
    with pytest.raises(ValueError, match="joining the tensors that are in several parts needs 6656000 bytes, but the limit leaves"):
        tens.decode(message(4, 0, 1000), limit=6_000_000)
    assert len(tens.decode(message(4, 0, 1000), limit=6_656_000).tensors) == 4000
