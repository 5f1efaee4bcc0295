"""What interrupts training: checkpoints, logging, evaluation."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.loop_cpu import logged
from ..analyse.predict import TRIFLE, best_setting, gain
from ..analyse.shares import MOST, PART
from ..analyse.whole_run import CAUSE, evaluation_share, evaluations_of, with_faster_evaluation
from ..model.code import Location
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Whole
from ..model.instruments import Operation
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import operations_of, step_share, waits
from .lines import STACKS, quoted, rarely
from .registry import finding, given, loader_loop, snippet
from .remedies import Factor, each, in_framework, on_loader, priced, spread

# checkpoint-blocking
SEEN_AT_LEAST = 2  # checkpoints, or the interval between them is not known
CHECKPOINT_RARER = 0.1  # of the checkpoints are left: every tenth (assumed; the user chooses)
COPIED = (0.5, 0.33, 0.07)  # of a save's time is the copy (measured: 0.47, 33 of 105 ms, 0.07)
CHECKPOINT_HOOKS = "hooks on torch.save, fsync"
LESS = "if STEP % (10 * EVERY) == 0:  # or by the clock, every 15 minutes"
SAVE = "torch.save(MODEL.state_dict(), PATH)"
CHECKPOINT_SELDOM = Proposal(
    id="checkpoint-less",
    title="save a checkpoint ten times less often",
    fix=Fix("save by the clock, or every tenth time", f"{LESS}\n    {SAVE}"),
    change=Change(checkpoint=CHECKPOINT_RARER),
    apply="hook~",
    risk="up to ten times as much work is lost when the job dies",
    treatments=(Treatment("rare_saving", {"every": round(1 / CHECKPOINT_RARER)}),),
)
ASIDE = Proposal(
    id="checkpoint-async",
    title="copy the weights in the loop and let a thread write them",
    fix=Fix("take a snapshot, write it in a thread", snippet("saving_logging", "CHECKPOINT_WRITER")),
    basis="bound",
    apply="hook~",
    effort="hours",
    risk="memory for one more copy of the weights; the newest checkpoint may be incomplete after a crash",
    treatments=(Treatment("saving_aside"),),
)


@finding("host.checkpoint", CHECKPOINT_SELDOM, ASIDE, needs=(loader_loop,))
def checkpoint_blocking(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when checkpoints take a noticeable part of the steady step."""
    share = step_share(diagnosis, "checkpoint")
    if share <= TRIFLE:
        return None
    saves = operations_of(diagnosis, "checkpoint")
    count = max((one.count for one in saves), default=0)  # a write and its flush are one checkpoint
    if count < SEEN_AT_LEAST:
        return "a second checkpoint: how often one comes is not known"
    total_s, place = sum(one.total_s for one in saves), _place(saves)
    cpu_share = sum(one.cpu_s for one in saves) / max(total_s, 1e-9)
    known = (
        ("share of the step spent on checkpoints", "checkpoint_share", share),
        ("checkpoints seen", "checkpoints", float(count)),
        ("steps between two checkpoints", "checkpoint_interval_steps", given(diagnosis.loop).steps / count),
        ("time per checkpoint", "checkpoint_s", total_s / count),
        ("share of that on the CPU", "checkpoint_cpu_share", cpu_share),
    )
    evidence = [Evidence(*one, CHECKPOINT_HOOKS) for one in known]
    line = quoted(diagnosis, place)  # where a framework saves, its call
    seldom = CHECKPOINT_SELDOM.at(place, f"{LESS}\n    {line if 'save' in line else SAVE}")
    seldom = in_framework(diagnosis, seldom)
    changes = each(checkpoint=COPIED)
    aside = priced(ASIDE.at(place), given(diagnosis.scenario), *changes, most=Change(checkpoint=0.0))
    return Finding("checkpoint-blocking", "host.checkpoint", evidence, [seldom, aside], place)


def _place(saves: list[Operation]) -> Location | None:
    """The line that writes, which comes before the line that flushes the same file."""
    places = [one.location for one in saves if one.location is not None]
    near = [one for one in places if (one.file, one.function) == (places[0].file, places[0].function)]
    return min(near, key=lambda one: one.line, default=None)


# logging-blocking
EVERY = 50  # steps between two records: often enough to watch a curve (chosen)
QUEUED_S = 1.5e-5  # per record handed to a queue [measured: 11 us]
LOG_HOOKS = "hooks on log handlers, tqdm, fsync"
OFTEN = f"STEP % {EVERY} == 0"
EXAMPLE = f"""\
{rarely(OFTEN, 'LOG.info("loss %.4f", float(LOSS))')}
bar = TQDM(LOADER, mininterval=2.0)  # draws every two seconds"""
LOG_RARELY = Proposal(
    id="log-every-n",
    title=f"log every {EVERY}th step",
    fix=Fix("log less often, and let progress bars draw less often", EXAMPLE),
    change=Change(logging=1 / EVERY),
    apply="hook~",
    risk="what happens between two records is not seen",
    treatments=(Treatment("rare_logging", {"every": EVERY}),),
)
LOG_WRITER = Proposal(
    id="async-writer",
    title="let another thread write the log",
    fix=Fix(
        "put records into a queue; a listener writes them",
        "import logging.handlers, queue\n"
        "records = queue.SimpleQueue()\n"
        "LOG.removeHandler(SLOW_HANDLER)\n"
        "LOG.addHandler(logging.handlers.QueueHandler(records))\n"
        "listener = logging.handlers.QueueListener(records, SLOW_HANDLER)\n"
        "listener.start()  # and listener.stop() at the end",
    ),
    risk="the last records may be lost in a crash",
)


@finding("host.logging", LOG_RARELY, LOG_WRITER, needs=(loader_loop,))
def logging_blocking(diagnosis: Diagnosis) -> Finding | None:
    """Fires when logging takes a noticeable part of the steady step."""
    loop, share = given(diagnosis.loop), step_share(diagnosis, "logging")
    if share <= TRIFLE:
        return None
    calls, purpose = operations_of(diagnosis, "logging"), logged(diagnosis.profile, loop).purpose
    count, total_s = sum(one.count for one in calls), sum(one.total_s for one in calls)
    hooked = total_s / max(1, loop.steps) >= MOST * share * diagnosis.step_s
    if calls and (purpose is None or hooked):
        return _hooked(diagnosis, share, calls, count, max(total_s, 1e-9))
    return _sampled(diagnosis, share)


def _hooked(
    diagnosis: Diagnosis, share: float, calls: list[Operation], count: int, total_s: float
) -> Finding:
    """Calls that hooks timed are what takes the time."""
    place, cpu = calls[0].location, min(1.0, sum(one.cpu_s for one in calls) / total_s)
    known = (
        ("share of the step spent on logging", "logging_share", share),
        ("calls per step", "logging_calls_per_step", count / max(1, given(diagnosis.loop).steps)),
        ("time per call", "logging_call_s", total_s / count),
        ("share of that on the CPU", "logging_cpu_share", cpu),
    )
    evidence = [Evidence(*one, LOG_HOOKS) for one in known]
    queued = Change(logging=min(1.0, cpu + QUEUED_S * count / total_s))
    proposals = [
        in_framework(diagnosis, LOG_RARELY.at(place, _seldom(diagnosis, place))),
        replace(LOG_WRITER.at(place), change=queued),
    ]
    return Finding("logging-blocking", "host.logging", evidence, proposals, place)


def _sampled(diagnosis: Diagnosis, share: float) -> Finding:
    """Stack samples show lines that write, or that wait for the disk."""
    seen = logged(diagnosis.profile, given(diagnosis.loop))
    line, around = (seen.purpose.line, seen.purpose.caller) if seen.purpose is not None else (None, None)
    forced = seen.purpose is not None and seen.purpose.forced and seen.asleep >= MOST
    text = "writing, the disk awaited" if forced else "logging"
    evidence = [Evidence(f"share of the step spent on {text}", "logging_share", share, STACKS)]
    if line is not None:
        text = f"share of the loop's samples in what {line.function} writes out"
        evidence.append(Evidence(text, "written_share", seen.share, STACKS))
    remedy = replace(LOG_RARELY.at(around, _seldom(diagnosis, around)), apply="manual", treatments=())
    return Finding("logging-blocking", "host.logging", evidence, [remedy], line)


def _seldom(diagnosis: Diagnosis, place: Location | None) -> str:
    """The user's own line, run every so often, if it is known; else an example."""
    line = quoted(diagnosis, place)
    return rarely(OFTEN, line) if line else EXAMPLE


# evaluation-heavy
EVALUATION_RARER = (2.0, 5.0, 10.0)  # times less often (assumed; the user chooses)
# of a forward pass's time is left without autograd (measured: large layers 0.97 to 1.0, a Transformer's 0.73)
UNRECORDED = (1.0, 0.9, 0.73)
LOOPS = "loops without backward passes"
FORWARDS = ("forwards", "recorded_forwards")
SEVERAL = 3  # evaluations, or epochs, from which they can come less often
BY_EPOCH = ("evaluate every few epochs", "if EPOCH % 5 == 0: EVALUATE(MODEL, VAL_LOADER)")
BY_STEP = ("evaluate after more steps", "if STEP % (5 * EVERY) == 0: EVALUATE(MODEL, VAL_LOADER)")
EVALUATE = snippet("saving_logging", "EVALUATE")
EVALUATION_SELDOM = Proposal(
    id="eval-less",
    title="evaluate a fifth as often, or on a part of the data (gain of the whole run)",
    fix=Fix(*BY_EPOCH),
    risk="early stopping reacts later",
    basis="amdahl",
    scope="run",
)
UNRECORD = Proposal(
    id="eval-no-grad",
    title="evaluate in inference mode, with larger batches (gain of the whole run)",
    fix=Fix("keep nothing for a backward pass", EVALUATE),
    basis="bound",
    scope="run",
)
OWN_WORKERS = Proposal(
    id="eval-workers",
    title="give the validation loader workers of its own (gain of the whole run)",
    fix=Fix("the validation loader has none", "DataLoader(..., num_workers=2, persistent_workers=True)"),
    apply="hook",
    risk="memory grows with each worker",
    scope="run",
)


@finding(CAUSE, EVALUATION_SELDOM, UNRECORD, OWN_WORKERS)
def evaluation_heavy(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when evaluating takes more than a fifth of the time."""
    whole, loop = diagnosis.whole, diagnosis.loop
    if loop is None:
        return "a training loop"
    loops, share = evaluations_of(diagnosis.profile, loop), evaluation_share(whole)
    if share <= PART:
        return None
    if not loops:
        if (place := whole.evaluated_at) is None:
            return None
        text = "share of training and evaluation in forward passes that nothing is trained on"
        evidence = [Evidence(text, "evaluation_fraction", share, "py-spy, training thread")]
        return Finding("evaluation-heavy", CAUSE, evidence, [_rarer(whole, BY_STEP, place)], place)
    loader = next((one for one in diagnosis.profile.loaders if one.key == loops[0].loader), None)
    own = diagnosis.evaluation
    known = (
        ("share of training and evaluation that evaluation takes", "evaluation_fraction", share),
        ("time in evaluation", "evaluation_s", whole.evaluation_s),
        ("evaluations seen", "evaluations", float(whole.evaluations)),
        ("share of evaluation waiting for data", "evaluation_data_wait_share",
         own.metrics["data_wait_fraction"].value if own is not None else None),
    )  # fmt: skip
    evidence = [Evidence(*one, LOOPS) for one in known if one[2] is not None]
    forwards, recorded = (sum(getattr(one, name) for one in loops) for name in FORWARDS)
    if forwards:
        text, hook = "share of its forward passes that record for autograd", "hook on forward passes"
        evidence.append(Evidence(text, "recorded_share", recorded / forwards, hook))
    if loader is not None and loader.key == loop.loader:
        loader = None  # the training's: nothing of it is to be changed for evaluation
        evidence.append(Evidence("it goes over the data that the training uses"))
    place = loader.location if loader is not None else None
    proposals = []
    if whole.evaluations >= SEVERAL:
        usual = BY_EPOCH if len(loop.epochs.batches) >= SEVERAL else BY_STEP
        proposals.append(in_framework(diagnosis, _rarer(whole, usual, place)))
    if own is not None and own.scenario is not None:
        if recorded:
            changes = each(compute=UNRECORDED, launch=UNRECORDED, idle=UNRECORDED)
            most = gain(own.scenario, Change(compute=0.0, launch=0.0, idle=0.0))
            factor = _in_run(whole, spread(own.scenario, *changes))
            most = with_faster_evaluation(whole, most)
            proposals.append(replace(UNRECORD.at(place), factor=factor, most=most))
        training = diagnosis.subject != "evaluation"  # else another finding gives this loader workers
        if training and loader is not None and not loader.num_workers and waits(own):
            best = best_setting(own.scenario)
            count, depth = best.workers, best.prefetch
            setting = {"num_workers": count, "prefetch_factor": depth, "persistent_workers": True}
            factor = _in_run(whole, spread(own.scenario, Change(), best.change, best.change))
            proposals.append(replace(on_loader(OWN_WORKERS, loader, **setting), factor=factor))
    return Finding("evaluation-heavy", CAUSE, evidence, proposals, place)


def _in_run(whole: Whole, speedups: Factor) -> Factor:
    """Speedups of training and evaluation together from these speedups of evaluation."""
    low, likely, high = (with_faster_evaluation(whole, one) for one in speedups)
    return low, likely, high


def _rarer(whole: Whole, how: tuple[str, str], place: Location | None) -> Proposal:
    text, snippet = how
    return replace(EVALUATION_SELDOM.at(place, snippet, text), factor=_in_run(whole, EVALUATION_RARER))
