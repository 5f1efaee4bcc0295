"""Recorded runs, one zip archive for each set: ``tests/golden/accuracy`` names ``tests/golden/accuracy.zip``.

``unzip -p tests/golden/accuracy.zip loader-in-main.profile.json`` shows one. Members have no dates and are
compressed one by one, so that a set recorded anew differs only where its runs do.
"""

import zipfile
from pathlib import Path

from tests.lab.run import ROOT

GOLDEN = ROOT / "tests" / "golden"


def archive(place: Path) -> Path:
    """The file of the set of that name."""
    return place.with_name(place.name + ".zip")


def names(place: Path, ending: str = "") -> list[str]:
    """The members with that ending, which is left out; none where the set was never recorded."""
    if not archive(place).exists():
        return []
    with zipfile.ZipFile(archive(place)) as file:
        return sorted(name.removesuffix(ending) for name in file.namelist() if name.endswith(ending))


def read(place: Path, name: str) -> bytes:
    """One member; ``KeyError`` where there is none of that name."""
    with zipfile.ZipFile(archive(place)) as file:
        return file.read(name)


def write(place: Path, members: dict[str, str]) -> None:
    """Put these members into the set, in place of those of the same names."""
    texts = {name: read(place, name) for name in names(place)}
    texts |= {name: text.encode() for name, text in members.items()}
    place.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive(place), "w") as file:
        for name, text in sorted(texts.items()):
            file.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED, 9)
