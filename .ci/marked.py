"""Prints the Go tests that call a function of package testmode by which a target of the Makefile chooses them.

    marked.py long      those that -short makes shorter or leaves out: they call SkipLong, SkipMemory or
                        testing.Short
    marked.py threads   those in which threads meet: they call MeetsThreads

A test may call the function itself, or in a function of the tests of its package. Each line has a package: its folder, and an
expression for `go test -run`.

What counts is the text of a function as gofmt writes it, from `func` to the next line that begins with `}`: a comment or a string that
has the name with `(` counts as a call, and a function in one line is taken together with the one after it.

    marked.py skipped   the tests that -short leaves out, one in each line
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"^func (?:\([^)]*\) )?(\w+)\(.*?^}", re.MULTILINE | re.DOTALL)
MARKS = {"long": r"SkipLong|SkipMemory|testing\.Short", "threads": "MeetsThreads", "skipped": "SkipLong|SkipMemory"}


def main(kind: str) -> None:
    none = True
    files = subprocess.run(["git", "ls-files", "*_test.go"], check=True, capture_output=True, text=True).stdout.split()
    for folder in sorted({pathlib.Path(file).parent for file in files}):
        functions = [match for file in files if pathlib.Path(file).parent == folder for match in FUNCTION.finditer(pathlib.Path(file).read_text())]
        callers: set[str] = set()
        found = {match[1] for match in functions if re.search(rf"\b(?:{MARKS[kind]})\(", match[0])}
        while found - callers:
            callers |= found
            called = "|".join(sorted(callers))
            found = {match[1] for match in functions if re.search(rf"\b(?:{called})\(", match[0][len("func "):].split("\n", 1)[-1])}
        tests = sorted(name for name in callers if re.match("(Test|Fuzz)", name))
        none = none and not tests
        if tests and kind == "skipped":
            print("\n".join(tests))
        elif tests:
            print(f"./{folder} ^({'|'.join(tests)})$")
    if none:
        sys.exit(f"no Go test calls {MARKS[kind]}")


if __name__ == "__main__":
    main(sys.argv[1])
