"""Runs the DLPack tests of NumPy and pyarrow, from their installed wheels, and of TVM-FFI, on tensors of dlbridge.

    python peer_suites.py SUITE ROLE

SUITE is "numpy", "pyarrow" or "tvm_ffi". Only the source distribution of TVM-FFI has its tests: `make test-peers` fetches them. Its other
test modules exchange only arrays of PyTorch. The wheels of the other peers have no tests of DLPack, and neither do the source
distributions of JAX and polars. MLX, cuda.core, ONNX Runtime, PyTorch and TensorFlow publish no source distribution.

The test module is imported unchanged, but an adapter stands in for the module `numpy`. ROLE is the role of dlbridge, and selects what
the adapter replaces:

- "producer": `numpy.ndarray`, and the arrays that the functions in `MAKERS` return, have a subclass. Its `__dlpack__` and
  `__dlpack_device__` call a `dlbridge.Tensor` on the memory of the array. The consumers are the peers' own. The Tensor is made by NumPy's
  own `__dlpack__`, so NumPy itself refuses the arrays that it cannot export.
- "consumer": `numpy.from_dlpack` is `dlbridge.from_dlpack`, followed by `Tensor.numpy`, because the tests compare arrays. The
  producers are the peers' own.

Nothing else is replaced. A case that does not call dlbridge proves nothing about it, so it fails unless `DESELECTED` lists it with a
reason. The run also fails if a listed case does not exist, if a case is skipped or leaves a tensor alive, or if fewer cases pass
than `AT_LEAST` requires.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types

import numpy as np
import pytest
from conftest import ROOT, nothing_left_alive  # noqa: F401, a fixture of every case

import dlbridge

MODULES = {"numpy": "numpy._core.tests.test_dlpack", "pyarrow": "pyarrow.tests.test_dlpack"}
FETCHED = {"tvm_ffi": pathlib.Path(sys.prefix, "suites", "test_tensor.py")}
MAKERS = ("arange", "array", "asarray", "zeros")

EXPORTS_ONLY = "it exports, and imports nothing"
ARROW_EXPORTS = "pyarrow is the producer and NumPy the consumer, or none: role consumer"
ARROW_IMPORTS = "NumPy is the producer and pyarrow the consumer: role producer"
NO_PRODUCER = "an object without __dlpack__ is given to pyarrow"
NEEDS_CUDA = "needs pyarrow.cuda, which the wheel lacks"
TVM_FFI_IMPORTS = "NumPy is the producer and TVM-FFI the consumer: role producer"
TVM_FFI_OWN = {
    "test_shape_object": "it exchanges no tensor",
    "test_tensor_auto_dlpack": "PyTorch is the producer and TVM-FFI the consumer",
    "test_tensor_auto_dlpack_with_error": "PyTorch is the producer and TVM-FFI the consumer",
    "test_tensor_from_pytorch_rocm": "needs a GPU of AMD",
}
REGISTERS_ONLY = "it registers a data type with NumPy, and exchanges no array"
REGISTERED = {
    "TestRegisterDlpackDtype::test_register_bad_dlpack_tuple": REGISTERS_ONLY,
    "TestRegisterDlpackDtype::test_register_bad_code_or_bits": REGISTERS_ONLY,
    "TestRegisterDlpackDtype::test_register_idempotent": REGISTERS_ONLY,
}
OTHER_TYPE = "it registers a code of DLPack for another data type with NumPy; for us the code means what DLPack says"
DESELECTED: dict[tuple[str, str], dict[str, str]] = {
    ("numpy", "producer"): {
        **REGISTERED,
        "TestRegisterDlpackDtype::test_buffererror_bad_dtype": "it exports a code that DLPack lacks, which we refuse",
        "TestDLPack::test_dunder_dlpack_stream": "it expects NumPy's text for a wrong stream; ours is another ValueError",
        "TestDLPack::test_dunder_dlpack_copy": "an array as copy= is a ValueError in NumPy, and a TypeError of ours",
    },
    ("numpy", "consumer"): {
        **REGISTERED,
        "TestRegisterDlpackDtype::test_roundtrip": OTHER_TYPE,
        "TestRegisterDlpackDtype::test_register_conflict": OTHER_TYPE,
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
    ("tvm_ffi", "producer"): TVM_FFI_OWN,
    ("tvm_ffi", "consumer"): {
        **TVM_FFI_OWN,
        "test_tensor_data_ptr": TVM_FFI_IMPORTS,
        "test_empty_tensor_is_contiguous": TVM_FFI_IMPORTS,
        "test_non_contiguous_tensor_attributes": TVM_FFI_IMPORTS,
        "test_tensor_class_override": TVM_FFI_IMPORTS,
        "test_tvm_ffi_tensor_compatible": TVM_FFI_IMPORTS,
        "test_optional_tensor_view": TVM_FFI_IMPORTS,
    },
}
AT_LEAST = {
    ("numpy", "producer"): 82, ("numpy", "consumer"): 75, ("pyarrow", "producer"): 40, ("pyarrow", "consumer"): 34,
    ("tvm_ffi", "producer"): 7, ("tvm_ffi", "consumer"): 1,
}  # fmt: skip

reached = 0
"""The number of calls of dlbridge by a test."""


class NumPysOwn:
    """An array as a producer, with NumPy's own functions."""

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
    """The module `numpy` as a test module sees it."""

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
        """Sets the attribute on NumPy. Python calls this for a submodule that is imported while this is the module `numpy`."""
        setattr(np, name, value)


class Run:
    """The plugin of pytest for one run."""

    def __init__(self, suite: str, role: str) -> None:
        self.adapter, self.deselected = Adapter(role), DESELECTED[suite, role]
        self.passed = self.skipped = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self):
        """Collects the tests, and so imports the test module, while `numpy` is the adapter."""
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
    if importlib.util.find_spec("pandas") is not None:
        importlib.import_module("pandas")  # pyarrow imports it with its first array, when `numpy` may be the adapter
    # find_spec imports the packages that the module is in.
    file = str(FETCHED[suite]) if suite in FETCHED else importlib.util.find_spec(MODULES[suite]).origin
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
