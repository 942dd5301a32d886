"""refused.py HEADERS WORK CXX...: checks that each C++ compiler reports the errors that refused.txt lists for its statements.

The expected words of a row must be part of a text in dlbridge.hpp, or must have a name in quotes. Vaguer words would also match
unrelated errors.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

PROLOGUE = """\
#include <dlbridge.hpp>
#include <cstdlib>
#include <deque>
#include <functional>
#include <list>
"""
STATEMENT = """\
using dlbridge::frame;
using dlbridge::message;
using dlbridge::tensor;
void use(tensor &x, tensor &y, frame &f, message &m, float *p, std::size_t n, std::unique_ptr<float[]> &owner);
void use(tensor &x, tensor &y, frame &f, message &m, float *p, std::size_t n, std::unique_ptr<float[]> &owner) {
  static_cast<void>(x), static_cast<void>(y), static_cast<void>(f), static_cast<void>(m), static_cast<void>(p);
  static_cast<void>(n), static_cast<void>(owner);
"""
FLAGS = ["-Werror=unused-result", "-Werror=narrowing"]


def cases(text):
    """Yields the standard and the statement of each row, with the words that g++ and clang++ must print."""
    standard = "c++17"
    for line in text.splitlines():
        if line.startswith("# In C++"):
            standard = line.removeprefix("# In ").removesuffix(".").lower()
        elif line and not line.startswith("#"):
            statement, words = line.rsplit(" => ", 1)
            gcc, _, clang = words.partition(" / ")
            yield standard, statement, {"g++": gcc, "clang++": clang or gcc}


def generic(table, header):
    """Yields a fault for each row whose words are too vague to identify the error."""
    texts = ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', run)) for run in re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*)+', header)]
    for _, statement, words in table:
        for word in words.values():
            if word != "-" and not re.search(r"'[^']", word) and not any(word in text for text in texts):
                yield f"the words {word!r} are too vague: {statement}"


def compiled(compiler, kind, standard, headers, work):
    """Compiles PROLOGUE, and returns the command that compiles a statement with it."""
    prologue = work / f"{kind}-{standard}.hpp"
    prologue.write_text(PROLOGUE)
    out = prologue.with_suffix(".hpp.gch" if kind == "g++" else ".pch")
    extra = ["-Werror=dangling"] if kind == "clang++" else []
    command = [compiler, f"-std={standard}", *FLAGS, *extra, f"-I{headers}"]
    subprocess.run([*command, "-x", "c++-header", prologue, "-o", out], check=True)
    include = ["-include", prologue] if kind == "g++" else ["-include-pch", out]
    return [*command, "-fsyntax-only", "-x", "c++", *include, "-"]


def said(command, statement):
    """Returns whether the statement compiles, and the errors."""
    done = subprocess.run(command, input=f"{STATEMENT}  {statement}\n}}\n", capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return done.returncode == 0, done.stderr


def fault(command, statement, words):
    """Returns how the compiler's answer differs from the expected words, or None."""
    compiles, errors = said(command, statement)
    if compiles and words != "-":
        return f"this compiles: {statement}"
    if not compiles and words == "-":
        return f"this does not compile: {statement}\n{errors}"
    if not compiles and not any("error" in line and words in line for line in errors.splitlines()):
        return f"no error with the words {words!r}: {statement}\n{errors}"
    return None


def main():
    headers, work = sys.argv[1], pathlib.Path(sys.argv[2])
    table = list(cases(pathlib.Path(__file__).with_suffix(".txt").read_text()))
    faults = list(generic(table, pathlib.Path(headers, "dlbridge.hpp").read_text()))
    faults += [f"{compiler} is not installed" for compiler in sys.argv[3:] if shutil.which(compiler) is None]
    if faults:
        sys.exit("\n".join(faults))
    work.mkdir(parents=True, exist_ok=True)
    jobs = []
    for compiler in sys.argv[3:]:
        kind = "clang++" if "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout else "g++"
        commands = {standard: compiled(compiler, kind, standard, headers, work) for standard in {row[0] for row in table}}
        jobs += [(commands[standard], statement, words[kind]) for standard, statement, words in table]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [f"{job[0][0]}: {text}" for job, text in zip(jobs, pool.map(lambda job: fault(*job), jobs), strict=True) if text]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(table)} uses of dlbridge.hpp, nearly all wrong: {', '.join(sys.argv[3:])}: ok")


main()
