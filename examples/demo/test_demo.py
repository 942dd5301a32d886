"""The demo prints what its README says, addresses apart."""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def plain(text):
    lines = (re.sub(r"0x[0-9a-f]+", "ADDRESS", line).split() for line in text.strip().splitlines())
    return [line for line in lines if line[:1] != ["PyTorch"]]


def test_demo_prints_what_the_readme_says(tmp_path):
    library = tmp_path / "libdemo.so"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", library, "."], cwd=HERE, check=True)
    ran = subprocess.run([sys.executable, "demo.py", library], cwd=HERE, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    expected = re.findall(r"```\n(in .*?)```", (HERE / "README.md").read_text(), re.DOTALL)[0]
    assert plain(ran.stdout) == plain(expected)


def test_demo_fails_when_a_message_is_missing(tmp_path):
    library = tmp_path / "libdemo.so"
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", library, "."], cwd=HERE, check=True)
    (tmp_path / "demo.py").write_text((HERE / "demo.py").read_text())
    ran = subprocess.run([sys.executable, "demo.py", library], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "cannot read peer" in ran.stderr
