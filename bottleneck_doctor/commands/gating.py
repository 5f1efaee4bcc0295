"""The thresholds that a run is held against: those of the command line, else those of the settings."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from ..model.errors import UsageError
from ..model.gate import Condition
from .settings import Settings, origin


def conditions(
    max_data_wait: list[str], fail_if: list[str], settings: Settings, known: Collection[str] | None = None
) -> list[Condition]:
    """Everything that would fail the gate; an option on the command line replaces its default."""
    from ..analyse import gate

    names = gate.METRIC_NAMES if known is None else known
    found = gate.data_wait_condition(max_data_wait)
    if not max_data_wait and settings.max_data_wait is not None:
        found = gate.data_wait_condition([f"{settings.max_data_wait!r}"], origin(settings, "max-data-wait"))
    asker = "--fail-if" if fail_if else origin(settings, "fail-if")
    found += [gate.parse_condition(text, names, asker) for text in fail_if or settings.fail_if]
    gate.refuse_contradictions(found)
    return list(dict.fromkeys(found))


def regression_limit(given: str | None, has_baseline: bool, settings: Settings) -> float:
    """The share by which a step may get slower than the baseline's."""
    from ..analyse import gate
    from ..analyse.regression import DEFAULT_LIMIT

    if given is not None:
        limit = gate.parse_fraction(given, "--max-regression")
        if not has_baseline:
            raise UsageError("--max-regression needs --baseline PROFILE to compare with")
        return limit
    if settings.max_regression is None:
        return DEFAULT_LIMIT
    return gate.parse_fraction(repr(settings.max_regression), origin(settings, "max-regression"))


def allowed_differences(given: list[str], has_baseline: bool) -> list[str]:
    """The differences that refuse no comparison; an unknown name is refused with the nearest."""
    from ..analyse.comparable import NAMES

    for name in given:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}" if near else f"known are {', '.join(NAMES)}"
            raise UsageError(f"--allow-different {name!r}: no such difference, {hint}")
    if given and not has_baseline:
        raise UsageError("--allow-different needs --baseline PROFILE to compare with")
    return given
