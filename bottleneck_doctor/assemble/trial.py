"""Reads what the agent told of a trial: which remedies it could apply, and the first losses."""

from __future__ import annotations

from ..model.trial import Losses, Order, Treated, Trial
from .rows import Diary

AT_MOST = 64  # processes, of each sort
LOSSES_AT_MOST = 256


def read_trial(order: Order | None, diaries: list[Diary]) -> Trial | None:
    """None where the run was no trial."""
    if order is None:
        return None
    treated = [
        Treated(str(fact.get("name", "")), diary.pid, str(fact.get("why", "")))
        for diary in diaries
        for fact in diary.facts
        if fact.get("fact") == "treated"
    ]
    return Trial(
        order, treated[:AT_MOST], [one for one in map(_losses, diaries) if one is not None][:AT_MOST]
    )


def _losses(diary: Diary) -> Losses | None:
    """Several facts of one process follow each other: each holds what came since the last."""
    values = [value for fact in diary.facts if fact.get("fact") == "losses" for value in fact["values"]]
    batches = [value for fact in diary.facts if fact.get("fact") == "batches" for value in fact["checksums"]]
    if not values and not batches:
        return None
    rank = diary.first("ranks").get("rank", diary.first("process").get("rank"))
    return Losses(diary.pid, rank, values[:LOSSES_AT_MOST], batches[:LOSSES_AT_MOST])
