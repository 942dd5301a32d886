"""Sends messages of the same sizes with pyzmq, which has its own libzmq. `pyzmq.py ENDPOINT BYTES TENSORS ROUNDS TURNS` prints the seconds
and the processor time of each turn.
"""

import json
import resource
import sys
import threading
import time

import zmq


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(endpoint: str, size: int, tensors: int, rounds: int) -> None:
    context = zmq.Context()
    pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    pull.bind("inproc://bench" if endpoint == "inproc" else "tcp://127.0.0.1:*")
    push.connect(pull.getsockopt_string(zmq.LAST_ENDPOINT))
    parts = [b"ZIO0TENS" + b" " * 100, bytes(24), *(bytearray(size) for _ in range(tensors))]

    def send() -> None:
        for _ in range(rounds):
            push.send_multipart(parts, copy=False)

    sender = threading.Thread(target=send)
    sender.start()
    touched = 0
    for _ in range(rounds):
        for frame in pull.recv_multipart(copy=False):
            touched += sum(memoryview(frame.buffer)[::4096])
    sender.join()
    context.destroy()


def main() -> None:
    endpoint, size, tensors, rounds, turns = sys.argv[1], *map(int, sys.argv[2:])
    result = {"version": f"{zmq.__version__}, libzmq {zmq.zmq_version()}", "seconds": [], "cpu": []}
    for _ in range(turns):
        start, before = time.perf_counter(), cpu()
        run(endpoint, size, tensors, rounds)
        result["seconds"].append(time.perf_counter() - start)
        result["cpu"].append(cpu() - before)
    print(json.dumps(result))


main()
