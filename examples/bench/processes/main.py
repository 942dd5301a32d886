"""Times how tensors reach other processes, and prints the tables of README.md."""

import os
import platform
import statistics
from collections.abc import Callable, Iterable
from typing import TypeVar

import handover
import stored

T = TypeVar("T")


def interleaved(paths: dict[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Returns the times of each path. All paths take turns in each round, and each round begins with the next path."""
    times: dict[str, list[T]] = {name: [] for name in paths}
    names = list(paths)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            times[name].append(paths[name]())
    return times


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


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
    print("The tensor and the array lie in Ray's object store. The process that put them there reads them, without a copy.\n")
    times = interleaved(stored.gets(1 << 30), 300)
    base = statistics.median(times["a NumPy array"])
    rows = []
    for name, all_times in times.items():
        low, middle, high = statistics.quantiles(all_times, n=4)
        rows.append([name, duration(middle), f"{duration(low)} to {duration(high)}", f"{middle / base:.2f}"])
    table(["", "median", "middle half of the times", "relative to the array"], rows)


SIZES = {"1 KiB": (1 << 10, 300), "1 MiB": (1 << 20, 200), "1 GiB": (1 << 30, 7)}  # bytes, and rounds


def hand_over() -> None:
    medians: dict[str, dict[str, handover.Times]] = {}
    for size, (count, rounds) in SIZES.items():
        with handover.paths(count) as paths:
            interleaved(paths, 1)  # the first transfers connect and import
            for path, times in interleaved(paths, rounds).items():
                medians.setdefault(path, {})[size] = handover.Times(*map(statistics.median, zip(*times, strict=True)))
    print("## To another process\n")
    print(
        "A time begins when the sender calls its function, and ends when the receiver holds the tensor. Both processes read one clock.\n"
        "The first row is a round trip. The elements of a new segment are written before the time begins. All other copies are included:\n"
        "into a pickle, shared memory or Ray's store. The kernel must clear the pages of new memory; Ray reuses the pages of its store.\n"
        "Transfers by each path: " + ", ".join(f"{rounds} of {size}" for size, (_, rounds) in SIZES.items()) + ".\n"
    )
    base = medians[handover.BARE]["1 GiB"].arrival
    table(
        ["", *SIZES, "1 GiB, as a multiple of the round trip"],
        ([path, *(duration(got[size].arrival) for size in SIZES), f"{got['1 GiB'].arrival / base:,.1f}"] for path, got in medians.items()),
    )
    del medians[handover.BARE]
    for what, field in [
        ("The receiver then reads one byte of each page. These are its first reads of the mapping or copy:", "touch"),
        ("Then it releases the tensor, which unmaps or frees the memory:", "release"),
    ]:
        print(what + "\n")
        table(["", *SIZES], ([path, *(duration(getattr(got[size], field)) for size in SIZES)] for path, got in medians.items()))


if __name__ == "__main__":
    print(machine() + ".\n")
    with stored.cluster():
        hand_over()
        ray_get()
