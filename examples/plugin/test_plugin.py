"""Runs what README.md shows, with the host under the sanitizers."""

import pathlib
import re

HERE = pathlib.Path(__file__).parent


def test_the_host_prints_what_the_readme_says(follow):
    follow(HERE, plain=lambda text: re.sub(r"\b0x[0-9a-f]+", "0x…", text))
