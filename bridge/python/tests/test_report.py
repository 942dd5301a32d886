"""`python -m dlbridge`, and what `import dlbridge` loads."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
from conftest import run_python
from formats import FORMATS

import dlbridge
from dlbridge._frameworks import COLUMNS, Framework, _Measurement

PACKAGE = pathlib.Path(dlbridge.__file__).parent


def report(*arguments: str, **environment: str) -> dict[str, list[str]]:
    """Returns the lines that `python -m dlbridge` prints: the words of each, by the first word."""
    ran = subprocess.run(
        [sys.executable, "-m", "dlbridge", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = [line.split() for line in ran.stdout.splitlines() if line]
    return {line[0].rstrip(":"): line[1:] for line in lines}


@pytest.fixture(scope="module")
def here() -> dict[str, list[str]]:
    """The report on this environment."""
    return report()


def row(lines: dict[str, list[str]], name: str) -> dict[str, str]:
    """Returns the cells of a framework, by the titles of their columns."""
    titles = " ".join(lines["framework"]).replace("C exchange", "exchange").split()
    assert len(titles) == len(lines[name]), lines[name]
    return dict(zip(titles, lines[name]))


def test_the_report_names_versions_and_the_library(here):
    assert here["dlbridge"] == [dlbridge.__version__ + ",", str(PACKAGE)]
    assert here["Python"] == [platform.python_version() + ",", sys.executable]
    assert here["DLPack"] == ["1.3"]
    assert here["Go"] == ["library", "0.1.0,", str(PACKAGE / "_lib" / "libdlbridge.so")]


def test_the_report_as_json_is_that_of_the_table(here):
    ran = subprocess.run([sys.executable, "-m", "dlbridge", "--json"], capture_output=True, text=True, timeout=240, check=True)
    found = json.loads(ran.stdout)
    assert found["versions"]["DLPack"] == "1.3"
    numpy = found["frameworks"]["numpy"]
    assert {name.removeprefix("C "): text for name, text in numpy.items()} == row(here, "numpy")


def test_the_report_says_what_numpy_accepts(here):
    assert row(here, "numpy") == {
        "version": metadata.version("numpy"), "shares": "yes", "read-only": "yes", "copy=True": "yes", "bfloat16": "no",
        "float8": "no", "negative": "yes", "gaps": "yes", "capsule": "1.0", "exchange": "no", "gives": "yes",
    }  # fmt: skip


def test_the_report_says_what_the_light_peers_accept(here):
    ml_dtypes, tvm_ffi = row(here, "ml_dtypes"), row(here, "tvm_ffi")
    assert (ml_dtypes["version"], ml_dtypes["bfloat16"], ml_dtypes["float8"]) == (metadata.version("ml_dtypes"), "yes", "yes")
    assert ml_dtypes["capsule"] == ml_dtypes["copy=True"] == "-"
    assert (tvm_ffi["shares"], tvm_ffi["read-only"], tvm_ffi["negative"], tvm_ffi["gives"]) == ("yes", "ignored", "yes", "yes")


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
@pytest.mark.parametrize(
    "name, expected",
    {
        "torch": {"shares": "yes", "read-only": "ignored", "copy=True": "yes", "bfloat16": "yes", "negative": "no", "exchange": "yes"},
        "jax": {"shares": "yes", "read-only": "no", "copy=True": "alias", "bfloat16": "yes", "negative": "no", "capsule": "legacy"},
        "tensorflow": {"shares": "yes", "read-only": "no", "copy=True": "refused", "bfloat16": "yes", "gaps": "no", "gives": "read-only"},
        "pyarrow": {"shares": "yes", "read-only": "yes", "copy=True": "-", "bfloat16": "no", "gaps": "no", "gives": "read-only"},
    }.items(),
)
def test_the_report_says_what_the_heavy_peers_accept(here, name, expected):
    if name not in here or here[name] == ["not", "found"]:
        if os.environ.get("DLBRIDGE_PEERS") == "1":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    measured = row(here, name)
    assert {column: measured[column] for column in expected} == expected


@pytest.mark.long
def test_a_framework_that_fails_leaves_the_others(tmp_path):
    """Modules with the names of frameworks: one never returns, one cannot be imported, one aborts on read-only memory."""
    (tmp_path / "cupy.py").write_text("import time\nwhile True: time.sleep(1)")
    (tmp_path / "mxnet.py").write_text("raise RuntimeError('no such device')")
    (tmp_path / "paddle.py").write_text(
        "import os, numpy\n__version__ = '7'\n"
        "class Array:\n  def __init__(self, x): self.x = x\n  def data_ptr(self): return self.x.ctypes.data\n"
        "def from_dlpack(x):\n  x = numpy.from_dlpack(x)\n  return Array(x) if x.flags.writeable else os.abort()\n"
    )
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        [sys.executable, "-m", "dlbridge", "--timeout", "20"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = {" ".join(line.split()) for line in ran.stdout.splitlines()}
    assert "cupy: stopped after 20 s" in lines
    assert "mxnet: cannot be imported: RuntimeError: no such device" in lines
    assert "paddle: ended by SIGABRT" in lines
    assert "paddle 7 yes ? ? ? ? ? ? ? ? ?" in lines
    assert any(line.startswith(f"numpy {metadata.version('numpy')} yes yes") for line in lines)


def test_a_missing_library_is_reported(tmp_path):
    missing = tmp_path / "libdlbridge.so"
    lines = report(DLBRIDGE_LIBRARY=str(missing))
    assert lines["Go"][:3] == ["library", "not", "usable:"]
    assert str(missing) in " ".join(lines["Go"])
    assert row(lines, "numpy")["shares"] == "yes"


def test_import_loads_neither_go_nor_numpy():
    """The formats, and what they import, are loaded with the first use of one."""
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
