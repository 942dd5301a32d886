"""TENS messages over the sockets of pyzmq."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
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
    """Two connected sockets. At the end, no call waits for messages."""
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


def keep_frames(socket):
    """Returns a list to which the socket adds each frame that it receives."""
    frames = []

    def recv(*args, **options):
        frames.append(zmq.Socket.recv(socket, *args, **options))
        return frames[-1]

    vars(socket)["recv"] = recv
    return frames


def wait_for(done):
    """Waits until the threads of libzmq and pyzmq have finished their work."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.001)
        gc.collect()


@pytest.fixture(autouse=True)
def pyzmq_has_let_go():
    """Waits until pyzmq's thread has released what a test has sent, before the counters of live objects are compared."""
    before = dlbridge.counters()
    yield
    wait_for(lambda: all(dlbridge.counters()[name] <= before[name] for name in ("exports", "imports", "loans")))


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
        frames = keep_frames(pull)
        push.send_multipart([bytes(frame) for frame in tens.encode([np.zeros(1 << 20)])])
        message = tens.recv(pull)
        assert message.tensors[0].data_ptr == dlbridge.from_buffer(frames[2].buffer).data_ptr


def test_memory_is_held_until_it_is_sent_and_while_it_is_used():
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for i in range(20):
            tens.send(push, [np.full(1 << 18, i, np.int32)])  # only the message holds the array
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


@pytest.mark.parametrize("kind", [zmq.SERVER, zmq.CLIENT])
@pytest.mark.parametrize("call", [tens.recv, lambda socket: tens.send(socket, [], packed=True, routing_id=1)], ids=["recv", "send"])
def test_client_and_server_of_a_pyzmq_without_drafts_are_refused(call, kind):
    error = "CLIENT and SERVER sockets need the draft API of libzmq, which this pyzmq lacks; ZMQ_PREFIX=… ZMQ_DRAFT_API=1 pip install"
    with zmq.Context() as context, context.socket(kind) as socket, pytest.raises(RuntimeError, match=error):
        call(socket)


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


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", [{"writable": True}, {"aligned": True}, {"aligned": True, "writable": True}])
def test_copies_are_aligned_and_apart_from_each_other(packed, options):
    arrays = [np.full(n, n % 251, np.uint8) for n in (1, 300, 0, 20_000, 255, 256)]
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        tens.send(push, arrays, packed=packed)
        tensors = tens.recv(pull, **options).tensors
    assert [t.tolist() for t in tensors] == [array.tolist() for array in arrays]
    for t in tensors:
        assert t.readonly != options.get("writable", False) and (t.size == 0 or t.data_ptr % 256 == 0)
    if "writable" in options:
        tensors[0].numpy()[:] = 9
        assert [t.tolist() for t in tensors[1:]] == [array.tolist() for array in arrays[1:]]


def test_a_wrong_limit_takes_no_message():
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        tens.send(push, [np.arange(3)])
        for limit, error in ((-1, ValueError), ("1", TypeError)):
            with pytest.raises(error):
                tens.recv(pull, limit=limit)
        assert tens.recv(pull, limit=0).tensors[0].tolist() == [0, 1, 2]


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


def message_of(i, count=4):
    """The tensors of message i, and their numbers."""
    return [np.full(5 + k, i + k) for k in range(count)]


def is_message(message):
    return [t.tolist() for t in message.tensors] == [a.tolist() for a in message_of(message.seqno)]


class Interrupt(BaseException):
    """The exception that a signal handler raises."""


class Interrupted(zmq.Socket):
    """A socket whose calls with the numbers in `at` raise an exception, before or after they do their work."""

    at = ()
    after = False
    calls = 0

    def call(self, method, *args, **options):
        hit = self.calls in self.at
        self.calls += 1
        if hit and not self.after:
            raise Interrupt
        result = method(*args, **options)
        if hit:
            raise Interrupt
        return result

    def send(self, *args, **options):
        return self.call(super().send, *args, **options)

    def recv(self, *args, **options):
        return self.call(super().recv, *args, **options)

    def get(self, *args):
        return self.call(super().get, *args)


class Module:
    """zmq, with sockets of the class Interrupted."""

    class Context(zmq.Context):
        _socket_class = Interrupted


def opcodes(*files):
    """Yields functions that make a call and raise an exception before its first bytecode in files, its second, and so on."""
    files = files or (dlbridge._zeromq.__file__,)
    sys._getframe().f_trace_opcodes = True  # otherwise Python 3.12 reports no bytecodes of the first call
    finished = False

    def interrupted_before(n):
        def call(function):
            nonlocal finished
            left = n

            def trace(frame, event, _):
                nonlocal left
                if frame.f_code.co_filename not in files or frame.f_code.co_name == "_in_turn":  # it waits, and touches no frame
                    return None
                frame.f_trace_opcodes = True
                if event == "opcode":
                    left -= 1
                    if left < 0:
                        raise Interrupt
                return trace

            sys.settrace(trace)
            try:
                return function()
            finally:
                sys.settrace(None)
                finished = left >= 0

        return call

    n = 0
    while not finished:
        yield interrupted_before(n)
        n += 1


def calls(socket):
    """Yields functions that make a call. During it, calls of the socket raise an exception: each one, each two and each three in a row."""
    for after in (False, True):
        for width in (1, 2, 3):
            n, finished = 0, False
            while not finished:

                def call(function, n=n, after=after, width=width):
                    nonlocal finished
                    socket.calls, socket.at, socket.after = 0, range(n, n + width), after
                    try:
                        return function()
                    finally:
                        finished = socket.calls <= n
                        socket.at = ()

                yield call
                n += 1


KINDS = [(zmq.PULL, zmq.PUSH), (zmq.PAIR, zmq.PAIR), (zmq.DEALER, zmq.ROUTER), (zmq.ROUTER, zmq.DEALER), (zmq.SUB, zmq.PUB)]


@contextlib.contextmanager
def interrupted_sockets(kinds):
    with sockets(*kinds, "inproc://x", module=Module, sndhwm=0, rcvhwm=0) as (receiver, sender):
        routing = []
        if kinds[1] == zmq.ROUTER:
            tens.send(receiver, [])
            routing = tens.recv(sender).routing
        if kinds[0] == zmq.SUB:
            receiver.subscribe(b"")
            while not receiver.poll(1):  # a subscription takes some time to arrive
                tens.send(sender, [])
            tens.recv(receiver)
        yield receiver, sender, routing


@pytest.mark.parametrize("where", [opcodes, calls], ids=["bytecodes", "calls"])
@pytest.mark.parametrize("kinds", KINDS)
def test_an_exception_anywhere_in_send_affects_no_other_message(kinds, where):
    with interrupted_sockets(kinds) as (receiver, sender, routing):
        sent, cut = [], []
        for i, interrupted in enumerate(where(sender) if where is calls else where()):
            try:
                interrupted(lambda i=i: tens.send(sender, message_of(i), seqno=i, routing=routing))
                sent.append(i)
            except Interrupt:
                cut.append(i)
            if i % 3 != 1:  # two interrupts without a message between them
                tens.send(sender, message_of(10**6 + i), seqno=10**6 + i, routing=routing)
                sent.append(10**6 + i)
        tens.send(sender, [], form="END", routing=routing)
        received, refused = [], 0
        while True:
            try:
                message = tens.recv(receiver)
            except ValueError:
                refused += 1
                continue
            if message.form == b"END ":
                break
            assert is_message(message)
            received.append(message.seqno)
    assert [i for i in received if i not in cut] == sent and len(set(received)) == len(received)
    assert len(cut) > 10 and refused <= len(cut) + (len(cut) if where is calls else 0)


@pytest.mark.parametrize("where", [opcodes, calls], ids=["bytecodes", "calls"])
@pytest.mark.parametrize("kinds", KINDS)
def test_an_exception_anywhere_in_recv_affects_no_other_message(kinds, where):
    with interrupted_sockets(kinds) as (receiver, sender, routing):
        cut = 0
        for i, interrupted in enumerate(where(receiver) if where is calls else where()):
            for seqno in (2 * i, 2 * i + 1):
                tens.send(sender, message_of(seqno), seqno=seqno, routing=routing)
            with contextlib.suppress(Interrupt):
                assert is_message(interrupted(lambda: tens.recv(receiver)))
                cut -= 1
            cut += 1
            last = tens.recv(receiver)
            assert is_message(last)
            if last.seqno == 2 * i:  # the exception came before the first frame
                last = tens.recv(receiver)
                assert is_message(last)
            assert last.seqno == 2 * i + 1
        with pytest.raises(zmq.Again):
            tens.recv(receiver, flags=zmq.DONTWAIT)
    assert cut > 10


def test_an_exception_in_pyzmq_frees_no_memory_that_is_sent():
    from zmq.utils import garbage

    with sockets(zmq.PULL, zmq.PUSH, "inproc://x", sndhwm=0, rcvhwm=0) as (pull, push):
        for i in range(20):
            tens.send(push, [np.full(1 << 16, i)])  # only the message holds the array
        cut = 0
        for interrupted in opcodes(garbage.__file__, threading.__file__):
            try:
                interrupted(lambda: tens.send(push, [np.full(1 << 16, -1)], seqno=1))
            except Interrupt:
                cut += 1
            tens.send(push, [np.full(1 << 16, -1)], seqno=1)
            assert dlbridge.counters()["exports"] >= 20
        assert cut > 10
        assert [(tens.recv(pull).tensors[0].numpy() == i).all() for i in range(20)] == [True] * 20


LOST = """
import threading
import numpy as np, zmq
from dlbridge import tens
from test_zeromq import Interrupt, opcodes, sockets

with sockets(zmq.PULL, zmq.PUSH, "inproc://x", sndhwm=0, rcvhwm=0) as (pull, push):
    a = np.arange(1 << 17)
    push.send(a, copy=False)
    from zmq.utils.garbage import gc
    for interrupted in opcodes(threading.__file__):
        try:
            interrupted(lambda: push.send(a, copy=False))
        except Interrupt:
            if not gc.is_alive():
                break
    assert not gc.is_alive()
    while pull.poll(0):
        pull.recv()
    assert tens.send(push, [a], track=True).done
    t = tens.recv(pull).tensors[0]
    assert t.data_ptr != a.ctypes.data and (t.numpy() == a).all()
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Thread.is_alive changes nothing")
def test_parts_are_copied_once_pyzmq_has_lost_its_thread():
    folder = os.path.dirname(__file__)
    subprocess.run([sys.executable, "-c", LOST], check=True, timeout=120, env={**os.environ, "PYTHONPATH": folder})


@pytest.mark.parametrize("at", [2, 3, 50, 102])
@pytest.mark.parametrize("flags", [0, zmq.DONTWAIT])
def test_a_request_whose_peer_goes_is_sent_to_the_next(at, flags):
    class Losing(zmq.Socket):
        left = at

        def send(self, *args, **options):
            self.left -= 1
            if self.left == 0:
                first.close()
                time.sleep(0.2)  # a thread of libzmq closes it
            return super().send(*args, **options)

    for relaxed in (0, 1):
        with zmq.Context() as context, Losing(context, zmq.REQ) as req:
            context.linger = req.linger = 0
            req.sndtimeo = 100
            req.set(zmq.REQ_RELAXED, relaxed)
            req.bind("inproc://x")
            first = context.socket(zmq.REP)
            first.connect("inproc://x")
            req.poll(0)
            with pytest.raises(zmq.Again):
                tens.send(req, message_of(0, 100), flags=flags)
            with context.socket(zmq.REP) as second:
                second.connect("inproc://x")
                second.rcvtimeo = req.rcvtimeo = req.sndtimeo = 10_000
                for i in range(2):
                    tens.send(req, message_of(i), seqno=i)
                    if i == 0:  # the option is unchanged
                        if relaxed:
                            assert req.poll(10_000, zmq.POLLOUT)
                        else:
                            with pytest.raises(zmq.ZMQError, match="current state"):
                                tens.send(req, message_of(i))
                    assert is_message(tens.recv(second))
                    tens.send(second, message_of(7), seqno=7)
                    assert is_message(tens.recv(req))


@pytest.mark.parametrize("after", [False, True])
def test_a_request_whose_peer_goes_is_sent_after_an_exception(after):
    class Losing(Interrupted):
        left = 102  # the last frame

        def send(self, *args, **options):
            self.left -= 1
            if self.left == 0:
                first.close()
                time.sleep(0.2)  # a thread of libzmq closes it
            return super().send(*args, **options)

    with zmq.Context() as context, Losing(context, zmq.REQ) as req, context.socket(zmq.REP) as second:
        context.linger = req.linger = second.linger = 0
        req.sndtimeo = 100
        req.bind("inproc://x")
        first = context.socket(zmq.REP)
        first.connect("inproc://x")
        with pytest.raises(zmq.Again):
            tens.send(req, message_of(0, 100))
        second.connect("inproc://x")
        second.rcvtimeo = req.rcvtimeo = req.sndtimeo = 10_000
        req.calls, req.at, req.after = 0, (0,), after
        with pytest.raises(Interrupt):
            tens.send(req, message_of(1), seqno=1)
        req.at = ()
        tens.send(req, message_of(2), seqno=2)
        message = tens.recv(second)
        assert message.seqno == 2 and is_message(message)
        tens.send(second, message_of(3), seqno=3)
        assert is_message(tens.recv(req))


def test_a_request_that_is_refused_is_answered():
    with sockets(zmq.REP, zmq.REQ) as (rep, req):
        for own_answer in (False, True, False):
            req.send(b"garbage")
            with pytest.raises(ValueError):
                tens.recv(rep)
            if own_answer:
                tens.send(rep, [])
            for _ in range(2):
                with pytest.raises(zmq.Again):
                    tens.recv(rep, flags=zmq.DONTWAIT)
            assert (req.recv_multipart() == [b""]) != own_answer
        tens.send(req, message_of(1), seqno=1)
        assert is_message(tens.recv(rep))
        for _ in range(2):
            with pytest.raises(zmq.ZMQError, match="recv: .* a REP socket must send an answer before") as raised:
                tens.recv(rep)
            assert raised.value.errno == zmq.EFSM
        tens.send(rep, [])
        tens.recv(req)
        with pytest.raises(zmq.ZMQError, match="recv: .* a REQ socket must send a request before"):
            tens.recv(req)

    async def main(rep, req):
        await req.send(b"garbage")
        with pytest.raises(ValueError):
            await tens.recv(rep)
        rep.rcvtimeo = 10
        with pytest.raises(zmq.Again):
            await tens.recv(rep)
        assert await req.recv() == b""

    in_loop(main, kinds=(zmq.REP, zmq.REQ))


def test_a_request_whose_recv_was_interrupted_is_answered():
    with sockets(zmq.REP, zmq.REQ, "inproc://x", module=Module) as (rep, req):
        for interrupted in calls(rep):
            tens.send(req, message_of(0))
            received = False
            for call in (interrupted, lambda function: function()):
                with contextlib.suppress(Interrupt, zmq.Again):
                    received = received or bool(call(lambda: tens.recv(rep, flags=zmq.DONTWAIT)))
            if received:
                tens.send(rep, [])
            assert (req.recv_multipart() == [b""]) != received


def test_a_disconnect_spoils_no_message_of_another_peer():
    async def main():
        with zmq.asyncio.Context() as context, context.socket(zmq.ROUTER) as router:
            context.linger = 0
            with context.socket(zmq.DEALER) as a, context.socket(zmq.DEALER) as b:
                for name, dealer in (("inproc://a", a), ("inproc://b", b)):
                    dealer.bind(name)
                    router.connect(name)
                for i in range(3):
                    await tens.send(a, message_of(i), seqno=i)
                assert (await tens.recv(router)).seqno == 0
                router.disconnect("inproc://a")
                await tens.send(b, message_of(9), seqno=9)
                message = await asyncio.wait_for(tens.recv(router), 10)
                while message.seqno in (1, 2):
                    message = await asyncio.wait_for(tens.recv(router), 10)
                assert message.seqno == 9 and is_message(message)

    asyncio.run(main())


def test_the_rest_of_a_message_that_went_with_its_peer_is_not_waited_for():
    with sockets(zmq.DEALER, zmq.ROUTER) as (dealer, router):
        tens.send(dealer, message_of(0))
        assert router.poll(10_000)  # this takes the first frame
        router.disconnect(dealer.last_endpoint)
        for _ in range(10):  # without these calls, libzmq ends the process in the next call
            time.sleep(0.01)
            router.poll(0)
        router.rcvtimeo = 100
        for _ in range(2):
            with pytest.raises(zmq.Again):
                tens.recv(router)
        tens.send(router, message_of(1), routing=[b"nobody"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("pending", [False, True])
def test_recv_in_a_forked_child_takes_nothing_and_does_not_wait(pending):
    with sockets(zmq.PAIR, zmq.PAIR) as (a, b):
        tens.send(a, [])
        tens.recv(b)
        if pending:
            tens.send(a, message_of(0))
            assert b.poll(10_000)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            seen = 0
            for call in (lambda: tens.recv(b), lambda: tens.recv(b, flags=zmq.DONTWAIT), lambda: tens.send(a, [])):
                try:
                    call()
                except RuntimeError as error:
                    seen += "fork" in str(error)
            os._exit(seen)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        if not pending:
            tens.send(a, message_of(0))
        assert is_message(tens.recv(b))


def test_request_and_answer_survive_an_exception():
    with sockets(zmq.REP, zmq.REQ, "inproc://x", module=Module) as (rep, req):
        for interrupted in calls(req):
            with contextlib.suppress(Interrupt):
                interrupted(lambda: tens.send(req, message_of(0)))
            with contextlib.suppress(zmq.ZMQError):  # in some iterations a request is open, in others not
                tens.send(req, message_of(0))
            with contextlib.suppress(ValueError):
                tens.recv(rep)
            tens.send(rep, message_of(1))
            assert len(tens.recv(req).tensors) == 4
        for interrupted in calls(rep):
            tens.send(req, message_of(0))
            with contextlib.suppress(Interrupt):
                interrupted(lambda: tens.recv(rep))
            with contextlib.suppress(zmq.ZMQError):  # nothing was received yet
                tens.send(rep, message_of(1))
                tens.recv(req)
                continue
            tens.recv(rep)
            tens.send(rep, message_of(1))
            tens.recv(req)


def test_an_exception_while_a_send_waits_sends_nothing():
    with sockets(zmq.PULL, zmq.PUSH, "inproc://x", module=Module, sndhwm=1, rcvhwm=1) as (pull, push):
        for i in range(2):
            tens.send(push, message_of(i), seqno=i)

        def handler(*_):
            raise Interrupt

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupt):
                tens.send(push, message_of(2), seqno=2)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert [tens.recv(pull).seqno for _ in range(2)] == [0, 1]
        tens.send(push, message_of(3), seqno=3)
        assert tens.recv(pull).seqno == 3


@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize("inner", ["send", "recv"])
@pytest.mark.parametrize("outer", ["send", "recv"])
def test_a_signal_handler_cannot_use_the_socket_of_a_call(outer, inner, at):
    class Signalling(zmq.Socket):
        left = 0

        def call(self, method, *args, **options):
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGUSR1)
            return method(*args, **options)

        def send(self, *args, **options):
            return self.call(super().send, *args, **options)

        def recv(self, *args, **options):
            return self.call(super().recv, *args, **options)

    class Module:
        class Context(zmq.Context):
            _socket_class = Signalling

    refused = 0

    def handler(*_):
        nonlocal refused
        with pytest.raises(RuntimeError, match=f"{inner}: the call has interrupted another call on the socket"):
            tens.send(a, message_of(9), seqno=9) if inner == "send" else tens.recv(a, flags=zmq.DONTWAIT)
        refused += 1

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with sockets(zmq.PAIR, zmq.PAIR, "inproc://x", module=Module) as (a, b):
            sender, receiver = (a, b) if outer == "send" else (b, a)
            for i in range(4):
                a.left = 0 if outer == "recv" else at
                tens.send(sender, message_of(i), seqno=i)
                a.left = 0 if outer == "send" else at
                message = tens.recv(receiver)
                assert message.seqno == i and is_message(message) and refused == i + 1
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_message_that_libzmq_refuses_leaves_nothing():
    class Refusing(zmq.Socket):
        refused = 0

        def send(self, *args, **options):
            self.refused += 1
            if self.refused == 1:
                raise zmq.Again
            return super().send(*args, **options)

    class Module:
        class Context(zmq.Context):
            _socket_class = Refusing

    with sockets(zmq.PULL, zmq.PUSH, "inproc://x", module=Module) as (pull, push):
        with pytest.raises(zmq.Again):
            tens.send(push, message_of(0))
        tens.send(push, message_of(1), seqno=1)
        assert tens.recv(pull).seqno == 1


@pytest.mark.parametrize("at", [2, 50, 102])  # the 102nd frame is the last
def test_a_message_whose_peer_goes_leaves_nothing_for_another_peer(at):
    class Losing(zmq.Socket):
        left = at

        def send(self, *args, **options):
            self.left -= 1
            if self.left == 0:
                second.connect("inproc://x")
                first.close()
                time.sleep(0.02)
            return super().send(*args, **options)

    for _ in range(10):
        with zmq.Context() as context, Losing(context, zmq.PUSH) as push, context.socket(zmq.PULL) as second:
            context.linger = push.linger = 0
            push.bind("inproc://x")
            first = context.socket(zmq.PULL)
            first.connect("inproc://x")
            try:
                tens.send(push, message_of(0, 100), flags=zmq.DONTWAIT)
            except zmq.Again:  # libzmq may also drop the message without an error
                assert push.left == (0 if at == 102 else -1)  # if more than its last frame is missing, the message is ended
            assert not second.poll(20)
            tens.send(push, message_of(1), seqno=1)
            assert second.poll(10_000) and tens.recv(second).seqno == 1 and not second.poll(0)


def test_a_program_may_send_and_receive_frames_before_the_message():
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for _ in range(2):
            push.send(b"topic", zmq.SNDMORE)
            tens.send(push, message_of(5), seqno=5)
            assert pull.recv() == b"topic"
            assert is_message(tens.recv(pull))
            with pytest.raises(zmq.Again):
                tens.recv(pull, flags=zmq.DONTWAIT)


def test_routing_frames_are_checked_before_anything_is_sent():
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for bad in ("x", 3):
            with pytest.raises(TypeError, match=f"routing has bytes-like objects, not {type(bad)!r}"):
                tens.send(push, message_of(0), routing=[b"x", bad])
        tens.send(push, message_of(0), routing=[b"a", bytearray(b"b"), memoryview(b"cdcd")[::2]])
        assert tens.recv(pull).routing == [b"a", b"b", b"cc"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in pyzmq's Frame.__dealloc__
@pytest.mark.parametrize("direction", ["send", "recv"])
def test_signals_affect_no_other_message(direction):
    armed, interrupts = False, 0

    def handler(*_):
        nonlocal armed, interrupts
        if armed:
            armed, interrupts = False, interrupts + 1
            raise Interrupt

    def interrupted(function):
        nonlocal armed
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00002, 0.0006))
        try:
            return function()
        finally:
            armed = False

    def send(seqno):
        tens.send(push, [np.full(50, seqno + k) for k in range(20)], seqno=seqno)

    def recv():
        message = tens.recv(pull)
        assert [t.item(0) for t in message.tensors] == [message.seqno + k for k in range(20)]
        return message.seqno

    tens.decode(tens.encode([np.zeros(1)]))  # loads the library: an interrupted import can block later imports in Python
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with sockets(zmq.PULL, zmq.PUSH, sndhwm=0, rcvhwm=0) as (pull, push):
            sent, received, refused, i = [], [], 0, 0
            end = time.monotonic() + 60
            while interrupts < 500 and time.monotonic() < end:
                i += 1
                with contextlib.suppress(Interrupt):
                    if direction == "send":
                        interrupted(lambda i=i: send(i))
                        sent.append(i)
                    else:
                        send(i)
                        received.append(interrupted(recv))
            signal.setitimer(signal.ITIMER_REAL, 0)
            send(10**6)
            while 10**6 not in received:
                try:
                    received.append(recv())
                except ValueError:
                    refused += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts >= 300
    assert received == sorted(set(received)) and set(sent) <= set(received)
    assert refused <= (interrupts if direction == "send" else 0) and len(received) >= i - interrupts


def in_loop(main, kinds=(zmq.PULL, zmq.PUSH), endpoint="tcp://127.0.0.1:*", **options):
    async def run():
        with sockets(*kinds, endpoint, module=zmq.asyncio, **options) as pair:
            await asyncio.wait_for(main(*pair), 60)

    asyncio.run(run())


def test_asyncio_sockets():
    async def main(pull, push):
        received = asyncio.ensure_future(tens.recv(pull, aligned=True))
        await tens.send(push, [np.arange(30000)], seqno=7)
        message = await received
        assert message.seqno == 7 and (message.tensors[0].numpy() == np.arange(30000)).all()

    in_loop(main)


def test_asyncio_sockets_wait_as_their_options_say():
    async def main(pull, push):
        for _ in range(2):
            with pytest.raises(zmq.Again):
                await tens.recv(pull, flags=zmq.DONTWAIT)
            for pull.rcvtimeo in (0, 10):
                outcomes = await asyncio.gather(*(tens.recv(pull) for _ in range(3)), return_exceptions=True)
                assert [type(e) for e in outcomes] == [zmq.Again] * 3
            with pytest.raises(zmq.Again):
                for _ in range(10):
                    await tens.send(push, message_of(0), flags=zmq.DONTWAIT)
            for push.sndtimeo in (0, 10):
                outcomes = await asyncio.gather(*(tens.send(push, message_of(1)) for _ in range(3)), return_exceptions=True)
                assert [type(e) for e in outcomes] == [zmq.Again] * 3
            with contextlib.suppress(zmq.Again):
                while True:
                    assert is_message(await tens.recv(pull, flags=zmq.DONTWAIT))
        pull.close()
        with pytest.raises(zmq.ZMQError, match="[Ss]ocket"):
            await tens.recv(pull)

    in_loop(main, endpoint="inproc://x", sndhwm=1, rcvhwm=1)

    async def answer_without_a_request(rep, req):
        with pytest.raises(zmq.ZMQError, match="current state"):
            await tens.send(rep, message_of(0))

    in_loop(answer_without_a_request, kinds=(zmq.REP, zmq.REQ))


@pytest.mark.filterwarnings("ignore:coroutine '_in_turn' was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the same under python -W error
def test_an_exception_anywhere_in_asyncio_affects_no_other_message():
    async def main(pull, push):
        def run(coroutine):
            with pytest.raises(StopIteration) as result:
                coroutine.send(None)
            return result.value.value

        for i, interrupted in enumerate(opcodes()):
            with contextlib.suppress(Interrupt):
                interrupted(lambda i=i: run(tens.send(push, message_of(2 * i), seqno=2 * i)))
            await tens.send(push, message_of(2 * i + 1), seqno=2 * i + 1)
            seqno = -1
            while seqno != 2 * i + 1:
                with contextlib.suppress(ValueError):
                    message = await tens.recv(pull)
                    seqno = message.seqno
                    assert is_message(message)
        assert i > 100
        for i, interrupted in enumerate(opcodes()):
            for seqno in (2 * i, 2 * i + 1):
                await tens.send(push, message_of(seqno), seqno=seqno)
            with contextlib.suppress(Interrupt):
                assert is_message(interrupted(lambda: run(tens.recv(pull))))
            seqno = -1
            while seqno != 2 * i + 1:
                message = await tens.recv(pull)
                seqno = message.seqno
                assert is_message(message)
        assert i > 100

    in_loop(main, endpoint="inproc://x")


def test_asyncio_calls_have_their_turn():
    async def main(pull, push):
        received = [asyncio.ensure_future(tens.recv(pull)) for _ in range(50)]
        await asyncio.sleep(0)
        await asyncio.gather(*(tens.send(push, message_of(i), seqno=i) for i in range(50)))
        assert [message.seqno for message in await asyncio.gather(*received)] == list(range(50))
        sent = [asyncio.ensure_future(tens.send(push, message_of(i), seqno=i)) for i in range(50)]
        await asyncio.sleep(0.01)
        assert not sent[-1].done()
        assert [(await tens.recv(pull)).seqno for _ in range(50)] == list(range(50))
        await asyncio.gather(*sent)

    for _ in range(2):
        in_loop(main, sndhwm=1, rcvhwm=1, endpoint="inproc://x")


def test_asyncio_calls_that_do_not_wait_overtake_none_that_wait():
    async def main(pull, push):
        waiting = asyncio.ensure_future(tens.recv(pull))
        await asyncio.sleep(0)
        tens.send(zmq.Socket.shadow(push), message_of(0))  # immediately, before `waiting` can notice it
        with pytest.raises(zmq.Again):
            await tens.recv(pull, flags=zmq.DONTWAIT)
        assert is_message(await waiting)
        for i in range(2):
            await tens.send(push, message_of(i), seqno=i)
        waiting = asyncio.ensure_future(tens.send(push, message_of(2), seqno=2))
        await asyncio.sleep(0)
        assert tens.recv(zmq.Socket.shadow(pull)).seqno == 0
        with pytest.raises(zmq.Again):
            await tens.send(push, [], flags=zmq.DONTWAIT)
        await waiting
        assert [(await tens.recv(pull, flags=zmq.DONTWAIT)).seqno for _ in range(2)] == [1, 2]

    in_loop(main, endpoint="inproc://x", sndhwm=1, rcvhwm=1)


def test_asyncio_calls_on_a_closed_socket_raise_its_error():
    async def main():
        with zmq.Context() as context, context.socket(zmq.PULL) as plain:
            pull = zmq.asyncio.Socket.shadow(plain)
            waiting = asyncio.ensure_future(tens.recv(pull))  # waits forever, because the shadow does not notice that the socket is closed
            await asyncio.sleep(0.01)
            plain.close()
            for flags in (0, zmq.DONTWAIT):
                with pytest.raises(zmq.ZMQError, match="[Ss]ocket"):
                    await asyncio.wait_for(tens.recv(pull, flags=flags), 10)
            waiting.cancel()

    asyncio.run(main())


def test_asyncio_sends_to_one_peer_do_not_wait_for_another():
    async def main():
        context = zmq.asyncio.Context()
        try:
            router, a, b = context.socket(zmq.ROUTER), context.socket(zmq.DEALER), context.socket(zmq.DEALER)
            router.router_mandatory, router.sndhwm = 1, 1
            router.bind("inproc://x")
            for dealer, name in ((a, b"a"), (b, b"b")):
                dealer.routing_id, dealer.rcvhwm = name, 1
                dealer.connect("inproc://x")
                await tens.send(dealer, [])
                assert (await tens.recv(router)).routing == [name]
            full = [asyncio.ensure_future(tens.send(router, message_of(i), seqno=i, routing=[b"a"])) for i in range(5)]
            await asyncio.sleep(0.05)
            assert not full[-1].done()
            await asyncio.wait_for(tens.send(router, message_of(7), seqno=7, routing=[b"b"]), 10)
            assert is_message(await tens.recv(b))
            assert [(await tens.recv(a)).seqno for _ in range(5)] == list(range(5))
            await asyncio.gather(*full)
        finally:
            context.destroy(linger=0)

    asyncio.run(main())


def test_asyncio_calls_wake_the_futures_of_pyzmq():
    """libzmq signals a message once, and the next call on the socket reads the signal, whichever it is."""

    async def main(a, b):
        for call in (lambda: tens.send(b, message_of(0)), lambda: tens.recv(b, flags=zmq.DONTWAIT)):
            waiting = asyncio.ensure_future(b.poll())
            await asyncio.sleep(0.01)
            tens.send(zmq.Socket.shadow(a), message_of(0))
            await call()
            await asyncio.wait_for(waiting, 10)

    in_loop(main, kinds=(zmq.PAIR, zmq.PAIR), endpoint="inproc://x")


def test_asyncio_tasks_send_and_receive_on_one_socket():

    async def main(a, b):
        async def send(socket):
            for i in range(300):
                await tens.send(socket, message_of(i), seqno=i)

        async def recv(socket):
            for i in range(300):
                assert (await tens.recv(socket)).seqno == i

        await asyncio.gather(send(a), recv(a), send(b), recv(b))

    in_loop(main, kinds=(zmq.PAIR, zmq.PAIR), sndhwm=1, rcvhwm=1)


def test_a_cancelled_recv_takes_no_message():
    async def main(pull, push):
        seqno = 0
        for steps in range(8):
            for arrives in range(steps + 1):
                for how in ("cancel", "timeout"):
                    first = tens.recv(pull)
                    task = asyncio.ensure_future(asyncio.wait_for(first, 0) if how == "timeout" else first)
                    for step in range(steps):
                        if step == arrives:
                            await tens.send(push, message_of(seqno), seqno=seqno)
                        await asyncio.sleep(0)
                    if how == "cancel":
                        task.cancel()
                    if arrives >= steps:
                        await tens.send(push, message_of(seqno), seqno=seqno)
                    try:
                        message = await task
                    except (asyncio.CancelledError, asyncio.TimeoutError):
                        message = await tens.recv(pull)
                    assert message.seqno == seqno and is_message(message)
                    seqno += 1

    in_loop(main, endpoint="inproc://x")


def test_timeouts_of_recv_lose_no_message():
    async def main(pull, push):
        async def send():
            for i in range(500):
                await tens.send(push, message_of(i), seqno=i)
                await asyncio.sleep(random.uniform(0, 0.002))

        sending = asyncio.ensure_future(send())
        timeouts, received = 0, []
        while len(received) < 500:
            try:
                received.append((await asyncio.wait_for(tens.recv(pull), random.choice((0, 1e-4, 1e-3)))).seqno)
            except asyncio.TimeoutError:
                timeouts += 1
        await sending
        assert received == list(range(500)) and timeouts > 0

    in_loop(main)


def test_a_cancelled_send_sends_all_or_nothing():
    async def main(pull, push):
        sent, cancelled = [], 0
        for i in range(60):
            task = asyncio.ensure_future(tens.send(push, message_of(i), seqno=i))
            for _ in range(i % 6):
                await asyncio.sleep(0)
            if i % 5 == 0:
                assert is_message(await tens.recv(pull)) if i else True
            task.cancel()
            try:
                await task
                sent.append(i)
            except asyncio.CancelledError:
                cancelled += 1
        received = []
        with contextlib.suppress(zmq.Again):
            while True:
                message = await tens.recv(pull, flags=zmq.DONTWAIT)
                assert is_message(message)
                received.append(message.seqno)
        assert cancelled > 10 and sent[-len(received) :] == received

    in_loop(main, endpoint="inproc://x", sndhwm=2, rcvhwm=2)


@pytest.mark.parametrize("size", [100, 1 << 22])
def test_a_pool_of_buffers_is_told_when_a_message_has_left(size):
    free = [np.zeros(size, np.uint8) for _ in range(3)]
    with sockets(zmq.PULL, zmq.PUSH) as (pull, push):
        for i in range(20):
            wait_for(lambda: free)
            buffer = free.pop()
            buffer[:] = i
            with dlbridge.from_dlpack(buffer) as t:
                t.on_release(functools.partial(free.append, buffer))
                tens.send(push, [t, np.zeros(3)])
            assert (tens.recv(pull).tensors[0].numpy() == i).all()
        wait_for(lambda: len(free) == 3)


def test_a_tracker_waits_for_any_time():
    with pytest.raises(ValueError, match="not a number"):
        tens.Tracker([]).wait(float("nan"))
    with sockets(zmq.PULL, zmq.PUSH, "inproc://x") as (pull, push):
        for timeout in (1e30, float("inf"), None):
            sent = tens.send(push, [np.zeros(1 << 17)], track=True)
            received = [tens.recv(pull)]
            assert not sent.done
            threading.Timer(0.05, received.clear).start()
            sent.wait(timeout)
            assert sent.done and not received


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:*", "inproc://x"])
def test_a_tracker_covers_all_parts(endpoint):
    with sockets(zmq.PULL, zmq.PUSH, endpoint) as (pull, push):
        large, small = np.zeros(1 << 24, np.uint8), np.zeros(3, np.uint8)
        assert tens.send(push, [large, small]) is None
        tens.recv(pull)
        for tensors, packed in (([large, small], False), ([small, large, small], False), ([large], True), ([small], False), ([], False)):
            sent = tens.send(push, tensors, packed=packed, track=True)
            if endpoint.startswith("inproc") and (packed or len(tensors) > 1):  # over TCP, the message may be sent already
                assert not sent.done and "in use" in repr(sent)
                with pytest.raises(TimeoutError, match="after 0.001 s"):
                    sent.wait(0.001)
            tens.recv(pull)
            gc.collect()
            assert sent.wait(timeout=60) is None and sent.done and sent.wait() is None and "done" in repr(sent)
        dropped = tens.send(push, [large], track=True)
    dropped.wait(60)

    async def main(pull, push):
        sent = await tens.send(push, [large, small], track=True)
        assert not sent.done or endpoint.startswith("tcp")
        await tens.recv(pull)
        await asyncio.to_thread(sent.wait, 60)
        assert sent.done

    in_loop(main, endpoint=endpoint)


GOING = [(zmq.DEALER, zmq.DEALER), (zmq.PAIR, zmq.PAIR), (zmq.PUSH, zmq.PULL), (zmq.PUB, zmq.SUB), (zmq.XPUB, zmq.SUB)]


@pytest.mark.parametrize("how", ["wait", "done", "send"])
@pytest.mark.parametrize("kinds", GOING)
def test_what_was_sent_to_a_peer_that_has_gone_is_released(kinds, how):
    with sockets(*kinds, rcvhwm=1) as (sender, receiver):
        if kinds[1] == zmq.SUB:
            receiver.subscribe(b"")
            while not receiver.poll(1):  # a subscription takes some time to arrive
                tens.send(sender, [])
        before = dlbridge.counters()["exports"]
        sent = [tens.send(sender, [np.zeros(1 << 19)], track=True) for _ in range(10)]  # more than TCP buffers
        receiver.close()

        def released_by_sending():
            with contextlib.suppress(zmq.Again):
                tens.send(sender, [], flags=zmq.DONTWAIT)
            return dlbridge.counters()["exports"] == before

        if how == "wait":
            for tracker in sent:
                tracker.wait(30)
        else:
            wait_for(released_by_sending if how == "send" else lambda: all([tracker.done for tracker in sent]))


@pytest.mark.parametrize("kinds", GOING[:3])
def test_asyncio_releases_what_was_sent_to_a_peer_that_has_gone(kinds):
    async def main(sender, receiver):
        sent = [await tens.send(sender, [np.zeros(1 << 19)], track=True) for _ in range(10)]
        receiver.close()
        for tracker in sent:
            await asyncio.to_thread(tracker.wait, 30)

    in_loop(main, kinds=kinds, rcvhwm=1)


class Counting(zmq.Socket):
    """A socket that counts the requests for zmq.EVENTS."""

    looks = 0

    def get(self, option):
        self.looks += option == zmq.EVENTS
        return super().get(option)


def test_messages_in_quick_succession_ask_the_socket_once_in_a_millisecond():
    with zmq.Context() as context, context.socket(zmq.PULL) as pull, Counting(context, zmq.PUSH) as push:
        push.bind("inproc://x")
        pull.connect("inproc://x")
        begin = time.monotonic()
        for _ in range(500):
            tens.send(push, [])
        assert 1 <= push.looks <= 1 + (time.monotonic() - begin) / 0.001
        time.sleep(0.002)
        looks = push.looks
        tens.send(push, [])
        assert push.looks == looks + 1


def test_a_tracker_leaves_a_socket_alone_on_other_threads_and_once_it_is_closed():
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        context.linger = 0
        with Counting(context, zmq.PUSH) as push:
            push.bind("inproc://x")
            pull.connect("inproc://x")
            sent = tens.send(push, [np.zeros(1 << 17)], track=True)
            looks = push.looks
            thread = threading.Thread(target=lambda: sent.done)
            thread.start()
            thread.join()
            assert push.looks == looks
            assert not sent.done and push.looks == looks + 1
        with pytest.raises(TimeoutError):
            sent.wait(0.01)
        tens.recv(pull)
        sent.wait(30)


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
