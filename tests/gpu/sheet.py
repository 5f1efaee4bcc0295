"""The GPU table, what it adds up to, and the page that keeps one section for each device."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.gpu.examine import Seen
from tests.gpu.expected import PATIENTS
from tests.lab import table

HEADER = table.HEADER.replace("data wait", "exposed wait").replace(
    "| inside |\n|", "| inside | device busy: bdoc / truth | step under bdoc |\n|---|---|"
)
TITLE = "# How often bdoc is right on GPUs\n\n"
METHOD = """\
Written by `make gpu`; how to run it stands in [its README](../tests/gpu/README.md). Trainings and twins are
made as for [accuracy](accuracy.md), on a real device; sizes follow its speed, so that steps take 10 to 20 ms.

- Exposed wait: in the run that bdoc watches, the script records an event of its own on its compute stream
  before and after each `next()`, in all steps, and reads them at the end. What lies between the two, over the
  time of all steps from the twentieth on, is the truth. Right means within 0.02.
- Device busy: kernel seconds of a step (union over all streams, by a profiler of the script's own in a
  separate run) over the mean plain step.
- Speedup: plain slow and cured runs in turn, per sample on the device's clock; for evaluation, of the whole
  run.
- Step under bdoc: mean step of the watched run over that of the plain ones.
- Calls that wait for the device: counted in the same twenty steps of one training by its own profiler, with
  bdoc sampling every step, and without bdoc.
- Cost: a training paced by the host, plain and watched in turn.
"""
NOT_YET = """\
## Not yet measured on hardware

No run on a GPU has been published. All that bdoc says about GPUs is written against public documentation and
tested with simulated devices.
"""


@dataclass
class Sheet:
    """What was found on one device, by the name of the patient or of the check; the last word counts."""

    machine: str
    seen: dict[str, Seen] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    harm: dict[str, bool] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    not_here: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def forget(self, name: str) -> None:
        """What was found earlier under this name no longer counts."""
        for writer in (self.seen, self.lines, self.harm, self.failed, self.not_here):
            writer.pop(name, None)

    @property
    def right(self) -> bool:
        """What the project promises: bounds, causes, waits, no harm, the same output, no idle promise."""
        rows = [one.judgement for one in self.seen.values()]
        return (
            not any(self.harm.values())
            and not self.failed
            and all(one.bound_right and one.same_output and not one.hurts for one in rows)
            and all(one.wait_right is not False for one in rows)
            and sum(one.cause_right for one in rows) >= 0.9 * len(rows)
        )


def rows(sheet: Sheet) -> list[str]:
    """The table without its header, in the patients' order."""
    names = [one.name for one in PATIENTS]
    known = {name: row(one) for name, one in sheet.seen.items()}
    known |= {name: missing(name, f"failed: {why}") for name, why in sheet.failed.items()}
    known |= {name: missing(name, f"not here: {why}") for name, why in sheet.not_here.items()}
    return [known[name] for name in sorted(known, key=lambda name: (*names, name).index(name))]


def row(seen: Seen) -> str:
    """One line of the table."""
    busy, slowed = f"{_number(seen.busy)} / {_number(seen.busy_truth)}", seen.judgement.slowed
    return f"{table.row(seen.judgement)} {busy} | {'–' if slowed is None else f'×{slowed:.3f}'} |"


def missing(name: str, why: str) -> str:
    """The line of a patient that could not be examined."""
    columns = HEADER.partition("\n")[0].count("|") - 1
    return f"| {name} | {' '.join(why.split()).replace('|', '/')} |" + " |" * (columns - 2)


def adds_up(sheet: Sheet) -> list[str]:
    """What stands below the table."""
    lines = [*table.summary([one.judgement for one in sheet.seen.values()]), *sheet.lines.values()]
    lines += [f"failed: {', '.join(sheet.failed)}"] if sheet.failed else []
    return lines + ([f"left out: {', '.join(sheet.left_out)}"] if sheet.left_out else [])


def section(sheet: Sheet) -> str:
    """All that was found on one device, as a part of the page."""
    return f"## {sheet.machine}\n\n{table.with_sum(HEADER, rows(sheet), adds_up(sheet))}\n"


def page(sections: Sequence[str]) -> str:
    """The whole page."""
    return TITLE + METHOD + "\n" + "\n".join(sections or [NOT_YET])


def write(path: Path, sheet: Sheet) -> None:
    """Put the device's section in place of its old one; those of other devices stay."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.split(r"^(?=## )", old, flags=re.MULTILINE)[1:]
    gone = (NOT_YET.splitlines()[0], f"## {sheet.machine}")
    others = [one.rstrip("\n") + "\n" for one in found if one.splitlines()[0] not in gone]
    path.write_text(page([*others, section(sheet)]), encoding="utf-8")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
