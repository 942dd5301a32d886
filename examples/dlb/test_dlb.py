"""Checks the output in the README, and compares what the program says about files of the peers with what NumPy reads."""

import json
import pathlib
import re
import subprocess

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
BRIDGE = HERE.parent.parent / "bridge"


@pytest.fixture(scope="module")
def dlb(tmp_path_factory):
    file = tmp_path_factory.mktemp("dlb") / "dlb"
    subprocess.run(["go", "build", "-o", file, "."], cwd=HERE, check=True)
    return lambda *args: subprocess.run([file, *args], capture_output=True, text=True, check=False)


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)


def test_statistics_are_those_of_numpy(dlb, tmp_path):
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=(700, 3000)), rng.integers(-9, 9, (3, 4), np.int16), np.array(2.5, np.float16), np.array([True, False])]
    arrays.append(np.asfortranarray(arrays[0].astype(np.float32)))
    for i, array in enumerate(arrays):
        np.save(tmp_path / f"{i}.npy", array)
    ran = dlb("show", "--json", *(str(tmp_path / f"{i}.npy") for i in range(len(arrays))))
    assert (ran.returncode, ran.stderr) == (0, "")
    for line, array in zip(ran.stdout.splitlines(), arrays, strict=True):
        (tensor,) = json.loads(line)["Tensors"]
        assert tensor["Shape"] == list(array.shape)
        found = tensor["Statistics"]
        assert (found["Min"], found["Max"], found["NaN"]) == (array.min(), array.max(), 0)
        assert found["Mean"] == pytest.approx(array.mean(dtype=np.float64), abs=1e-9)


def test_numbers_that_json_lacks_are_texts(dlb, tmp_path):
    for name, array, expected in [
        ("infinite", np.array([np.inf, -np.inf, np.nan, 1]), {"Min": "-Inf", "Max": "+Inf", "Mean": "NaN", "NaN": 1}),
        ("none", np.empty(0), {"Min": "NaN", "Max": "NaN", "Mean": "NaN", "NaN": 0}),
        ("complex", np.ones(2, complex), None),
    ]:
        np.save(tmp_path / f"{name}.npy", array)
        (tensor,) = json.loads(dlb("show", "--json", str(tmp_path / f"{name}.npy")).stdout)["Tensors"]
        assert tensor.get("Statistics") == expected


def test_files_of_every_format_are_shown(dlb):
    names = ["safetensors/testdata/types.safetensors", "npy/testdata/float64-fortran.npy", "gguf/testdata/types.gguf", "gguf/testdata/metadata.gguf"]
    for command in "ls", "show", "check":
        ran = dlb(command, *(str(BRIDGE / name) for name in names))
        assert (ran.returncode, ran.stderr) == (0, "")
        assert all(str(BRIDGE / name) in ran.stdout for name in names)
        assert not [character for character in ran.stdout if ord(character) < 32 and character != "\n"]


def test_arrays_that_are_refused_do_not_hide_the_others(dlb, tmp_path):
    np.savez(tmp_path / "x.npz", texts=np.array(["a"]), numbers=np.arange(3))
    for command in "ls", "show":
        ran = dlb(command, str(tmp_path / "x.npz"))
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "\ntexts is refused: npy: byte " in ran.stdout
        assert re.search(r"^  numbers +<i8 +\[3\] +24 ", ran.stdout, re.MULTILINE)
    texts, numbers = json.loads(dlb("show", "--json", str(tmp_path / "x.npz")).stdout)["Tensors"]
    assert "unicode" in texts["Refused"]
    assert numbers["Statistics"]["Max"] == 2
    ran = dlb("check", str(tmp_path / "x.npz"))
    assert ran.returncode == 1
    assert "unicode" in ran.stderr


def test_errors_name_the_byte_and_set_the_status(dlb, tmp_path):
    good = BRIDGE / "safetensors/testdata/numpy.safetensors"
    cut = tmp_path / "cut"
    cut.write_bytes(good.read_bytes()[:50])
    for command in "ls", "show", "check":
        ran = dlb(command, str(cut), str(good))
        assert ran.returncode == 1
        assert ran.stdout.startswith(f"{good}: safetensors, ")
        assert ran.stderr.startswith(f"files: open {cut}: safetensors: byte 50: ")
    ran = dlb("check", "--json", str(cut))
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "byte 50" in json.loads(ran.stdout)["Error"]
    assert dlb("ls").returncode == dlb("list", str(good)).returncode == 2
