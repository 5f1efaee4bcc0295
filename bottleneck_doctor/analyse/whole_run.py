"""What the steady step leaves out: how a run divides into training, evaluation and the rest.

E = sum(parts) / (sum(parts) - saved), the parts being training and evaluation, or the whole run.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..model.device import DeviceFacts
from ..model.diagnosis import Diagnosis, Whole
from ..model.loops import Loop, StepTable
from ..model.profile import Profile
from ..model.report import LedgerPart, Verdict
from ..model.run import Elapsed, RunEnd
from .attribution import attribute
from .predict import gains
from .shares import MOST, PART
from .verdict import BALANCED, NO_GAINS, SECONDS_AT_LEAST, SENTENCES, bound_of_writing

KILLED = 9  # SIGKILL, as the kernel sends it where memory is short
CAUSE = "host.evaluation"
STARTING, SAVING = "input.worker_startup", "host.checkpoint"
THREADS = "model.threads"  # set for the process: evaluation computes with the same
COMPUTING = ("model.", "device.", "host.launch")  # causes of an evaluation's steps that are its computation
TAKING = {STARTING: "starting and stopping worker processes", SAVING: "saving checkpoints"}


def end_of(profile: Profile) -> RunEnd:
    """How far the run came and how it ended."""
    run, trained = profile.run, [one for one in (*profile.loops, *profile.outside) if one.role == "train"]
    steps = max(run.trained, *(one.steps for one in trained), 0)
    batches = sum(loop.steps for loop in profile.loops)
    device = run.crash is not None and run.crash.memory == "device"
    memory = _device_memory(profile) if device else _host_memory(profile) if run.exit_status else {}
    return RunEnd(steps, batches, len(profile.processes), run.signal, run.crash, memory)


def _host_memory(profile: Profile) -> dict[str, float]:
    """At the job's peak, if it was killed or the host's memory was short; else nothing."""
    run, machine, seen = profile.run, profile.machine, profile.series.values
    short = run.crash is not None and run.crash.memory == "host"
    counted = [one for one in seen.get("oom_kills", []) if one is not None]
    kills = counted[-1] - counted[0] if counted else None
    rows = zip(seen.get("job_rss_bytes", []), seen.get("job_largest_rss_bytes", []), strict=False)
    peak, largest = max(((row, most) for row, most in rows if row is not None), default=(None, None))
    if peak is None or not (short or kills or KILLED in (run.signal, run.exit_status - 128)):
        return {}
    largest = largest if largest != peak else None
    found = {"job_rss_bytes": peak, "job_largest_rss_bytes": largest, "oom_kills": kills}
    found["memory_limit_bytes"] = machine.memory_limit_bytes or machine.memory_bytes
    return {name: value for name, value in found.items() if value is not None}


def _device_memory(profile: Profile) -> dict[str, float]:
    """Of the first device, by the driver and torch's allocator."""
    facts = profile.device or DeviceFacts()
    column = profile.series.values.get(f"gpu{facts.driver}_foreign_memory_bytes", [])
    held = {"foreign_memory_bytes": max(one or 0.0 for one in column)} if any(column) else {}
    if (known := facts.allocator) is not None and known.peak_bytes:
        held |= {
            "peak_bytes": known.peak_bytes,
            "cached_bytes": max(0, known.reserved_bytes - known.peak_bytes),
        }
    return held | {"memory_bytes": facts.memory_bytes} if held and facts.memory_bytes else held


def evaluations_of(profile: Profile, loop: Loop | None) -> list[Loop]:
    """The evaluation loops of the training's own process, the longest first."""
    found = [one for one in profile.loops if loop and one.role == "evaluation" and one.pid == loop.pid]
    return sorted(found, key=lambda one: -one.wall_s)


def measure_whole(profile: Profile, loop: Loop | None) -> Whole:
    """How the run's time divides. The first start of the workers is no part of what a run that was cut short
    would have taken."""
    training = loop.wall_s if loop is not None else 0.0
    loops = evaluations_of(profile, loop)
    times = sum(len(one.epochs.t) for one in loops)
    life, inline = life_of(profile, loop), attribute(profile, loop).evaluated
    evaluating = sum(one.wall_s for one in loops) + inline.share * training
    training *= 1 - inline.share
    whole = Whole(
        profile.run.duration_s, training, evaluating, times, steps_s=training, evaluated_at=inline.place
    )
    if life is None:
        return whole
    cut = life.first_start_s if profile.run.stopped_by is not None else 0.0
    starting = max(0.0, life.starting_s + life.starting_evaluation_s + life.stopping_s - cut)
    return replace(whole, starting_s=starting, checkpoint_s=life.checkpoint_s, steps_s=life.training_s)


def evaluation_share(whole: Whole) -> float:
    """Evaluation's share of training and evaluation."""
    both = whole.training_s + whole.evaluation_s
    return whole.evaluation_s / both if both > 0 else 0.0


def with_evaluation(whole: Whole, speedup: float) -> float:
    """What a speedup of the training's steps brings training and evaluation together."""
    return _amdahl(1 - evaluation_share(whole), speedup)


def with_faster_evaluation(whole: Whole, speedup: float) -> float:
    """What a speedup of the evaluation brings training and evaluation together."""
    return _amdahl(evaluation_share(whole), speedup)


def in_run(whole: Whole, speedup: float) -> float:
    """What a speedup of the training's steps brings the whole run, its start included."""
    return _amdahl(min(1.0, whole.training_s / whole.run_s) if whole.run_s > 0 else 1.0, speedup)


def _amdahl(share: float, speedup: float) -> float:
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
    others = {STARTING: whole.starting_s, SAVING: whole.checkpoint_s}
    cause = max(others, key=others.__getitem__)
    if known:  # all of evaluation must bring more than the best for training, and than what speeds up both
        otherwise = max(with_evaluation(whole, best), main.causes.get(THREADS, 1.0), BALANCED)
        most = evaluation_share(whole) >= PART and with_faster_evaluation(whole, math.inf) >= otherwise
    else:
        most = whole.evaluation_s >= max(SECONDS_AT_LEAST, whole.steps_s)
    if whole.evaluation_s > others[cause] and most:
        return replace(main, subject="evaluation", verdict=_of_evaluation(main, evaluation))
    least = max(SECONDS_AT_LEAST, whole.steps_s, saved)
    if others[cause] > least and main.verdict.cause != cause:
        return replace(main, subject="run", verdict=_of_run(main, whole, cause, others[cause]))
    return main


def _of_evaluation(main: Diagnosis, evaluation: Diagnosis | None) -> Verdict:
    """The verdict of the evaluation's own steps; where these were not judged, or are no loop of their own,
    evaluation as such."""
    own = evaluation.verdict if evaluation is not None else main.verdict
    if own.bound == "inconclusive":
        guess = main.verdict.bound if main.verdict.bound != "inconclusive" else _most(evaluation or main)
        return replace(main.verdict, bound=guess, cause=CAUSE, summary=SENTENCES[CAUSE], confidence="low")
    if evaluation is None and not main.host.accelerated:  # the loop itself calls the model: computing
        return replace(own, bound="cpu", cause=CAUSE, summary=SENTENCES[CAUSE])
    if evaluation is None or own.cause == "none" or own.cause.startswith(COMPUTING):
        bound = own.bound if own.bound != "balanced" else main.verdict.bound
        bound = bound if bound != "inconclusive" else _most(main)
        return replace(own, bound=bound, cause=CAUSE, summary=SENTENCES[CAUSE])
    return replace(own, summary=f"{SENTENCES[CAUSE]}; in its own loop {SENTENCES[own.cause]}")


def _most(diagnosis: Diagnosis) -> str:
    """The resource that would gain most, from however few steps."""
    known = gains(diagnosis.scenario, diagnosis.host) if diagnosis.scenario is not None else {}
    return max(known, key=lambda name: known[name] or 0.0, default="cpu")


def _of_run(main: Diagnosis, whole: Whole, cause: str, taken_s: float) -> Verdict:
    """The verdict for a part outside of the steps that takes more than they do, and the gain without it."""
    stored = main.scenario.shares.stored if main.scenario is not None else 0.0
    bound = bound_of_writing(stored) if cause == SAVING else "cpu"
    rest = whole.steps_s + whole.evaluation_s + whole.starting_s + whole.checkpoint_s
    gain = NO_GAINS | main.verdict.gain
    gain[bound] = max(gain[bound] or 1.0, min(1e3, rest / max(rest - taken_s, 1e-3 * rest)))
    sure = "medium" if whole.steps_s < MOST * taken_s else "low"
    words = f"{TAKING[cause]} takes more of the run than the training's steps"
    return replace(main.verdict, bound=bound, cause=cause, summary=words, confidence=sure, gain=gain)


UNEXPLAINED = "unexplained"
ROUNDING = 1e-9  # of the run: less is rounding


def ledger_of(diagnosis: Diagnosis) -> list[LedgerPart]:
    """The parts in the order of time, the unexplained last; those that never occurred are left out. Empty
    where the profile does not divide the time of the process (schema 1)."""
    profile, run_s = diagnosis.profile, diagnosis.profile.run.duration_s
    life = life_of(profile, diagnosis.loop)
    if run_s <= 0 or life is None:
        return []
    parts = _parts(diagnosis, life)
    known = sum(parts.values())
    scale = min(1.0, run_s / known) if known > 0 else 1.0  # clocks of two processes may differ by a tick
    parts = {name: value * scale for name, value in parts.items()}
    parts[UNEXPLAINED] = max(0.0, run_s - sum(parts.values()))
    kept = {name: value for name, value in parts.items() if value > ROUNDING * run_s}
    whole = sum(kept.values())
    return [LedgerPart(name, value / whole, value) for name, value in kept.items()]


def _parts(diagnosis: Diagnosis, life: Elapsed) -> dict[str, float]:
    """Seconds by name, in the order of time."""
    profile, run_s = diagnosis.profile, diagnosis.profile.run.duration_s
    started = min(run_s, next((one.started_s for one in profile.processes if one.pid == life.pid), 0.0))
    alone = profile.run.pid == life.pid  # no launcher goes on after it
    warmup = min(life.training_s, _warmup_s(diagnosis))
    exit_s = min(run_s, life.exit_s) if life.exit_s is not None else None
    after = max(0.0, (exit_s if exit_s is not None else run_s) - life.last_s)
    ending = run_s - exit_s if exit_s is not None else 0.0
    return {
        "launching": started,
        "start-up and imports": life.preparing_s,
        "starting workers": life.starting_s + life.starting_evaluation_s,
        "warm-up": warmup,
        "training steps": life.training_s - warmup,
        "evaluation": life.evaluation_s,
        "checkpoints": life.checkpoint_s,
        "steps under torch.profiler": life.profiled_s,
        "stopping workers": life.stopping_s,
        "end of epochs": life.between_s,
        "after the last loop" if exit_s is not None else "after the last batch seen": after,
        "shut-down" if alone else "shut-down and other processes": ending,
    }


def life_of(profile: Profile, loop: Loop | None) -> Elapsed | None:
    """How the time of the reported process divides. What its training loop evaluates without a loader is
    taken out of the training, by stack samples."""
    if loop is None:
        return max(profile.elapsed, key=lambda one: one.training_s, default=None)
    life = next((one for one in profile.elapsed if one.pid == loop.pid), None)
    if life is None:
        return None
    moved = attribute(profile, loop).evaluated.share * life.training_s
    return replace(life, training_s=life.training_s - moved, evaluation_s=life.evaluation_s + moved)


def _warmup_s(diagnosis: Diagnosis) -> float:
    """What the steps took that are set aside as warm-up, without rows that cross an epoch's end."""
    table = diagnosis.loop.table if diagnosis.loop is not None else StepTable()
    seen, taken = 0, 0.0
    for place, steps in enumerate(table.steps):
        seen += steps
        if seen > diagnosis.quality.warmup_steps:
            break
        if not table.epoch or not place or table.epoch[place] == table.epoch[place - 1]:
            taken += table.wall_s[place]
    return taken
