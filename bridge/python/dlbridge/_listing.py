"""`python -m dlbridge ls|show|check FILE...` lists, shows and checks files of tensors."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

from ._core import Tensor
from ._files import Entry, File, open_file

_BLOCK = 1 << 16  # elements; as float64 they stay in the cache of a processor
COMMANDS = {
    "ls": "lists the tensors of files in safetensors, npy, npz and GGUF, and of an index of safetensors",
    "show": "lists the tensors with their elements, smallest, largest and mean number, and the count of NaN",
    "check": "checks files and opens all their tensors; an error names the byte",
}


def statistics(t: Tensor) -> dict[str, Any]:
    """Returns the statistics of the numbers of a tensor, converting one block at a time. NaN counts only in "nan".

    NumPy computes them if it is installed, which is faster.
    """
    try:
        import numpy as np
    except ImportError:
        np = None  # type: ignore[assignment]
    if t.strides[:1] < t.strides[-1:]:
        t = t.T  # a column-major tensor then needs no copy; the order of the numbers does not matter
    flat = t.contiguous().reshape(-1)
    least = most = math.nan
    total, nan = 0.0, 0
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].convert("float64")
        if np is not None:
            x = block.numpy()
            with np.errstate(all="ignore"):
                low, high = float(np.fmin.reduce(x)), float(np.fmax.reduce(x))  # NaN if there are no other numbers
                total += float(np.nansum(x))
            nan += int(np.count_nonzero(np.isnan(x)))
        else:
            found = block.tolist()
            numbers = [number for number in found if number == number]
            low, high = min(numbers, default=math.nan), max(numbers, default=math.nan)
            total += sum(numbers)
            nan += len(found) - len(numbers)
        least = least if least <= low or low != low else low
        most = most if most >= high or high != high else high
    count = flat.size - nan
    return {"min": least, "max": most, "mean": total / count if count else math.nan, "nan": nan}


def row(command: str, file: File, e: Entry) -> dict[str, Any]:
    """Returns the row of a tensor. `check` and `show` also make the tensor, which finds errors that opening the file cannot."""
    found: dict[str, Any] = e._asdict()
    if command == "check" or (command == "show" and not e.problem):
        t = file[e.name]
        if command == "show":
            found["values"] = str(t)
            if t.shape == e.shape and not t.dtype.startswith("complex"):  # otherwise quantised blocks, or numbers without an order
                found["statistics"] = statistics(t)
    return found


def examine(command: str, path: str) -> dict[str, Any]:
    """Returns what is said of a file."""
    with open_file(path) as file:
        rows = [row(command, file, e) for e in file.entries.values()]
        file.verify()
        return {"path": path, "format": file.format, "metadata": file.metadata, "tensors": rows}


def number(x: float) -> str:
    """Returns a number as the table has it."""
    return f"{x:.6g}" if math.isfinite(x) else "NaN" if x != x else "+Inf" if x > 0 else "-Inf"


def of_json(value: Any) -> Any:
    """Returns a value with texts in place of the numbers that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return number(value)
    if isinstance(value, (list, tuple)):
        return [of_json(element) for element in value]
    return {key: of_json(element) for key, element in value.items()} if isinstance(value, dict) else value


def text(value: Any, quote: str = "") -> str:
    """Returns a value of metadata as the table has it. Texts in lists and objects stand in quotes."""
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return f"[{', '.join(text(element, chr(34)) for element in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(text(key, chr(34)) + ': ' + text(value[key], chr(34)) for key in sorted(value))}}}"
    return json.dumps(value)


def plain(line: str) -> str:
    """Returns a text of a file as one line of at most 60 characters. Characters that could control a terminal are escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line[:60]) + "…" * (len(line) > 60)


def table(rows: list[list[str]]) -> str:
    """Returns the rows with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def show(command: str, found: dict[str, Any]) -> None:
    rows = found["tensors"]
    print(f"{found['path']}: {found['format']}, {len(rows)} tensor{'s' * (len(rows) != 1)}")
    if command == "check":
        return
    for key, value in found["metadata"].items():
        print(f"  {plain(key)} = {plain(text(value))}")
    cells = [["  NAME", "TYPE", "SHAPE", "BYTES", "OFFSET", "ALIGNED"]]
    for e in rows:
        if not e["problem"]:
            aligned = f"a copy: {e['copied']}" if e["copied"] else "yes" if e["aligned"] else "no"
            shape = f"[{' '.join(map(str, e['shape']))}]"
            cells.append(["  " + plain(e["name"]), e["type"], shape, str(e["nbytes"]), str(e["offset"]), aligned])
    print(table(cells))
    for e in rows:
        if e["problem"]:
            print(f"{plain(e['name'])} is refused: {e['problem']}")
        elif command == "show":
            print(f"{plain(e['name'])} = {e['values']}")
            if found := e.get("statistics"):
                print(f"  min {number(found['min'])}, max {number(found['max'])}, mean {number(found['mean'])}, {found['nan']} NaN")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dlbridge")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help in COMMANDS.items():
        one = commands.add_parser(name, help=help, description=help)
        one.add_argument("--json", action="store_true", help="print a JSON object for each file, each on one line")
        one.add_argument("file", nargs="+")
    arguments = parser.parse_args()
    status = 0
    for path in arguments.file:
        try:
            found = examine(arguments.command, path)
        except (OSError, ValueError, BufferError, MemoryError) as error:
            status = 1
            if arguments.json:
                print(json.dumps({"path": path, "error": str(error)}))
            else:
                print(f"{path}: {error}", file=sys.stderr)
            continue
        if arguments.json:
            print(json.dumps(of_json(found), allow_nan=False))
        else:
            show(arguments.command, found)
    return status
