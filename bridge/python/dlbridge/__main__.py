"""`python -m dlbridge` prints what a report of an error needs: versions, the Go library, and the frameworks found.

Each framework is tried out in a process of its own, which may fail or take too long without any effect on the others.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import dlbridge
from dlbridge._frameworks import COLUMNS, FRAMEWORKS

EXPLANATION = """\
shares      the framework takes a float32 tensor of dlbridge: yes (on the same memory), copies, or no (an exception)
read-only   the same with read-only memory; ignored: the framework can write to it
copy=True   from_dlpack(copy=True) copies; alias: a write to the tensor shows in what it returns; refused: an exception
bfloat16, float8, negative, gaps: as shares, for a tensor of bfloat16 or of float8_e4m3fn, with negative
            strides, or with gaps between the elements
capsule     the version of DLPack that the framework asks for; legacy: it asks for none
C exchange  arrays of the framework have the C exchange API
gives       dlbridge takes an array of the framework
-           does not apply: pyarrow is measured with py_buffer, and ml_dtypes with Tensor.numpy
?           not measured, because the process of the framework had ended"""


def ask(name: str, timeout: float) -> dict[str, str]:
    """Returns what the process for a framework, or for the library, has measured, with "error" if it did not finish."""
    flags = [flag for flag, given in (("-I", sys.flags.isolated), ("-P", sys.flags.safe_path)) if given]
    environment = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    process = subprocess.Popen(
        [sys.executable, *flags, "-m", "dlbridge._frameworks", name],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
    )  # fmt: skip
    error = None
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        error = f"stopped after {timeout:g} s"
    found = dict(json.loads(line) for line in text.decode().splitlines() if line.endswith("]"))
    if error is None and process.returncode < 0:
        error = f"ended by {signal.Signals(process.returncode * -1).name}"
    elif error is None and process.returncode > 0:
        error = f"ended with status {process.returncode}"
    return {**found, "error": error} if error is not None else found


def dlpack_version() -> str:
    """Returns the version in the managed tensors of this package."""
    address = dlbridge.to_address(dlbridge.empty(1, "float32"))
    major, minor = (ctypes.c_uint32 * 2).from_address(address)
    dlbridge.from_address(address)
    return f"{major}.{minor}"


def table(rows: list[list[str]]) -> str:
    """Returns the rows with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dlbridge", description="Prints versions, the Go library and the frameworks found.")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for each framework (default: 60)")
    parser.add_argument("--json", action="store_true", help="prints all of it as a JSON object, for programs")
    arguments = parser.parse_args()
    timeout = arguments.timeout

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        names = ["library", *FRAMEWORKS]
        found = dict(zip(names, pool.map(lambda name: ask(name, timeout), names)))
    go = found.pop("library")
    rows = [
        ["dlbridge", f"{dlbridge.__version__}, {os.path.dirname(os.path.abspath(dlbridge.__file__))}"],
        ["Python", f"{platform.python_version()}, {sys.executable}"],
        ["system", f"{platform.system()} {platform.machine()}, {' '.join(filter(None, platform.libc_ver()))}"],
        ["DLPack", dlpack_version()],
        ["Go library", f"not usable: {go['error']}" if "error" in go else f"{go['version']}, {go['path']}"],
    ]
    if arguments.json:
        print(json.dumps({"versions": dict(rows), "frameworks": {name: row for name, row in found.items() if row}}, indent=2))
        return
    print(table(rows), end="\n\n")

    rows = [["framework", "version", *COLUMNS]]
    errors = []
    for name, row in found.items():
        if "version" in row:
            rows.append([name, row["version"], *(row.get(column, "?") for column in COLUMNS)])
        if "error" in row:
            errors.append([f"{name}:", row["error"]])
    if len(rows) > 1:
        print(table(rows), EXPLANATION, sep="\n\n", end="\n\n")
    if errors:
        print(table(errors))


if __name__ == "__main__":
    main()
