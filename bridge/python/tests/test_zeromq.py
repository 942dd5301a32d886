"""TENS messages over the sockets of pyzmq."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import json
import random
import time

import numpy as np
import pytest
import zmq
import zmq.asyncio
from conftest import ROOT

import dlbridge
from dlbridge import tens

VECTORS = ROOT / "tens" / "testdata"
SIZES = (0, 1, 100, 16383, 16384, 65535, 65536, 1 << 20)


@contextlib.contextmanager
def sockets(bound, connected, endpoint="tcp://127.0.0.1:*", module=zmq, **options):
    """Two sockets that are connected. Nothing waits for messages at the end."""
    context = module.Context()
    a, b = context.socket(bound), context.socket(connected)
    for s in (a, b):
        s.rcvtimeo = s.sndtimeo = 60_000
        for name, value in options.items():
            setattr(s, name, value)
    a.bind(endpoint)
    b.connect(a.getsockopt_string(zmq.LAST_ENDPOINT))
    try:
        yield a, b
    finally:
        context.destroy(linger=0)


def wait_for(done):
    """Waits until libzmq's and pyzmq's threads have done their part."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.001)
        gc.collect()


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:*", "ipc://{}", "inproc://{}"])
@pytest.mark.parametrize("packed", [False, True])
def test_tensors_arrive_over_each_transport(endpoint, packed, tmp_path):
    with sockets(zmq.PULL, zmq.PUSH, endpoint.format(tmp_path / "s")) as (pull, push):
        for size in SIZES:
            a = np.arange(size, dtype=np.uint8)
            tens.send(push, [a, a.reshape(1, -1).T], metadata={"size": size}, seqno=size, packed=packed)
            message = tens.recv(pull)
            assert (message.seqno, message.metadata, message.routing) == (size, {"size": size}, [])
            assert [t.numpy().tobytes() for t in message.tensors] == [a.tobytes()] * 2
            assert all(t.readonly for t in message.tensors if t.size)


def test_large_parts_are_not_copied():
    with sockets(zmq.PULL, zmq.PUSH, "inproc://x") as (pull, push):
        for size, shared in ((100, False), (65535, False), (65536, True), (1 << 20, True)):
            a = np.zeros(size, np.uint8)
            tens.send(push, [a])
            message = tens.recv(pull)
            assert (message.tensors[0].data_ptr == a.ctypes.data) == shared
            tens.send(push, [a])
            message = tens.recv(pull, writable=True)
            assert message.tensors[0].data_ptr != a.ctypes.data and not message.tensors[0].readonly
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        push.send_multipart([bytes(frame) for frame in tens.encode([np.zeros(1 << 20)])])
        frames = pull.recv_multipart(copy=False)

        class Socket:
            type = zmq.PULL

            def recv_multipart(self, **options):
                return frames

        message = tens.recv(Socket())
        assert message.tensors[0].data_ptr == dlbridge.from_buffer(frames[2].buffer).data_ptr


def test_memory_is_held_until_it_is_sent_and_while_it_is_used():
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for i in range(20):
            tens.send(push, [np.full(1 << 18, i, np.int32)])  # which nothing else holds
        gc.collect()
        kept = [tens.recv(pull).tensors[0] for _ in range(20)]
    gc.collect()
    assert [t.numpy().min() == t.numpy().max() == i for i, t in enumerate(kept)] == [True] * 20
    del kept
    wait_for(lambda: dlbridge.counters()["exports"] == 0)


def test_aligned_tensors():
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for size in SIZES[1:]:
            a = np.arange(size, dtype=np.uint8)
            for packed in (False, True):
                tens.send(push, [a, a], packed=packed)
                for t in tens.recv(pull, aligned=True).tensors:
                    assert t.data_ptr % 256 == 0 and t.tobytes() == a.tobytes() and t.readonly


@pytest.mark.parametrize(
    "kinds",
    [(zmq.REP, zmq.REQ), (zmq.PAIR, zmq.PAIR), (zmq.ROUTER, zmq.DEALER), (zmq.ROUTER, zmq.REQ), (zmq.DEALER, zmq.DEALER)],
)
@pytest.mark.parametrize("packed", [False, True])
def test_patterns_with_answers(kinds, packed):
    with sockets(*kinds) as (server, client):
        for i in range(3):
            tens.send(client, [np.full(30000, i)], packed=packed)
            asked = tens.recv(server)
            assert bool(asked.routing) == (kinds[0] == zmq.ROUTER)
            tens.send(server, asked.tensors, routing=asked.routing, packed=packed)
            answer = tens.recv(client)
            assert (answer.tensors[0].numpy() == i).all() and answer.routing == []


def test_an_id_that_looks_like_a_message_is_an_id():
    with sockets(zmq.ROUTER, zmq.DEALER, routing_id=b"ZIO0TENS") as (router, dealer):
        tens.send(dealer, [np.arange(3)])
        message = tens.recv(router)
        assert message.routing == [b"ZIO0TENS"] and message.tensors[0].tolist() == [0, 1, 2]


def test_subscriptions_compare_the_first_frame():
    with sockets(zmq.PUB, zmq.SUB) as (pub, sub):
        sub.subscribe(b"ZIO0TENS")
        sub.rcvtimeo = 10
        end = time.monotonic() + 60
        while True:  # a subscription takes some time to arrive
            pub.send_multipart(tens.Message(form="TEXT").frames())
            tens.send(pub, [np.arange(3)])
            with contextlib.suppress(zmq.Again):
                message = tens.recv(sub)
                break
            assert time.monotonic() < end
        assert message.form == b"TENS" and message.tensors[0].tolist() == [0, 1, 2]


def test_errors_of_the_socket_pass_through():
    with sockets(zmq.PULL, zmq.PUSH, "inproc://full", rcvhwm=1, sndhwm=1) as (pull, push):
        with pytest.raises(zmq.Again):
            tens.recv(pull, flags=zmq.DONTWAIT)
        with pytest.raises(zmq.Again):
            for _ in range(10):
                tens.send(push, [np.zeros(1 << 17)], flags=zmq.DONTWAIT)
    with pytest.raises(zmq.ZMQError, match="[Ss]ocket"):
        tens.recv(pull)
    for call in (lambda: tens.send("x", [np.zeros(1)]), lambda: tens.recv(None)):
        with pytest.raises(TypeError, match="tens: (send|recv): a socket of pyzmq is required, not <class '(str|NoneType)'>"):
            call()
    wait_for(lambda: dlbridge.counters()["exports"] == 0)


def test_asyncio_sockets():
    async def exchange(pull, push):
        received = asyncio.ensure_future(tens.recv(pull, aligned=True))
        await tens.send(push, [np.arange(30000)], seqno=7)
        return await asyncio.wait_for(received, 60)

    async def main():
        with sockets(zmq.PULL, zmq.PUSH, module=zmq.asyncio) as (pull, push):
            message = await exchange(pull, push)
            assert message.seqno == 7 and (message.tensors[0].numpy() == np.arange(30000)).all()

    asyncio.run(main())


def manifest(group):
    folder = VECTORS / group
    for v in json.loads((folder / "manifest.json").read_text())["vectors"]:
        yield v, [(folder / name).read_bytes() for name in v.get("frames", [])]


def test_frames_of_zio_arrive_as_they_are():
    seen = 0
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for v, frames in (pair for group in ("message", "tens", "layout") for pair in manifest(group)):
            if not frames or v["verdict"] != "accept":
                continue
            message = tens.decode(frames, message_only=True)
            push.send_multipart(message.frames(), copy=False)
            assert pull.recv_multipart() == frames
            packed = tens.encode_frames(frames)
            assert hashlib.sha256(packed).hexdigest() == v["encoded"]["sha256"]
            for sent in (frames, [packed]):
                push.send_multipart(sent)
                received = tens.recv(pull, message_only=True)
                assert [bytes(frame) for frame in received.frames()] == frames
            seen += 1
    assert seen > 50


def hostile(rounds):
    """Sends broken messages, each followed by a good one, which must arrive."""
    random.seed(19)
    good = tens.Message(form="TEXT", parts=[b"good"]).frames()
    templates = [frames for group in ("tens", "layout", "invalid") for _, frames in manifest(group) if frames]
    refused = 0
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for i in range(rounds):
            frames = []
            for frame in templates[i % len(templates)]:
                broken = bytearray(frame[:4096])
                for _ in range(random.randrange(4)):
                    if broken:
                        broken[random.randrange(len(broken))] = random.randrange(256)
                if random.random() < 0.2:
                    del broken[random.randrange(len(broken) + 1) :]
                if random.random() < 0.9:
                    frames.append(broken)
            push.send_multipart(frames or [b""])
            push.send_multipart(good)
            try:
                tens.recv(pull, aligned=i % 2 == 0)
            except ValueError:
                refused += 1
            assert bytes(tens.recv(pull).parts[0]) == b"good"
    assert refused > rounds / 4


def test_hostile_messages_are_dropped_whole():
    hostile(2000)


@pytest.mark.long
def test_many_hostile_messages_are_dropped_whole():
    hostile(100_000)
