"""A worker of the pipeline in Python: `worker.py COLLECTOR TASKS PRODUCER...` doubles the elements of tasks by NumPy."""

import sys

import numpy as np
import zmq

from dlbridge import shm, tens

HELD = 10.0
"""Seconds for which a result in shared memory is held for the collector."""


def work(task: tens.Message) -> list[memoryview]:
    """Returns the result of a task. If its elements are in shared memory, they are doubled there."""
    if task.tensors[0] is None:
        task = tens.decode(shm.fetch_parts(task.frames()))
        elements = task.tensors[0].numpy()
        elements *= np.float32(2)
        frames = tens.encode(task.tensors, origin=task.origin, seqno=task.seqno)
        return shm.offer_parts(frames, timeout=HELD, readonly=False)
    return tens.encode([task.tensors[0].numpy() * np.float32(2)], origin=task.origin, seqno=task.seqno)


def main() -> None:
    to, tasks, producers = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    context = zmq.Context()
    context.linger = 0
    push = context.socket(zmq.PUSH)
    push.sndhwm = 8
    push.connect(to)
    poller = zmq.Poller()
    for producer in producers:
        dealer = context.socket(zmq.DEALER)
        dealer.connect(producer)
        for _ in range(tasks):
            dealer.send(b"ready")
        poller.register(dealer, zmq.POLLIN)
    while True:
        for dealer, _ in poller.poll():
            try:
                push.send_multipart(work(tens.recv(dealer)), copy=False)
            except LookupError:
                pass  # the task took too long, and was sent again
            dealer.send(b"ready")


main()
