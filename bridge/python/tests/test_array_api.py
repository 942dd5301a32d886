"""The DLPack functions of the Python array API standard, version 2024.12: a test for each sentence of the standard.

https://data-apis.org/array-api/2024.12/API_specification/generated/array_api.array.__dlpack__.html
https://data-apis.org/array-api/2024.12/API_specification/generated/array_api.array.__dlpack_device__.html
https://data-apis.org/array-api/2024.12/API_specification/generated/array_api.from_dlpack.html
"""

from __future__ import annotations

import enum
import inspect

import array_api_strict
import numpy as np
import pytest
from conftest import Producer

import dlbridge

IS_COPIED = 2
CUDA, ROCM = 2, 10
KEYWORDS = {
    "__dlpack__": ["stream", "max_version", "dl_device", "copy"],
    "__dlpack_device__": [],
    "from_dlpack": ["device", "copy", "stream"],  # the last is ours
}


# ---- signatures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEYWORDS)
def test_signatures_are_those_of_the_standard(name):
    function = getattr(dlbridge if name == "from_dlpack" else dlbridge.Tensor, name)
    first, *others = inspect.signature(function).parameters.values()
    assert first.kind is first.POSITIONAL_ONLY
    assert [each.name for each in others] == KEYWORDS[name]
    assert all(each.kind is each.KEYWORD_ONLY and each.default is None for each in others)


def test_keywords_are_no_positions_and_positions_no_keywords():
    t = dlbridge.empty(3, "int8")
    for call in (
        lambda: t.__dlpack__(None),
        lambda: t.__dlpack_device__(None),
        lambda: dlbridge.from_dlpack(t, None),
        lambda: dlbridge.from_dlpack(x=t),
        lambda: dlbridge.from_dlpack(producer=t),
    ):
        with pytest.raises(TypeError):
            call()
    assert t.__dlpack__(copy=None, dl_device=None, max_version=None, stream=None) is not None  # in any order


# ---- __dlpack__ and __dlpack_device__ ------------------------------------------------------------------


def test_the_device_is_a_pair_of_ints_that_dl_device_takes_back(c):
    for device in [(1, 0), (1, 3), (2, 0), (3, 0), (10, 1), (13, 0), (14, 5), (99, 7)]:
        t = dlbridge.from_dlpack(c.new_capsule(device_type=device[0], device_id=device[1]))
        assert t.__dlpack_device__() == device
        assert [type(number) for number in t.__dlpack_device__()] == [int, int]
        for asked in (None, device):
            managed = c.describe(c.capsule_pointer(t.__dlpack__(max_version=(1, 0), dl_device=asked)))
            assert (managed["device"], managed["flags"]) == (device, 0)


@pytest.mark.parametrize("kind", [enum.Enum, enum.IntEnum])
def test_a_device_type_may_be_a_member_of_an_enum(kind):
    types = kind("DeviceType", {"CPU": 1, "CUDA": 2})
    t = dlbridge.empty(3, "int8")
    assert t.__dlpack__(dl_device=(types.CPU, 0)) is not None
    assert dlbridge.from_dlpack(t, device=(types.CPU, 0)).data_ptr == t.data_ptr
    with pytest.raises(BufferError, match="not on"):
        t.__dlpack__(dl_device=(types.CUDA, 0))
    words = kind("Words", {"CPU": "cpu"}) if kind is enum.Enum else enum.StrEnum("Words", {"CPU": "cpu"})
    with pytest.raises(TypeError, match="dl_device"):
        t.__dlpack__(dl_device=(words.CPU, 0))


@pytest.mark.parametrize("stream", [None, -1, 0, 1, 2, 12345])
def test_a_device_that_cannot_be_had_is_a_buffer_error_whatever_the_stream(c, stream):
    """The stream belongs to the requested device, and need not be valid on the device of the memory."""
    for here, there in ((1, CUDA), (1, ROCM), (CUDA, ROCM), (ROCM, CUDA), (CUDA, 1)):
        t = dlbridge.from_dlpack(c.new_capsule(device_type=here))
        for copy in (None, False, True):
            with pytest.raises(BufferError, match="memory is on"):
                t.__dlpack__(max_version=(1, 0), dl_device=(there, 0), stream=stream, copy=copy)


def test_streams_are_numbered_as_the_standard_says(c):
    allowed = {1: {None, -1}, 3: {None, -1}, CUDA: {None, -1, 1}, ROCM: {None, -1, 0}}
    # Streams that the standard disallows raise a ValueError. Other streams exist, but dlbridge cannot synchronise with them.
    unknown = {1: set(), 3: set(), CUDA: {2, 3}, ROCM: {3}}
    for device, streams in allowed.items():
        t = dlbridge.from_dlpack(c.new_capsule(device_type=device))
        for stream in (None, -2, -1, 0, 1, 2, 3, 2**70):
            if stream in streams:
                assert t.__dlpack__(stream=stream, max_version=(1, 0)) is not None
                continue
            with pytest.raises(BufferError if stream in unknown[device] else ValueError, match="stream"):
                t.__dlpack__(stream=stream, max_version=(1, 0))


# For each device and stream that from_dlpack accepts: the streams of consumers that need not wait.
STREAMS = {
    (CUDA, None): {None, -1, 1}, (CUDA, 1): {None, -1, 1}, (CUDA, 2): {-1, 2}, (CUDA, 0x7F00): {-1, 0x7F00}, (CUDA, -1): {-1},
    (ROCM, None): {None, -1, 0}, (ROCM, 0): {None, -1, 0}, (ROCM, 3): {-1, 3}, (ROCM, -1): {-1},
    (13, 2): {-1, 2}, (14, 5): {-1, 5}, (99, None): {None, -1}, (1, -1): {None, -1}, (3, -1): {None, -1},
}  # fmt: skip
VIEWS = {
    "itself": lambda t: t, "from_dlpack": dlbridge.from_dlpack, "index": lambda t: t[:2], "reshape": lambda t: t.reshape(2, 2),
    "transpose": lambda t: t.T, "contiguous": lambda t: t.contiguous(), "flip": lambda t: t.flip(), "ravel": lambda t: t.ravel(),
    "broadcast": lambda t: t.broadcast_to((3, 4)),
}  # fmt: skip


@pytest.mark.parametrize(("device", "stream"), STREAMS, ids=str)
def test_the_stream_is_passed_to_the_producer_and_only_that_one_is_handed_on(c, device, stream):
    p = Producer(lambda: c.new_capsule(device_type=device), (device, 0))
    before = c.deletes()
    t = dlbridge.from_dlpack(p, stream=stream)
    assert p.calls == [{"max_version": (1, 3)} | ({} if stream is None else {"stream": stream})]
    for make in VIEWS.values():
        view = make(t)
        for asked in (None, -1, 0, 1, 2, 3, 5, 0x7F00):
            if asked in STREAMS[device, stream]:
                assert view.__dlpack__(max_version=(1, 0), stream=asked) is not None
                continue
            with pytest.raises((BufferError, ValueError), match="stream"):
                view.__dlpack__(max_version=(1, 0), stream=asked)
        api = c.capsule_pointer(dlbridge.Tensor.__dlpack_c_exchange_api__)
        if None in STREAMS[device, stream]:
            c.delete(c.exchange_from(api, view))
            c.delete(dlbridge.to_address(view))
        else:
            with pytest.raises(BufferError, match="to_address: cannot synchronise with the default stream: from_dlpack"):
                dlbridge.to_address(view)
            for export in (c.exchange_from, c.exchange_view):
                with pytest.raises(BufferError, match="C exchange API: cannot synchronise with the default stream: from_dlpack"):
                    export(api, view)
            for _ in range(2):  # also when the method remembers an earlier call
                dlbridge.empty(3, "int8").__dlpack__(max_version=(1, 3))
                with pytest.raises(BufferError, match="cannot synchronise"):
                    view.__dlpack__(max_version=(1, 3))
    t.close(), view.close()
    assert c.deletes() == before + 1


@pytest.mark.parametrize(
    ("device", "stream", "error"),
    [(CUDA, 0, ValueError), (ROCM, 1, ValueError), (ROCM, 2, ValueError), (CUDA, -2, ValueError), (1, 0, ValueError), (1, 1, ValueError),
     (3, 2, ValueError), (CUDA, 2**63, ValueError), (99, 2**64, ValueError), (CUDA, "1", TypeError), (CUDA, 1.0, TypeError)],
)  # fmt: skip
def test_a_stream_that_the_device_does_not_have_is_refused(c, device, stream, error):
    p = Producer(lambda: c.new_capsule(device_type=device), (device, 0))
    before = c.deletes()
    with pytest.raises(error, match="stream"):
        dlbridge.from_dlpack(p, stream=stream)
    assert c.deletes() == before + len(p.calls)
    p.calls.clear()
    with pytest.raises(error, match="stream"):
        dlbridge.from_dlpack(p, device=(device, 0), stream=stream)
    assert p.calls == []  # with a device, this is known before a call
    with pytest.raises(error, match="stream"):
        dlbridge.from_dlpack(dlbridge.from_dlpack(p), stream=stream)


def test_a_stream_is_never_left_out(c):
    """A producer that does not know keywords is called again without them, but never without the stream."""
    calls = []

    class Before2022:
        def __dlpack__(self, *, stream=None):
            calls.append(stream)
            return c.new_capsule(device_type=CUDA, legacy=1)

    class Before2021:
        def __dlpack__(self):
            calls.append("nothing")
            return c.new_capsule(device_type=CUDA, legacy=1)

    t = dlbridge.from_dlpack(Before2022(), device="cuda", copy=False, stream=7)
    assert calls == [7] and t.__dlpack__(max_version=(1, 0), stream=7) is not None
    with pytest.raises(TypeError, match="stream"):
        dlbridge.from_dlpack(Before2021(), stream=7)
    assert calls == [7]
    capsule = c.new_capsule(device_type=CUDA)
    with pytest.raises(ValueError, match="too late for a capsule"):
        dlbridge.from_dlpack(capsule, stream=7)
    assert c.capsule_name(capsule) == b"dltensor_versioned"
    with pytest.raises(BufferError, match="cannot synchronise with stream 8: from_dlpack with stream=7"):
        dlbridge.from_dlpack(t, stream=8)


@pytest.mark.parametrize(
    ("stream", "text"),
    [(None, "the memory is ready on the default stream"),
     (7, "from_dlpack with stream=7 has made the memory ready on that stream only"),
     (-1, "from_dlpack with stream=-1 has made the memory ready on no stream; wait for it, and hand it on with stream=-1")],
)  # fmt: skip
def test_a_refusal_says_on_which_stream_the_memory_is_ready(c, stream, text):
    t = dlbridge.from_dlpack(Producer(lambda: c.new_capsule(device_type=CUDA), (CUDA, 0)), stream=stream)
    with pytest.raises(BufferError, match=f"^dlbridge: __dlpack__: cannot synchronise with stream 8: {text}$"):
        t.__dlpack__(max_version=(1, 0), stream=8)
    if stream is not None:
        with pytest.raises(BufferError, match=f"^dlbridge: __dlpack__: cannot synchronise with the default stream: {text}$"):
            t.__dlpack__(max_version=(1, 0))


@pytest.mark.parametrize("there", ["cpu", "cuda:1", "cuda:0", "cuda_host"])
def test_a_copy_on_a_device_is_asked_of_the_producer_once(c, there):
    """The producer copies if the result does not lie in its own memory."""
    calls = []

    class OnDevice:
        def __dlpack_device__(self):
            return (CUDA, 0)

        def __dlpack__(self, *, copy=None, dl_device=(CUDA, 0), **keywords):
            calls.append(copy)
            return c.new_capsule(device_type=dl_device[0], device_id=dl_device[1])

    dlbridge.from_dlpack(OnDevice(), device=there, copy=True)
    assert calls == [None, True]


@pytest.mark.parametrize(("there", "kind"), [("cpu", 1), ("cpu", 3), ("cuda:0", CUDA), (None, 1)])
def test_a_producer_that_can_only_copy_is_asked_for_a_copy(c, there, kind):
    memory, calls = np.arange(4, dtype=np.float32), []

    class OnlyCopies:
        def __dlpack_device__(self):
            return (14, 0)

        def __dlpack__(self, *, copy=None, dl_device=None, **keywords):
            calls.append((copy, dl_device))
            if not copy:
                raise BufferError("only copies")
            return c.new_capsule(device_type=kind, data_at=memory.ctypes.data if kind != CUDA else 0x1000 * len(calls))

    copied = dlbridge.from_dlpack(OnlyCopies(), device=there, copy=True)
    asked = (True, None if there is None else (CUDA if kind == CUDA else 1, 0))
    if kind == CUDA:
        assert (copied.device, calls) == ((CUDA, 0), [(None, None), asked, asked])  # the two copies lie apart
        return
    memory += 1  # writes to the memory that the producer calls a copy
    assert (copied.device, copied.tolist(), copied.readonly) == ((1, 0), [0, 1, 2, 3], False)
    assert calls == [(None, None), asked]


@pytest.mark.parametrize("here", [1, CUDA])
def test_the_stream_of_a_copy_goes_to_memory_of_its_device_only(c, here):
    p = Producer(None, (here, 0))
    p.make = lambda: c.new_capsule(device_type=CUDA if "copy" in p.calls[-1] else here, data_at=0x1000 * len(p.calls))
    with dlbridge.from_dlpack(p, device="cuda:0", copy=True, stream=1) as t:
        assert t.device == (CUDA, 0)
    stream = {"stream": 1}
    assert p.calls == [
        {"max_version": (1, 3)} | (stream if here == CUDA else {}),
        {"max_version": (1, 3), "dl_device": (CUDA, 0), "copy": True} | stream,
    ]


@pytest.mark.parametrize("says", [(CUDA, 0), (3, 0), (1, 0)])
@pytest.mark.parametrize(("kind", "there"), [(1, "cpu"), (3, "cpu"), (3, "cuda_host"), (1, "cuda_host"), (13, "cpu"), (CUDA, "cuda:1")])
def test_a_copy_is_one_whatever_device_the_producer_claims(c, says, kind, there):
    """The producer returns its own memory, but claims that it is a copy on the requested device."""
    memory = np.arange(4, dtype=np.float32)

    class Liar:
        def __dlpack_device__(self):
            return says

        def __dlpack__(self, *, copy=None, dl_device=None, **keywords):
            device = dl_device or (kind, 0)
            return c.new_capsule(device_type=device[0], device_id=device[1], data_at=memory.ctypes.data)

    if kind in (1, 3) and there == "cpu":
        copied = dlbridge.from_dlpack(Liar(), device=there, copy=True)
        memory += 1
        assert copied.tolist() == [0, 1, 2, 3] and copied.device == (1, 0)
        return
    with pytest.raises(BufferError, match="own memory although copy=True was passed"):
        dlbridge.from_dlpack(Liar(), device=there, copy=True)


def test_page_locked_memory_is_copied_on_the_cpu_only():
    """Only a library of the device can allocate it."""
    for x in (dlbridge.empty((2,), float), dlbridge.empty((2,), float).__dlpack__(max_version=(1, 0))):
        with pytest.raises(BufferError, match=r"on device \(1, 0\), not on \(3, 0\)$"):
            dlbridge.from_dlpack(x, device="cuda_host", copy=True)


@pytest.mark.parametrize(("device", "apart", "copied"), [*((device, 8, True) for device in (4, 7, 8, 9, 15)), (4, 0, False),
                                                         *((device, 8, False) for device in (CUDA, 10, 13, 14, 16, 99)),
                                                         (CUDA, 16, True), (13, 16, True)])  # fmt: skip
def test_handles_are_no_addresses(c, device, apart, copied):
    """The four float32 of a copy lie `apart` bytes from the original. As addresses both overlap; as handles they name other memory."""

    class OnDevice:
        def __dlpack_device__(self):
            return (device, 0)

        def __dlpack__(self, *, copy=None, **keywords):
            return c.new_capsule(device_type=device, data_at=0x10000 + (apart if copy else 0))

    if copied:
        assert dlbridge.from_dlpack(OnDevice(), copy=True).data_ptr == 0x10000 + apart
        return
    with pytest.raises(BufferError, match="returned its own memory"):
        dlbridge.from_dlpack(OnDevice(), copy=True)


def test_copy_true_copies_and_says_so_or_is_a_buffer_error(c):
    frozen = np.arange(3)
    frozen.flags.writeable = False
    t = dlbridge.from_dlpack(frozen)
    copied = c.describe(c.capsule_pointer(t.__dlpack__(max_version=(1, 0), copy=True)))
    assert copied["flags"] == IS_COPIED and copied["data"] != t.data_ptr
    assert t.__dlpack__(copy=True) is not None  # the copy is writable, so that the legacy form can represent it
    device = dlbridge.from_dlpack(c.new_capsule(device_type=CUDA))
    with pytest.raises(BufferError):
        device.__dlpack__(max_version=(1, 0), copy=True)


# ---- from_dlpack ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [BufferError("strides"), MemoryError(), ValueError("stream"), KeyError("x"), AttributeError()])
@pytest.mark.parametrize("arguments", [{}, {"copy": True}, {"device": "cpu"}], ids=repr)
def test_errors_of_the_producer_reach_the_caller_themselves(error, arguments):
    class Unable:
        def __dlpack__(self, **keywords):
            raise error

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(type(error)) as raised:
        dlbridge.from_dlpack(Unable(), **arguments)
    assert raised.value is error


@pytest.mark.parametrize("x", [[1, 2], None, "3", object(), {}], ids=repr)
def test_an_object_without_the_methods_is_an_attribute_error(x):
    for arguments in ({}, {"copy": True}, {"copy": False}, {"device": "cpu"}):
        with pytest.raises(AttributeError, match="has no __dlpack__"):
            dlbridge.from_dlpack(x, **arguments)
    with pytest.raises(AttributeError):
        np.from_dlpack(x)
    with pytest.raises(TypeError, match="has no __dlpack__"):  # for other functions, the argument has a wrong type
        dlbridge.to_address(x)


def test_each_keyword_is_left_out_only_if_the_producer_refuses_it(c):
    """A producer of 2022.12 with max_version, as the standard's retry allows for, still exports the versioned form."""
    calls = []

    class Before2023:
        def __dlpack__(self, *, stream=None, max_version=None):
            calls.append(max_version)
            return frozen.__dlpack__(stream=stream, max_version=max_version)

    class Before2022:
        def __dlpack__(self, *, stream=None):
            calls.append("legacy")
            return c.new_capsule(legacy=1)

    frozen = np.arange(3)
    frozen.flags.writeable = False  # has no legacy form
    copied = dlbridge.from_dlpack(Before2023(), copy=True)
    assert (copied.tolist(), copied.readonly, copied.data_ptr == frozen.ctypes.data) == ([0, 1, 2], False, False)
    shared = dlbridge.from_dlpack(Before2023(), device="cpu", copy=False)
    assert (shared.readonly, shared.data_ptr) == (True, frozen.ctypes.data)
    assert calls == [(1, 3), (1, 3)]
    assert dlbridge.from_dlpack(Before2022(), copy=True).readonly is False
    assert dlbridge.from_dlpack(Before2022(), device="cpu").readonly is True
    assert calls[2:] == ["legacy", "legacy"]


def test_a_type_error_of_a_later_call_is_not_retried():
    calls = []

    class Broken:
        def __dlpack__(self, *, max_version=None):
            calls.append(max_version)
            raise TypeError("an inner argument")

    with pytest.raises(TypeError, match="an inner argument"):
        dlbridge.from_dlpack(Broken(), copy=True)
    assert calls == [(1, 3)]


def test_copy_false_refuses_a_copy_also_of_a_producer_without_the_keyword(c):
    class Copies:
        def __dlpack__(self, *, max_version=None):
            return c.new_capsule(flags=IS_COPIED)

    before = c.deletes()
    for producer in (Copies(), Producer(lambda: c.new_capsule(flags=IS_COPIED)), 2.5):
        with pytest.raises(BufferError, match="copy=False"):
            dlbridge.from_dlpack(producer, copy=False)
    assert c.deletes() == before + 2
    capsule = c.new_capsule(flags=IS_COPIED)  # from_dlpack does not copy a copy
    assert dlbridge.from_dlpack(capsule, copy=False).data_ptr == c.describe(c.capsule_pointer(capsule))["data"]


# ---- with a strict implementation ----------------------------------------------------------------------


def test_the_strict_implementation_takes_ours():
    t = dlbridge.from_dlpack(np.arange(6, dtype=np.float64).reshape(2, 3))
    for arguments, shared in [({}, True), ({"copy": False}, True), ({"copy": True}, False), ({"copy": None}, True)]:
        taken = array_api_strict.from_dlpack(t, device=array_api_strict.Device("CPU_DEVICE"), **arguments)
        assert isinstance(taken, type(array_api_strict.asarray(0)))
        assert array_api_strict.all(taken == array_api_strict.asarray([[0.0, 1, 2], [3, 4, 5]]))
        assert (np.from_dlpack(taken).ctypes.data == t.data_ptr) is shared


def test_we_take_arrays_of_the_strict_implementation():
    x = array_api_strict.asarray([1, 2, 3])
    address = np.from_dlpack(x).ctypes.data
    assert dlbridge.from_dlpack(x).data_ptr == address
    assert dlbridge.from_dlpack(x, copy=False, device=x.__dlpack_device__()).data_ptr == address
    copied = dlbridge.from_dlpack(x, copy=True)
    assert copied.data_ptr != address and copied.tolist() == [1, 2, 3]
    with pytest.raises((BufferError, ValueError)):
        dlbridge.from_dlpack(x, device="cuda:0")
