"""Writes what frameworks accept into the tables of two READMEs (`make tables`). The input is the output of `python -m dlbridge --json`.

    python tables.py < REPORT
"""

from __future__ import annotations

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BEGIN, END = "<!-- `make tables` writes this table. -->\n\n", "\n<!-- The table ends. -->\n"

# The rows of bridge/README.md: the column of the report, and its name in the README.
ROWS = {
    "shares": "float32",
    "read-only": "read-only memory",
    "copy=True": "`from_dlpack(copy=True)`",
    "numbers": "bool, int8 to int64, uint8 to uint64, float16 to float64",
    "complex": "complex64, complex128",
    "bfloat16": "bfloat16",
    "float8": "float8, of which there are eight",
    "sub-byte": "float4 alone and in pairs, two float6, int4, uint4",
    "lanes": "float32x4, int8x2",
    "negative": "negative strides",
    "gaps": "gaps in rows, gaps between rows, a broadcast row",
    "column-major": "column-major",
    "unaligned": "aligned to 16 bytes and not to 64",
    "capsule": "version that it asks for",
    "C exchange": "its arrays have the C exchange API",
    "gives": "dlbridge takes its arrays",
}
# The columns of bridge/python/README.md.
COLUMNS = ["version", "shares", "read-only", "copy=True", "bfloat16", "negative", "capsule", "C exchange", "gives"]


def markdown(rows: list[list[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |\n" for row in rows]
    return "".join([head, "|---" * len(rows[0]) + "|\n", *body])


def tables(frameworks: dict[str, dict[str, str]]) -> dict[pathlib.Path, str]:
    """Returns the table of each README. A framework that is not installed is left out."""
    found = {name: row for name, row in frameworks.items() if row.get("error") != "not found"}
    heads = [f"{name} {row.get('version', '?')}" for name, row in found.items()]
    by_property = [[title, *(row.get(column, "?") for row in found.values())] for column, title in ROWS.items()]
    by_framework = [[name, *(row.get(column, "?") for column in COLUMNS)] for name, row in found.items()]
    return {
        ROOT / "bridge" / "README.md": markdown([["", *heads], *by_property]),
        ROOT / "bridge" / "python" / "README.md": markdown([["framework", *COLUMNS], *by_framework]),
    }


def parts(file: pathlib.Path) -> tuple[str, str, str]:
    """Returns the text of a README before its table, the table, and the text after it."""
    before, _, rest = file.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    if not after:
        raise ValueError(f"{file}: has no table between {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN, table, END + after


def main() -> None:
    for file, table in tables(json.load(sys.stdin)["frameworks"]).items():
        before, _, after = parts(file)
        file.write_text(before + table + after)


if __name__ == "__main__":
    main()
