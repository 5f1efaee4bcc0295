"""Fewer workers, with the model's threads no more than the cores, or none: remedies of several findings."""

from __future__ import annotations

from dataclasses import replace

from ...analyse.predict import best_setting, best_split, split_change, step_after
from ...analyse.replay import one_thread_longer, step_seconds
from ...analyse.scenario import THREADS_MARK
from ...analyse.threads import large_share
from ...model.diagnosis import Change, Diagnosis, Proposal
from ...model.report import Fix
from ...model.run import Treatment
from .advice import MOST, PAYS, loader_call, loader_with, making_s, on_loader, spread

# Of a step that was measured beside workers, and is replayed without them: cautious, likely, at best (ours,
# measured 0.26, 0.28, 0.48, 0.58, 0.63, 0.78, 0.8: workers crowd the cores, what they send is mapped anew)
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
        return []  # whoever makes batches sleeps, and leaves the model its cores
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
    # what one thread takes is a guess, and it is ordered by the worst one
    worst = (min(1.0, factor[0]), factor[0], factor[2])
    return [replace(proposal, factor=worst, most=factor[2], basis="bound")]
