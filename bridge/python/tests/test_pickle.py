"""Tensors through pickle: in band and out of band, in every protocol, to other processes, and hostile pickles."""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import os
import pathlib
import pickle
import pickletools
import re
import subprocess
import sys
import textwrap
from multiprocessing import shared_memory

import numpy as np
import pytest
from conftest import CORE, elements_of
from formats import VALUES

import dlbridge
from dlbridge import _pickle

PADDED = 4
KINDS = re.findall(r'\{"(\w+)", \{([0-9, ]+)\}, ([01])\}', (CORE / "validate.c").read_text())
NAMES = [kind + width * (sized == "1") for kind, widths, sized in KINDS for width in widths.split(", ")]
HANDLES = [name for name in NAMES if name.startswith("handle")]
NAMES = [name for name in NAMES if name not in HANDLES] + ["float32x4", "int4x3", "bfloat16x2"]


def description(t):
    return t.dtype, t.shape, t.strides, t.readonly, elements_of(t)


def sample(name, shape=(3, 5)):
    size = dlbridge.empty(shape, name).nbytes
    return dlbridge.from_buffer(bytearray(i * 37 % 2 if name == "bool" else i * 37 % 256 for i in range(size)), name, shape)


def out_of_band(t):
    buffers = []
    return pickle.dumps(t, 5, buffer_callback=buffers.append), buffers


def test_the_names_are_those_of_the_core():
    assert len(NAMES) + len(HANDLES) > 35 and len(HANDLES) == 5


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", NAMES)
def test_every_type_survives_every_protocol(name, protocol):
    t = sample(name)
    back = pickle.loads(pickle.dumps(t, protocol))
    assert description(back) == description(t) and not back.readonly
    fixed = dlbridge.from_buffer(elements_of(t), name, t.shape)
    back = pickle.loads(pickle.dumps(fixed, protocol))
    assert description(back) == description(fixed) and back.readonly


@pytest.mark.parametrize("name", NAMES)
def test_out_of_band_neither_side_copies(name):
    t = sample(name, (64, 31))
    data, buffers = out_of_band(t)
    assert len(data) < 250 and len(buffers) == 1
    with buffers[0].raw() as raw:
        assert (ctypes.addressof(ctypes.c_char.from_buffer(raw)), raw.nbytes) == (t.data_ptr, t.nbytes)
    back = pickle.loads(data, buffers=buffers)
    assert description(back) == description(t) and back.data_ptr == t.data_ptr
    del t
    assert len(elements_of(back)) == back.nbytes  # the tensor keeps the memory alive


def test_out_of_band_memory_may_be_written_only_if_tensor_and_buffer_may():
    t = sample("int32")
    data, buffers = out_of_band(t)
    assert not pickle.loads(data, buffers=buffers).readonly
    assert not pickle.loads(data, buffers=[bytearray(buffers[0])]).readonly
    assert pickle.loads(data, buffers=[bytes(buffers[0])]).readonly
    data, buffers = out_of_band(dlbridge.from_buffer(bytes(60), "int32", (3, 5)))
    assert buffers[0].raw().readonly
    assert pickle.loads(data, buffers=[bytearray(60)]).readonly


def test_a_writer_out_of_band_is_seen():
    t = sample("int8")
    data, buffers = out_of_band(t)
    back = pickle.loads(data, buffers=buffers)
    back.numpy()[1, 2] = 99
    assert t.item(1, 2) == 99


def test_the_original_may_be_closed_while_the_buffers_are_in_use():
    t = sample("bfloat16")
    expected = elements_of(t)
    data, buffers = out_of_band(t)
    t.close()
    assert elements_of(pickle.loads(data, buffers=buffers)) == expected


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_layouts(protocol):
    t = sample("int16", (4, 6))
    for view, strides in [
        (t[1:3], (6, 1)),
        (t.T, (1, 6)),
        (t[:, 2:4], (2, 1)),  # copied
        (t.flip(), (6, 1)),  # copied
        (t[0].broadcast_to((3, 6)), (6, 1)),  # copied
        (t[2, 3], ()),
        (t[:0], (6, 1)),
    ]:
        back = pickle.loads(pickle.dumps(view, protocol))
        assert (back.dtype, back.shape, back.strides, back.readonly) == (view.dtype, view.shape, strides, view.readonly)
        assert back.tolist() == view.tolist()
    data, buffers = out_of_band(t.T)
    back = pickle.loads(data, buffers=buffers)
    assert (back.data_ptr, back.strides) == (t.data_ptr, (1, 6))
    data, buffers = out_of_band(t[1:3])
    assert buffers[0].raw().nbytes == 24  # only the elements of the view are pickled


def test_any_rank():
    t = sample("int8", (1,) * 60 + (2, 3) + (1,) * 40)
    back = pickle.loads(pickle.dumps(t))
    assert back.shape == t.shape and elements_of(back) == elements_of(t)


def test_padded_elements_stay_padded(c):
    t = dlbridge.from_dlpack(c.new_capsule((3, 5), (5, 1), code=0, bits=4, flags=PADDED)).copy()
    back = pickle.loads(pickle.dumps(t))
    assert back.nbytes == t.nbytes == 15 and back.tolist() == t.tolist()


def test_memory_whose_writability_is_unknown_is_read_only(c):
    t = dlbridge.from_dlpack(c.new_capsule((2,), (1,), legacy=1))
    assert t.readonly and pickle.loads(pickle.dumps(t)).readonly


def test_what_cannot_be_pickled(c):
    t = sample("int8")
    t.close()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ValueError, match="the tensor is closed"):
            pickle.dumps(t, protocol)
    with pytest.raises(BufferError, match="pickle: the memory is not in the host; dlbridge.from_dlpack"):
        pickle.dumps(dlbridge.from_dlpack(c.new_capsule((4,), (1,), device_type=2)))
    for name in HANDLES:
        with pytest.raises(TypeError, match="handles, which mean nothing to another process"):
            pickle.dumps(dlbridge.empty(3, name))
        with pytest.raises(TypeError, match="handles, which mean nothing to another process"):
            _pickle.load(bytes(32), name, (dlbridge.from_buffer(bytes(32)).nbytes // dlbridge.empty(1, name).nbytes,), False, False)


@pytest.mark.parametrize(
    "arguments",
    [
        (bytes(8), "float32", (3,), False, False),
        (bytes(16), "float32", (3,), False, False),
        (bytes(8), "float32", (-2,), False, False),
        (bytes(8), "float32", (2**62, 2**62), False, False),
        (bytes(8), "float32", (1,) * 100_000, False, False),
        (bytes(8), "float32", "ab", True, False),
        (bytes(8), "float32", 5, True, False),
        (bytes(8), "float33", (2,), False, False),
        (bytes(8), None, (2,), False, False),
        (bytes(8), "float32", None, False, False),
        (memoryview(bytes(16))[::2], "uint8", (8,), False, False),
        (None, "float32", (2,), False, False),
        ("text", "uint8", (4,), False, False),
        (bytes(8), "float32", (2.5,), False, False),
        (np.array([None, None]), "float32", (4,), False, False),
    ],
)
def test_hostile_pickles_raise_and_crash_nothing(arguments):
    with pytest.raises((TypeError, ValueError, BufferError)):
        _pickle.load(*arguments)


def test_damaged_pickles_raise_or_make_a_tensor_of_their_own_bytes():
    data = pickle.dumps(sample("int16"), 5)
    rng = np.random.default_rng(5)
    made = 0
    for _ in range(5000):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] = rng.integers(256)
        if too_short(bytes(damaged)):
            continue  # before it reads, Python allocates the stated length, up to 2**64
        names = {argument for _, argument, _ in operations(bytes(damaged)) if isinstance(argument, str)}
        if not names <= {"dlbridge._pickle", "load", "int16"}:
            continue  # could call any other function
        try:
            back = pickle.loads(damaged)
        except Exception:  # noqa: BLE001, S112
            continue
        made += 1
        assert repr(back)
    assert made > 100


def too_short(data):
    """Reports whether an object has fewer bytes than its stated length."""
    try:
        list(pickletools.genops(data))
    except ValueError as error:
        return "remain" in str(error)
    except Exception:  # noqa: BLE001
        pass
    return False


def operations(data):
    try:
        yield from pickletools.genops(data)
    except Exception:  # noqa: BLE001, S110
        pass


def test_the_copies_of_module_copy_are_in_new_memory():
    t = dlbridge.from_buffer(b"abc")
    for made in (copy.copy(t), copy.deepcopy(t), copy.deepcopy([t])[0]):
        assert made.tolist() == [97, 98, 99] and made.data_ptr != t.data_ptr and not made.readonly
    t.close()
    for make in (copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match="the tensor is closed"):
            make(t)


def doubled(t):
    a = np.from_dlpack(t) * 2
    return dlbridge.from_dlpack(a)


def test_a_pool_of_processes_takes_and_returns_tensors():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        got = pool.map(doubled, [dlbridge.from_buffer(np.arange(i, i + 4.0)) for i in range(3)])
    assert [t.tolist() for t in got] == [[2.0 * (i + k) for k in range(4)] for i in range(3)]


def test_buffers_in_shared_memory():
    t = dlbridge.from_buffer(np.arange(1000.0))
    data, buffers = out_of_band(t)
    memory = shared_memory.SharedMemory(create=True, size=t.nbytes)
    try:
        memory.buf[: t.nbytes] = buffers[0].raw()
        back = pickle.loads(data, buffers=[memory.buf[: t.nbytes]])
        assert back.tolist() == t.tolist() and not back.readonly
        assert back.data_ptr == ctypes.addressof(ctypes.c_char.from_buffer(memory.buf))
        back.close()
    finally:
        memory.close()
        memory.unlink()


@pytest.fixture
def joblib():
    import joblib
    from joblib.externals.loky import get_reusable_executor

    yield joblib
    get_reusable_executor().shutdown()  # its workers would be children of this process for minutes


def test_joblib(joblib):
    got = joblib.Parallel(n_jobs=2)(joblib.delayed(doubled)(dlbridge.from_buffer(np.arange(i, i + 4.0))) for i in range(3))
    assert [t.tolist() for t in got] == [[2.0 * (i + k) for k in range(4)] for i in range(3)]


def kind_of(x):
    return type(x).__name__, x.flags.writeable, x[-1]


def test_joblib_maps_the_arrays_of_tensors(joblib):
    array = dlbridge.from_buffer(np.arange(300_000.0)).numpy()
    assert joblib.Parallel(n_jobs=2)([joblib.delayed(kind_of)(array)]) == [("memmap", False, 299_999)]


@pytest.mark.peers
def test_dask_sends_the_memory_itself():
    from distributed.protocol import deserialize, serialize

    t = sample("bfloat16", (100, 100))
    header, frames = serialize(t, serializers=["pickle"])
    addresses = [np.frombuffer(frame, np.uint8).__array_interface__["data"][0] for frame in frames if memoryview(frame).nbytes > 0]
    assert t.data_ptr in addresses
    back = deserialize(header, frames)
    assert description(back) == description(t) and back.data_ptr == t.data_ptr


def passed_on(given):
    """Returns the tensor that is given, alone or in a result of this function, and the process that runs this function."""
    return given[0] if isinstance(given, tuple) else given, os.getpid()


@pytest.mark.peers
def test_processes_of_dask_exchange_tensors():
    script = """
        import numpy as np
        from distributed import Client, LocalCluster
        import dlbridge
        from test_pickle import passed_on

        t = dlbridge.from_buffer(np.arange(300_000.0)).reshape(300, 1000)
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            one, two = client.scheduler_info()["workers"]
            for sent in t, t.T, t[::2], t.convert("bfloat16"):
                (held,) = client.scatter([sent], workers=[one])
                first = client.submit(passed_on, held, workers=[one])
                second = client.submit(passed_on, first, workers=[two])  # fetches the tensor from the other worker
                (there, a), (again, b) = first.result(), second.result()
                assert len({a, b}) == 2
                for got in there, again:
                    assert (got.dtype, got.shape, got.tolist()) == (sent.dtype, sent.shape, sent.tolist())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300, cwd=pathlib.Path(__file__).parent
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_messages_and_elements_are_pickled_and_copied():
    a = np.arange(12.0)
    message = dlbridge.tens.decode(dlbridge.tens.encode([a, a[::2]], metadata={"run": 7}, seqno=5))
    decoded = [format.decode(format.encode(elements)) for format in VALUES for elements in format.elements]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(message, protocol))
        assert (back.seqno, back.metadata, [t.tolist() for t in back.tensors]) == (5, {"run": 7}, [a.tolist(), a[::2].tolist()])
        assert pickle.loads(pickle.dumps(decoded, protocol)) == decoded
    assert copy.deepcopy(message).tensors[0].data_ptr != message.tensors[0].data_ptr
    assert copy.deepcopy(decoded) == decoded
    buffers = []
    data = pickle.dumps(message, 5, buffer_callback=buffers.append)
    assert pickle.loads(data, buffers=buffers).tensors[0].data_ptr == a.ctypes.data
    spread = dlbridge.tens.encode([a], spread=8)
    for join in (False, True):
        message = dlbridge.tens.decode(spread, join=join)
        back = pickle.loads(pickle.dumps(message))
        assert [t.tolist() for t in back.tensors] == [t.tolist() for t in message.tensors]
        assert len(copy.copy(message).tensors) == len(message.tensors)
    plain = dlbridge.tens.Message(form="TEXT", label="no JSON", parts=[b"abc"])
    assert bytes(pickle.loads(pickle.dumps(plain)).parts[0]) == b"abc"
