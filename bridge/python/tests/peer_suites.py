"""Runs the DLPack tests of NumPy and pyarrow, from their installed wheels, on tensors of dlbridge.

    python peer_suites.py SUITE ROLE

SUITE is "numpy" or "pyarrow". The module of tests is imported as it is, but gets an adapter for the module `numpy`. ROLE is
that of dlbridge, and selects what the adapter replaces:

- "producer": `numpy.ndarray`, and the arrays that the functions in `MAKERS` return, are of a subclass whose `__dlpack__` and
  `__dlpack_device__` are those of a `dlbridge.Tensor` on the memory of the array. The consumers are NumPy's and pyarrow's
  own. The Tensor is made from NumPy's own `__dlpack__`, so NumPy itself refuses the arrays that it cannot export.
- "consumer": `numpy.from_dlpack` is `dlbridge.from_dlpack`, followed by `Tensor.numpy`, because the tests compare arrays. The
  producers are NumPy's and pyarrow's own.

Nothing else is replaced. A case that does not call dlbridge proves nothing about it: it fails unless `DESELECTED` lists it, with
the reason. The run also fails if a listed case does not exist, if a case is skipped or leaves a tensor alive, and if fewer
cases pass than `AT_LEAST` says.
"""

from __future__ import annotations

import importlib.util
import sys
import types

import numpy as np
import pytest
from conftest import ROOT, nothing_left_alive  # noqa: F401, a fixture of every case

import dlbridge

MODULES = {"numpy": "numpy._core.tests.test_dlpack", "pyarrow": "pyarrow.tests.test_dlpack"}
MAKERS = ("arange", "array", "asarray", "zeros")

EXPORTS_ONLY = "it exports, and imports nothing"
ARROW_EXPORTS = "pyarrow is the producer and NumPy the consumer, or none: role consumer"
ARROW_IMPORTS = "NumPy is the producer and pyarrow the consumer: role producer"
NO_PRODUCER = "an object without __dlpack__ is given to pyarrow"
NEEDS_CUDA = "needs pyarrow.cuda, which the wheel lacks"
DESELECTED: dict[tuple[str, str], dict[str, str]] = {
    ("numpy", "producer"): {
        "TestDLPack::test_dunder_dlpack_stream": "a wrong stream is a RuntimeError in NumPy 2.4; ours is a ValueError, as in 2.5",
        "TestDLPack::test_dunder_dlpack_copy": "an array as copy= is a ValueError in NumPy, and a TypeError of ours",
    },
    ("numpy", "consumer"): {
        "TestDLPack::test_dunder_dlpack_refcount": EXPORTS_ONLY,
        "TestDLPack::test_dunder_dlpack_stream": EXPORTS_ONLY,
        "TestDLPack::test_dunder_dlpack_copy": EXPORTS_ONLY,
        "TestDLPack::test_dlpack_destructor_exception": EXPORTS_ONLY,
    },
    ("pyarrow", "producer"): {
        "test_dlpack": ARROW_EXPORTS,
        "test_tensor_dlpack": ARROW_EXPORTS,
        "test_array_to_tensor_dlpack": ARROW_EXPORTS,
        "test_array_to_tensor_dlpack_nulls": ARROW_EXPORTS,
        "test_fixed_shape_tensor_array_dlpack_permuted": ARROW_EXPORTS,
        "test_fixed_shape_tensor_scalar_dlpack": ARROW_EXPORTS,
        "test_dlpack_legacy_capsule": ARROW_EXPORTS,
        "test_dlpack_legacy_capsule_immutable_tensor": ARROW_EXPORTS,
        "test_dlpack_legacy_capsule_copy_not_supported": ARROW_EXPORTS,
        "test_dlpack_versioned_capsule": ARROW_EXPORTS,
        "test_dlpack_versioned_capsule_immutable_tensor": ARROW_EXPORTS,
        "test_dlpack_versioned_roundtrip": ARROW_EXPORTS,
        "test_dlpack_copy_is_writeable": ARROW_EXPORTS,
        "test_dlpack_not_supported": ARROW_EXPORTS,
        "test_dlpack_cuda_not_supported": NEEDS_CUDA,
        "test_from_dlpack_no_dlpack_method": NO_PRODUCER,
    },
    ("pyarrow", "consumer"): {
        "test_dlpack_legacy_capsule": EXPORTS_ONLY,
        "test_dlpack_legacy_capsule_immutable_tensor": EXPORTS_ONLY,
        "test_dlpack_legacy_capsule_copy_not_supported": EXPORTS_ONLY,
        "test_dlpack_versioned_capsule": EXPORTS_ONLY,
        "test_dlpack_versioned_capsule_immutable_tensor": EXPORTS_ONLY,
        "test_tensor_from_dlpack": ARROW_IMPORTS,
        "test_array_from_dlpack": ARROW_IMPORTS,
        "test_array_from_dlpack_multi_dim_not_supported": ARROW_IMPORTS,
        "test_fixed_shape_tensor_array_from_dlpack": ARROW_IMPORTS,
        "test_fixed_shape_tensor_array_from_dlpack_transposed": ARROW_IMPORTS,
        "test_fixed_shape_tensor_array_from_dlpack_not_first_major": ARROW_IMPORTS,
        "test_from_dlpack_zero_copy": ARROW_IMPORTS,
        "test_from_dlpack_explicit_copy": ARROW_IMPORTS,
        "test_dlpack_cuda_not_supported": NEEDS_CUDA,
        "test_from_dlpack_no_dlpack_method": NO_PRODUCER,
    },
}
AT_LEAST = {("numpy", "producer"): 80, ("numpy", "consumer"): 74, ("pyarrow", "producer"): 40, ("pyarrow", "consumer"): 34}

reached = 0
"""How often a test has called dlbridge."""


class NumPysOwn:
    """An array as a producer, by the functions of NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **keywords):
        return np.ndarray.__dlpack__(self.array, **keywords)

    def __dlpack_device__(self):
        return np.ndarray.__dlpack_device__(self.array)


class Array(np.ndarray):
    """An array that dlbridge exports."""

    def __dlpack__(self, **keywords):
        return self._tensor().__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._tensor().__dlpack_device__()

    def _tensor(self) -> dlbridge.Tensor:
        global reached
        reached += 1
        return dlbridge.from_dlpack(NumPysOwn(self))


def maker(function):
    return lambda *args, **keywords: function(*args, **keywords).view(Array)


def from_dlpack(producer, /, **keywords):
    global reached
    reached += 1
    return dlbridge.from_dlpack(producer, **keywords).numpy()


class Adapter(types.ModuleType):
    """The module `numpy` as a module of tests sees it."""

    def __init__(self, role: str) -> None:
        super().__init__("numpy")
        if role == "producer":
            replaced = {name: maker(getattr(np, name)) for name in MAKERS}
            self.__dict__.update(replaced, ndarray=Array)
        else:
            self.__dict__.update(from_dlpack=from_dlpack)

    def __getattr__(self, name: str):
        return getattr(np, name)

    def __setattr__(self, name: str, value) -> None:
        """Sets a submodule, which is imported while this is the module `numpy`, on NumPy."""
        setattr(np, name, value)


class Run:
    """The plugin of pytest for one run."""

    def __init__(self, suite: str, role: str) -> None:
        self.adapter, self.deselected = Adapter(role), DESELECTED[suite, role]
        self.passed = self.skipped = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self):
        """Collects, and so imports the module of tests, while `numpy` is the adapter."""
        sys.modules["numpy"] = self.adapter
        try:
            return (yield)
        finally:
            sys.modules["numpy"] = np

    def pytest_collection_modifyitems(self, config, items) -> None:
        def listed(item) -> set[str]:
            name = item.nodeid.partition("::")[2]
            return {name, name.partition("[")[0]} & self.deselected.keys()

        if missing := self.deselected.keys() - set().union(*map(listed, items)):
            raise pytest.UsageError(f"DESELECTED lists cases that do not exist: {', '.join(sorted(missing))}")
        config.hook.pytest_deselected(items=[item for item in items if listed(item)])
        items[:] = [item for item in items if not listed(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        before = reached
        result = yield
        if reached == before:
            pytest.fail(f"{pyfuncitem.name} does not call dlbridge: DESELECTED must list it")
        return result

    def pytest_runtest_logreport(self, report) -> None:
        self.passed += report.when == "call" and report.passed
        self.skipped += report.skipped


def main(suite: str, role: str) -> int:
    run = Run(suite, role)
    file = importlib.util.find_spec(MODULES[suite]).origin  # imports the packages that the module is in
    config = str(ROOT / "bridge" / "python" / "pyproject.toml")
    options = ["-q", "-rs", "-c", config, "--noconftest", "-p", "no:cacheprovider", "--disable-warnings", *sys.argv[3:]]
    failed = pytest.main([file, *options], plugins=[run, sys.modules[__name__]])
    if run.skipped > 0:
        print("a case must pass, or DESELECTED must list it: cases were skipped")
    elif run.passed < AT_LEAST[suite, role]:
        print(f"{run.passed} cases have passed, fewer than the {AT_LEAST[suite, role]} of AT_LEAST")
    else:
        return failed
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
