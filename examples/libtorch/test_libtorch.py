"""Checks the output in the README. The other tests are in Go."""

import pathlib

HERE = pathlib.Path(__file__).parent


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)
