"""Starts a cluster of two nodes on this host, counts the bytes of a data set on both, and compares the counts with NumPy's."""

import argparse
import contextlib
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

# Ray reads these when it is imported: only processes with this token may use the cluster. The workers find count.py by PYTHONPATH.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
os.environ["PYTHONPATH"] = str(pathlib.Path(__file__).resolve().parent)

import count  # noqa: E402
import numpy as np  # noqa: E402
import ray  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

import dlbridge  # noqa: E402

NODES = ["127.0.0.2", "127.0.0.3"]  # Ray would replace 127.0.0.1 by the address of the host


def free_port() -> int:
    """Returns a port of the first node that is free, and is none of those that Ray keeps for workers, from 10002 on."""
    for port in range(6400, 10002):
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind((NODES[0], port))
            return port
    raise OSError("no port from 6400 to 10001 is free")


def start(options: list[str], log: pathlib.Path) -> subprocess.Popen[bytes]:
    """Starts a node, and waits until it runs."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", "--object-store-memory=200000000"]
    command += ["--min-worker-port=0", "--max-worker-port=0", *options]  # any ports: two nodes share those of this host
    with log.open("wb") as out:
        node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    end = time.monotonic() + 120
    while b"Ray runtime started" not in log.read_bytes():
        if node.poll() is not None or time.monotonic() > end:
            stop(node)
            raise OSError(f"{' '.join(command)}: the node does not start:\n{log.read_text()}")
        time.sleep(0.1)
    return node


def stop(node: subprocess.Popen[bytes]) -> None:
    """Stops a node with its workers, and waits until it has ended."""
    node.terminate()
    try:
        node.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """A cluster of two nodes, to which this process is connected. It leaves other clusters of this host alone."""
    address = f"{NODES[0]}:{free_port()}"
    head = ["--head", "--include-dashboard=false", "--port=" + address.split(":")[1]]
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder, contextlib.ExitStack() as nodes:
        for node, options in (NODES[0], [*head, "--temp-dir=" + folder]), (NODES[1], ["--address=" + address]):
            nodes.callback(stop, start([*options, "--node-ip-address=" + node], pathlib.Path(folder, node + ".log")))
        ray.init(address, log_to_driver=False, logging_level="error", _node_ip_address=NODES[0])
        nodes.callback(ray.shutdown)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="the library that main.go is built as")
    parser.add_argument("--blocks", type=int, default=16, help="into how many tensors the data set is cut (default 16)")
    parser.add_argument("--bytes", type=int, default=4 << 20, help="how many bytes a block has (default 4 MiB)")
    parser.add_argument("--kill", type=int, default=-1, metavar="BLOCK", help="kill the worker that begins this block, the first time")
    arguments = parser.parse_args()
    if arguments.blocks < 1 or arguments.bytes < 1:
        parser.error("--blocks and --bytes must be positive")

    data = np.random.default_rng(1).integers(0, 256, (arguments.blocks, arguments.bytes), np.uint8)
    library = os.path.abspath(arguments.library)
    with cluster():
        progress = count.Progress.remote()
        places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in ray.nodes()]
        workers = [count.Worker.options(scheduling_strategy=place).remote(library, arguments.kill) for place in places]
        tensors = dlbridge.from_dlpack(data)
        # ray.put copies each block to the store of the first node. Ray copies those that the second node counts to its own.
        parts = [workers[i % 2].count.remote(progress, i, ray.put(block)) for i, block in enumerate(tensors)]
        waiting = parts
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=min(4, len(waiting)))
            print(f"{len(parts) - len(waiting)} of {len(parts)} blocks counted", flush=True)
        while len(parts) > 1:
            parts = [workers[i % 2].add.remote(*pair) if len(pair) == 2 else pair[0] for i, pair in enumerate(pairs(parts))]
        result = ray.get(parts[0])
        counted, again = ray.get(progress.report.remote())

    if not np.array_equal(result.numpy(), np.bincount(data.ravel(), minlength=256)):
        sys.exit("the counts are not those of NumPy")
    for node, blocks in sorted(counted.items()):
        print(f"{node} has counted {blocks} blocks")
    print(f"{again} begun again; the counts of {result.numpy().sum()} bytes are those of NumPy")


def pairs(parts: list) -> list[list]:
    return [parts[i : i + 2] for i in range(0, len(parts), 2)]


if __name__ == "__main__":
    main()
