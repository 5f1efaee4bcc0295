"""Files: the top level is a closed list, and no file names a machine."""

import re
from collections.abc import Iterator

from tests.house.source import ROOT, Broken, house_files, require_none

TOP_LEVEL = frozenset(
    "bottleneck_doctor tests docs pyproject.toml README.md Makefile LICENSE .gitignore .ci .github "
    ".pre-commit-config.yaml".split()
)

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


def _text(file: str) -> str:
    raw = (ROOT / file).read_bytes()
    return "" if b"\0" in raw else raw.decode("utf-8", errors="replace")
