"""Checks the output in the README, and compares what the program says about files of the peers with what NumPy reads."""

import json
import pathlib
import re
import struct
import subprocess
import sys

import dlbridge
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
        (tensor,) = json.loads(line)["tensors"]
        assert tensor["shape"] == list(array.shape)
        found = tensor["statistics"]
        assert (found["min"], found["max"], found["nan"]) == (array.min(), array.max(), 0)
        assert found["mean"] == pytest.approx(array.mean(dtype=np.float64), abs=1e-9)


def test_numbers_that_json_lacks_are_texts(dlb, tmp_path):
    for name, array, expected in [
        ("infinite", np.array([np.inf, -np.inf, np.nan, 1]), {"min": "-Inf", "max": "+Inf", "mean": "NaN", "nan": 1}),
        ("none", np.empty(0), {"min": "NaN", "max": "NaN", "mean": "NaN", "nan": 0}),
        ("complex", np.ones(2, complex), None),
    ]:
        np.save(tmp_path / f"{name}.npy", array)
        (tensor,) = json.loads(dlb("show", "--json", str(tmp_path / f"{name}.npy")).stdout)["tensors"]
        assert tensor.get("statistics") == expected


def test_files_of_every_format_are_shown(dlb):
    names = ["safetensors/testdata/types.safetensors", "npy/testdata/float64-fortran.npy", "gguf/testdata/types.gguf", "gguf/testdata/metadata.gguf"]
    for command in "ls", "show", "check":
        ran = dlb(command, *(str(BRIDGE / name) for name in names))
        assert (ran.returncode, ran.stderr) == (0, "")
        assert all(str(BRIDGE / name) in ran.stdout for name in names)
        assert not [character for character in ran.stdout if ord(character) < 32 and character != "\n"]


def reports(text):
    """Returns what the lines of JSON say, without the elements, which each language prints in its own way, and with 12 digits of floats."""

    def without_values(found):
        found.pop("values", None)
        return found

    def rounded(digits):
        return float(f"{float(digits):.12g}")

    return [json.loads(line, object_hook=without_values, parse_float=rounded) for line in text.splitlines()]


def test_python_says_the_same(dlb, tmp_path):
    hostile = {"escape": "\x1b[2J\n", "long": "ü" * 70, "quotes": 'a"b\\'}
    dlbridge.safetensors.save(tmp_path / "model.safetensors", {"w\u200e": np.array([[1, np.nan], [np.inf, 2]], np.float32)}, hostile)
    weights = {"metadata": {"total_size": 16, "part": [0.1, None, True, {"b": "x", "a": 1e17}]}, "weight_map": {"w\u200e": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(weights))
    dlbridge.safetensors.save(tmp_path / "empty.safetensors", {})
    np.savez_compressed(tmp_path / "mixed.npz", texts=np.array(["a"]), none=np.empty(0), nan=np.full(3, np.nan), complex=np.ones(2, complex))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.random.default_rng(3).normal(size=(300, 700)).astype(">f4")))
    floats = struct.pack("<Q1sIf", 1, b"a", 6, 1e-5) + struct.pack("<Q1sIIQ3f", 1, b"b", 9, 6, 3, 0.1, np.nan, -np.inf)
    (tmp_path / "float32.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + floats)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "fortran.npy").read_bytes()[:999])
    folders = [tmp_path, *(BRIDGE / name / "testdata" for name in ("gguf", "npy", "safetensors"))]
    paths = [str(path) for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".gguf", ".json", ".npy", ".npz", ".safetensors")]
    for command in "ls", "show", "check":
        for options in ["--json"], []:
            args = [command, *options, *paths]
            go = dlb(*args)
            python = subprocess.run([sys.executable, "-m", "dlbridge", *args], capture_output=True, text=True, check=False)
            assert go.returncode == python.returncode == 1
            if options:
                assert go.stderr == python.stderr == ""
                for path, ours, theirs in zip(paths, reports(go.stdout), reports(python.stdout), strict=True):
                    assert ours["path"] == path
                    if "error" in ours and "error" in theirs:
                        ours["error"] = theirs["error"]  # it names the file in the way of each language
                    assert ours == theirs
            elif command == "show":
                statistics = [re.findall(r"^  min .*|^  .* = .*", ran.stdout, re.MULTILINE) for ran in (go, python)]
                assert statistics[0] == statistics[1]
            else:
                assert go.stdout == python.stdout


def test_arrays_that_are_refused_do_not_hide_the_others(dlb, tmp_path):
    np.savez(tmp_path / "x.npz", texts=np.array(["a"]), numbers=np.arange(3))
    for command in "ls", "show":
        ran = dlb(command, str(tmp_path / "x.npz"))
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "\ntexts is refused: npy: byte " in ran.stdout
        assert re.search(r"^  numbers +<i8 +\[3\] +24 ", ran.stdout, re.MULTILINE)
    texts, numbers = json.loads(dlb("show", "--json", str(tmp_path / "x.npz")).stdout)["tensors"]
    assert "unicode" in texts["problem"]
    assert numbers["statistics"]["max"] == 2
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
    assert "byte 50" in json.loads(ran.stdout)["error"]
    assert dlb("ls").returncode == dlb("list", str(good)).returncode == 2
