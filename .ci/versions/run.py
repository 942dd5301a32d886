"""Tests the wheel with versions of Python and NumPy.

    run.py WHEELHOUSE WORK [CELL...]

A cell is a version of Python and a version of NumPy, such as 3.11-1.26. Without cells, run.py tests all of CELLS. Each cell has
its own environment, WORK/CELL, which later runs use again. It has the last release of that NumPy, the light peers, and the wheel,
which each run installs anew. The tests in TESTS run in a folder outside of the checkout. DESELECTED lists the tests that a cell cannot
pass, with the reason. If a cell fails, the others still run.
"""

from __future__ import annotations

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bridge" / "python"

# For each Python: the versions of NumPy at which the behaviour of dlbridge changes, and the newest versions.
CELLS = [
    *(f"3.11-{numpy}" for numpy in ("1.26", "2.0", "2.1", "2.2", "2.4")),
    *(f"3.12-{numpy}" for numpy in ("1.26", "2.0", "2.1", "2.2", "2.4", "2.5")),
    *(f"3.13-{numpy}" for numpy in ("2.1", "2.2", "2.4", "2.5")),
]
# The first list has the tests that use NumPy and need no Go. The second has the examples of README.md and bridge/python/README.md, which
# need Go. The lists run separately, because each has its own conftest.py.
TESTS = [
    [
        "-m",
        "not peers and not long",
        *(
            f"bridge/python/tests/test_{name}.py"
            for name in "arguments array_api conversions dlpack npy numpy pickle report tensor typing".split()
        ),
    ],
    ["examples/share", "examples/test_readmes.py::test_the_package_does_what_its_readme_says"],
]
PEERS = "apache-tvm-ffi array-api-strict joblib ml-dtypes pytest pyzmq setuptools".split()
"""The packages of requirements-test.txt that the tests need in addition to NumPy."""

ML_DTYPES_OF_NUMPY_1 = "ml-dtypes==0.5.4"
"""ml_dtypes 0.6 needs NumPy 2."""

MAX_VERSION = "NumPy's arrays take max_version= and copy= of __dlpack__ from 2.1 on"
FROM_DLPACK = "numpy.from_dlpack takes device= and copy= from 2.1 on"
COPY = "numpy.array and numpy.asarray take copy= as they do today from 2.0 on"
STRICT = "array-api-strict passes on to NumPy arguments that it takes from 2.1 on"
READ_ONLY = "all arrays that numpy.from_dlpack makes are read-only before 2.2.5"
DESELECTED: list[tuple[str, str, str]] = [
    # (version, test, reason): the test is left out with a NumPy before this version
    ("2.0", "test_tensor.py::test_packed_elements_are_copied_into_arrays", COPY),
    ("2.0", "test_dlpack.py::test_numpy_copies_a_tensor_when_it_is_asked_to", COPY),
    ("2.4", "test_tensor.py::test_what_has_no_elements_is_unequal[dtype('float64')]", "a numpy.dtype equals all that has such a `dtype`"),
    *(
        ("2.0", f"test_dlpack.py::test_a_tensor_without_a_buffer_is_an_error_and_no_array_of_objects[{kind}-{way}]", COPY)
        for kind in ("closed", "complex32", "float32x4", "rank")
        for way in ("asarray without a copy", "asarray with a copy", "array if needed")
    ),
    ("2.1", "test_arguments.py::test_texts_for_copy_raise_the_exception_of_numpy", MAX_VERSION),
    ("2.1", "test_dlpack.py::test_dl_device_of_the_same_device_is_nothing", FROM_DLPACK),
    ("2.1", "test_dlpack.py::test_copy_true_is_a_copy_whatever_the_producer_does", MAX_VERSION),
    ("2.1", "test_report.py::test_a_copy_of_a_framework_is_told_from_an_alias_by_a_write[<lambda>-yes0]", FROM_DLPACK),
    ("2.1", "test_array_api.py::test_each_keyword_is_left_out_only_if_the_producer_refuses_it", MAX_VERSION),
    ("2.1", "test_array_api.py::test_the_strict_implementation_takes_ours", STRICT),
    ("2.1", "test_array_api.py::test_we_take_arrays_of_the_strict_implementation", STRICT),
    ("2.1", "test_report.py::test_the_report_says_what_numpy_accepts", FROM_DLPACK),
    ("2.1", "test_report.py::test_the_light_peers_accept_what_the_readme_says", FROM_DLPACK),
    ("2.2.5", "test_dlpack.py::test_copy_has_three_states", READ_ONLY),
    ("2.2.5", "test_dlpack.py::test_exports_are_independent", READ_ONLY),
]


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


def python_of(name: str) -> str:
    """Returns the path of a Python, found in PATH or in pyenv."""
    found = subprocess.run(["sh", ROOT / ".ci" / "python.sh", f"python{name}"], check=False, stdout=subprocess.PIPE, text=True)
    return found.stdout.strip() if found.returncode == 0 else sys.exit(1)


def requirements(numpy: str) -> list[str]:
    pins = dict(re.findall(r"^([\w-]+)==(.+)$", (PACKAGE / "requirements-test.txt").read_text(), re.MULTILINE))
    needed = [f"{name}=={pins[name]}" for name in PEERS]
    if version(numpy) < (2,):
        needed = [ML_DTYPES_OF_NUMPY_1 if each.startswith("ml-dtypes") else each for each in needed]
    return [f"numpy=={numpy}.*", *needed]


def prepare(cell: str, wheel: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """Makes the environment of a cell if it is missing, installs the wheel in it, and returns its Python."""
    python, numpy = cell.split("-")
    folder = work / cell
    installed = folder / "bin" / "python"
    wanted, stamp = "\n".join(requirements(numpy)), folder / "requirements.done"
    pip = [installed, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python_of(python), "-m", "venv", folder], check=True)
        subprocess.run([*pip, "--only-binary", ":all:", *wanted.split("\n")], check=True)
        stamp.write_text(wanted)
    subprocess.run([*pip, "--no-index", "--no-deps", "--force-reinstall", wheel], check=True)
    return installed


def run(cell: str, wheel: pathlib.Path, work: pathlib.Path, options: list[str]) -> bool:
    """Runs the tests of a cell, and returns whether they passed."""
    python = prepare(cell, wheel, work)
    elsewhere = work / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    names = (
        "import dlbridge, numpy, platform, sys; assert dlbridge.__file__.startswith(sys.prefix), dlbridge.__file__; "
        "print(platform.python_version(), numpy.__version__)"
    )
    told = subprocess.run([python, "-c", names], cwd=elsewhere, check=True, stdout=subprocess.PIPE, text=True).stdout
    is_python, is_numpy = told.split()
    print(f"== Python {is_python}, NumPy {is_numpy}", flush=True)
    passed = True
    for tests in TESTS:
        deselect = []
        for before, name, why in DESELECTED:
            file = name.partition("::")[0]
            if version(is_numpy) < version(before) and any(test.endswith(file) for test in tests):
                print(f"left out: {name}: {why}", flush=True)
                deselect += ["--deselect", f"tests/{name}"]
        paths = [str(ROOT / test) if test.endswith(".py") or test.startswith("examples/") else test for test in tests]
        config = ["-c", PACKAGE / "pyproject.toml", "--rootdir", PACKAGE, "-p", "no:cacheprovider"]
        done = subprocess.run([python, "-m", "pytest", *options, *config, *deselect, *paths], cwd=elsewhere, check=False)
        passed = passed and done.returncode == 0
    return passed


def main(house: str, work: str, *cells: str) -> int:
    if unknown := set(cells) - set(CELLS):
        sys.exit(f"run.py: unknown cells: {', '.join(sorted(unknown))}; there are {' '.join(CELLS)}")
    for _, name, _ in DESELECTED:
        file, _, test = name.partition("::")
        if f"def {test.partition('[')[0]}(" not in (PACKAGE / "tests" / file).read_text():
            sys.exit(f"run.py: DESELECTED lists a test that does not exist: {name}")
    (wheel,) = pathlib.Path(house).resolve().glob(f"dlbridge-*_{platform.machine()}.whl")
    folder = pathlib.Path(work).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    options = os.environ.get("PYTESTFLAGS", "-q").split()
    failed = [cell for cell in cells or CELLS if not run(cell, wheel, folder, options)]
    if failed:
        print(f"failed: {' '.join(failed)}")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
