"""What interrupts training: checkpoints, logging, evaluation."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.loop_cpu import logged
from ..analyse.predict import WORTH, best_setting
from ..analyse.shares import PART
from ..analyse.whole_run import CAUSE, evaluation_share, evaluations_of, with_faster_evaluation
from ..model.code import Location
from ..model.derived import Whole
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, Scenario
from ..model.instruments import Operation
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.entry import Entry, given, loader_loop, spread
from .parts.facts import operations_of, step_share
from .parts.lines import STACKS, quoted, rarely
from .parts.loader_remedies import loader_with
from .parts.rewriting import loader_call
from .parts.waits import waits

# checkpoint-blocking
CHECKPOINT_SHARE = 0.02  # of the step (chosen)
SEEN_AT_LEAST = 2  # checkpoints, or the interval between them is not known
CHECKPOINT_RARER = 0.1  # of the checkpoints are left: every tenth (assumed; the user chooses)
COPIED = (0.5, 0.33, 0.07)  # of a save's time is the copy (measured: 0.47, 33 of 105 ms, 0.07)
CHECKPOINT_HOOKS = "hooks on torch.save, fsync"
LESS = "if step % (10 * every) == 0:             # ten times rarer; or by the clock, every 15 minutes"
CHECKPOINT_WRITER = """\
if writer is not None: writer.join()     # one at a time
state = {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
writer = threading.Thread(target=save_and_rename, args=(state, path))
writer.start()                           # writes to a temporary file, then renames it"""
SAVE = "torch.save(model.state_dict(), path)"
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
    fix=Fix("take a snapshot, write it in a thread", CHECKPOINT_WRITER),
    basis="bound",
    apply="hook~",
    effort="hours",
    risk="memory for one more copy of the weights; the newest checkpoint may be incomplete after a crash",
    treatments=(Treatment("saving_aside"),),
)


def checkpoint_blocking(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when checkpoints take a noticeable part of the steady step."""
    share = step_share(diagnosis, "checkpoint")
    if share <= CHECKPOINT_SHARE:
        return None
    saves = operations_of(diagnosis, "checkpoint")
    count = max((one.count for one in saves), default=0)  # a write and its flush are one checkpoint
    if count < SEEN_AT_LEAST:
        return Abstention("checkpoint-blocking", "a second checkpoint: how often one comes is not known")
    total_s = sum(one.total_s for one in saves)
    place = _place(saves)
    cpu_share = sum(one.cpu_s for one in saves) / max(total_s, 1e-9)
    known = (
        ("share of the step spent on checkpoints", "checkpoint_share", share),
        ("checkpoints seen", "checkpoints", float(count)),
        ("steps between two checkpoints", "checkpoint_interval_steps", given(diagnosis.loop).steps / count),
        ("time per checkpoint", "checkpoint_s", total_s / count),
        ("share of that on the CPU", "checkpoint_cpu_share", cpu_share),
    )
    evidence = [Evidence(*one, CHECKPOINT_HOOKS) for one in known]
    proposals = _proposals(diagnosis, given(diagnosis.scenario), place)
    return Finding("checkpoint-blocking", "host.checkpoint", evidence, proposals, place)


def _place(saves: list[Operation]) -> Location | None:
    """The line that writes, which comes before the line that flushes the same file."""
    places = [one.location for one in saves if one.location is not None]
    near = [one for one in places if (one.file, one.function) == (places[0].file, places[0].function)]
    return min(near, key=lambda one: one.line, default=None)


def _proposals(diagnosis: Diagnosis, scenario: Scenario, place: Location | None) -> list[Proposal]:
    line = quoted(diagnosis, place) or SAVE
    aside = replace(
        ASIDE.at(place),
        factor=spread(scenario, *(Change(checkpoint=left) for left in COPIED)),
        most=gain(scenario, Change(checkpoint=0.0)),
    )
    return [CHECKPOINT_SELDOM.at(place, f"{LESS}\n    {line}"), aside]


# logging-blocking
LOG_SHARE = 0.01  # of the step (chosen)
EVERY = 50  # steps between two records: often enough to watch a curve (chosen)
MOST = 0.5  # of the logging, timed by hooks: their lines are then the ones to name (chosen)
QUEUED_S = 1.5e-5  # per record handed to a queue [measured: 11 us]
ASLEEP = 0.5  # of its samples asleep, or a call that may wait for the disk computes instead (chosen)
LOG_HOOKS = "hooks on log handlers, tqdm, fsync"
OFTEN = f"step % {EVERY} == 0"
EXAMPLE = f"""\
{rarely(OFTEN, 'log.info("loss %.4f", float(loss))')}
bar = tqdm(loader, mininterval=2.0)      # and let the progress bar draw every two seconds"""
LOG_RARELY = Proposal(
    id="log-every-n",
    title=f"log every {EVERY}th step",
    fix=Fix("log less often, and let progress bars draw less often", EXAMPLE),
    change=Change(logging=1 / EVERY),
    apply="hook~",
    risk="what happens between two records is not seen",
    treatments=(Treatment("rare_logging", {"every": EVERY}),),
)
FLUSH_RARELY = Proposal(
    id="flush-rarely",
    title=f"wait for the disk at every {EVERY}th step only",
    fix=Fix("let the kernel write, and ask it to finish now and then", rarely(OFTEN, "file.flush()")),
    change=Change(logging=1 / EVERY),
    risk="what was written since the last flush may be lost when the machine stops",
)
LOG_WRITER = Proposal(
    id="async-writer",
    title="let another thread write the log",
    fix=Fix(
        "put records into a queue; a listener writes them",
        "records = queue.SimpleQueue()\n"
        "log.addHandler(logging.handlers.QueueHandler(records))           # in place of the slow handler\n"
        "listener = logging.handlers.QueueListener(records, slow_handler)\n"
        "listener.start()                                                 # and listener.stop() at the end",
    ),
    risk="the last records may be lost in a crash",
)


def logging_blocking(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when logging takes a noticeable part of the steady step."""
    loop, share = given(diagnosis.loop), step_share(diagnosis, "logging")
    if share <= LOG_SHARE:
        return None
    calls, seen = operations_of(diagnosis, "logging"), logged(diagnosis.profile, loop)
    steps = max(1, loop.steps)
    hooked_s = _total(calls) / steps if calls else 0.0
    if calls and (seen.purpose is None or hooked_s >= MOST * share * diagnosis.step_s):
        place, left = calls[0].location, _cpu(calls) + QUEUED_S * _count(calls) / _total(calls)
        evidence = [
            Evidence("share of the step spent on logging", "logging_share", share, LOG_HOOKS),
            Evidence("calls per step", "logging_calls_per_step", _count(calls) / steps, LOG_HOOKS),
            Evidence("time per call", "logging_call_s", _total(calls) / _count(calls), LOG_HOOKS),
            Evidence("share of that on the CPU", "logging_cpu_share", _cpu(calls), LOG_HOOKS),
        ]
        proposals = [
            LOG_RARELY.at(place, _snippet(diagnosis, place)),
            replace(LOG_WRITER.at(place), change=Change(logging=min(1.0, left))),
        ]
        return Finding("logging-blocking", "host.logging", evidence, proposals, place)
    evidence = [Evidence("share of the step spent on logging", "logging_share", share, STACKS)]
    place = seen.purpose.line if seen.purpose is not None else None
    around = seen.purpose.caller if seen.purpose is not None else None
    if place is not None:
        text = f"share of the loop's samples in what {place.function} writes out"
        evidence.append(Evidence(text, "written_share", seen.share, STACKS))
    if seen.purpose is not None and seen.purpose.forced and seen.asleep >= ASLEEP:
        evidence[0] = replace(evidence[0], text="share of the step spent on writing, the disk awaited")
        return Finding(
            "logging-blocking",
            "host.logging",
            evidence,
            [FLUSH_RARELY.at(place, _flushed(diagnosis, place))],
            place,
        )
    seldom = LOG_RARELY.at(around, _snippet(diagnosis, around))
    return Finding(
        "logging-blocking", "host.logging", evidence, [replace(seldom, apply="manual", treatments=())], place
    )


def _snippet(diagnosis: Diagnosis, place: Location | None) -> str:
    """The user's own line if it is known, else an example."""
    line = quoted(diagnosis, place)
    return rarely(OFTEN, line) if line else EXAMPLE


def _flushed(diagnosis: Diagnosis, place: Location | None) -> str:
    return rarely(OFTEN, quoted(diagnosis, place) or "file.flush()")


def _count(calls: list[Operation]) -> int:
    return sum(one.count for one in calls)


def _total(calls: list[Operation]) -> float:
    return max(1e-9, sum(one.total_s for one in calls))


def _cpu(calls: list[Operation]) -> float:
    """The share of CPU in the calls' time."""
    return min(1.0, sum(one.cpu_s for one in calls) / _total(calls))


# evaluation-heavy
EVALUATION_RARER = (2.0, 5.0, 10.0)  # times less often (assumed; the user chooses)
# of a forward pass's time is left without autograd (measured: large layers 0.97 to 1.0, a Transformer's 0.73)
UNRECORDED = (1.0, 0.9, 0.73)
LOOPS = "loops without backward passes"
FORWARDS = ("forwards", "recorded_forwards")
SEVERAL = 3  # evaluations, or epochs, from which they can come less often (chosen)
BY_EPOCH = ("evaluate every few epochs", "if epoch % 5 == 0: evaluate(model, val_loader)")
BY_STEP = ("evaluate after more steps", "if step % (5 * every) == 0: evaluate(model, val_loader)")
TRAINER = (BY_EPOCH[0], "Trainer(..., check_val_every_n_epoch=5)   # or limit_val_batches=0.2")
ARGUMENTS = (BY_STEP[0], 'TrainingArguments(..., eval_strategy="steps", eval_steps=5 * every)')
HOW = {"lightning": TRAINER, "pytorch_lightning": TRAINER, "transformers": ARGUMENTS}
EVALUATE = """\
model.eval()
with torch.inference_mode():             # nothing is kept for a backward pass: batches may be larger
    for x, y in val_loader: meter.update(model(x), y)"""
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


def evaluation_heavy(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when evaluating takes more than a fifth of the time."""
    whole = diagnosis.whole
    if diagnosis.loop is None:
        return Abstention("evaluation-heavy", "a training loop")
    loops = evaluations_of(diagnosis.profile, diagnosis.loop)
    share = evaluation_share(whole)
    if share <= PART:
        return None
    if not loops:
        return _within_loop(diagnosis) if whole.evaluated_at is not None else None
    main = loops[0]
    forwards, recorded = (sum(getattr(one, name) for one in loops) for name in FORWARDS)
    loader = next((one for one in diagnosis.profile.loaders if one.key == main.loader), None)
    own = diagnosis.evaluation
    waits = own.metrics["data_wait_fraction"].value if own is not None else None
    known = [
        ("share of training and evaluation that evaluation takes", "evaluation_fraction", share),
        ("time in evaluation", "evaluation_s", whole.evaluation_s),
        ("evaluations seen", "evaluations", float(whole.evaluations)),
        ("share of evaluation waiting for data", "evaluation_data_wait_share", waits),
    ]
    evidence = [Evidence(*one, LOOPS) for one in known if one[2] is not None]
    if forwards:
        text, hook = "share of its forward passes that record for autograd", "hook on forward passes"
        evidence.append(Evidence(text, "recorded_share", recorded / forwards, hook))
    trained_on = loader is not None and diagnosis.loop is not None and main.loader == diagnosis.loop.loader
    if trained_on:
        evidence.append(Evidence("it goes over the data that the training uses"))
    place = None if loader is None or trained_on else loader.location
    proposals = _less(diagnosis, loader, place)
    proposals += _unrecorded(diagnosis, place) if recorded else []
    proposals += _workers(diagnosis, loader) if loader is not None and not trained_on else []
    return Finding("evaluation-heavy", CAUSE, evidence, proposals, place)


def _within_loop(diagnosis: Diagnosis) -> Finding:
    """The training loop evaluates a function's batches."""
    whole, place = diagnosis.whole, diagnosis.whole.evaluated_at
    share = Evidence(
        "share of training and evaluation in forward passes that nothing is trained on",
        "evaluation_fraction",
        evaluation_share(whole),
        "py-spy, training thread",
    )
    return Finding("evaluation-heavy", CAUSE, [share], [_rarer(whole, BY_STEP, place)], place)


def _in_run(whole: Whole, speedups: tuple[float, float, float]) -> tuple[float, float, float]:
    """Speedups of training and evaluation together from these speedups of evaluation."""
    low, likely, high = (with_faster_evaluation(whole, one) for one in speedups)
    return low, likely, high


def _less(diagnosis: Diagnosis, loader: Loader | None, place: Location | None) -> list[Proposal]:
    """Remedies that evaluate less often; none if the run has too few evaluations."""
    loop, whole = diagnosis.loop, diagnosis.whole
    epochs = len(loop.epochs.batches) if loop is not None else whole.evaluations
    if whole.evaluations < SEVERAL:
        return []
    through = loader.through if loader is not None else []
    known = next((HOW[name] for name in through if name in HOW), None)
    return [_rarer(whole, known or (BY_EPOCH if epochs >= SEVERAL else BY_STEP), place)]


def _rarer(whole: Whole, how: tuple[str, str], place: Location | None) -> Proposal:
    text, snippet = how
    return replace(EVALUATION_SELDOM.at(place, snippet, text), factor=_in_run(whole, EVALUATION_RARER))


def _unrecorded(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """Remedies for an evaluation that records its graph for autograd."""
    scenario = diagnosis.evaluation.scenario if diagnosis.evaluation is not None else None
    if scenario is None:
        return []
    low, likely, high = (Change(compute=left, launch=left, idle=left) for left in UNRECORDED)
    nothing = Change(compute=0.0, launch=0.0, idle=0.0)
    proposal = replace(
        UNRECORD.at(place),
        factor=_in_run(diagnosis.whole, spread(scenario, low, likely, high)),
        most=with_faster_evaluation(diagnosis.whole, gain(scenario, nothing)),
    )
    return [proposal]


def _workers(diagnosis: Diagnosis, loader: Loader) -> list[Proposal]:
    """The validation loader makes its batches while the model waits."""
    own = diagnosis.evaluation
    if own is None or own.scenario is None or loader.num_workers or not waits(own):
        return []
    best = best_setting(own.scenario)
    if gain(own.scenario, best.change) < WORTH:
        return []
    setting = {
        "num_workers": best.workers, "prefetch_factor": best.prefetch, "persistent_workers": True,
    }  # fmt: skip
    proposal = replace(
        OWN_WORKERS.at(loader.location, loader_call(loader, **setting)),
        factor=_in_run(diagnosis.whole, spread(own.scenario, Change(), best.change, best.change)),
        treatments=(loader_with(loader, **setting),),
    )
    return [proposal]


FINDINGS = (
    Entry("host.checkpoint", checkpoint_blocking, needs=(loader_loop,), remedies=(CHECKPOINT_SELDOM, ASIDE)),
    Entry(
        "host.logging",
        logging_blocking,
        needs=(loader_loop,),
        remedies=(LOG_RARELY, FLUSH_RARELY, LOG_WRITER),
    ),
    Entry(CAUSE, evaluation_heavy, remedies=(EVALUATION_SELDOM, UNRECORD, OWN_WORKERS)),
)
