"""Times how tensors reach other processes, and prints the tables of README.md."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable

import stored


def interleaved(paths: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Returns the times of each path, in seconds. In each round all paths take turns; each round begins with another one."""
    times: dict[str, list[float]] = {name: [] for name in paths}
    names = list(paths)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            times[name].append(paths[name]())
    return times


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.2f} ms"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    heads = list(heads)
    print("| " + " | ".join(heads) + " |\n|---|" + "--:|" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def machine() -> str:
    with open("/proc/meminfo") as file:
        gigabytes = int(file.readline().split()[1]) / 2**20
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    return (
        f"{model}, {os.cpu_count()} cores, {gigabytes:.0f} GiB of memory, Python {platform.python_version()}, "
        f"{', '.join(stored.versions())}. Load average before the run: {os.getloadavg()[0]:.1f}"
    )


def ray_get() -> None:
    print("## `ray.get` of 1 GiB\n")
    print("Both lie in the object store of Ray, and are read in the process that has put them there. Neither is copied.\n")
    times = interleaved(stored.gets(1 << 30), 300)
    base = statistics.median(times["a NumPy array"])
    rows = []
    for name, all_times in times.items():
        low, middle, high = statistics.quantiles(all_times, n=4)
        rows.append([name, duration(middle), f"{duration(low)} to {duration(high)}", f"{middle / base:.2f}"])
    table(["", "median", "half of the times", "in times of the array"], rows)


if __name__ == "__main__":
    print(machine() + ".\n")
    with stored.cluster():
        ray_get()
