"""`python -m dlbridge` prints what a report of an error needs: versions, the Go library, and the frameworks found.

`python -m dlbridge ls|show|check FILE...` is about files of tensors instead: see `_listing.py`.

Each framework is measured in a separate process. A process that fails or takes too long has no effect on the others.
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
from dlbridge import _listing
from dlbridge._frameworks import COLUMNS, FRAMEWORKS
from dlbridge._listing import table

EXPLANATION = """\
shares      the framework takes a float32 tensor of dlbridge: yes (on the same memory), copies, no (an exception), or
            changed (the array has another data type or shape)
read-only   the same with read-only memory; ignored: the framework can write to it
copy=True   from_dlpack(copy=True) copies; alias: a write to the tensor shows in what it returns; refused: an exception
numbers     like shares, for bool, the integers of 8 to 64 bits, float16, float32 and float64
complex     complex64, complex128
bfloat16    bfloat16
float8      all eight float8
sub-byte    float4_e2m1fn alone and in pairs, both float6, int4, uint4
lanes       vectors as elements, such as float32x4
negative    negative strides
gaps        gaps between the elements, gaps between the rows, and a broadcast row
column-major, unaligned: a column-major layout; memory that is aligned to 16 bytes and not to 64
capsule     the version of DLPack that the framework asks for; legacy: it asks for none
C exchange  arrays of the framework have the C exchange API
gives       dlbridge takes an array of the framework; read-only: as a Tensor that cannot be written to
5/8         the framework takes five of eight types or layouts on the same memory; copies:5/8: it copies five, and takes none
            on the same memory
-           does not apply: ml_dtypes and polars are measured with Tensor.numpy, ray and distributed (Dask) with
            their serialisation of a Tensor, without a cluster
crashes, hangs: the process of the framework ended, or did not return
?           not measured, because the framework could not be imported or an earlier column hangs"""


def run(name: str, columns: list[str], timeout: float) -> tuple[dict[str, str], str | None]:
    """Runs one process for a framework, or for the library. Returns what it has measured, and the reason if it did not finish."""
    flags = [flag for flag, given in (("-I", sys.flags.isolated), ("-P", sys.flags.safe_path)) if given]
    environment = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    process = subprocess.Popen(
        [sys.executable, *flags, "-m", "dlbridge._frameworks", name, *columns],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
    )  # fmt: skip
    error = None
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        error = f"stopped after {timeout:g} s"
    if error is None and process.returncode < 0:
        error = f"ended by {signal.Signals(process.returncode * -1).name}"
    elif error is None and process.returncode > 0:
        error = f"ended with status {process.returncode}"
    return dict(json.loads(line) for line in text.decode().splitlines() if line.endswith("]")), error


def ask(name: str, timeout: float) -> dict[str, str]:
    """Returns the row of a framework: its version, its columns, and "error" if a process did not finish.

    If a column ends the process, another process measures the rest. After a column that does not return, nothing more is measured.
    """
    row: dict[str, str] = {}
    while left := [column for column in COLUMNS if column not in row]:
        found, error = run(name, left, timeout)
        row.update(found)
        if error is None:
            return row
        row.setdefault("error", error)
        left = [column for column in left if column not in row]
        if "version" not in row or not left:
            return row
        row[left[0]] = "crashes" if error.startswith("ended") else "hangs"
        if row[left[0]] == "hangs":
            return row
    return row


def dlpack_version() -> str:
    """Returns the version in the managed tensors of this package."""
    address = dlbridge.to_address(dlbridge.empty(1, "float32"))
    major, minor = (ctypes.c_uint32 * 2).from_address(address)
    dlbridge.from_address(address)
    return f"{major}.{minor}"


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in _listing.COMMANDS:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # head and others end the list without an error
        sys.exit(_listing.main())
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge",
        description="Prints versions, the Go library, and what the installed frameworks accept.",
        epilog="python -m dlbridge ls|show|check FILE... lists, shows and checks files of tensors (ls --help).",
    )
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="stop measuring a framework after this time (default: 60)")
    parser.add_argument("--json", action="store_true", help="print the report as a JSON object")
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
        error = row.get("error")
        if error != "not found":
            rows.append([name, *(row.get(column, "?") for column in ("version", *COLUMNS))])
        if error is not None:
            errors.append([f"{name}:", error])
    if len(rows) > 1:
        print(table(rows), EXPLANATION, sep="\n\n", end="\n\n")
    if errors:
        print(table(errors))


if __name__ == "__main__":
    main()
