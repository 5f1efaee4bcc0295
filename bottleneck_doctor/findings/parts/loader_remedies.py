"""Remedies that build the loader with other arguments: more workers, fewer, none."""

from __future__ import annotations

from dataclasses import replace

from ...analyse.causes import gain
from ...analyse.predict import WORTH, best_setting, best_split, split_change, step_after
from ...analyse.replay import one_thread_longer, step_seconds
from ...analyse.scenario import THREADS_MARK
from ...analyse.shares import MOST
from ...analyse.threads import large_share
from ...model.diagnosis import Change, Diagnosis, Proposal
from ...model.loops import Loader
from ...model.report import Fix
from ...model.run import Treatment
from .pricing import spread
from .rewriting import loader_call
from .waits import PAYS, making_s

WORKERS = Proposal(
    id="workers-auto",
    title="make batches in worker processes",
    fix=Fix("start workers", "DataLoader(..., num_workers=2, prefetch_factor=2, persistent_workers=True)"),
    apply="hook",
    risk="memory grows with each worker; random augmentations draw from other streams",
)
IN_MEMORY = Proposal(
    id="cache-bytes-ram",
    title="read the data into memory once, before training",
    fix=Fix("all workers share it", 'shutil.copytree(data, "/dev/shm/data")      # then read from there'),
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
return torch.from_numpy(image), label       # uint8 from __getitem__: a quarter of float32
x = x.to(device).float().div_(255)          # in the loop, on the whole batch"""
SMALLER = Proposal(
    id="half-inputs",
    title="send smaller samples: bytes or half precision instead of float32",
    fix=Fix("return the smallest type that holds the data; convert the batch", BYTES),
    effort="hours",
    risk="the conversion moves into the loop, or onto the device; half precision rounds",
    basis="bound",
)

SERVED_SHARE = 0.3  # of a batch's making, from which a server decides what more workers bring (chosen)
MORE_AT_ONCE = 2.0  # times the requests at once that were measured; beyond that, nothing is known (chosen)
PIPES = "SerializationWrapper"  # what torch puts a data pipe into while it builds the loader


def on_loader(remedy: Proposal, loader: Loader, text: str = "", /, **arguments: object) -> Proposal:
    """The remedy for a loader that is built with other arguments: the call to write, and the treatment."""
    return replace(
        remedy.at(loader.location, loader_call(loader, **arguments), text),
        treatments=(loader_with(loader, **arguments),),
    )


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
    return [as_served(diagnosis, proposal)]


def as_served(diagnosis: Diagnosis, proposal: Proposal) -> Proposal:
    """The remedy of more workers; only a bound if they send a server many more requests at once than seen,
    or if a decoder's threads make the batch while the loop sleeps: a second decoder was not measured."""
    inputs, scenario, change = diagnosis.inputs, diagnosis.scenario, proposal.change
    if scenario is None or change is None:
        return proposal
    most = gain(scenario, change)
    helped = scenario.workers == 0 and inputs.cpu < MOST * inputs.wall and inputs.other_cpu > inputs.cpu
    if helped:
        most = min(most, diagnosis.step_s * scenario.cores / (inputs.cpu + inputs.other_cpu))
    asked = (change.workers or 0) > MORE_AT_ONCE * max(1, scenario.workers)
    if not helped and not (asked and inputs.network >= SERVED_SHARE * making_s(inputs)):
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
    title="keep cores for the model: fewer workers, and fewer threads of torch",
    fix=Fix(
        "let workers and threads together be no more than the cores",
        "torch.set_num_threads(1)\nDataLoader(..., num_workers=1, persistent_workers=True)",
    ),
    apply="hook~",
    risk="sums in another order change the last digits; a model that scales well gets slower",
)


def without_workers(diagnosis: Diagnosis, why: str, gain: float = PAYS) -> list[Proposal]:
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
    title = f"make batches in the loop itself, without the {loader.num_workers} worker{many}"
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
    title = f"{best} worker{many[0]} and {threads} thread{many[1]} of torch"
    treatments: tuple[Treatment, ...] = ()
    if loader is not None and loader.kind == "dataloader":
        treatments = loader_with(loader, num_workers=best), Treatment("threads", {"count": threads})
        said += "\n" + loader_call(loader, num_workers=best, persistent_workers=True)
    else:
        said += f"\nDataLoader(dataset, batch_size=None, num_workers={best}, persistent_workers=True)"
    proposal = replace(
        RESERVE.at(loader.location if loader is not None else diagnosis.source, said),
        title=f"keep cores for the model: {title}",
        treatments=treatments,
    )
    # the time with one thread is estimated, so that the worst case orders this remedy
    worst = (min(1.0, factor[0]), factor[0], factor[2])
    return [replace(proposal, factor=worst, most=factor[2], basis="bound")]
