"""Files: the top level is a closed list, no file names a machine, no name says nothing of what lies in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.house.source import ROOT, Broken, house_files, require_none

TOP_LEVEL = frozenset(
    "bottleneck_doctor tests docs pyproject.toml README.md Makefile LICENSE .gitignore .ci .github "
    ".pre-commit-config.yaml".split()
)

JUNK = frozenset("util utils utility utilities helper helpers misc common commons shared stuff tools".split())

# Named by their finding's id: what is shared is the device.
AILMENTS = frozenset({"gpu_shared.py", "gpu-shared.md"})

# Names of no one, as examples and synthetic runs use them.
NO_ONE = "user|you|me|ann|alice|bob|runner"
PLACES = {
    rf"(?<![\w.~$}}/])/(?:home|Users)/(?!(?:{NO_ONE})\b)\w+": "a path in somebody's home",
    r"(?<![\w.~$}/])/(?:root|work)/\w+": "a path of one machine",
    r"\b(?:[\w-]+\.)*(?:pypi\.org|pythonhosted\.org|pytorch\.org/whl|anaconda\.org)": "a package registry",
    r"--?(?:extra-)?index-url[ =]+\S*://\S+": "a package registry",
}


def places(file: str, text: str) -> Iterator[Broken]:
    """Lines of a file that name a place which other people's machines do not have, or should choose."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in PLACES.items():
            found = re.search(pattern, line)
            if found:
                do = "take it from the environment or an argument, or use a path like /data or tmp_path"
                yield Broken(file, number, f"`{found[0]}` is {what}", do)


def test_the_top_level_is_a_closed_list() -> None:
    others = sorted({file.partition("/")[0] for file in house_files()} - TOP_LEVEL)
    do = "move it under bottleneck_doctor/, tests/ or docs/; what runs leave behind goes into .gitignore"
    require_none(Broken(name, 1, "the top level is a closed list", do) for name in others)


def test_no_file_names_a_home_or_a_registry() -> None:
    require_none(broken for file in house_files() for broken in places(file, _text(file)))


def test_every_file_ends_with_a_line_end() -> None:
    ragged = [file for file in house_files() if (text := _text(file)) and not text.endswith("\n")]
    require_none(
        Broken(file, _text(file).count("\n") + 1, "no line end", "end the file with one") for file in ragged
    )


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("open('/ho" + "me/maria/data')", True),
        ("/Us" + "ers/maria/train.py", True),
        ("cd /ro" + "ot/checkout", True),
        ("pip install --index-url ht" + "tps://mirror.example/simple x", True),
        ("see files.python" + "hosted.org", True),
        ("/home/user/train.py", False),
        ("https://example.org/home/maria", False),
        ("$HOME/data and ~/root/x", False),
        ("the root/leaf of a tree", False),
    ],
)
def test_the_rule_itself_knows_places(line: str, broken: bool) -> None:
    assert bool(list(places("a.md", line))) is broken


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


def _text(file: str) -> str:
    raw = (ROOT / file).read_bytes()
    return "" if b"\0" in raw else raw.decode("utf-8", errors="replace")
