"""Breaks each invariant of the ownership core, and rules of formats and layouts, in turn, and requires that a test notices.

    run.py [FOLDER [COMMIT]]

A mutant is a change of one place in the sources, in a copy of the tree under FOLDER. Each has to make the tests that are
named beside it in mutants.py fail, within ten runs, since what a race breaks does not fail in every run. A mutant whose
text does not occur just once, or that does not compile, is an error here, and so is a test that fails without a mutant. With the
name of a commit, a third of the mutants are made, which its last digits choose. Without FOLDER, no mutant is made: their texts are
looked for, which takes no time.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import mutants

GO = os.environ.get("GO", "go")
CORE = "dlpack/internal/core/"
RUNS = 10
WORKERS = 2  # the compiler of C, which takes most of the time, uses one core for each
Mutant = tuple[str, str, str, str, list[str], str]  # the rule, the file, its text and what it becomes, the packages of the tests, the tests
MUTANTS = [
    *((rule, CORE + file, text, instead, ["./dlpack", "./dlpack/internal/core"], tests) for rule, file, text, instead, tests in mutants.CORE),
    *((rule, file, text, instead, [package], f"^{test}$") for rule, file, text, instead, package, test in mutants.OTHERS),
]


def main(folder: pathlib.Path | None = None, commit: str = "") -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    found = ((rule, file, (root / file).read_text().count(text)) for rule, file, text, *_ in MUTANTS)
    if faults := [f"{file}: the text of the mutant of {rule!r} is found {n} times" for rule, file, n in found if n != 1]:
        sys.exit("\n".join(faults))
    if folder is None:
        return
    shutil.rmtree(folder, ignore_errors=True)
    chosen = MUTANTS[int(commit[-6:], 16) % 3 :: 3] if commit else MUTANTS
    rest = iter(chosen)
    passed: set[tuple[str, ...]] = set()
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        workers = [pool.submit(work, rest, copy_of(root, folder / str(n)), passed) for n in range(WORKERS)]
        survivors = [rule for worker in workers for rule in worker.result()]
    if survivors:
        sys.exit("no test notices the mutants of:\n" + "\n".join(survivors))


def copy_of(root: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Copies the sources that mutants change, and returns the folder of the copy."""
    parts = ["go.mod", "go.sum", "bridge", "dlpack", "include", "tens"]
    files = subprocess.run(["git", "ls-files", "-z", *parts], cwd=root, check=True, capture_output=True, text=True, errors="replace")
    for name in filter(None, files.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    return folder


def work(rest: Iterator[Mutant], folder: pathlib.Path, passed: set[tuple[str, ...]]) -> list[str]:
    """Makes the mutants that no other worker has taken, in a copy of its own, and returns the rules whose mutants survive. Tests that have
    passed without a mutant are in passed."""
    survivors = []
    while mutant := next(rest, None):
        rule, file, text, instead, packages, tests = mutant
        run = ("-run", tests, *packages)
        if run not in passed and fails(run, "none", folder):
            sys.exit(f"without a mutant, these tests fail in {' '.join(packages)}: {tests}")
        passed.add(run)
        path = folder / file
        source = path.read_text()
        path.write_text(source.replace(text, instead))
        found = any(fails(run, rule, folder) for _ in range(RUNS))
        print(f"{'found   ' if found else 'SURVIVES'}  {rule}", flush=True)
        path.write_text(source)
        if not found:
            survivors.append(rule)
    return survivors


def fails(tests: tuple[str, ...], rule: str, folder: pathlib.Path) -> bool:
    """Runs tests, and reports whether one of them has failed."""
    done = subprocess.run([GO, "test", "-vet=off", "-count=1", "-timeout=90s", *tests], cwd=folder, capture_output=True, text=True, errors="replace")
    output = done.stdout + done.stderr
    if "[build failed]" in output or "[setup failed]" in output:
        sys.exit(f"the mutant of {rule!r} does not compile:\n{output}")
    reported = any(report in output for report in ("--- FAIL: ", "panic: ", "fatal error: fault", "signal arrived during cgo execution"))
    if done.returncode != 0 and not reported:
        print(output, file=sys.stderr, flush=True)  # the tests did not run, or ended without a report
    return done.returncode != 0 and reported


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]), *sys.argv[2:])
