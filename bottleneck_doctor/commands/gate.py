"""The thresholds that a run is held against: those of the command line, else those of the settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .. import __version__
from ..model.errors import UsageError
from ..model.gate import Condition, Gate, Repeat
from .output import append, say, writable, write
from .pyproject_settings import Settings, origin
from .reading import report_of


def conditions(
    max_data_wait: list[str], fail_if: list[str], settings: Settings, known: Collection[str] | None = None
) -> list[Condition]:
    """Everything that would fail the gate; an option on the command line replaces its default."""
    from ..analyse.conditions import (
        METRIC_NAMES,
        data_wait_condition,
        parse_condition,
        refuse_contradictions,
    )  # fmt: skip

    names = METRIC_NAMES if known is None else known
    found = data_wait_condition(max_data_wait)
    if not max_data_wait and settings.max_data_wait is not None:
        found = data_wait_condition([f"{settings.max_data_wait!r}"], origin(settings, "max-data-wait"))
    asker = "--fail-if" if fail_if else origin(settings, "fail-if")
    found += [parse_condition(text, names, asker) for text in fail_if or settings.fail_if]
    refuse_contradictions(found)
    return list(dict.fromkeys(found))


def regression_limit(given: str | None, has_baseline: bool, settings: Settings) -> float:
    """The share by which a step may get slower than the baseline's."""
    from ..analyse.conditions import parse_fraction
    from ..analyse.gate import DEFAULT_LIMIT

    if given is not None:
        limit = parse_fraction(given, "--max-regression")
        if not has_baseline:
            raise UsageError("--max-regression needs --baseline PROFILE to compare with")
        return limit
    if settings.max_regression is None:
        return DEFAULT_LIMIT
    return parse_fraction(repr(settings.max_regression), origin(settings, "max-regression"))


def allowed_differences(given: list[str], has_baseline: bool) -> list[str]:
    """The differences that refuse no comparison; an unknown name is refused with the nearest."""
    from ..analyse.compare import NAMES

    for name in given:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}" if near else f"known are {', '.join(NAMES)}"
            raise UsageError(f"--allow-different {name!r}: no such difference, {hint}")
    if given and not has_baseline:
        raise UsageError("--allow-different needs --baseline PROFILE to compare with")
    return given


ANNOTATIONS = ("github",)


@dataclass(frozen=True)
class GateFiles:
    """What was asked for; None where it was not."""

    junit: str | None = None
    summary: str | None = None
    annotations: str | None = None


def asked(files: GateFiles, profiles: Sequence[str]) -> GateFiles:
    """The same, once it is clear that all of it can be written and that no profile is written over."""
    given = {"--junit": files.junit, "--summary": files.summary}
    places = [(option, path) for option, path in given.items() if path is not None]
    for option, path in places:
        writable(path, option)
        if any(os.path.realpath(path) == os.path.realpath(profile) for profile in profiles):
            raise UsageError(f"{option} {path!r} would write over a profile")
    if len({os.path.realpath(path) for _, path in places}) < len(places):
        raise UsageError(f"--junit and --summary are both {files.junit!r}: give each a file of its own")
    if files.annotations is not None and files.annotations not in ANNOTATIONS:
        raise UsageError(f"--annotations {files.annotations!r}: there is only {', '.join(ANNOTATIONS)}")
    return files


def hand_over(files: GateFiles, gate: Gate) -> None:
    """Write everything that was asked for, whatever the outcome."""
    if files.annotations is not None:
        from ..render.ci import github

        workspace = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
        say("".join(f"{line}\n" for line in github(gate, os.path.realpath(workspace))), "utf-8")
    if files.junit is not None:
        from ..render.ci import junit

        write(files.junit, junit(gate, __version__), "--junit")
    if files.summary is not None:
        from ..render.ci import LARGEST_BYTES, summary

        taken = os.path.getsize(files.summary) if os.path.isfile(files.summary) else 0
        append(files.summary, summary(gate, LARGEST_BYTES - taken), "--summary")


def side(names: Sequence[str], origin: str) -> list[Repeat]:
    """The runs behind these names, in their order; ``origin`` is what the names were given to.

    A folder stands for every ``*.json`` in it. Raises ``UsageError`` for an empty name or folder and for a
    profile given twice: counted as two repeats it would promise a precision that nobody measured.
    """
    files = [file for name in names for file in _files(name, origin)]
    seen: dict[str, str] = {}
    for file in files:
        real = os.path.realpath(file)
        if real in seen:
            raise UsageError(f"{origin}: {file!r} is given twice, and is one run only")
        seen[real] = file
    return [Repeat(file, report_of(file)) for file in files]


def apart(base: Sequence[Repeat], new: Sequence[Repeat]) -> None:
    """Refuse a run that is compared with itself, also as a copy: such a gate could never fail."""
    for before in base:
        for after in new:
            if _same_run(before, after):
                names = f"{after.name!r} and the baseline {before.name!r}"
                raise UsageError(f"{names} are the same run: a gate on them cannot fail")


def _same_run(one: Repeat, other: Repeat) -> bool:
    if os.path.realpath(one.name) == os.path.realpath(other.name):
        return True
    first, second = one.report.run, other.report.run
    # To the nanosecond: no two runs took equally long from the same second on.
    return (first.started_at, first.duration_s, first.host) == (
        second.started_at,
        second.duration_s,
        second.host,
    )


def _files(name: str, origin: str) -> list[str]:
    if not name:
        raise UsageError(f"{origin}: the name of a profile is empty; is a variable unset?")
    if not os.path.isdir(name):
        return [name]
    found = sorted(file for file in os.listdir(name) if file.endswith(".json") and not file.startswith("."))
    if not found:
        raise UsageError(f"{origin}: the folder {name!r} holds no profile (*.json)")
    return [os.path.join(name, file) for file in found]
