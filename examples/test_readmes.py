"""Runs what the READMEs outside of this folder show, and checks that each README with code is run by a test."""

import ctypes
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent
EXAMPLES = sorted(ROOT.glob("examples/*/README.md"))


def test_the_package_does_what_its_readme_says(follow):
    names = follow(ROOT / "bridge" / "python")
    assert names["a"][0, 0] == 7
    places = [np.frombuffer(frame, np.uint8).ctypes.data for frame in names["frames"][2:]]
    assert places == [names["a"].ctypes.data] * 2
    x, out = np.array([3, 4, 5], np.float32), (ctypes.c_double * 1)()
    assert names["scale"](x, 2).data_ptr == x.ctypes.data
    assert (names["extent"](x, out), out[0], names["count"](x)) == (None, 6, 3)


def test_bridge_readme_shows_no_code():
    assert "```" not in (ROOT / "bridge" / "README.md").read_text()


def test_the_first_page_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 140


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("readme", ["README.md", "bridge/README.md", "bridge/python/README.md", "examples/README.md"])
def test_links_lead_somewhere(readme):
    page = ROOT / readme
    for link in re.findall(r"\]\(([^):]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target / "README.md" if target.is_dir() else target), link


def test_the_list_of_examples_has_each_folder():
    folders = {path.parent.name for path in ROOT.glob("examples/[a-z]*/*") if path.is_file()}
    listed = re.findall(r"^\| [^|]*\| \[(.+)\]\(\1\) \|", (ROOT / "examples" / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(folders)


@pytest.mark.parametrize("readme", EXAMPLES, ids=lambda readme: readme.parent.name)
def test_every_readme_with_code_is_followed(readme):
    tests = "".join(test.read_text() for test in readme.parent.glob("test_*.py"))
    assert "```" not in readme.read_text() or "follow(HERE" in tests
