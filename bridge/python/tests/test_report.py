"""`python -m dlbridge`, and what `import dlbridge` loads."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
import tables
from conftest import ROOT, run_python
from formats import FORMATS

import dlbridge
from dlbridge._frameworks import COLUMNS, FRAMEWORKS, Framework, _Measurement

REQUIREMENTS = "".join((ROOT / "bridge" / "python" / f"requirements-{kind}.txt").read_text() for kind in ("test", "peers"))
PACKAGE = pathlib.Path(dlbridge.__file__).parent


def run_report(*arguments: str, **environment: str) -> str:
    """Returns what `python -m dlbridge` prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "dlbridge", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def lines_of(printed: str) -> dict[str, list[str]]:
    """Returns the words of each line, by the first word."""
    lines = [line.split() for line in printed.splitlines() if line]
    return {line[0].rstrip(":"): line[1:] for line in lines}


@pytest.fixture(scope="module")
def here() -> dict[str, list[str]]:
    """The report on this environment."""
    return lines_of(run_report("--timeout", "300"))


@pytest.fixture(scope="module")
def as_json() -> dict[str, dict]:
    """The report of another run, as JSON."""
    return json.loads(run_report("--json", "--timeout", "300"))


def row(lines: dict[str, list[str]], name: str) -> dict[str, str]:
    """Returns the cells of a framework, by the titles of their columns."""
    titles = " ".join(lines["framework"]).replace("C exchange", "C_exchange").split()
    assert len(titles) == len(lines[name]), lines[name]
    return {title.replace("_", " "): cell for title, cell in zip(titles, lines[name])}


def test_the_report_names_versions_and_the_library(here):
    assert here["dlbridge"] == [dlbridge.__version__ + ",", str(PACKAGE)]
    assert here["Python"] == [platform.python_version() + ",", sys.executable]
    assert here["DLPack"] == ["1.3"]
    assert here["Go"] == ["library", "0.1.0,", str(PACKAGE / "_lib" / "libdlbridge.so")]


def test_two_runs_report_the_same(here, as_json):
    assert as_json["versions"]["DLPack"] == "1.3"
    assert set(as_json["frameworks"]) == set(FRAMEWORKS)
    for name, found in as_json["frameworks"].items():
        assert here[name] == ["not", "found"] if found.get("error") == "not found" else row(here, name) == found


def test_the_report_says_what_numpy_accepts(as_json):
    assert as_json["frameworks"]["numpy"] == {
        "version": metadata.version("numpy"), "shares": "yes", "read-only": "yes", "copy=True": "yes", "numbers": "yes", "complex": "yes",
        "bfloat16": "no", "float8": "no", "sub-byte": "no", "lanes": "no", "negative": "yes", "gaps": "yes", "column-major": "yes",
        "unaligned": "yes", "capsule": "1.0", "C exchange": "no", "gives": "yes",
    }  # fmt: skip


def test_the_tables_of_the_readmes_show_the_pinned_versions():
    pins = dict(re.findall(r"^([\w.-]+)(?:\[\w+\])?==([^;\s]+)(?:; python_version >=.*)?$", REQUIREMENTS, re.MULTILINE))
    heads = {}
    for line in tables.parts(tables.ROOT / "bridge" / "README.md")[1].splitlines()[:1]:
        heads = dict(head.split() for head in line.strip("| ").split(" | "))
    assert heads.keys() >= {"numpy", "torch", "jax", "tensorflow", "tvm_ffi", "pyarrow", "ray", "distributed", "mlx.core", "polars", "cuda.core"}
    distributions = {name: FRAMEWORKS[name].distributions or (name.replace("_", "-"),) for name in heads}
    assert heads == {name: next(pins[d] for d in names if d in pins) for name, names in distributions.items()}


def test_the_light_peers_accept_what_the_readme_says(as_json):
    _, table, _ = tables.parts(tables.ROOT / "bridge" / "README.md")
    rows = [line.strip("|").split("|") for line in table.splitlines()]
    heads = [head.strip().partition(" ")[0] for head in rows[0]]
    for name in ("numpy", "ml_dtypes", "tvm_ffi"):
        written = [cells[heads.index(name)].strip() for cells in rows[2:]]
        assert written == [as_json["frameworks"][name][column] for column in tables.ROWS]


@pytest.mark.parametrize(
    ("take", "said"),
    [
        (lambda x, copy: np.from_dlpack(x, copy=copy), "yes"),
        (lambda x, copy: np.from_dlpack(x).copy(), "yes"),
        (lambda x, copy: np.from_dlpack(x), "alias"),
        (lambda x: np.from_dlpack(x), "refused"),
    ],
)
def test_a_copy_of_a_framework_is_told_from_an_alias_by_a_write(take, said):
    framework = Framework(lambda module, x, **options: take(x, **options), lambda module, x: x.ctypes.data, lambda module: np.ones(4))
    assert COLUMNS["copy=True"](_Measurement(framework, None)) == said


@pytest.mark.peers
def test_the_tables_of_the_readmes_are_those_of_the_report(as_json):
    """If this test fails, run `make tables` to write the tables; `git diff` then shows the changes."""
    for file, table in tables.tables(as_json["frameworks"]).items():
        assert tables.parts(file)[1] == table, f"{file} differs from the report of this environment: run `make tables`, and read its diff"


@pytest.mark.long
def test_a_framework_that_fails_leaves_the_others(tmp_path):
    """Four modules have names of frameworks. One never ends its import, one never returns from a call, one cannot be imported,
    and one aborts on read-only memory."""
    (tmp_path / "cupy.py").write_text("import time\nwhile True: time.sleep(1)")
    (tmp_path / "mxnet.py").write_text("raise RuntimeError('no such device')")
    (tmp_path / "onnxruntime.py").write_text(
        "import time\n__version__ = '8'\n"
        "class OrtValue:\n  def from_dlpack(x):\n    while True: time.sleep(1)\n"
    )
    (tmp_path / "paddle.py").write_text(
        "import os, numpy\n__version__ = '7'\n"
        "class Array:\n  def __init__(self, x): self.x = x\n  def data_ptr(self): return self.x.ctypes.data\n"
        "def from_dlpack(x):\n  x = numpy.from_dlpack(x)\n  return Array(x) if x.flags.writeable else os.abort()\n"
    )
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    printed = run_report("--timeout", "20", PYTHONPATH=path)
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    assert "cupy: stopped after 20 s" in lines and "onnxruntime: stopped after 20 s" in lines
    assert "mxnet: cannot be imported: RuntimeError: no such device" in lines
    assert "paddle: ended by SIGABRT" in lines
    rows = lines_of(next(part for part in printed.split("\n\n") if part.startswith("framework")))
    assert row(rows, "cupy") == dict.fromkeys(row(rows, "cupy"), "?")
    after = {column: row(rows, "paddle")[column] for column in ("version", "shares", "read-only", "copy=True", "negative")}
    assert after == {"version": "7", "shares": "yes", "read-only": "crashes", "copy=True": "refused", "negative": "yes"}
    assert row(rows, "onnxruntime")["shares"] == "hangs" and row(rows, "onnxruntime")["gives"] == "?"
    assert row(rows, "numpy")["version"] == metadata.version("numpy")


def test_a_missing_library_is_reported(tmp_path):
    missing = tmp_path / "libdlbridge.so"
    lines = lines_of(run_report(DLBRIDGE_LIBRARY=str(missing)))
    assert lines["Go"][:3] == ["library", "not", "usable:"]
    assert str(missing) in " ".join(lines["Go"])
    assert row(lines, "numpy")["shares"] == "yes"


def test_import_loads_neither_go_nor_numpy():
    """Python loads the formats and their imports when a program first uses a format."""
    printed = run_python(
        f"""
        import os, pathlib, sys
        formats = {[format.name for format in FORMATS]}
        maps = pathlib.Path("/proc/self/maps")
        before, threads = set(sys.modules), len(os.listdir("/proc/self/task"))
        import dlbridge
        loaded = set(sys.modules) - before
        assert len(os.listdir("/proc/self/task")) == threads
        assert "libdlbridge" not in maps.read_text()
        assert not loaded & set(["json", "numpy", "re", "typing", *(f"dlbridge.{{name}}" for name in formats)]), loaded
        assert set([*formats, "wrap"]) <= set(dir(dlbridge))
        assert dlbridge.tens is sys.modules["dlbridge.tens"]
        assert "libdlbridge" not in maps.read_text()
        dlbridge.tens.encode([])
        assert "libdlbridge.so" in maps.read_text()
        try: dlbridge.unknown
        except AttributeError as error: print(error)
        """
    )
    assert printed == "module 'dlbridge' has no attribute 'unknown'\n"
