"""The command `bdoc prove`: watches a training once, then tries the remedies on it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..model.proof import BASELINE, Arm, Attempt, Gain, Plan, Proof, ProofCost
from ..model.report import CANNOT_SAY
from ..model.run import Order
from ..prove.put_back_files import Backups
from .options import (
    ALLOW_NUMERICS,
    BUDGET_S,
    DATA_FN,
    DRY_RUN,
    FORMAT,
    LONGEST,
    OUTPUT,
    PROFILE,
    PROOF,
    PROVE,
    PYTHON,
    QUIET,
    REMEDIES,
    WRITE_PATCH,
    read_settings,
)
from .output import Screen, StatusLine, complain, say, screen, write
from .run_options import Options, read, refuse_stdin

if TYPE_CHECKING:
    from ..model.diagnosis import Diagnosis
    from ..model.profile import Profile
    from ..model.report import Report
    from ..prove.trials import Target

INTERRUPTED = 130
SEED = 0  # of every run: what the script does not seed draws the same each time
LOSSES = 24  # first steps whose losses are compared
FIRST_RUN_S = 300.0  # at most; it ends by itself as soon as its step time is known
FIRST_RUN_STEPS = 2000


def prove_command(target: list[str], launched: bool, typed: dict[str, Any]) -> int:
    """Try the remedies on your own training, and measure what each brings.

    \b
    bdoc prove [OPTIONS] SCRIPT [ARGS]...      an unmodified training script
    bdoc prove [OPTIONS] -m MODULE [ARGS]...   a module, as for python -m
    bdoc prove [OPTIONS] -- COMMAND [ARGS]...  torchrun, accelerate launch, a shell script

    The training is watched once, then run again a few hundred steps at a time: as it is, and with the best
    remedies applied from outside. Whatever the script does besides training, it does each time.
    The first run's profile is left as by `bdoc run`.
    Exit status: 0 done, 2 usage error, 3 cannot say; the script's own where it fails.
    """
    from ..findings.registry import offered
    from ..launch.start import choose, plan
    from ..prove.proof import check_id
    from ..prove.trials import Target

    settings = read_settings()
    settings.refuse()
    options = read(PROVE, target, launched, typed, settings, "prove")
    refuse_stdin(options.form)
    if not options[QUIET]:
        settings.tell()
    for name in options[REMEDIES]:
        check_id(name, offered(), "--remedy")
    plan(*options.form, choose(options[PYTHON]))  # refuses nonsense
    script, module, launcher, args = options.form
    data_fn = tuple(options[DATA_FN])
    tried = Target(script, module, tuple(launcher or ()), tuple(args), options[PYTHON], data_fn)
    proving = Proving(options, tried, ProvingLine(options[QUIET]))
    try:
        return _prove(proving)
    finally:
        proving.line.clear()
        for note in proving.backups.restored():
            proving.line.note(note)
        for note in proving.backups.failures():
            complain(note)


@dataclass
class Proving:
    """All that one command knows; filled as it goes, so that Ctrl-C finds what was there."""

    options: Options
    target: Target
    line: ProvingLine
    began_s: float = field(default_factory=time.monotonic)
    window_s: float = 0.0
    budget_s: float = 0.0
    attempts: list[Attempt] = field(default_factory=list)
    backups: Backups = field(default_factory=Backups)

    def spent_s(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.began_s

    def left_s(self) -> float:
        """Seconds of the budget that are left."""
        return self.budget_s - self.spent_s()


def _prove(proving: Proving) -> int:
    """Watch once, plan, try, and print what was gained."""
    from ..findings.registry import offered
    from ..findings.report import write_up
    from ..prove.measure import span_of
    from ..prove.plan import choose_arms
    from ..prove.proof import prove
    from ..prove.trial_limits import plan_of
    from ..render import render
    from ..render.proof import render_plan

    options, line = proving.options, proving.line
    diagnosis, status = _watched(proving)
    if diagnosis is None:
        return status
    report = write_up(diagnosis.profile, diagnosis)
    if not options[QUIET] and options[PROFILE] is None:
        line.clear()
        line.say(render(report, "terminal", **vars(screen(sys.stderr))))
    arms, missed = choose_arms(report, options[REMEDIES], options[ALLOW_NUMERICS], offered())
    span = span_of(diagnosis, arms, options[LONGEST])
    plan = plan_of(diagnosis, arms, missed, span, proving.budget_s)
    if options[DRY_RUN]:
        line.clear()
        shown = screen(sys.stdout)
        say(render_plan(plan, options[FORMAT], **vars(shown)), shown.encoding)
        return 0
    arms, interrupted = _tried(proving, diagnosis, plan)
    line.clear()
    notes = [*proving.backups.restored(), *proving.backups.failures()]
    cost = ProofCost(proving.window_s, proving.spent_s(), proving.budget_s, len(proving.attempts))
    proof = prove(report, arms, proving.attempts, cost, plan.missed, notes)
    hand_over(options, proof, diagnosis.profile, report)
    return INTERRUPTED if interrupted else _status(proof, report, options)


def _watched(proving: Proving) -> tuple[Diagnosis | None, int]:
    """The baseline's diagnosis, from the profile that was given or from a first run; else the status."""
    from ..analyse.diagnose import diagnose
    from ..model.codec import encode_profile, read_profile
    from ..model.errors import Refused
    from ..prove.proof import FATES
    from ..prove.trial_limits import Limits, budget_of
    from ..prove.trials import run_trial

    options, line = proving.options, proving.line
    if (given := options[PROFILE]) is not None:
        profile = read_profile(given)
        proving.window_s = profile.run.duration_s
        proving.budget_s = budget_of(options[BUDGET_S], float("inf"))
        return diagnose(profile), 0
    done = run_trial(
        proving.target,
        None,
        Limits(min(FIRST_RUN_STEPS, options[LONGEST] or FIRST_RUN_STEPS), FIRST_RUN_S),
        watch=lambda s: line.show("the first run"),
        backups=proving.backups,
    )
    proving.window_s = done.run_s
    proving.budget_s = budget_of(options[BUDGET_S], proving.window_s)
    if done.outcome == "interrupted":
        return None, INTERRUPTED
    line.clear()
    if done.outcome == "measured" and done.profile is not None:
        path = options.settings.of(OUTPUT)
        try:  # where `bdoc run` leaves it: `--profile` saves making it again
            write(path, encode_profile(done.profile), private=True)
            line.note(f"profile of the first run in {path}; `bdoc report {path}` shows its report again")
        except Refused as problem:  # the proof is worth more than the profile
            complain(str(problem))
        return diagnose(done.profile), 0
    complain(f"the training {FATES.get(done.outcome, done.outcome)} before anything was tried: {done.why}")
    own = done.profile.run.exit_status if done.profile is not None else 0
    return None, own or CANNOT_SAY


def _tried(proving: Proving, diagnosis: Diagnosis, plan: Plan) -> tuple[list[Arm], bool]:
    """Every arm that was tried, and whether the user interrupted it."""
    from ..prove.measure import attempt_of
    from ..prove.plan import try_out
    from ..prove.trial_limits import limits_of
    from ..prove.trials import run_trial

    def run(arm: Arm) -> Attempt:
        bases_s = [one.run_s for one in proving.attempts if (one.arm, one.outcome) == (BASELINE, "measured")]
        done = run_trial(
            proving.target,
            Order(list(arm.treatments), LOSSES, SEED),
            limits_of(diagnosis, plan.span, max(bases_s, default=0.0)),
            watch=lambda s: proving.line.show(arm.id, proving, plan.arms),
            backups=proving.backups,
        )
        attempt = attempt_of(arm, done, plan.span)
        proving.line.tell(attempt)
        return attempt

    try:
        arms = try_out(plan.arms, run, proving.left_s, plan.run_s, proving.attempts)
    except KeyboardInterrupt:
        return list(plan.arms), True
    return arms, any(one.outcome == "interrupted" for one in proving.attempts)


def _status(proof: Proof, report: Report, options: Options) -> int:
    """Nothing is known of a training that could not be judged, or not be run again, nor of remedies asked for
    by name of which none could be tried."""
    lost = bool(proof.rows) and proof.baseline_s is None
    unknown = not proof.rows and (report.verdict.bound == "inconclusive" or bool(options[REMEDIES]))
    return CANNOT_SAY if lost or unknown else 0


def hand_over(options: Options, proof: Proof, profile: Profile, report: Report) -> None:
    """The proof to stdout; then what else was asked for."""
    from ..prove.patch import with_patches
    from ..render.proof import render_proof

    proof = with_patches(proof, [*report.remedies, *report.warnings], profile)
    shown = Screen(100, False, "utf-8") if options[FORMAT] == "json" else screen(sys.stdout)
    say(render_proof(proof, options[FORMAT], **vars(shown)), shown.encoding)
    if (place := options[PROOF]) is not None:
        write(place, render_proof(proof, "json").encode(), private=True)
    if (place := options[WRITE_PATCH]) is None:
        return
    winner = next((row for row in proof.rows if proof.winner and row.id == proof.winner), None)
    patch = winner.patch if winner is not None else None
    if patch is not None and patch.diff:
        write(place, patch.diff.encode("utf-8", "surrogateescape"), "--write-patch")
    else:
        complain(f"no patch in {place!r}: {patch.why if patch is not None else 'no remedy is kept'}")


class ProvingLine(StatusLine):
    """Stderr while remedies are tried; nothing where it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet
        self._live = not quiet and sys.stderr is not None and sys.stderr.isatty()

    def show(self, doing: str, proving: Proving | None = None, arms: Sequence[Arm] = ()) -> None:
        """Draw anew what is being run, and of a command that tries remedies what each brought so far."""
        if not self._live:
            return
        from ..prove.plan import gain_of, readings
        from ..render.proof import proving_line

        share = 0.0
        left_s: float | None = None
        gains: list[tuple[str, Gain]] = []
        if proving is not None:
            known = [(one.id, gain_of(one.id, readings(proving.attempts, one.scope))) for one in arms]
            gains = [(name, gain) for name, gain in known if gain is not None]
            share = proving.spent_s() / proving.budget_s if proving.budget_s > 0 else 1.0
            left_s = proving.left_s()
        shown = screen(sys.stderr)
        self.draw(proving_line(doing, share, left_s, gains, shown.width, shown.encoding))

    def tell(self, attempt: Attempt) -> None:
        """A run is over."""
        if not self._quiet and not self._live:
            from ..render.proof import attempt_line

            complain(attempt_line(attempt))

    def note(self, text: str) -> None:
        """One line that stays."""
        if not self._quiet:
            self.clear()
            complain(text)
