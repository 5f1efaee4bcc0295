"""What the steady step leaves out: how a run divides into training, evaluation and the rest.

E = sum(parts) / (sum(parts) - saved), the parts being training and evaluation, or the whole run.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..model.diagnosis import Diagnosis
from ..model.profile import Loop, Outside, Profile
from ..model.whole import Whole
from .verdict import BALANCED, SENTENCES

HEAVY = 0.2  # of training and evaluation: less of it is no verdict, whatever else is balanced [catalogue F50]
CAUSE = "host.evaluation"


def evaluations_of(profile: Profile, loop: Loop | None, outside: Outside | None) -> list[Loop]:
    """The evaluation loops of the training's own process, the longest first."""
    pid = loop.pid if loop is not None else outside.pid if outside is not None else None
    found = [one for one in profile.loops if one.role == "evaluation" and one.pid == pid]
    return sorted(found, key=lambda one: -one.wall_s)


def measure_whole(profile: Profile, loop: Loop | None, outside: Outside | None) -> Whole:
    """How the run's time divides."""
    training = loop.wall_s if loop is not None else sum(outside.wall_s) if outside is not None else 0.0
    loops = evaluations_of(profile, loop, outside)
    times = sum(len(one.epochs.t) for one in loops)
    return Whole(profile.run.duration_s, training, sum(one.wall_s for one in loops), times)


def evaluation_share(whole: Whole) -> float:
    """Evaluation's share of training and evaluation."""
    both = whole.training_s + whole.evaluation_s
    return whole.evaluation_s / both if both > 0 else 0.0


def with_evaluation(whole: Whole, speedup: float) -> float:
    """What a speedup of the training's steps brings training and evaluation together."""
    left = 1 - evaluation_share(whole)
    return 1 / (1 - left * (1 - 1 / max(speedup, 1e-9)))


def in_run(whole: Whole, speedup: float) -> float:
    """What it brings the whole run, its start included."""
    share = min(1.0, whole.training_s / whole.run_s) if whole.run_s > 0 else 1.0
    return 1 / (1 - share * (1 - 1 / max(speedup, 1e-9)))


def with_faster_evaluation(whole: Whole, speedup: float) -> float:
    """What a speedup of the evaluation brings training and evaluation together."""
    share = evaluation_share(whole)
    return 1 / max(1 - share * (1 - 1 / max(speedup, 1e-9)), 1e-3)


def judge_whole(main: Diagnosis, whole: Whole, evaluation: Diagnosis | None) -> Diagnosis:
    """The diagnosis with the whole run in view: evaluation is its cause where saving all of it would bring
    more than removing any cause from the training's steps."""
    share, verdict = evaluation_share(whole), main.verdict
    best = with_evaluation(whole, max(main.causes.values(), default=1.0))
    gained = with_faster_evaluation(whole, math.inf)
    if verdict.bound == "inconclusive" or share < HEAVY or gained < max(best, BALANCED):
        return replace(main, whole=whole, evaluation=evaluation)
    own = evaluation.verdict.bound if evaluation is not None else "inconclusive"
    bound = verdict.bound if own in ("inconclusive", "balanced") else own
    verdict = replace(verdict, bound=bound, cause=CAUSE, summary=SENTENCES[CAUSE])
    return replace(main, whole=whole, evaluation=evaluation, verdict=verdict)
