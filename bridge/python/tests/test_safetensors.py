"""The files of bridge/safetensors/testdata, which the Go tests read and write, compared with the reference: the installed safetensors."""

from __future__ import annotations

import json
import runpy
import struct

import pytest
import safetensors
from conftest import ROOT

FOLDER = ROOT / "bridge/safetensors/testdata"
VECTORS = runpy.run_path(str(FOLDER / "vectors.py"))
FILES = VECTORS["files"]()
MALFORMED = json.loads((FOLDER / "malformed.json").read_text())


@pytest.mark.parametrize("name", FILES)
def test_the_reference_writes_and_reads_the_files(name):
    file, _ = FILES[name]
    assert (FOLDER / f"{name}.safetensors").read_bytes() == file


def test_the_manifest_says_what_the_reference_reads():
    assert json.loads((FOLDER / "manifest.json").read_text()) == VECTORS["manifest"]()


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case["id"])
def test_the_reference_accepts_only_the_malformed_files_that_are_known(case):
    header = case["header"].encode()
    file = struct.pack("<Q", case.get("length", len(header))) + header + bytes(case["data"])
    file = file[: case.get("cut", len(file))]
    if case["reference"] == "accepts":
        safetensors.deserialize(file)
    else:
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(file)
