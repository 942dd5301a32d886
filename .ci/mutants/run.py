"""Breaks each invariant of the ownership core, and rules of formats and layouts, in turn, and requires that a test notices.

    run.py FOLDER [FIRST]

A mutant is a change of one place in the sources, in a copy of the tree under FOLDER. Each has to make the tests that are
named beside it in mutants.py fail. A mutant whose text is no longer found, or that does not compile, is an error here. With
FIRST, the mutants before that number are left out.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import mutants

GO = os.environ.get("GO", "go")
CORE = "dlpack/internal/core/"
MUTANTS = [
    *((rule, CORE + file, text, instead, ["./dlpack", "./dlpack/internal/core"], tests) for rule, file, text, instead, tests in mutants.CORE),
    *((rule, file, text, instead, [package], f"^{test}$") for rule, file, text, instead, package, test in mutants.OTHERS),
]


def main(folder: pathlib.Path, first: int = 0) -> int:
    root = pathlib.Path(__file__).resolve().parents[2]
    shutil.rmtree(folder, ignore_errors=True)
    parts = ["go.mod", "go.sum", "bridge", "dlpack", "include", "tens"]
    files = subprocess.run(["git", "ls-files", "-z", *parts], cwd=root, check=True, capture_output=True, text=True)
    for name in filter(None, files.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    survivors = 0
    for rule, file, text, instead, packages, tests in MUTANTS[first:]:
        path = folder / file
        source = path.read_text()
        if source.count(text) != 1:
            sys.exit(f"{file}: the mutant of {rule!r} is found {source.count(text)} times")
        path.write_text(source.replace(text, instead))
        built = subprocess.run([GO, "vet", *packages], cwd=folder, capture_output=True, text=True)
        if built.returncode != 0:
            sys.exit(f"{file}: the mutant of {rule!r} does not compile:\n{built.stderr}{built.stdout}")
        command = [GO, "test", "-count=1", "-timeout=90s", "-run", tests, *packages]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        output = done.stdout + done.stderr
        found = done.returncode != 0 and ("--- FAIL: " in output or "panic: " in output)
        survivors += not found
        print(f"{'found   ' if found else 'SURVIVES'}  {rule}", flush=True)
        path.write_text(source)
    return survivors


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])))
