"""Files in NumPy's format: the installed NumPy writes the same files as in bridge/npy/testdata, and reads them."""

from __future__ import annotations

import io
import runpy
import warnings

import numpy as np
import pytest
from conftest import VECTOR_FOLDERS

FOLDER = VECTOR_FOLDERS["npy"]
SCRIPT = runpy.run_path(str(FOLDER / "numpy_files.py"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    FILES, MANIFEST = SCRIPT["files"]()


def test_the_manifest_is_that_of_this_numpy():
    assert (FOLDER / "manifest.json").read_text() == SCRIPT["text"](MANIFEST)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("objects.npy", "refused.npz") and "deflated" not in name])
def test_numpy_writes_the_files_byte_for_byte(name):  # except for pickles and deflated data, which differ with the version
    assert (FOLDER / name).read_bytes() == FILES[name]


@pytest.mark.parametrize("entry", MANIFEST["arrays"], ids=lambda entry: entry["file"])
def test_numpy_reads_the_files(entry):
    data = (FOLDER / entry["file"]).read_bytes()
    if entry["type"] == "<f1":
        with pytest.raises((ValueError, TypeError)):
            np.load(io.BytesIO(data))
        data = data.replace(b"<f1", b"<V1")  # as package npy writes it
    array = np.load(io.BytesIO(data))
    assert list(array.shape) == entry["shape"]
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    assert np.ascontiguousarray(array).tobytes().hex() == entry["hex"]


@pytest.mark.parametrize("entry", MANIFEST["archives"], ids=lambda entry: entry["file"])
def test_numpy_reads_the_archives(entry):
    with np.load(FOLDER / entry["file"]) as file:
        assert file.files == entry["names"]
        for name in set(file.files) & set(SCRIPT["arrays"]()):
            assert np.array_equal(file[name], SCRIPT["arrays"]()[name].view(file[name].dtype))
