"""The first three lines of a report: what limits the run, why, and what to do first, each with its number."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from ..model.code import Location
from ..model.report import Remedy, Report, ReportedFinding, Verdict, is_setting
from . import words
from .glossary import BOUNDS, RESOURCES, SEVERITIES, WAITING

WIDTH = 80
WORTH = 1.05  # a remedy that promises less is not the first thing to do [contract: such a run is balanced]
NOTABLE = 0.1  # of the step, from which a part is named rather than those after it
COMPUTING = {"forward", "backward", "optimizer", "loss", "zero_grad", "forward and own code"}
BUSY = {"device busy", *(f"{name} and its pauses" for name in ("forward", "backward", "optimizer"))}  # of one
# The parts of the step, or measured shares, that a cause or a kind of causes may take.
TAKEN = {
    "input": ["data wait"], "input.wait": ["data wait", "asleep_share"], "host.gc": ["garbage collection"],
    "input.oversubscribed": ["data wait", "held_share", "loop_queue_share"], "host.logging": ["logging"],
    "host.checkpoint": ["checkpoint"], "host.python": ["code", "python_share"], "model": ["model", "code"],
    "host.launch": ["launching", "launch_share", "operators"], "host.memory": ["paging_share", "io"],
    "host.sync": ["after readbacks"], "comm": ["waiting for other ranks", "communication"],
    "device": ["device busy"], "device.transfer": ["copies"], "device.memory": ["allocator"],
}  # fmt: skip
NAMES = {
    "asleep_share": "sleeping in the loop", "checkpoint": "saving checkpoints", "io": "waiting for memory",
    "held_share": "the loop's wait for a core", "loop_queue_share": "the loop's wait for a core",
    "code": "code of the loop", "python_share": "code of the loop", "logging": "writing logs",
    "launch_share": "calling operators", "operators": "computing in small operators", "model": "the model",
    "paging_share": "mapping memory", "launching": "waiting for launches", "copies": "waiting for copies",
    "after readbacks": "idling after readbacks", "communication": "waiting for other ranks",
    "allocator": "allocating device memory", "device busy": "work of the accelerator",
}  # fmt: skip
# What an accelerator waits for, by the pause that a cause or a kind of causes makes.
WAITS = {
    "input": ("data wait", "for batches"), "host.launch": ("launching", "for launches"),
    "host.sync": ("after readbacks", "after readbacks"), "device.transfer": ("copies", "for copies"),
    "device.memory": ("allocator", "for the allocator"),
    "comm": ("communication", "for exchanges between ranks"),
    "host.checkpoint": ("saving, logging", "while the loop saves"),
    "host.logging": ("saving, logging", "while the loop logs"),
}  # fmt: skip
PARTS = "of each step"  # with what a reason begins that knows no better
OF_DEVICE = {
    "device.throttled": ("clock_share", "{who} runs at {} of its highest clock"),
    "device.shared": ("foreign_busy_share", "other processes take {} of the time that {who} is busy"),
    "device.underfilled": ("sm_active_share", "the kernels fill {} of {who}'s multiprocessors"),
}
GPUS, TIMED = ("cuda", "xpu", "mps"), ("cuda", "xpu")
CLOCK = "the accelerator's clock"  # the source of its numbers
OF_RUN = {
    "input.worker_startup": ("starting workers", "stopping workers"),
    "host.checkpoint": ("checkpoints",),
}
# Why, by what a finding has measured; the first whose numbers are all known.
REASONS = (
    "{place} spends {fetch_written_s} a batch on writes to a disk",
    "{place}: {fetch_queue_share} of making a batch waits for a core",
    "{place}: workers and model want {wanted_cores} cores; there are {cores}",
    "{place}: drawing indices takes {draw_share} of the step",
    "{place}: receiving batches of {pipe_bytes} takes {hand_over_share} of the step",
    "{place}: collating is {collate_share} of making a batch",
    "{line} is {line_share} of making batches",
    "{place}: decoding is {decode_share} of a batch's CPU",
    "{place} picks {batch_samples} samples a batch one by one, {sample_cpu_s} each",
    "{place} reads {fetch_storage_bytes} a batch from a disk, in {fetch_storage_s}",
    "{place} waits {fetch_network_s} a batch for the network",
    "{place} sleeps {fetch_sleep_s} a batch",
    "{place} sleeps for {asleep_share} of the step",
    "{place} starts workers anew: {epoch_start_s} of each epoch",
    "{place} starts {workers_started} workers, in {worker_start_s}",
    "{place} saves {checkpoints} checkpoints, {checkpoint_s} each",
    "{place} logs {logging_calls_per_step} times a step, {logging_call_s} each",
    "{place} is where it writes: {written_share} of the loop's samples",
    "{place} {function} has {hottest_share} of the loop's samples",
    "{place} holds a lock that the loop waits for in {lock_wait_share} of its samples",
    "{place}: the optimizer takes {optimizer_share} of the step",
    "{place} evaluates for {evaluation_s} in all",
    "{place} takes {evaluation_fraction} of training and evaluation",
    "{slow_clock}: {slow_clock_share} of the highest",
    "{kernels} kernels a step, the median {median_kernel_s}; the loop issues them in {host_issue_s}",
    "{place} waits for the device; calls that do, in a step: {syncs}",
    "{place}: {slowest} needs {slowest_rank_s} a step, the fastest {fastest_rank_s}",
    "{slowest} needs {slowest_rank_s} of its own a step, the fastest rank {fastest_rank_s}",
    "{place}: exchanges take {exchange_share} of the step",
    "{place} loads with num_workers={num_workers}, {fetch_cpu_s} of CPU a batch",
    "{place} copies {pageable_bytes} a step from pageable memory, in {blocking_copies_s}",
    "{pageable_bytes} a step are copied from pageable memory, in {blocking_copies_s}",
    "{torch_threads} threads of torch share {cores} cores with other programs, which use {foreign_cores}",
    "threads of torch: {torch_threads}; cores of the job: {cores}",
    "{place} {function}: {called_share} of samples; {operators_per_step} operators a step, {launch_s} each",
    "operators in a step: {operators_per_step}, {launch_s} to call each",
)
# Causes that remedies of another kind may cure; each cause of the host stands alone.
SIDES = {"host.launch": "model", "host.memory": "model"}
CODE = re.compile(r"\(\)$|:\d+\b|^other lines|^code of ")  # parts that are the user's lines, or call them
LINE = re.compile(r" in (\S+:\d+.*?)(?:, (mostly .*))?$")
LESS = (re.compile(r" \([^).][^)]*\)"), re.compile(r"(?<=\d) .*(?= is \S+ % of making)"))  # left out first
CLAUSE = re.compile(
    r"(.*[^:,;])(?: \(|[:,;] | with workers$|[:,;]? (?:instead of|what Python|before|and read) )"
)


class Head(NamedTuple):
    """The three lines, the last as what to do and what that promises; ``ceiling``: that is an upper bound."""

    claim: str
    why: str
    first: str
    promise: str = ""
    ceiling: bool = False


def head_of(report: Report) -> Head:
    """The lines, made to fit ``WIDTH`` columns; the name of the bound goes before the first."""
    ranked = sorted(report.findings, key=lambda one: SEVERITIES.get(one.severity, 9))
    found = [one for one in ranked if one.cause == report.verdict.cause]
    claim = _claim(report, found)
    before = f"{needed}; " if (needed := _needed(report)) else ""
    why = _reason(report, found, claim, WIDTH - len(before))
    why = needed if needed and why.startswith(PARTS) else (before + why).removesuffix("; ")
    best = best_of(report)
    first = advice_of(report, best) if best is not None else (_without_remedy(report, found), "", False)
    return Head(words.plain(claim), words.plain(why), *first)


def bound_of(report: Report, verdict: Verdict | None = None) -> str:
    """What bounds the run, or a phase with that ``verdict``, in words of the device that it uses."""
    verdict, kind = verdict or report.verdict, report.device.kind if report.device is not None else ""
    if kind and verdict.cause in WAITING:
        return WAITING[verdict.cause]
    if kind not in ("", *GPUS) and verdict.bound == "gpu":
        return "accelerator-bound"
    return BOUNDS.get(verdict.bound, words.plain(verdict.bound))


def verdict_of(report: Report, verdict: Verdict | None = None) -> str:
    """``CPU-bound, input.preprocess``: of a report, or of a phase with that ``verdict``."""
    cause = (verdict or report.verdict).cause
    return bound_of(report, verdict) + (f", {words.plain(cause)}" if cause != "none" else "")


def best_of(report: Report) -> Remedy | None:
    """The first remedy that is expected to help."""
    return next((remedy for remedy in report.remedies if remedy.predicted_speedup.reach >= WORTH), None)


def _claim(report: Report, found: list[ReportedFinding]) -> str:
    verdict, ledger = report.verdict, {one.part: one.share for one in report.ledger}
    gains = {name: value for name, value in verdict.gain.items() if value is not None}
    if verdict.bound == "balanced" and gains:
        part = max(gains, key=gains.__getitem__)
        faster = ("an " if part in ("cpu", "gpu") else "") + f"infinitely fast {RESOURCES.get(part, part)}"
        return f"{faster} would gain {words.ratio(gains[part])} at most"
    if report.budget_of == "run" and verdict.cause in OF_RUN:
        parts = OF_RUN[verdict.cause]
        whole, steps = sum(ledger.get(part, 0.0) for part in parts), ledger.get("training steps", 0.0)
        return f"{parts[0]} takes {words.percent(whole)} of the run, training steps {words.percent(steps)}"
    shares, side = _shares(report, found), verdict.cause.partition(".")[0]
    if report.budget_of == "evaluation" or verdict.cause == "host.evaluation":
        metric = report.metrics.get("evaluation_fraction")
        share = ledger.get("evaluation", metric.value if metric is not None else None)
        waits = f"; {words.percent(shares['data wait'])} of it waits for batches" if side == "input" else ""
        return f"evaluation takes {words.percent(share)} of the run{waits}"
    if report.device is not None and (text := _of_device(report, shares, side)):
        return text
    part = _limiting(verdict, shares)
    number = words.percent(shares[part])
    text = f"{NAMES.get(part, part)} takes {number} of each step" if shares[part] else verdict.summary
    return f"{number} of each step waits for batches" if part == "data wait" and shares[part] else text


def _limiting(verdict: Verdict, shares: defaultdict[str, float]) -> str:
    """The part, or kind of parts, of the step that the cause takes."""
    taken = TAKEN.get(verdict.cause, TAKEN.get(verdict.cause.partition(".")[0], [""]))
    return next((one for one in taken if shares[one] >= NOTABLE), max(taken, key=shares.__getitem__))


def _of_device(report: Report, shares: defaultdict[str, float], side: str) -> str:
    """What an accelerator does, or waits for, by its own clock; "" where that does not tell. What the loop
    waits for by the host's clock is never called the accelerator's wait."""
    kind, cause = report.device.kind if report.device is not None else "", report.verdict.cause
    metrics = {name: one.value for name, one in report.metrics.items() if one.value is not None}
    who = "the GPU" if kind in GPUS else "the accelerator"
    if not _clocked(report):
        loop = f"the loop waits {words.percent(shares['data wait'])} of each step for batches"
        return f"{loop}; {who} was not timed" if side == "input" and shares["data wait"] else ""
    pause, what = WAITS.get(cause, WAITS.get(side, ("", "")))
    if shares[pause] >= (NOTABLE if cause != "host.launch" else 1e-9):  # else operators would be named
        does = "idles" if what.startswith(("after", "while")) else "waits"
        return f"{who} {does} {words.percent(shares[pause])} of the step {what}"
    metric, text = OF_DEVICE.get(cause, ("", ""))
    if shares[metric]:
        return text.format(words.percent(shares[metric]), who=who)
    busy = shares["model"] + shares["device busy"]
    if side != "device" or not busy:
        return ""
    mfu = f"; MFU {words.percent(metrics['mfu'])}" if "mfu" in metrics else ""
    return f"{who} computes {words.percent(busy)} of the step{mfu}"


def _clocked(report: Report) -> bool:
    """Whether the accelerator's own clock was read, rather than the loop's."""
    exposed = report.metrics.get("exposed_data_wait_fraction")
    return exposed is not None and exposed.value is not None and exposed.source == CLOCK


def _needed(report: Report) -> str:
    """The cores that workers need to feed an accelerator, where that is why it waits and they have fewer."""
    need, workers, cores, ranks = (
        value if isinstance(value, int | float) else 0.0
        for value in (
            report.metrics["cores_per_gpu"].value if "cores_per_gpu" in report.metrics else 0.0,
            *(report.environment.get(name) for name in ("num_workers", "cores", "trainers")),
        )
    )
    have = min(workers, cores / max(1.0, ranks))
    short = report.verdict.cause.startswith("input.") and report.verdict.bound == "cpu" and 0 < have < need
    return f"workers need {need:.1f} cores and have {words.count(have)}" if short else ""


def _shares(report: Report, found: list[ReportedFinding]) -> defaultdict[str, float]:
    """Shares of the step: metrics of findings, parts of the budget, and of these together the ``model`` and
    other ``code``; ``io`` is what infinitely fast I/O would save."""
    shares = defaultdict(float, io=1 - 1 / (report.verdict.gain.get("io") or 1.0))
    shares |= {one.metric: one.value or 0.0 for finding in found for one in finding.evidence}
    for part in report.budget:
        for kind in kinds_of(part.part):
            shares[kind] += part.share
    return shares


def kinds_of(part: str) -> set[str]:
    """What a part of the step is, by the names of ``TAKEN``."""
    name = part.removeprefix("idle: ").partition(":")[0]
    if name in COMPUTING:
        return {name, "model", "operators"}
    return {name, "code"} if CODE.search(part) else {name}


def culprits(report: Report) -> set[str]:
    """The parts of the step, or of the run, that the verdict is about, by name."""
    verdict = report.verdict
    if verdict.bound in ("balanced", "inconclusive"):
        return set()
    if report.budget_of == "run" and verdict.cause in OF_RUN:
        return set(OF_RUN[verdict.cause])
    pause, _ = WAITS.get(verdict.cause, WAITS.get(verdict.cause.partition(".")[0], ("", "")))
    limits = {_limiting(verdict, _shares(report, [])), pause} - ({"operators"} if _clocked(report) else set())
    limits |= {"model"} if "device busy" in limits and _clocked(report) else set()
    if "operators" in limits and "code" in kinds_of(max(report.budget, key=lambda one: one.share).part):
        limits = {"code"}  # the model's operators take less, so that most are called there
    known = [one for one in report.budget if limits & kinds_of(one.part)]
    found = {one.part for one in known if one.share >= min(NOTABLE, known[0].share)}
    return found | {"evaluation"} if verdict.cause == "host.evaluation" else found


def _reason(report: Report, found: list[ReportedFinding], claim: str, width: int) -> str:
    """By a template, else by evidence that the claim lacks, else by the largest parts of the step."""
    if report.verdict.bound == "inconclusive":
        return ""
    known = [_facts(one, found) for one in found] if report.verdict.cause != "model.compute" else []
    for template in REASONS:
        for facts in known:
            if set(re.findall(r"{(\w+)}", template)) <= {*facts}:
                text = template.format_map(facts)
                for less in LESS:
                    text = less.sub("", text) if len(text) > width else text
                return text
    for facts, finding in zip(known, found, strict=False):
        for one in finding.evidence:
            number = facts.get(one.metric, claim)
            if "place" in facts and number not in claim and one.metric != "data_wait_fraction":
                return f"{one.text.partition(',')[0]}: {number} ({facts['place']})"
    apart = ("idle: ", "device busy") if report.device is not None else ()  # in the claim already
    told = [one for one in report.budget if not one.part.startswith(apart)]
    parts = [f"{one.part} {words.percent(one.share)}" for one in told[:2] if one.share >= NOTABLE]
    texts = [f"{PARTS}: {', '.join(parts)}"] if parts else []
    if report.device is not None and (kernels := report.device.first.partition("its kernels: ")[2]):
        texts.append(f"kernels: {kernels}")
    elif parts and report.operators and report.budget[0].part in COMPUTING:
        most = report.operators[0]
        texts.append(f"of operators: {re.split('[:# ]', most.name)[-1]} {words.percent(most.share)}")
    text = "; ".join(texts)
    shorter = [text, re.sub(", [^,;]*$", "", text), text.partition(";")[0], text.partition(",")[0]]
    return next((one for one in shorter if len(one) <= WIDTH), words.short(text, WIDTH))


def _facts(finding: ReportedFinding, found: list[ReportedFinding]) -> dict[str, str]:
    """Numbers of a finding, its ``place``, and the hottest ``line`` of making batches with what it does."""
    does = [one.text[3:] for other in found for one in other.evidence if one.text.startswith("it ")]
    where = finding.location
    facts = {"place": _short(where), "function": f"({where.function})"} if where is not None else {}
    for one in finding.evidence:
        if one.value is not None:
            facts[one.metric] = words.quantity(one.metric, one.value)
        if one.metric == "slow_clock_share":
            facts["slow_clock"] = one.text
        if one.metric == "slowest_rank_s":
            facts["slowest"] = one.text.rpartition("(")[2].rstrip(")")
        if one.metric == "line_share" and (named := LINE.search(one.text)):
            inside = named[2] or ("one element at a time" if does else "")
            note = next((text for text in does if "in a loop" not in text), inside)
            facts["line"] = f"{named[1]} ({note})" if note else named[1]
    return facts


def _short(location: Location) -> str:
    return f"{location.file.rpartition('/')[2]}:{location.line}"


def _side(cause: str) -> str:
    return SIDES.get(cause, cause if cause.startswith("host.") else cause.partition(".")[0])


def _without_remedy(report: Report, found: list[ReportedFinding]) -> str:
    """What to do first where no remedy is expected to help."""
    cause = report.verdict.cause
    if report.verdict.bound == "inconclusive":
        return ""
    if cause == "none":
        return "nothing to do"
    if cause == "device.compute" and not _clocked(report):
        timed = report.device is None or report.device.kind in TIMED
        ways = "no remedy is known: its own time was not measured"
        return ways if timed else "do first: profile the device with its own tools"
    if report.remedies:
        return "no remedy in the list gains 5 % or more"
    if _needed(report):
        return "do first: give the job more cores, or make batches cheaper"
    looks = [_short(one.location) for one in found if one.location and _side(cause) != "model"]
    looks += [
        f"{_short(one.location)} ({words.percent(one.own_share)} of samples)"
        for one in report.functions if one.users and one.role == "trainer" and cause != "device.compute"
    ]  # fmt: skip
    waits = report.device is not None and cause in WAITING  # for what no faster hardware would bring
    rest = [f"; start at {one}" for one in looks]
    rest += [": computing less, or faster hardware, would help" * (not waits)]
    return words.short(words.plain("no remedy is known" + rest[0]), WIDTH)


def advice_of(report: Report, best: Remedy) -> tuple[str, str, bool]:
    """To apply this remedy, what that promises, and whether this is a ceiling."""
    cause, speedup, title = report.verdict.cause, best.predicted_speedup, words.plain(best.title)
    treated = next((one.cause for one in report.findings if one.id == best.finding), cause)
    answers = _side(treated) == _side(cause)
    promises = [f"; not predicted ({words.promised(speedup)})", "; not predicted"]
    if speedup.likely is not None:
        left = max(1, round(60 / speedup.likely))
        hours = [f" (an hour becomes {words.counted(left, 'minute')})", f" (1 h becomes {left} min)", ""]
        if speedup.low < 1:
            hours = [f" ({words.ratio_range(speedup.low, speedup.high)})", ""]
        promises = [f", {words.ratio(speedup.likely)}{hour}" for hour in hours]
    lead, titles = "do first: " if answers else "try: ", [title]
    lead = "a setting to try: " if is_setting(best.id, speedup) else lead
    while (less := CLAUSE.match(titles[-1])) is not None:
        titles.append(less[1])
    fitting = [(lead + one, more) for more in promises for one in titles if len(lead + one + more) <= WIDTH]
    cut = words.short(lead + titles[-1], WIDTH - len(promises[-1])), promises[-1]
    return *(fitting or [cut])[0], speedup.likely is None
