"""CLIENT and SERVER sockets, with a pyzmq that is built against a libzmq with the draft API (`make zeromq`)."""

from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
import zmq
import zmq.asyncio
from test_zeromq import SIZES, in_loop, pyzmq_has_let_go, sockets, wait_for  # noqa: F401 # a fixture

import dlbridge
from dlbridge import tens

KINDS = (zmq.SERVER, zmq.CLIENT)


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:*", "ipc://{}", "inproc://{}"])
def test_a_server_answers_the_client_that_has_asked(endpoint, tmp_path):
    with sockets(*KINDS, endpoint.format(tmp_path / "s")) as (server, client), client.context.socket(zmq.CLIENT) as other:
        other.connect(server.last_endpoint)
        for size in SIZES:
            for i, asking in enumerate((client, other)):
                tens.send(asking, [np.full(size, i, np.uint8)], packed=True)
            asked = [tens.recv(server), tens.recv(server)]
            assert len({message.routing_id for message in asked} - {0}) == 2 and all(message.routing == [] for message in asked)
            for message in asked:
                tens.send(server, message.tensors, metadata={"size": size}, packed=True, routing_id=message.routing_id)
            for i, asking in enumerate((client, other)):
                answer = tens.recv(asking)
                assert answer.tensors[0].tobytes() == bytes([i]) * size and answer.metadata == {"size": size} and answer.routing_id == 0


def test_pyzmq_reads_what_is_sent_and_sends_what_is_read():
    with sockets(*KINDS) as (server, client):
        packed = bytes(tens.encode_frames(tens.encode([np.arange(30_000)])))
        tens.send(client, [np.arange(30_000)], packed=True)
        frame = server.recv(copy=False)
        assert frame.bytes == packed
        server.send(packed, routing_id=frame.routing_id)
        assert tens.recv(client).tensors[0].tolist() == list(range(30_000))
        client.send(packed)
        message = tens.recv(server)
        assert message.routing_id == frame.routing_id and pickle.loads(pickle.dumps(message)).routing_id == frame.routing_id


def test_large_messages_are_sent_and_tracked():
    with sockets(*KINDS) as (server, client):
        for i in range(20):
            sent = tens.send(client, [np.full(1 << 18, i)], packed=True, track=True)
            message = tens.recv(server)
            sent.wait(30)
            answer = tens.send(server, message.tensors, packed=True, track=True, routing_id=message.routing_id)
            assert (tens.recv(client).tensors[0].numpy() == i).all()
            answer.wait(30)


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        (0, {"routing_id": 1}, "a message of a CLIENT or SERVER socket has one frame; send it with packed=True, without routing"),
        (0, {"routing_id": 1, "packed": True, "routing": [b"x"]}, "has one frame; send it with packed=True, without routing"),
        (1, {}, "a message of a CLIENT or SERVER socket has one frame; send it with packed=True, without routing"),
        (1, {"packed": True, "routing_id": 1}, "only a SERVER socket accepts routing_id; use routing for a ROUTER"),
        (0, {"packed": True}, "routing_id 0 names no CLIENT; use Message.routing_id of a message from the CLIENT"),
        (0, {"packed": True, "routing_id": 2**32}, "routing_id 4294967296 names no CLIENT"),
    ],
)
def test_what_client_and_server_cannot_send_is_refused(kind, options, error):
    with sockets(*KINDS) as pair:
        with pytest.raises(ValueError, match=error):
            tens.send(pair[kind], [np.zeros(1)], **options)
        tens.send(pair[1], [np.ones(1)], packed=True)
        assert tens.recv(pair[0]).tensors[0].tolist() == [1.0]


def test_a_client_that_is_not_there_is_an_error_of_the_socket():
    with sockets(*KINDS) as (server, _), pytest.raises(zmq.ZMQError) as raised:
        tens.send(server, [np.zeros(1)], packed=True, routing_id=1)
    assert raised.value.errno == zmq.EHOSTUNREACH


def test_what_was_sent_to_a_client_that_has_gone_is_released():
    with sockets(*KINDS, rcvhwm=1) as (server, client):
        tens.send(client, [], packed=True)
        peer = tens.recv(server).routing_id
        before = dlbridge.counters()["exports"]
        sent = [tens.send(server, [np.zeros(1 << 19)], packed=True, routing_id=peer, track=True) for _ in range(10)]
        client.close()
        wait_for(lambda: all(tracker.done for tracker in sent) and dlbridge.counters()["exports"] == before)


@pytest.mark.filterwarnings("ignore::zmq.error.DraftFDWarning")
def test_asyncio_sockets_of_a_client_and_a_server():
    async def main(server, client):
        asked = asyncio.ensure_future(tens.recv(server))
        await asyncio.sleep(0.01)
        for i in range(20):
            await tens.send(client, [np.full(20_000, i)], packed=True)
            message = await asked
            asked = asyncio.ensure_future(tens.recv(server))
            await tens.send(server, message.tensors, packed=True, routing_id=message.routing_id)
            assert ((await tens.recv(client)).tensors[0].numpy() == i).all()
        asked.cancel()

    in_loop(main, kinds=KINDS)
