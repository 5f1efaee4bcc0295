"""What is printed in all: the report, or one line where no training was seen, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..model.report import Report, RunSummary
from . import render, words
from .compose import INTERRUPTED, command_line, crash_of, ended, memory_of
from .words import fit

LONGEST_PROVED = 48  # columns of a command line that is repeated


def nothing_seen(report: Report) -> list[str]:
    """What to say instead of a report on a run without a training step; empty where there were steps."""
    run, end = report.run, report.run.end
    if end is None or end.steps or report.verdict.bound != "inconclusive":
        return []
    took = words.seconds(run.duration_s)
    if run.exit_status:
        how = "was interrupted" if run.exit_status in INTERRUPTED else ended(run)
        where = f"after {took}, before its first training step; nothing to report"
        found = [f"the script {how} {where}{crash_of(run, ': ')}", *memory_of(run)]
        if end.crash is not None and end.crash.lacks:
            python, lacks = words.plain(end.crash.python), words.plain(end.crash.lacks)
            found.append(f"{python} has no module {lacks}; `bdoc run --python PATH` takes another Python")
        return found
    processes = words.counted(end.processes, "Python process", "Python processes")
    seen = f"{words.counted(end.batches, 'batch', 'batches')} of a loader, but " if end.batches else ""
    sought = f"no {'' if end.batches else 'batch of a DataLoader, '}backward() or optimizer.step()"
    hooks = [f"{gap.what}: {gap.why}; {gap.do}" for gap in report.quality.gaps if gap.what == "hooks"]
    where = "" if hooks else f" in {processes}: {seen}{sought}"
    return [f"no training step was seen in {took}{where}; `bdoc explain no-step`", *map(words.plain, hooks)]


def shown(report: Report, format: str, path: str, screen: Mapping[str, Any], **how: Any) -> str:
    """The report of the profile at ``path``; for a person also the commands that lead on."""
    if format != "terminal" or how.get("details"):
        return render(report, format, **how, **screen)
    if nothing := nothing_seen(report):
        return fit("".join(f"bdoc: {line}\n" for line in nothing), screen["encoding"])
    after = onward(report, path, screen["width"]) if path else ""
    return render(report, format, **screen) + fit(after, screen["encoding"])


def onward(report: Report, path: str, width: int) -> str:
    """The commands that lead on from a report, in lines of ``width`` columns that break between them."""
    run = report.run
    file = "" if path == "profile.json" else f" {shlex.quote(path)}"
    parts = [f"profile: {path}", f"page: bdoc view{file}"]
    if any(one.treatments and one.predicted_speedup.reach > 1 for one in report.remedies):
        parts.append(f"try the remedies: bdoc prove {_again(run)}")
    names = [*(one.finding for one in report.remedies), *(one.id for one in report.findings)]
    parts += [
        f"a word: bdoc explain {[*names, report.verdict.bound][0]}",
        f"all of it: bdoc report{file} --details",
    ]
    lines = [words.plain(parts[0])]
    for part in map(words.plain, parts[1:]):
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return "".join(f"{line}\n" for line in lines)


def _again(run: RunSummary) -> str:
    """The command line as ``bdoc prove`` takes it; "..." for what is long, or masked in the profile."""
    module = run.script is not None and ["-m", run.script] == run.command[1:3]
    whole = command_line(run)
    fits = len(whole) <= LONGEST_PROVED and "***" not in whole and "…" not in whole
    kind = "-- " if run.script is None else "-m " if module else ""
    return kind + (whole if fits else f"{whole.split()[0]} ...")
