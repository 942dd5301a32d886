"""The actors. Ray finds classes of an importable module by their names; those of the main program it would send by value."""

import collections
import os
import signal

import ray

import dlbridge


@ray.remote(num_cpus=0)
class Progress:
    """Knows how often each block was begun, by a worker that may have been killed, and on which node it was counted."""

    def __init__(self) -> None:
        self.begun: collections.Counter[int] = collections.Counter()
        self.counted: dict[int, str] = {}

    def begin(self, block: int) -> int:
        self.begun[block] += 1
        return self.begun[block]

    def end(self, block: int, node: str) -> None:
        self.counted[block] = node

    def report(self) -> tuple[dict[str, int], int]:
        """Returns how many blocks each node has counted, and how many were begun again."""
        return dict(collections.Counter(self.counted.values())), sum(n - 1 for n in self.begun.values())


@ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)  # a killed worker is started again, and gets its calls again
class Worker:
    """Calls the Go functions of a library. The worker that begins the block `kill` for the first time is killed there."""

    def __init__(self, library: str, kill: int) -> None:
        go = dlbridge.load(library)
        self.go_count = dlbridge.wrap(go.count, args=["tensor", "error"], returns="tensor")
        self.go_add = dlbridge.wrap(go.add, args=["tensor", "tensor", "error"], returns="tensor")
        self.kill = kill

    def count(self, progress: ray.actor.ActorHandle, number: int, block: dlbridge.Tensor) -> dlbridge.Tensor:
        if ray.get(progress.begin.remote(number)) == 1 and number == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        result = self.go_count(block)  # Go reads the object store of this node
        ray.get(progress.end.remote(number, ray.util.get_node_ip_address()))
        return result

    def add(self, x: dlbridge.Tensor, y: dlbridge.Tensor) -> dlbridge.Tensor:
        return self.go_add(x, y)
