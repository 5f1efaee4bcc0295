"""The commands that take several profiles: ``bdoc check``, ``compare`` and ``merge``."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..model.errors import UsageError
from ..model.report import Gate, Repeat
from .cli import declared
from .options import (
    BASELINE,
    FAIL_IF,
    MAX_DATA_WAIT,
    MAX_REGRESSION,
    OUTPUT,
    failing,
    read_settings,
    thresholds,
)
from .output import append, report_of, say, screen, with_folder, writable, write


def check_command(
    profiles: Annotated[
        list[str] | None, typer.Argument(metavar="PROFILE", help="Profiles.", show_default="profile.json")
    ] = None,
    max_data_wait: Annotated[list[str] | None, declared(MAX_DATA_WAIT)] = None,
    fail_if: Annotated[list[str] | None, declared(FAIL_IF)] = None,
    baseline: Annotated[list[str] | None, declared(BASELINE)] = None,
    max_regression: Annotated[str | None, declared(MAX_REGRESSION)] = None,
    allow_different: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help="Compare although this differs, e.g. torch. Repeatable."),
    ] = None,
    junit: Annotated[str | None, typer.Option(metavar="FILE", help="Write the outcome as JUnit XML.")] = None,
    annotations: Annotated[
        str | None, typer.Option(metavar="github", help="Mark your lines in a pull request.")
    ] = None,
    summary: Annotated[
        str | None, typer.Option(metavar="FILE", help="Append the outcome as markdown.")
    ] = None,
) -> int:
    """The CI gate: fail when a threshold on any metric is exceeded, or the job got slower than its baseline.

    Thresholds are held against each profile on its own. With --baseline, several profiles are repeats of one
    job: the more on each side, the smaller the change that shows through the noise between runs.
    Profiles may be folders of profiles. Exit status: 0 holds, 1 fails, 2 usage error, 3 cannot say.
    """
    from ..analyse import gate
    from ..analyse.compare import METRIC_NAMES
    from ..render.gate import gate_lines

    settings = read_settings()
    settings.refuse()
    bases, limit = settings.of(BASELINE, baseline), settings.of(MAX_REGRESSION, max_regression)
    if max_regression is not None and not bases:
        raise UsageError("--max-regression needs --baseline PROFILE to compare with")
    allowed = allowed_differences(allow_different or [], bool(bases))
    if not (bases or max_data_wait or fail_if or {FAIL_IF.name, MAX_DATA_WAIT.name} & set(settings.table)):
        raise UsageError("nothing to check: give --max-data-wait, --fail-if or --baseline")
    runs = side(profiles or [settings.of(OUTPUT)], "PROFILE")
    before = side(bases, "--baseline")
    apart(before, runs)
    refuse_files(junit, summary, annotations, [run.name for run in (*runs, *before)])
    known = list(dict.fromkeys([*METRIC_NAMES, *(name for run in runs for name in run.report.metrics)]))
    wanted = replace(FAIL_IF, read=partial(failing, known=known))
    conditions = thresholds(settings.of(MAX_DATA_WAIT, max_data_wait), settings.of(wanted, fail_if))
    found = gate.check(runs, conditions, before, gate.DEFAULT_LIMIT if limit is None else limit, allowed)
    say("".join(f"{line}\n" for line in gate_lines(found)))
    hand_over(found, junit, summary, annotations)
    settings.tell()
    return found.status


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


def refuse_files(
    junit: str | None, summary: str | None, annotations: str | None, profiles: Sequence[str]
) -> None:
    """Refuse what cannot be written, and what would be written over a profile, before anything is judged."""
    places = [
        (option, path) for option, path in (("--junit", junit), ("--summary", summary)) if path is not None
    ]
    for option, path in places:
        writable(path, option)
        if any(os.path.realpath(path) == os.path.realpath(profile) for profile in profiles):
            raise UsageError(f"{option} {path!r} would write over a profile")
    if len({os.path.realpath(path) for _, path in places}) < len(places):
        raise UsageError(f"--junit and --summary are both {junit!r}: give each a file of its own")
    if annotations not in (None, "github"):
        raise UsageError(f"--annotations {annotations!r}: there is only github")


def hand_over(gate: Gate, junit: str | None, summary: str | None, annotations: str | None) -> None:
    """Write everything that was asked for, whatever the outcome."""
    from ..render import gate as texts

    if annotations is not None:
        workspace = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
        say("".join(f"{line}\n" for line in texts.github(gate, os.path.realpath(workspace))), "utf-8")
    if junit is not None:
        write(junit, texts.junit(gate, __version__), "--junit")
    if summary is not None:
        append(summary, texts.summary(gate), "--summary")


def side(names: Sequence[str], origin: str) -> list[Repeat]:
    """The runs behind these names, in their order; ``origin`` is what the names were given to.

    A folder stands for every ``*.json`` in it. Raises ``UsageError`` for an empty name or folder and for a
    profile given twice: counted as two repeats it would make the interval too narrow.
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
    for before, after in product(base, new):
        first, second = before.report.run, after.report.run
        # To the nanosecond: no two runs took equally long from the same second on.
        if os.path.realpath(before.name) == os.path.realpath(after.name) or (
            (first.started_at, first.duration_s, first.host)
            == (second.started_at, second.duration_s, second.host)
        ):
            names = f"{after.name!r} and the baseline {before.name!r}"
            raise UsageError(f"{names} are the same run: a gate on them cannot fail")


def _files(name: str, origin: str) -> list[str]:
    if not name:
        raise UsageError(f"{origin}: the name of a profile is empty; is a variable unset?")
    if not os.path.isdir(name):
        return [name]
    found = sorted(file for file in os.listdir(name) if file.endswith(".json") and not file.startswith("."))
    if not found:
        raise UsageError(f"{origin}: the folder {name!r} holds no profile (*.json)")
    return [os.path.join(name, file) for file in found]


def compare_command(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The profile from before.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The profile from after.")],
) -> int:
    """Show what moved between two profiles beyond the noise."""
    from ..analyse.compare import NAMES, compare
    from ..analyse.gate import DEFAULT_LIMIT, compare_runs
    from ..render.gate import comparison_text

    encoding = screen(sys.stdout).encoding
    before, after = (Repeat(name, report_of(name)) for name in (base, new))
    judged = compare_runs([before], [after], DEFAULT_LIMIT, NAMES)
    say(comparison_text(compare(before.report, after.report), judged, encoding), encoding)
    return 0


PATTERN = "profile.*.json"  # as `bdoc run` names them where it saw a part of the ranks


def merge_command(
    profiles: Annotated[list[str], typer.Argument(metavar="FILE", help="Profiles, or folders of them.")],
    output: Annotated[str | None, declared(OUTPUT)] = None,
) -> int:
    """Make one profile of those that all ranks and nodes of a training left.

    `bdoc merge run/` takes every profile.*.json in the folder. What the merged profile says of a machine is
    of the one whose rank the report is about.
    """
    from ..analyse.ranks import MERGED, all_ranks, merge, slow_ranks, world_size
    from ..model.codec import encode_profile, read_profile
    from ..render.gate import merged_lines

    path = with_folder(read_settings().of(OUTPUT, output), "--output")
    files = [
        file
        for one in profiles
        for file in (sorted(map(str, Path(one).glob(PATTERN))) if os.path.isdir(one) else [one])
        if os.path.realpath(file) != os.path.realpath(path)
    ]
    if not files:
        raise UsageError(f"no {PATTERN} in {', '.join(profiles)}")
    merged = merge(files, read_profile)
    write(path, encode_profile(merged), private=True)
    ranks = all_ranks(merged)
    lines = merged_lines(len(ranks), len({one.host for one in ranks}), world_size(merged), slow_ranks(ranks))
    lines += [f"{gap.what}: {gap.why}" for gap in merged.gaps if gap.what == MERGED]
    lines.append(f"profile in {path}; `bdoc report {path}` shows it")
    say("\n".join(lines) + "\n", screen(sys.stdout).encoding)
    return 0
