"""Quotations in pages that people write: scripts, and reports of recorded runs, as they are today.

The comment before a fence says where its text comes from; `make docs` puts it there anew:
`<!-- script: tests/quickstarts/plain.py -->`, or `<!-- report: plain, up to "why" -->`: what
`bdoc report` says of `plain.profile.json` in `tests/golden/quickstarts.zip` before the line that begins so;
`<!-- proof: demo -->`: what `bdoc prove` says of `demo.proof.json`, which `bdoc prove -o proof.json
tests/patients/loader_in_main.py` has written (and tests/lab/kept.py has made placeless).
`<!-- accuracy: own, live70 -->` stands before a table: these rows of tests/lab/sets.json; without names, all.
`<!-- findings by device -->` likewise: what the findings declare.
"""

import functools
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import decode_profile
from bottleneck_doctor.model.proof import Proof
from bottleneck_doctor.render import render
from bottleneck_doctor.render.proof import render_proof
from tests.house.reference import devices_table
from tests.house.source import ROOT
from tests.lab import golden
from tests.lab.sets import table

KEPT = golden.GOLDEN / "quickstarts"
WIDTH = 80
FENCED = r"(?P<open>\n```\w*\n).*?^```$"
SCRIPT = re.compile(r"(?P<mark><!-- script: (?P<file>\S+) -->)" + FENCED, re.MULTILINE | re.DOTALL)
REPORT = re.compile(
    r"(?P<mark><!-- report: (?P<name>[\w-]+)(?:, up to \"(?P<end>[^\"]+)\")? -->)" + FENCED,
    re.MULTILINE | re.DOTALL,
)

PROOF = re.compile(r"(?P<mark><!-- proof: (?P<name>[\w-]+) -->)" + FENCED, re.MULTILINE | re.DOTALL)


TABLE = re.compile(r"(?P<mark><!-- accuracy:(?P<names>[\w, ]*) -->)\n(?:\|.*\n)*")


DEVICES = re.compile(r"<!-- findings by device -->\n(?:\|.*\n)*")


def anew(page: str) -> str:
    """The page with its quotations as they are today."""
    page = TABLE.sub(lambda m: f"{m['mark']}\n{table(re.findall(r'[^, ]+', m['names']))}\n", page)
    page = DEVICES.sub(f"<!-- findings by device -->\n{devices_table()}\n", page)
    page = SCRIPT.sub(lambda m: f"{m['mark']}{m['open']}{script(m['file'])}```", page)
    page = PROOF.sub(lambda m: f"{m['mark']}{m['open']}{proof(m['name'])}```", page)
    return REPORT.sub(lambda m: f"{m['mark']}{m['open']}{report(m['name'], m['end'])}```", page)


def script(file: str) -> str:
    """The text of a file of this repository."""
    return (ROOT / file).read_text(encoding="utf-8")


def report(name: str, end: str | None = None) -> str:
    """What a terminal shows of a recorded run, whole or up to the line that begins with ``end``."""
    lines = _rendered(name).splitlines()
    until = next((place for place, line in enumerate(lines) if end and line.startswith(end)), len(lines))
    return "\n".join(lines[:until]).rstrip() + "\n"


def proof(name: str) -> str:
    """What a terminal shows of a recorded proof."""
    data = golden.read(KEPT, f"{name}.proof.json")
    return render_proof(msgspec.json.decode(data, type=Proof), "terminal", width=WIDTH)


@functools.cache
def _rendered(name: str) -> str:
    profile = decode_profile(golden.read(KEPT, f"{name}.profile.json"))
    return render(write_up(profile), "terminal", width=WIDTH)


def main(pages: Iterable[Path] = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))) -> None:
    """Put today's quotations into pages, and name those that changed."""
    for path in pages:
        old = path.read_text(encoding="utf-8")
        if (new := anew(old)) != old:
            path.write_text(new, encoding="utf-8")
            print(f"written anew: {path.name}")


if __name__ == "__main__":
    main()
