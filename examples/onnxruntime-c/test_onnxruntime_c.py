"""Runs the commands of the README, with the sanitizers."""

import pathlib

HERE = pathlib.Path(__file__).parent


def test_example_prints_what_the_readme_says(follow):
    follow(HERE)
