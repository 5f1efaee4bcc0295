"""Remedies that several findings propose: their price, the loader's new call, workers, samples in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean
from textwrap import fill, indent

from ..analyse.attribution import attribute
from ..analyse.predict import WORTH, best_setting, best_split, gain, split_change, step_after
from ..analyse.replay import one_thread_longer, step_seconds
from ..analyse.scenario import THREADS_MARK
from ..analyse.shares import MOST, NOTICED
from ..analyse.threads import large_share
from ..model.code import Argument
from ..model.diagnosis import Change, Diagnosis, Inputs, Proposal, Scenario
from ..model.loops import POSITIONS, TRAINER_NAMES, Loader, without_workers
from ..model.report import Fix
from ..model.run import ENVIRONMENT, Treatment
from ..source.files import below_library
from .facts import PAYS, making_s, readings, switches
from .registry import snippet

Factor = tuple[float, float, float]  # speedups: cautious, likely, hopeful
# What is left of a cost after a remedy whose effect was not measured in this run: cautious, likely, hopeful.
PARTLY = (1.0, 0.5, 0.1)  # elsewhere it brought anything between nothing and nearly all (chosen)
MOSTLY = (0.5, 0.1, 0.0)  # elsewhere it removed nearly all (chosen)
WHOLLY = (0.5, 0.0, 0.0)  # it removes all; at worst, half of what was measured was something else (chosen)
NOTHING = (1.0, 1.0, 1.0)  # a speedup: no step gets faster; a failure is averted, or the run is shorter
COOL = Proposal(
    id="cooling-or-power",
    title="give the device the cooling and power that it was built for",
    fix=Fix("find out which limit it meets", "nvidia-smi -q -d PERFORMANCE,POWER  # or amd-smi metric"),
    apply="admin",
    effort="days",
    risk="limits may be set on purpose: ask who runs the machine",
)
LARGER = Proposal(
    id="bigger-batch",
    title="use larger batches",
    fix=Fix("then scale the learning rate and validate again", "DataLoader(..., batch_size=128)"),
    basis="bound",
    effort="hours",
    risk="another training: learning rate, schedule and generalisation change; the gain is per sample",
)


def left_of(share: float, lefts: Iterable[float]) -> tuple[float, ...]:
    """What is left of a whole if so much is left of its part."""
    return tuple(1 - min(1.0, share) * (1 - left) for left in lefts)


def each(**lefts: Iterable[float]) -> list[Change]:
    """A change for each assumption, from what is left of each cost under all of them."""
    return [Change(**dict(zip(lefts, row, strict=True))) for row in zip(*lefts.values(), strict=True)]


def spread(scenario: Scenario, low: Change, likely: Change, high: Change) -> Factor:
    """Speedups of one remedy under a cautious, a likely and a hopeful assumption of what it changes."""
    first, *rest = sorted(gain(scenario, change) for change in (low, likely, high))
    return first, rest[0], rest[1]


def priced(remedy: Proposal, scenario: Scenario, *changes: Change, most: Change | None = None) -> Proposal:
    """The remedy with its speedups under three changes, and at most that of ``most``."""
    limit = remedy.most if most is None else gain(scenario, most)
    return replace(remedy, factor=spread(scenario, *changes), most=limit)


def capped(remedy: Proposal, share: float) -> Proposal:
    """The remedy with no speedup above the one of a place without cost that has this share of the time."""
    most = 1 / max(1 - share, 1e-3)
    low, likely, high = (min(most, one) for one in remedy.factor or NOTHING)
    return replace(remedy, factor=(low, likely, high), most=min(most, remedy.most or most))


LINE = 72  # columns, for a terminal of 80 that indents it; a longer call has a line for each argument
UNPACKED = ("*", "**")
PLAIN = re.compile(r"-?\d+(\.\d+)?|True|False|None")
SURELY_OTHER = 1  # unnamed argument after the data set, of a library's class, is taken for the batch size
# Frameworks that rebuild the user's loader: where the user's own call is.
ELSEWHERE = {
    "lightning": "in train_dataloader() of the LightningDataModule or LightningModule",
    "pytorch_lightning": "in train_dataloader() of the LightningDataModule or LightningModule",
    "accelerate": "the one given to accelerator.prepare()",
}


# The argument of the framework that owns the training loop; "bigger-batch" is that of several ranks.
OWN_ARGUMENTS = snippet("workers", "OWN_ARGUMENTS")


def in_framework(diagnosis: Diagnosis, remedy: Proposal, k: int = 2) -> Proposal:
    """The remedy as an argument of the framework that owns the training loop, where one does that has it."""
    owners = set(diagnosis.loader.through) if diagnosis.loader is not None else set[str]()
    samples = attribute(diagnosis.profile, diagnosis.loop).own
    owners |= {below_library(one.stack.frames)[0] for one in samples if not one.line}
    about = remedy.id.replace("ddp-no-sync", "bigger-batch")
    for known, owner, line in (row.split(" ", 2) for row in OWN_ARGUMENTS.splitlines()):
        if known == about and {owner, f"pytorch_{owner}"} & owners:
            return remedy.at(remedy.fix.location, line.format(k=k), "the framework has an argument for it")
    return remedy


class Code(str):
    """A value that is no literal, as it stands in source: ``collate_fn=Code("collate")``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class CallArgument:
    """An argument of the new call; ``note`` says what became of it, "" where nothing did."""

    text: str
    name: str = ""
    note: str = ""


def loader_call(loader: Loader, **changed: object) -> str:
    """The user's own call with the changed arguments put in and marked; a comment says what could not be
    put in: names that ``**options`` may hold already, or a loader that a framework builds."""
    wanted = {name: repr(value) for name, value in changed.items()}
    if loader.arguments.get("prefetch_factor", "None") == "None" and changed.get("prefetch_factor") == 2:
        del wanted["prefetch_factor"]  # torch's default
    if loader.call is None and loader.through:
        return _by_framework(loader.through, wanted)
    if loader.call is None:
        dataset = [wanted.pop("dataset")] if "dataset" in wanted else []
        known = loader.arguments | without_workers(wanted, loader.arguments)
        return _shortened("DataLoader", known, *dataset)
    names = _names(loader.call.arguments, foreign=bool(loader.through))
    wanted = without_workers(wanted, names)
    pairs = zip(loader.call.arguments, names, strict=True)
    pieces = [_piece(one, name, wanted, loader.arguments.get(name, "")) for one, name in pairs]
    missing = {name: value for name, value in wanted.items() if name not in names}
    if set(names) & set(UNPACKED) or names.count("") > SURELY_OTHER:  # names may be given in there
        return _told(missing, names) + _laid_out(loader.call.function, pieces)
    new = [CallArgument(f"{name}={value}", name, "new") for name, value in missing.items()]
    return _laid_out(loader.call.function, pieces + new)


def _names(arguments: list[Argument], foreign: bool) -> list[str]:
    """The name of each argument, ``*``, ``**``, or "" for positional ones of another library's class."""
    first = POSITIONS[:1] if foreign else POSITIONS
    if any(one.name == "*" for one in arguments):
        first = ()
    return [one.name or (first[place] if place < len(first) else "") for place, one in enumerate(arguments)]


def _piece(one: Argument, name: str, wanted: dict[str, str], known: str) -> CallArgument:
    """``known`` is the argument's value in the run; the note quotes it if it is a plain literal."""
    value = wanted.get(name, one.text) if name not in UNPACKED else one.text
    value = one.text if value == known else value  # it has this value already
    was = known if PLAIN.fullmatch(known) else one.text
    lead = one.name if one.name in UNPACKED else f"{one.name}=" if one.name else ""
    room = LINE - len(f"    {lead}{value},  # was ")
    was = was if len(was) <= room else was[: room - 4] + " ..."
    note = "" if value == one.text else f"was {was}"
    return CallArgument(lead + (value if room >= -len("  # was ") else "..."), name, note)


def _laid_out(function: str, pieces: list[CallArgument]) -> str:
    call = f"{function}({', '.join(piece.text for piece in pieces)})"
    new = ", ".join(piece.name for piece in pieces if piece.note == "new")
    notes = [f"{piece.name} {piece.note}" for piece in pieces if piece.note not in ("", "new")]
    comment = "; ".join(notes + ([f"new: {new}"] if new else []))
    line = f"{call}  # {comment}" if comment else call
    if len(line) <= LINE:
        return line
    if max(len(call), len(comment) + 2) <= LINE:
        return f"# {comment}\n{call}"
    rows = [f"    {piece.text}," + (f"  # {piece.note}" if piece.note else "") for piece in pieces]
    return "\n".join([f"{function}(", *rows, ")"])


def _told(missing: dict[str, str], names: list[str]) -> str:
    if not missing:
        return ""
    where = "what is unpacked below" if set(names) & set(UNPACKED) else "the call below"
    return _comment(f"set in {where}: {_listed(missing)}") + "\n"


def _comment(text: str) -> str:
    return indent(fill(text, LINE - 2, break_long_words=False), "# ")


def _by_framework(through: list[str], wanted: dict[str, str]) -> str:
    """How to set the arguments in the framework that builds the loader."""
    if "transformers" in through:
        known = {TRAINER_NAMES[name]: value for name, value in wanted.items() if name in TRAINER_NAMES}
        rest = {name: value for name, value in wanted.items() if name not in TRAINER_NAMES}
        where = "in what get_train_dataloader() of the Trainer returns"
        lines = [_shortened("TrainingArguments", known)] if known else []
        return "\n".join(lines + ([_comment(f"{where}: {_listed(rest)}")] if rest else []))
    if "skorch" in through:
        return _shortened("NeuralNet", {f"iterator_train__{name}": wanted[name] for name in wanted})
    where = next((ELSEWHERE[name] for name in through if name in ELSEWHERE), "")
    if where:
        return f"# {where}\n{_shortened('DataLoader', wanted)}"
    return _comment(f"{through[-1]} builds this DataLoader; let it have: {_listed(wanted)}")


def _shortened(function: str, arguments: dict[str, str], *before: str) -> str:
    named = (f"{name}={value}" for name, value in arguments.items())
    return _laid_out(function, [CallArgument(one) for one in (*before, "...", *named)])


def _listed(arguments: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in arguments.items())


UNBATCHED = """\
DataLoader(
    DATASET, batch_size=None, num_workers={}, persistent_workers=True)"""
WORKERS = Proposal(
    id="workers-auto",
    title="make batches in worker processes",
    fix=Fix("start workers", "DataLoader(..., num_workers=2, persistent_workers=True)"),
    apply="hook",
    risk="memory grows with each worker; random augmentations draw from other streams",
)
IN_MEMORY = Proposal(
    id="cache-bytes-ram",
    title="read the data into memory once, before training",
    fix=Fix("all workers share it; read from there", 'import shutil; shutil.copytree(DATA, "/dev/shm/data")'),
    risk="needs memory for all of it; the start takes as long as reading everything once",
)
STAGE = Proposal(
    id="stage-to-fast-storage",
    title="copy the data set to a local disk before training",
    fix=Fix("copy it once and read the copy", "rsync -a --info=progress2 /slow/dataset/ /fast/dataset/"),
    apply="convert",
    effort="hours",
    risk="needs the room, and the time of one copy; a container's own layer may be the slow disk again",
    basis="bound",
)
BYTES = """\
return torch.from_numpy(IMAGE), LABEL  # uint8, from __getitem__
X = X.to(DEVICE).float().div_(255)  # in the loop, on the whole batch"""
SMALLER = Proposal(
    id="half-inputs",
    title="send smaller samples: bytes or half precision instead of float32",
    fix=Fix("return the smallest type that holds the data; convert the batch", BYTES),
    effort="hours",
    risk="the conversion moves into the loop, or onto the device; half precision rounds",
    basis="bound",
)

SLACK_CORES = 0.5  # by which workers and threads may exceed the cores: no worker is always busy (chosen)
SPINS_S = 0.007  # for which a thread of libgomp waits awake after its work (measured 6.4 to 8 ms on Zen 4)
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
WITH_PASSIVE = "# in the shell: OMP_WAIT_POLICY=PASSIVE python train.py"
SERVED_SHARE = 0.3  # of a batch's making, from which a server decides what more workers bring (chosen)
MORE_AT_ONCE = 2.0  # times the requests at once that were measured; beyond that, nothing is known (chosen)
PIPES = "SerializationWrapper"  # what torch puts a data pipe into while it builds the loader


def on_loader(remedy: Proposal, loader: Loader, text: str = "", /, **arguments: object) -> Proposal:
    """The remedy for a loader that is built with other arguments: the call to write, and the treatment."""
    call, text = loader_call(loader, **arguments), text or remedy.fix.text
    if loader.call is None and loader.through and "\n" in call:
        flat = " ".join(line.strip() for line in call.splitlines() if not line.startswith("#"))
        text += f": {flat}".replace("( ", "(").replace(", )", ")") if flat else ""
    return replace(remedy.at(loader.location, call, text), treatments=(loader_with(loader, **arguments),))


ITERABLE = "; an iterable data set must give each worker a part of its own, or samples come repeatedly"


def more_workers(diagnosis: Diagnosis, streams: float | None = None, title: str = "") -> list[Proposal]:
    """The loader setting that the replay likes best, with ``streams`` reads served side by side at most."""
    loader, scenario = diagnosis.loader, diagnosis.scenario
    if loader is None or scenario is None or loader.kind != "dataloader":
        return []
    reading = replace(scenario, streams=streams or scenario.streams)
    best = best_setting(reading)
    if best.step_s > step_after(reading, Change(startup=0.0)) / WORTH:
        return []  # it would only gain from persistent workers, which another remedy offers
    count = "one worker process" if best.workers == 1 else f"{best.workers} worker processes"
    proposal = replace(
        on_loader(WORKERS, loader, num_workers=best.workers, prefetch_factor=best.prefetch,
                  persistent_workers=True),
        title=title or f"wait side by side: make batches in {count}",
        change=replace(best.change, streams=streams),
        risk=WORKERS.risk + (ITERABLE if loader.dataset_kind == "iterable" else ""),
    )  # fmt: skip
    return [as_served(diagnosis, sharing_cores(diagnosis, proposal, best.workers))]


def sharing_cores(diagnosis: Diagnosis, proposal: Proposal, workers: int) -> Proposal:
    """The remedy of more workers; if they share cores with the model's threads, these are set to sleep while
    they wait. By default they spin, after a step too, and slow the workers down: two workers on two cores
    brought ×0.96 to ×1.21 in four trainings, and ×1.29 to ×1.57 with threads that sleep."""
    scenario, known = diagnosis.scenario, switches(diagnosis)
    if scenario is None or diagnosis.host.accelerated or scenario.threads < THREADS_MARK:
        return proposal
    chosen = known is not None and PASSIVE.keys() & known.environment.keys()  # by the user
    shared = workers + scenario.threads > scenario.cores + SLACK_CORES
    computing = diagnosis.inputs.cpu >= MOST * making_s(diagnosis.inputs)
    spun_s = SPINS_S + fmean(one.compute for one in scenario.costs)
    if chosen or not (shared and computing and spun_s >= NOTICED * diagnosis.step_s):
        return proposal
    fix = replace(proposal.fix, snippet=f"{proposal.fix.snippet}\n{WITH_PASSIVE}")
    treatments = proposal.treatments and (*proposal.treatments, Treatment(ENVIRONMENT, dict(PASSIVE)))
    title = f"{proposal.title}, with OMP_WAIT_POLICY=PASSIVE"
    return replace(proposal, title=title, fix=fix, treatments=treatments)


def as_served(diagnosis: Diagnosis, proposal: Proposal) -> Proposal:
    """The remedy of more workers; only a bound if they send a server many more requests at once than seen, if
    they write, in turn, or if a decoder's threads work while the loop sleeps: a second was not measured."""
    inputs, scenario, change = diagnosis.inputs, diagnosis.scenario, proposal.change
    if scenario is None or change is None:
        return proposal
    most = gain(scenario, change)
    helped = scenario.workers == 0 and inputs.cpu < MOST * inputs.wall and inputs.other_cpu > inputs.cpu
    if helped:
        most = min(most, diagnosis.step_s * scenario.cores / (inputs.cpu + inputs.other_cpu))
    asked = (change.workers or 0) > MORE_AT_ONCE * max(1, scenario.workers)
    served = not asked or inputs.network < SERVED_SHARE * making_s(inputs)
    if served and not helped and not inputs.written:
        return proposal
    return replace(
        proposal, change=None, factor=(1.0, min(most, MORE_AT_ONCE), most), most=most, basis="bound"
    )


def loader_with(loader: Loader, **arguments: object) -> Treatment:
    """The treatment that builds this loader with other arguments."""
    return Treatment("loader", {"where": meant(loader), "arguments": arguments})


def meant(loader: Loader) -> dict[str, object] | None:
    """How a treatment identifies this loader among all that the script builds, even on one line."""
    place = loader.location
    if place is None:
        return None
    where: dict[str, object] = {"file": place.file, "line": place.line, "batch_size": loader.batch_size}
    if not loader.dataset.endswith(PIPES):
        where["dataset"] = loader.dataset
    if loader.dataset_kind == "map":
        where |= {"length": loader.dataset_length, "sampler": loader.sampler}
    return {name: value for name, value in where.items() if name == "batch_size" or value}


# Share of the replayed step without workers that is left: cautious, likely, at best (chosen; measured 0.26,
# 0.28, 0.48, 0.58, 0.63, 0.78, 0.8: workers compete for cores, and pages of what they send are mapped anew)
LEFT_ALONE = (1.0, 0.6, 0.25)
FEWER = Proposal(
    id="workers-auto",
    title="make batches in fewer worker processes, or in the loop itself",
    fix=Fix("no more workers than pay for themselves", "DataLoader(..., num_workers=0)"),
    apply="hook",
)
RESERVE = Proposal(
    id="reserve-cores",
    title="use fewer workers and fewer threads of torch, which leaves cores for the model",
    fix=Fix(
        "let workers and threads together be no more than the cores",
        "torch.set_num_threads(1)\nDataLoader(..., num_workers=1, persistent_workers=True)",
    ),
    apply="hook~",
    risk="sums in another order change the last digits; a model that scales well gets slower",
)


def no_workers(diagnosis: Diagnosis, why: str, gain: float = PAYS) -> list[Proposal]:
    """No workers, where the replay finds that ``gain`` times as fast as any number of them."""
    scenario, loader = diagnosis.scenario, diagnosis.loader
    if scenario is None or loader is None or loader.kind != "dataloader" or not loader.num_workers:
        return []
    alone_s = step_after(scenario, Change(workers=0, startup=0.0))
    if alone_s >= best_setting(scenario).step_s / gain:
        return []
    now_s = step_seconds(scenario)
    low, likely, high = (now_s / (left * alone_s) for left in LEFT_ALONE)
    many = "" if loader.num_workers == 1 else "s"
    title = f"drop the {loader.num_workers} worker{many}: make batches in the loop itself"
    return [replace(on_loader(FEWER, loader, why, num_workers=0), title=title, factor=(low, likely, high))]


def reserve_cores(diagnosis: Diagnosis) -> list[Proposal]:
    """As many workers and as few threads as the replay likes best together; nothing where no fewer threads
    are, or where they gain nothing beyond what workers alone would."""
    scenario, loader = diagnosis.scenario, diagnosis.loader
    if scenario is None or scenario.threads < THREADS_MARK or diagnosis.host.accelerated:
        return []
    if diagnosis.inputs.cpu < MOST * making_s(diagnosis.inputs):
        return []  # the workers mostly sleep, and leave the model its cores
    large = large_share(diagnosis.profile, diagnosis.loop)
    wide = 1 + (1.0 if large is None else large) * (scenario.threads - 1)
    longer = (wide, one_thread_longer(wide), 1.0)
    best, threads = best_split(scenario, longer[1])
    changes = [split_change(scenario, best, threads, one) for one in longer]
    factor = spread(scenario, *changes)
    if factor[1] < PAYS * step_seconds(scenario) / best_setting(scenario).step_s:
        return []
    said = f"torch.set_num_threads({threads})"
    many = ["s" if count > 1 else "" for count in (best, threads)]
    title = f"use {best} worker{many[0]} and {threads} thread{many[1]} of torch"
    treatments: tuple[Treatment, ...] = ()
    if loader is not None and loader.kind == "dataloader":
        treatments = loader_with(loader, num_workers=best), Treatment("threads", {"count": threads})
        said += "\n" + loader_call(loader, num_workers=best, persistent_workers=True)
    else:
        said += "\n" + UNBATCHED.format(best)
    if scenario.workers:
        said += f"\n# or change neither: let threads that wait sleep\n{WITH_PASSIVE}"
    proposal = replace(
        RESERVE.at(loader.location if loader is not None else diagnosis.source, said),
        title=f"{title}, which leaves cores for the model",
        treatments=treatments,
    )
    # the time with one thread is estimated, so that the worst case orders this remedy
    worst = (min(1.0, factor[0]), factor[0], factor[2])
    return [replace(proposal, factor=worst, most=factor[2], basis="bound")]


def keeping(diagnosis: Diagnosis) -> tuple[Treatment, ...]:
    """The treatment that keeps this loader's finished samples in memory, up to ``room_to_keep`` bytes."""
    loader, room = diagnosis.loader, room_to_keep(diagnosis)
    if loader is None or not room:
        return ()
    return (Treatment("cache", {"where": meant(loader), "bytes": int(room)}),)


MORE_MEMORY = Proposal(
    id="more-ram",
    title="give the job more memory",
    fix=Fix(
        "raise the container's limit", "docker run --memory=64g ...  # kubernetes: resources.limits.memory"
    ),
    apply="admin",
    basis="bound",
)
KEEP_SHARE = 0.5  # of the memory allowed, at most, for samples kept in it (chosen)
COPY_S_PER_BYTE = 1 / 3e9  # CPU to take a sample that lies in memory (chosen: a third of what a core copies)
TAKE_S = 5e-6  # and per sample for Python to find it (measured: indexing a tensor)


def room_to_keep(diagnosis: Diagnosis) -> float:
    """Bytes that samples or files may take in memory; 0 where its size is not known."""
    machine = diagnosis.profile.machine
    known = [size for size in (machine.memory_bytes, machine.memory_limit_bytes) if size]
    return KEEP_SHARE * min(known, default=0)


def fits_memory(diagnosis: Diagnosis, sample_bytes: float) -> bool:
    """Whether all samples, kept in memory, leave half of it free; False where either size is not known."""
    length = diagnosis.loader.dataset_length if diagnosis.loader is not None else None
    return 0 < (length or 0) * sample_bytes <= room_to_keep(diagnosis)


def remembering(inputs: Inputs, sample_bytes: float, spared_s: float) -> Change:
    """Samples stay in memory: ``spared_s`` of CPU per batch, and every wait, become a copy out of memory."""
    fetching = inputs.fetching
    taking = inputs.samples * (TAKE_S + sample_bytes * COPY_S_PER_BYTE)
    left = max(0.0, fetching - spared_s) + taking
    return Change(cpu=min(1.0, left / fetching), storage=0.0, network=0.0, wait=0.0)


def memory_left(diagnosis: Diagnosis) -> float | None:
    """Bytes that the job could still use: what the machine or its own limit leaves, whichever is less."""
    series, machine = diagnosis.profile.series, diagnosis.profile.machine
    available = min((value for _, value in readings(series, "memory_available_bytes")), default=None)
    used = max((value for _, value in readings(series, "job_rss_bytes")), default=None)
    known = [] if available is None else [available]
    if machine.memory_limit_bytes is not None and used is not None:
        known.append(max(0.0, machine.memory_limit_bytes - used))
    return min(known, default=None)
