"""Keeps what was found on a device beside the profiles, so that a later run of some patients adds to it."""

import json
from dataclasses import asdict
from pathlib import Path

from tests.gpu.examine import Seen
from tests.gpu.sheet import Sheet, section
from tests.lab.golden import names, read, write
from tests.lab.judge import Judgement

FILE = "sheet.json"


def save(folder: Path, sheet: Sheet) -> None:
    """Write the sheet, and its table for people."""
    write(folder, {FILE: json.dumps(asdict(sheet), indent=1) + "\n", "table.md": section(sheet)})


def load(folder: Path, machine: str | None = None) -> Sheet:
    """The sheet kept there; an empty one where there is none, or one of another machine."""
    kept = json.loads(read(folder, FILE)) if FILE in names(folder) else {"machine": None}
    if machine is not None and kept["machine"] != machine:
        return Sheet(machine)
    seen = {name: _seen(**one) for name, one in kept.pop("seen").items()}
    return Sheet(seen=seen, **{**kept, "left_out": []})


def _seen(judgement: dict[str, object], **busy: float | None) -> Seen:
    return Seen(Judgement(**judgement), **busy)  # type: ignore[arg-type]
