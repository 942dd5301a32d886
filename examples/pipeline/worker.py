"""A worker of the pipeline in Python: `worker.py COLLECTOR TASKS PRODUCER...` doubles the elements of tasks by NumPy."""

import sys

import numpy as np
import zmq

from dlbridge import tens


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
            task = tens.recv(dealer)
            result = np.from_dlpack(task.tensors[0]) * np.float32(2)
            tens.send(push, [result], origin=task.origin, seqno=task.seqno)
            dealer.send(b"ready")


main()
