"""Checks the layers in .github/CONTRIBUTING.md:

* Go packages import packages below them only. A package that is not in the table, and an import that the table does not allow,
  are errors. Tests may import anything.
* C files of one program, and the modules of the Python package, do not use each other in a circle.
* core.h is included where ownership is implemented, and nowhere else.

check_test.py plants an error of each kind.
"""

import ast
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile

GO = os.environ.get("GO", "go")
CC = shlex.split(os.environ.get("CC") or "cc")
ROOT = pathlib.Path(__file__).resolve().parents[2]

FORMAT = {"dlpack", "dlpack/layout", "bridge/elements", "bridge/internal/errtext", "bridge/internal/payload", "tens/strictjson"}
"""The row of a format: each package bridge/NAME without its own row."""

ALLOWED = {
    "include": set(),
    "include/dlpack": set(),
    "dlpack/background": set(),
    "dlpack/frames": set(),
    "dlpack/internal/extent": set(),
    "dlpack/layout": {"dlpack/internal/extent"},
    "dlpack/internal/scalar": {"include/dlpack"},
    "dlpack/internal/core": {"include/dlpack", "dlpack/background", "dlpack/frames", "dlpack/internal/extent"},
    "dlpack": {"dlpack/internal/core", "dlpack/internal/extent", "dlpack/layout"},
    "dlpack/dlpacktest": {"dlpack", "dlpack/dlpacktest/repotest", "dlpack/frames", "dlpack/internal/extent", "include/dlpack"},
    "dlpack/dlpacktest/amplification": set(),
    "dlpack/dlpacktest/must": set(),
    "dlpack/dlpacktest/repotest": {"dlpack", "dlpack/background"},
    "dlpack/dlpacktest/testmode": set(),
    "dlpack/dlpacktest/vectors": set(),
    "dlpack/dlpacktest/viewtest": {"dlpack/layout"},
    "tens/strictjson": set(),
    "tens": {"tens/strictjson"},
    "bridge/internal/errtext": set(),
    "bridge/elements": {"bridge/internal/errtext", "dlpack", "dlpack/layout"},
    "bridge/internal/payload": {"dlpack", "dlpack/layout", "bridge/elements", "bridge/internal/errtext"},
    "bridge": FORMAT | {"tens"},
    "bridge/nervana": {"dlpack", "dlpack/layout"},
    "bridge/gorgonia": {"dlpack", "dlpack/layout"},
    "bridge/internal/library": set(),
    "bridge/internal/panics": {"dlpack/frames"},
    "bridge/tvmffi": {"bridge/internal/errtext", "bridge/internal/library", "bridge/internal/panics", "dlpack", "dlpack/layout", "dlpack/background", "include/dlpack"},
    "bridge/zeromq": {"bridge", "bridge/internal/library", "dlpack", "dlpack/background", "include/dlpack", "tens"},
    "bridge/files": {"bridge/elements", "bridge/gguf", "bridge/internal/errtext", "bridge/internal/payload", "bridge/npy", "bridge/safetensors", "dlpack"},
    "bridge/internal/segment": {"dlpack", "include/dlpack"},
    "bridge/shm": {"bridge", "bridge/internal/segment", "dlpack", "dlpack/background", "dlpack/layout", "include/dlpack", "tens"},
    "bridge/capi": FORMAT | {"include", "include/dlpack", "tens", "bridge", "bridge/files", "bridge/internal/panics", "bridge/internal/segment"},  # and all formats
    "bridge/libdlbridge": {"bridge/capi"},
}

PROGRAMS = [
    ["dlpack/internal/core", "bridge/internal/segment", "bridge/capi"],
    ["bridge/python/src"],
    ["bridge/zeromq"],
    ["bridge/tvmffi"],
]
"""The folders of the C files of each program."""

USERS_OF_CORE = ["dlpack/internal/core", "bridge/internal/segment", "bridge/capi", "bridge/python/src"]
TESTS_OF_CORE = ["dlpack/dlpacktest", "bridge/python/tests", "examples/bench"]


def main() -> int:
    with tempfile.TemporaryDirectory() as work:
        errors = [
            *upward(imports_of_go()),
            *(error for folders in PROGRAMS for error in circles(uses_of_c(ROOT, folders, pathlib.Path(work)))),
            *circles(uses_of_python(ROOT / "bridge/python/dlbridge")),
            *users_of_core(ROOT),
        ]
    for error in errors:
        print(error, file=sys.stderr)
    return bool(errors)


# ---- Go


def imports_of_go() -> dict[str, set[str]]:
    """Returns the packages of the repository that each of its packages imports, but for those that may import anything: the examples,
    which nothing can import, and packages of tests, such as NAME/NAMEtest, which no row lets a package import."""
    listed = subprocess.run([GO, "list", "-json=ImportPath,Imports,Module", "./..."], cwd=ROOT, check=True, capture_output=True, text=True)
    decoder, text = json.JSONDecoder(), listed.stdout.strip()
    imports = {}
    while text:
        package, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        root = package["Module"]["Path"] + "/"
        name = package["ImportPath"].removeprefix(root)
        for_tests = name == "bridge/internal/formats" or name not in ALLOWED and re.search(r"(^|/)(\w+)/\2test$", name)
        if not name.startswith("examples/") and not for_tests:
            imports[name] = {path.removeprefix(root) for path in package.get("Imports", []) if path.startswith(root)}
    return imports


def upward(imports: dict[str, set[str]]) -> list[str]:
    """Returns an error for each import that the table does not allow."""
    formats = {name for name in imports if name not in ALLOWED and name.startswith("bridge/") and name.count("/") == 1}
    allowed = ALLOWED | dict.fromkeys(formats, FORMAT)
    allowed["bridge/capi"] = allowed["bridge/capi"] | formats
    errors = [f"{name} is not in the table of {__file__}" for name in sorted(imports.keys() - allowed.keys())]
    errors += [f"{name} is in the table of {__file__}, and does not exist" for name in sorted(ALLOWED.keys() - imports.keys())]
    for name in sorted(imports):
        errors += [f"{name} must not import {path}" for path in sorted(imports[name] - allowed.get(name, imports[name]))]
    return errors


# ---- C

Uses = dict[str, dict[str, str]]
"""For each file, the files that it uses, and what of them, for the error."""


def uses_of_c(root: pathlib.Path, folders: list[str], work: pathlib.Path) -> Uses:
    """Returns the uses of the C files in folders, by the symbols of their object files. A local variable can have the name of a
    function, so that the sources do not tell."""
    files = [file for folder in folders for file in sorted((root / folder).glob("*.c"))]
    if len(files) < 2:
        return {}
    exported = [folder for folder in folders if any("_cgo_export.h" in file.read_text() for file in (root / folder).glob("*.c"))]
    for folder in exported:
        write_exports(root / folder, work / folder)
    include = [root / "include", root / "dlpack/internal/core", root / "bridge/internal/library", root / "bridge/internal/segment"]
    include += [root / "bridge/capi", root / "bridge"]
    include += [work / folder for folder in exported] + [pathlib.Path(sysconfig.get_path("include"))]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-w", "-DPy_LIMITED_API=0x030B0000", *(f"-I{folder}" for folder in include)]

    def symbols(file: pathlib.Path) -> tuple[set[str], set[str]]:
        out = work / file.relative_to(root).with_suffix(".o")
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*CC, *flags, "-c", str(file), "-o", str(out)], check=True)
        defined, undefined = set(), set()
        for line in subprocess.run(["nm", "-P", "-g", str(out)], check=True, capture_output=True, text=True).stdout.splitlines():
            name, kind = line.split()[:2]
            (undefined if kind == "U" else defined).add(name)
        return defined, undefined

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = {str(file.relative_to(root)): both for file, both in zip(files, pool.map(symbols, files))}
    home = {symbol: file for file, (defined, _) in found.items() for symbol in defined}
    uses: Uses = {file: {} for file in found}
    for file, (_, undefined) in found.items():
        for symbol in sorted(undefined & home.keys()):
            uses[file].setdefault(home[symbol], symbol)
    return uses


def write_exports(package: pathlib.Path, out: pathlib.Path) -> None:
    """Writes _cgo_export.h of a package, as `go build` does."""
    out.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run([GO, "list", "-json=CgoFiles,CgoCFLAGS", "."], cwd=package, check=True, capture_output=True, text=True)
    told = json.loads(listed.stdout)
    subprocess.run([GO, "tool", "cgo", "-objdir", str(out), "--", *told["CgoCFLAGS"], *told["CgoFiles"]], cwd=package, check=True)


# ---- Python


def uses_of_python(package: pathlib.Path) -> Uses:
    """Returns the uses of the modules of a package: what they import, in functions too, but for type checkers."""
    modules = {file.stem for file in package.glob("*.py*")}

    def imported(node: ast.AST):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                child = ast.Module(child.orelse, [])
            if isinstance(child, ast.Import):
                yield from (name for name in (alias.name for alias in child.names) if name.split(".")[0] == package.name)
            elif isinstance(child, ast.ImportFrom):
                path = f"{package.name}.{child.module or ''}".rstrip(".") if child.level == 1 else child.module or ""
                if path == package.name:
                    yield from (f"{path}.{alias.name}" for alias in child.names)
                elif path.split(".")[0] == package.name:
                    yield path
            yield from imported(child)

    uses: Uses = {}
    for file in sorted(package.glob("*.py")):
        paths = [path.split(".") for path in imported(ast.parse(file.read_text(), str(file)))]
        names = {path[1] if len(path) > 1 and path[1] in modules else "__init__" for path in paths}
        uses[file.stem] = dict.fromkeys(sorted(names), "import")
    return uses


# ---- circles and core.h


def circles(uses: Uses) -> list[str]:
    """Returns an error for each use that is part of a circle, or leads from one circle to another."""
    left = dict(uses)
    while True:
        used = {name for file in left for name in left[file]}
        ends = [file for file in left if file not in used or not left[file].keys() & left.keys()]
        if not ends:
            break
        for file in ends:
            del left[file]
    return [
        f"{file} and {name} are in a circle: {file} uses {what} of {name}" if what != "import" else f"{file} and {name} are in a circle of imports"
        for file in sorted(left) for name, what in sorted(left[file].items()) if name in left
    ]  # fmt: skip


def users_of_core(root: pathlib.Path) -> list[str]:
    """Returns an error for each file that includes core.h, and is neither part of the implementation nor of its tests."""
    errors = []
    for top in ("bridge", "dlpack", "examples", "tens"):
        for file in sorted((root / top).rglob("*.[chg]*")):
            name = file.relative_to(root).as_posix()
            if file.suffix not in (".c", ".h", ".go") or any(name.startswith(folder + "/") for folder in USERS_OF_CORE + TESTS_OF_CORE):
                continue
            if any("#include" in line and ("<core.h>" in line or '"core.h"' in line) for line in file.read_text().splitlines()):
                errors.append(f"{name} must not include core.h; the functions of dlbridge.h and of package dlpack are for it")
    return errors


if __name__ == "__main__":
    sys.exit(main())
