"""Prints the Go tests that -short makes shorter or leaves out, a package in each line: its folder, and an expression for `go test -run`.

They are those that call SkipLong or testing.Short, by themselves or in a function of the tests of their package. With the argument
`names`, it prints the tests that -short leaves out, one in each line.
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"^func (?:\([^)]*\) )?(\w+)\(.*?^}", re.MULTILINE | re.DOTALL)


def main() -> None:
    marks = r"SkipLong" if sys.argv[1:] == ["names"] else r"SkipLong|testing\.Short"
    files = subprocess.run(["git", "ls-files", "*_test.go"], check=True, capture_output=True, text=True).stdout.split()
    for folder in sorted({pathlib.Path(file).parent for file in files}):
        functions = [match for file in files if pathlib.Path(file).parent == folder for match in FUNCTION.finditer(pathlib.Path(file).read_text())]
        callers: set[str] = set()
        found = {match[1] for match in functions if re.search(rf"(?:{marks})\(", match[0])}
        while found - callers:
            callers |= found
            called = "|".join(sorted(callers))
            found = {match[1] for match in functions if re.search(rf"\b(?:{called})\(", match[0][len("func "):].split("\n", 1)[-1])}
        tests = sorted(name for name in callers if re.match("(Test|Fuzz)", name))
        if tests and sys.argv[1:] == ["names"]:
            print("\n".join(tests))
        elif tests:
            print(f"./{folder} ^({'|'.join(tests)})$")


if __name__ == "__main__":
    main()
