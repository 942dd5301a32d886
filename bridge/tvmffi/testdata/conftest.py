"""The module in served, built once, and the count of what it holds, which every test leaves as it was."""

import gc
import pathlib
import subprocess

import pytest
import tvm_ffi

HERE = pathlib.Path(__file__).parent


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")  # as bridge/python/pyproject.toml


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    file = tmp_path_factory.mktemp("served") / "libserved.so"
    flags = f"-extldflags=-Wl,--version-script={HERE}/served/served.map"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-ldflags", flags, "-o", file, "./served"], cwd=HERE, check=True)
    return file


@pytest.fixture(scope="session")
def served(library):
    return tvm_ffi.load_module(str(library))


@pytest.fixture(autouse=True)
def nothing_is_left_behind(served):
    before = served.live()
    yield
    gc.collect()
    assert served.live() == before
