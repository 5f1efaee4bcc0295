"""The run's ledger: its wall time from start to exit, divided into parts that sum to one."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from ..model.diagnosis import Diagnosis
from ..model.loops import Loader, Loop, Outside
from ..model.profile import Profile
from ..model.report import LedgerPart
from ..model.run import Elapsed, Process
from .evaluated import find_evaluated

UNEXPLAINED = "unexplained"
LITTLE = 1e-9  # of the run: what rounding leaves is no part of it


def ledger_of(diagnosis: Diagnosis) -> list[LedgerPart]:
    """The parts in the order of time, the unexplained last; those that never occurred are left out."""
    profile, run_s = diagnosis.profile, diagnosis.profile.run.duration_s
    if run_s <= 0:
        return []
    life = life_of(profile, diagnosis.loop, diagnosis.outside)
    parts = _parts(diagnosis, life) if life is not None else {}
    known = sum(parts.values())
    scale = min(1.0, run_s / known) if known > 0 else 1.0  # clocks of two processes may differ by a tick
    parts = {name: value * scale for name, value in parts.items()}
    parts[UNEXPLAINED] = max(0.0, run_s - sum(parts.values()))
    kept = {name: value for name, value in parts.items() if value > LITTLE * run_s}
    whole = sum(kept.values())
    return [LedgerPart(name, value / whole, value) for name, value in kept.items()]


def _parts(diagnosis: Diagnosis, life: Elapsed) -> dict[str, float]:
    """Seconds by name, in the order of time."""
    profile, run_s = diagnosis.profile, diagnosis.profile.run.duration_s
    started = min(run_s, process.started_s if (process := _process(profile, life.pid)) is not None else 0.0)
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


def life_of(profile: Profile, loop: Loop | None, outside: Outside | None) -> Elapsed | None:
    """How the life of the process divides that the report is about. What its training loop evaluates without
    a loader is taken out of the training, as stack samples tell."""
    life = _told(profile, loop, outside)
    if life is None:
        return None
    moved = find_evaluated(profile, loop, outside).share * life.training_s
    return replace(life, training_s=life.training_s - moved, evaluation_s=life.evaluation_s + moved)


def _told(profile: Profile, loop: Loop | None, outside: Outside | None) -> Elapsed | None:
    """What the process told; of a profile without it, what its tables tell."""
    pid = loop.pid if loop is not None else outside.pid if outside is not None else None
    if pid is None:
        return max(profile.elapsed, key=lambda one: one.training_s, default=None)
    told = next((one for one in profile.elapsed if one.pid == pid), None)
    if told is not None:
        return told
    if outside is not None:
        return _told_by_steps(profile, outside) if outside.t else None
    return _told_by_loops(profile, loop) if loop is not None else None


def _process(profile: Profile, pid: int) -> Process | None:
    return next((one for one in profile.processes if one.pid == pid), None)


def _warmup_s(diagnosis: Diagnosis) -> float:
    """What the steps took that are set aside as warm-up, without rows that cross an epoch's end."""
    table = diagnosis.loop.table if diagnosis.loop is not None else None
    epochs = table.epoch if table is not None else []
    seen, taken = 0, 0.0
    for place, steps in enumerate(table.steps if table is not None else []):
        seen += steps
        if table is None or seen > diagnosis.quality.warmup_steps:
            break
        if not epochs or not place or epochs[place] == epochs[place - 1]:
            taken += table.wall_s[place]
    return taken


def _told_by_loops(profile: Profile, loop: Loop) -> Elapsed | None:
    """The same from the tables of an older profile, whose ends of epochs are part of its steps."""
    if not loop.epochs.t or not loop.table.t:
        return None
    mine = [one for one in profile.loops if one.pid == loop.pid and one.thread == loop.thread]
    evaluated = [one for one in mine if one.role == "evaluation"]
    trained = one_after_another([one for one in mine if one.role == "train" and one.table.t])
    first_start, later = _starts(profile, loop)
    first = min(one.epochs.t[0] for one in trained if one.epochs.t)
    begin = 0.0 if first_start else loop.epochs.build_s[0] + loop.epochs.first_wait_s[0]
    saved = sum(sum(one.table.checkpoint_s) for one in trained)
    process = _process(profile, loop.pid)
    return Elapsed(
        pid=loop.pid,
        first_s=max(0.0, first),
        last_s=max([0.0, *(one.table.t[-1] for one in [*trained, *evaluated] if one.table.t)]),
        preparing_s=max(0.0, first - (process.started_s if process is not None else 0.0)),
        training_s=max(0.0, sum(one.wall_s for one in trained) + begin - later - saved),
        evaluation_s=sum(one.wall_s for one in evaluated),
        starting_s=first_start + later,
        first_start_s=first_start,
        checkpoint_s=saved,
        beginnings=len(loop.epochs.t),
    )


def one_after_another(loops: list[Loop]) -> list[Loop]:
    """Of loops that overlap, such as two loaders of one step, the longest."""
    kept: list[Loop] = []
    for one in sorted(loops, key=lambda one: -one.wall_s):
        begin, end = one.table.t[0] - one.table.wall_s[0], one.table.t[-1]
        if all(end <= other.table.t[0] or other.table.t[-1] <= begin for other in kept):
            kept.append(one)
    return kept


def _starts(profile: Profile, loop: Loop) -> tuple[float, float]:
    """Seconds of the first beginning and of all later ones, of a loader with workers."""
    loader: Loader | None = next((one for one in profile.loaders if one.key == loop.loader), None)
    if loader is None or not loader.num_workers:
        return 0.0, 0.0
    fetches = next((one.wall_s for one in profile.fetches if one.loader == loop.loader and one.t), None)
    usual = median(fetches) if fetches else 0.0
    begins = zip(loop.epochs.build_s, loop.epochs.first_wait_s, strict=True)
    first, *later = (max(0.0, build + wait - usual) for build, wait in begins)
    return first, sum(later)


def _told_by_steps(profile: Profile, outside: Outside) -> Elapsed:
    """The same of a loop without a loader."""
    first = max(0.0, outside.t[0] - outside.wall_s[0])
    process = _process(profile, outside.pid)
    return Elapsed(
        pid=outside.pid,
        first_s=first,
        last_s=outside.t[-1],
        preparing_s=max(0.0, first - (process.started_s if process is not None else 0.0)),
        training_s=sum(outside.wall_s),
    )
