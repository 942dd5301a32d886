"""Prints the Go tests that a target of the Makefile selects by their calls of package testmode.

    marked.py long      tests that -short makes shorter or leaves out: they call SkipLong, SkipMemory or
                        testing.Short
    marked.py threads   tests whose threads share tensors: they call MeetsThreads
    marked.py skipped   tests that -short leaves out: they call SkipLong or SkipMemory

A test may call the function directly, or through other functions in the tests of its package. Each line has the folder of a package and an
expression for `go test -run`; with `skipped`, each line has the name of a test.

marked.py searches the text of a function as gofmt writes it, from `func` to the next line that begins with `}`. A comment or a string that
contains the name and `(` counts as a call. A function in one line is read together with the next function.
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
