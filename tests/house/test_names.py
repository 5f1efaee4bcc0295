"""No junk drawers: a room that wants one lacks a noun."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.house.source import Broken, house_files, require_none

JUNK = frozenset("util utils utility utilities helper helpers misc common commons shared stuff tools".split())

# Named by their finding's id: what is shared is the device.
AILMENTS = frozenset({"gpu_shared.py", "gpu-shared.md"})


def junk_drawers(file: str) -> Iterator[Broken]:
    """The parts of a path that say nothing about what lies in them."""
    for part in set(file.split("/")) - AILMENTS:
        for word in re.split(r"[_.\-]", part.lower()):
            if word in JUNK:
                yield Broken(file, 1, f"`{part}` is a junk drawer", "name the noun that these things share")


def test_no_file_or_folder_is_a_junk_drawer() -> None:
    require_none(broken for file in house_files() for broken in junk_drawers(file))


@pytest.mark.parametrize(
    ("file", "junk"),
    [
        ("bottleneck_doctor/utils.py", True),
        ("tests/helpers/fake.py", True),
        ("tests/sense/proc_misc.py", True),
        ("bottleneck_doctor/analyse/steps.py", False),
        ("bottleneck_doctor/analyse/utilisation.py", False),
    ],
)
def test_the_rule_itself_looks_at_whole_words(file: str, junk: bool) -> None:
    assert bool(list(junk_drawers(file))) is junk
