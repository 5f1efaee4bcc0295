"""What the steady step leaves out: how a run divides into training, evaluation and the rest.

E = sum(parts) / (sum(parts) - saved), the parts being training and evaluation, or the whole run.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..model.derived import Whole
from ..model.diagnosis import Diagnosis
from ..model.loops import Loop, Outside
from ..model.profile import Profile
from ..model.report import Verdict
from .causes import gains
from .evaluated import find_evaluated
from .ledger import life_of
from .verdict import BALANCED, SECONDS_AT_LEAST, SENTENCES, bound_of_writing

HEAVY = 0.2  # of training and evaluation: less of it is no verdict, whatever else is balanced [catalogue F50]
SURE = 2.0  # times the training's steps, from which there is no doubt about what takes the time (ours)
CAUSE = "host.evaluation"
STARTING, SAVING = "input.worker_startup", "host.checkpoint"
THREADS = "model.threads"  # set for the process: evaluation computes with the same
COMPUTING = ("model.", "device.", "host.launch")  # causes of an evaluation's steps that are its computation
TAKING = {STARTING: "starting and stopping worker processes", SAVING: "saving checkpoints"}
TAKES = "evaluation takes more of the run than anything that could be saved in training"


def evaluations_of(profile: Profile, loop: Loop | None, outside: Outside | None) -> list[Loop]:
    """The evaluation loops of the training's own process, the longest first."""
    pid = loop.pid if loop is not None else outside.pid if outside is not None else None
    found = [one for one in profile.loops if one.role == "evaluation" and one.pid == pid]
    return sorted(found, key=lambda one: -one.wall_s)


def measure_whole(profile: Profile, loop: Loop | None, outside: Outside | None) -> Whole:
    """How the run's time divides. The first start of the workers is no part of what a run that was cut short
    would have taken."""
    training = loop.wall_s if loop is not None else sum(outside.wall_s) if outside is not None else 0.0
    loops = evaluations_of(profile, loop, outside)
    times = sum(len(one.epochs.t) for one in loops)
    life = life_of(profile, loop, outside)
    beside = find_evaluated(profile, loop, outside)
    evaluating = sum(one.wall_s for one in loops) + beside.share * training
    training *= 1 - beside.share
    if life is None:
        whole = Whole(profile.run.duration_s, training, evaluating, times, steps_s=training)
        return replace(whole, evaluated_at=beside.place)
    cut = life.first_start_s if profile.run.stopped_by is not None else 0.0
    starting = max(0.0, life.starting_s + life.starting_evaluation_s + life.stopping_s - cut)
    return Whole(
        profile.run.duration_s, training, evaluating, times, starting, life.checkpoint_s, life.training_s,
        beside.place,
    )  # fmt: skip


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
    """The diagnosis with the whole run in view: what the verdict is about is what could be saved most of.

    Evaluation is, where leaving all of it out would bring more than removing any cause from the training's
    steps; starting workers or saving, where they take more than the steps themselves do. Of a training whose
    steps were too few to be judged, any part could be saved.
    """
    main = replace(main, whole=whole, evaluation=evaluation)
    known = main.verdict.bound != "inconclusive"
    best = max(main.causes.values(), default=1.0)
    saved = whole.training_s * (1 - 1 / max(best, 1.0)) if known else whole.steps_s
    beside = {STARTING: whole.starting_s, SAVING: whole.checkpoint_s}
    cause = max(beside, key=lambda name: beside[name])
    everywhere = main.causes.get(THREADS, 1.0)
    if whole.evaluation_s > beside[cause] and _is_evaluation(whole, best if known else None, everywhere):
        return replace(main, subject="evaluation", verdict=_of_evaluation(main, evaluation))
    least = max(SECONDS_AT_LEAST, whole.steps_s, saved)
    if beside[cause] > least and main.verdict.cause != cause:
        return replace(main, subject="run", verdict=_of_run(main, whole, cause, beside[cause]))
    return main


def _is_evaluation(whole: Whole, best: float | None, everywhere: float) -> bool:
    """Whether saving all of it would bring more than the best for training (None = that is unknown), and than
    what would speed up both."""
    if best is None:
        return whole.evaluation_s >= max(SECONDS_AT_LEAST, whole.steps_s)
    otherwise = max(with_evaluation(whole, best), everywhere, BALANCED)
    return evaluation_share(whole) >= HEAVY and with_faster_evaluation(whole, math.inf) >= otherwise


def _of_evaluation(main: Diagnosis, evaluation: Diagnosis | None) -> Verdict:
    """The verdict of the evaluation's own steps; where these were not judged, or are no loop of their own,
    evaluation as such."""
    own = evaluation.verdict if evaluation is not None else main.verdict
    if own.bound == "inconclusive":
        guess = main.verdict.bound if main.verdict.bound != "inconclusive" else _most(evaluation or main)
        return replace(main.verdict, bound=guess, cause=CAUSE, summary=SENTENCES[CAUSE], confidence="low")
    if evaluation is None and not main.host.accelerated:  # the loop's own calls of the model: they compute
        return replace(own, bound="cpu", cause=CAUSE, summary=SENTENCES[CAUSE])
    if evaluation is None or own.cause == "none" or own.cause.startswith(COMPUTING):
        bound = own.bound if own.bound != "balanced" else main.verdict.bound
        bound = bound if bound != "inconclusive" else _most(main)
        return replace(own, bound=bound, cause=CAUSE, summary=SENTENCES[CAUSE])
    return replace(own, summary=f"{TAKES}; in its own loop {SENTENCES[own.cause]}")


def _most(diagnosis: Diagnosis) -> str:
    """The resource that would gain most, however few steps say so."""
    known = gains(diagnosis.scenario, diagnosis.host) if diagnosis.scenario is not None else {}
    return max(known, key=lambda name: known[name] or 0.0, default="cpu")


def _of_run(main: Diagnosis, whole: Whole, cause: str, taken_s: float) -> Verdict:
    """What is beside the steps and takes more than they do; of a run without it, that much would be left."""
    stored = main.scenario.stored if main.scenario is not None else 0.0
    bound = bound_of_writing(stored) if cause == SAVING else "cpu"
    rest = whole.steps_s + whole.evaluation_s + whole.starting_s + whole.checkpoint_s
    gain = dict.fromkeys(("cpu", "io", "gpu", "comm")) | main.verdict.gain
    gain[bound] = max(gain[bound] or 1.0, min(1e3, rest / max(rest - taken_s, 1e-3 * rest)))
    sure = "medium" if taken_s >= SURE * whole.steps_s else "low"
    words = f"{TAKING[cause]} takes more of the run than the training's steps"
    return replace(main.verdict, bound=bound, cause=cause, summary=words, confidence=sure, gain=gain)
