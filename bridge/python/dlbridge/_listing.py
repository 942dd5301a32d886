"""`python -m dlbridge ls|show|check FILE...` lists, shows and checks files of tensors."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

from ._core import Tensor
from ._files import Entry, File, open_file

COMMANDS = {
    "ls": "lists the tensors of files: safetensors, npy, npz, GGUF, and an index of safetensors",
    "show": "the same with the elements, their smallest, largest and mean number, and how many are NaN",
    "check": "checks files and makes all their tensors; an error names the byte",
}


def statistics(t: Tensor) -> dict[str, Any]:
    """Returns the statistics of the numbers of a tensor, of which some are converted at a time. NaN does not count for the others."""
    least, most, total, nan, count = math.inf, -math.inf, 0.0, 0, 0
    flat = t.contiguous().reshape(-1)
    for start in range(0, flat.size, 1 << 16):
        found = flat[start : start + (1 << 16)].convert("float64").tolist()
        numbers = [x for x in found if x == x]
        nan += len(found) - len(numbers)
        if numbers:
            least, most = min(least, min(numbers)), max(most, max(numbers))
            total, count = total + sum(numbers), count + len(numbers)
    if count == 0:
        least = most = math.nan
    return {"min": least, "max": most, "mean": total / count if count else math.nan, "nan": nan}


def row(command: str, file: File, e: Entry) -> dict[str, Any]:
    """Returns what is said of a tensor. `check` and `show` make it, which checks what only a copy can check."""
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


def plain(value: Any) -> str:
    """Returns a text of a file as one line of at most 60 characters, without characters that control a terminal."""
    text = value if isinstance(value, str) else repr(value)
    short = text[:60]
    return (short if short.isprintable() else ascii(short)) + "…" * (len(text) > 60)


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
        print(f"  {plain(key)} = {plain(value)}")
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
                print(f"  min {found['min']:.6g}, max {found['max']:.6g}, mean {found['mean']:.6g}, {found['nan']} NaN")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dlbridge")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help in COMMANDS.items():
        one = commands.add_parser(name, help=help, description=help)
        one.add_argument("--json", action="store_true", help="prints a JSON object for each file, one a line")
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
            print(json.dumps(found))
        else:
            show(arguments.command, found)
    return status
