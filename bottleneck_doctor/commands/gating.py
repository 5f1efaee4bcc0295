"""The thresholds that a run is held against: those of the command line, else those of the settings."""

from __future__ import annotations

from collections.abc import Collection

from ..model.outcome import Condition
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
    return found
