"""Runs what README.md in the root of the repository shows, which is this example."""

import pathlib

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


def test_readme_shows_the_files_and_what_they_print(follow, run):
    follow(ROOT, build=ROOT / "build")  # share.py names build/libshare.so
    ran = run("build/venv/bin/python examples/share/share.py", ROOT / "build")
    assert f"# {ran.stdout}" in (HERE / "share.py").read_text()


def test_a_module_of_its_own(follow):
    follow(HERE)
