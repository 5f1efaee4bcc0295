"""From a report to its document: every number formatted as text, every foreign string escaped."""

from __future__ import annotations

import re
import shlex
import signal

from ..model.code import Location
from ..model.report import (
    DeviceSummary,
    HotFunction,
    HotOperator,
    Metric,
    Remedy,
    Report,
    ReportedFinding,
    RunSummary,
    Verdict,
    is_setting,
)
from ..model.run import Announcement
from . import words
from .document import (
    Bar,
    Document,
    EvidenceLine,
    FindingBlock,
    HotRow,
    Hottest,
    Lengths,
    MetricRow,
    RemedyBlock,
)
from .glossary import BASES, RESOURCES, SEVERITIES
from .head import BUSY, COMPUTING, bound_of, culprits, head_of, verdict_of


def staircase(shown: list[Remedy]) -> str:
    """``together: 1 ×2.5 → with 2 ×2.6 → with 4 ×2.7``; nothing where there is but one stair."""
    stairs: list[tuple[int, str]] = []
    for rank, remedy in enumerate(shown, start=1):
        if remedy.combined_speedup is not None:
            reached = words.ratio(remedy.combined_speedup)
            if not stairs or reached != stairs[-1][1]:
                stairs.append((rank, reached))
    if len(stairs) < 2:
        return ""
    texts = [f"{'with ' if place else ''}{rank} {reached}" for place, (rank, reached) in enumerate(stairs)]
    return f"together: {' → '.join(texts)}"


def is_alternative(remedy: Remedy, remedies: list[Remedy]) -> bool:
    """Whether it adds nothing to those above it in the replay. False for remedies that were not replayed, and
    for those that shorten the run outside its steps."""
    above = remedies[: remedies.index(remedy)] if remedy in remedies else []
    likely = remedy.predicted_speedup.likely
    replayed = remedy.scope == "step" and likely is not None and likely > 1
    return replayed and remedy.combined_speedup is None and any(one.combined_speedup for one in above)


IN_FILE = re.compile(r"(?<!\S)(/\S+):(\d{1,9})\b")  # a place within a text
INSTALLED = re.compile(r"^/.*/(?:site|dist)-packages/|^/.*/lib(?:64)?/(?=python3\.)")
ROLES = {"trainer": "the training thread", "worker": "the workers", "other": "other threads"}
# Of a function's samples. Where half are on a core, 16 or more of 20 are so once in 170 times (binomial).
AWAKE = 0.8
ASLEEP = 0.2


def _functions(functions: list[HotFunction], cwd: str, longest: int, least: float) -> Hottest:
    """Functions with their own share, which is ``least`` or more, and the share with all that they call."""
    taken = {one.role: one.n for one in functions}
    texts = [
        f"{words.counted(n, 'sample')} of {ROLES.get(role, words.plain(role))}" for role, n in taken.items()
    ]
    rows = [
        HotRow(
            words.percent(one.own_share),
            words.percent(one.total_share),
            words.plain(one.function) + (" (worker)" if one.role == "worker" else ""),
            place(one.location, cwd),
            one.own_share,
            _state(one.on_cpu_share),
        )
        for one in functions[:longest]
        if one.own_share >= least
    ]
    return Hottest(", ".join(texts), rows, len(functions) - len(rows))


def _state(on_cpu_share: float | None) -> str:
    """``on CPU``, ``blocked``, ``mixed, 40 % on CPU``; empty where it was not seen."""
    if on_cpu_share is None:
        return ""
    if ASLEEP < on_cpu_share < AWAKE:
        return f"mixed, {words.percent(on_cpu_share)} on CPU"
    return "on CPU" if on_cpu_share >= AWAKE else "blocked"


def _operators(operators: list[HotOperator], longest: int, least: float) -> Hottest:
    """Operators with their share of all operators' own time, and that time: the accelerator's, where it
    computed them, else the CPU's."""
    operators = [one for one in operators if one.share > 0]  # on a GPU: that launch none
    device = any(one.self_device_s for one in operators)
    times = [one.self_device_s if device else one.self_cpu_s for one in operators]
    whole, whose = words.seconds(sum(times)), "time of the accelerator" if device else "own CPU time"
    rows = [
        HotRow(
            words.percent(one.share),
            words.seconds(taken),
            words.plain(one.name),
            f"{words.count(one.calls)} {'call' if one.calls == 1 else 'calls'}",
            one.share,
        )
        for one, taken in list(zip(operators, times, strict=True))[:longest]
        if one.share >= least
    ]
    return Hottest(f"{whose} in one profiled step, {whole} in all", rows, len(operators) - len(rows))


def _environment(environment: dict[str, str | float | None], longest: int) -> list[tuple[str, str]]:
    """Name and value of the entries that have one."""
    known = [(name, value) for name, value in environment.items() if value is not None]
    return [
        (
            words.plain(name).replace("_bytes", "").replace("_", " "),
            words.plain(value) if isinstance(value, str) else words.quantity(name, value),
        )
        for name, value in known[:longest]
    ]


def place(location: Location | None, cwd: str) -> str:
    """File and line, seen from where the run was started; a library's or Python's from where those lie."""
    if location is None:
        return ""
    home = cwd.rstrip("/") + "/"
    file = location.file[len(home) :] if cwd and location.file.startswith(home) else location.file
    file = INSTALLED.sub("", file)
    return f"{words.plain(file)}:{location.line}"


# Computing in a step, from which operators are listed; training in a run, from which the run is not divided.
MUCH, READ = 0.25, "idle: after readbacks"
MOSTLY = 0.6
# A sweep's command line can be longer than its report.
LONGEST_COMMAND = 160


def compose(report: Report, lengths: Lengths) -> Document:
    """The document of a report."""
    remedies = report.remedies
    findings = sorted(report.findings, key=lambda finding: SEVERITIES.get(finding.severity, 9))
    users = [one for one in report.functions if one.users]
    foreign = [one for one in report.functions if not one.users]
    cwd, marked, named = report.run.cwd, culprits(report), _read_at(report)
    budget = [(named.get(one.part, one.part), one.share, one.s_per_step) for one in report.budget]
    computing = sum(one.share for one in report.budget if one.part in COMPUTING | BUSY)
    training = next((one.share for one in report.ledger if one.part == "training steps"), 0.0)
    computes, elsewhere = lengths.whole or computing >= MUCH, lengths.whole or training < MOSTLY
    return Document(
        command=command_line(report.run),
        circumstances=_circumstances(report),
        headline=bound_of(report),
        head=head_of(report),
        grounds=_grounds(report.verdict, lengths.whole),
        step=_step(report),
        bars=_bars(budget, lengths.bars, {named.get(one, one) for one in marked}),
        phases=_phases(report),
        findings=[_finding(finding, report, lengths) for finding in findings[: lengths.findings]],
        more_findings=len(findings[lengths.findings :]),
        remedies=[
            _remedy(remedy, report, lengths, rank) for rank, remedy in enumerate(remedies[: lengths.remedies])
        ],
        more_remedies=len(remedies[lengths.remedies :]),
        together=staircase(remedies[: lengths.remedies]),
        warnings=[_remedy(remedy, report, lengths, rank) for rank, remedy in enumerate(report.warnings)],
        gaps=[
            f"{words.plain(gap.what)}: {words.plain(gap.why)}"
            + (f" ({words.plain(gap.do)})" if gap.do else "")
            for gap in report.quality.gaps[: lengths.gaps]
        ],
        more_gaps=len(report.quality.gaps[lengths.gaps :]),
        watching=_watching(report),
        metrics=[
            MetricRow(
                words.plain(name),
                words.quantity(name, one.value, one.unit),
                _interval(name, one) if one.value is not None else "",
                words.count(one.n) if one.n else "",
                words.plain(one.source),
            )
            for name, one in report.metrics.items()
        ][: lengths.metrics],
        functions=_functions(users, cwd, lengths.functions, lengths.least),
        libraries=_functions(foreign, cwd, lengths.libraries, lengths.least),
        operators=_operators(report.operators, lengths.operators if computes else 0, lengths.least),
        environment=_environment(report.environment, lengths.environment),
        device=words.plain(report.device.name) if report.device is not None else "",
        device_rows=_device(report.device),
        ledger=_bars(
            [(one.part, one.share, one.s) for one in report.ledger if elsewhere], lengths.ledger, marked
        ),
        failed=how_it_failed(report.run),
        one_step="an evaluation step" if report.budget_of == "evaluation" else "a step",
    )


def command_line(run: RunSummary | Announcement, longest: int = LONGEST_COMMAND) -> str:
    """The user's command from the script on; the other formats name the interpreter."""
    home = run.cwd.rstrip("/") + "/"
    command = run.command
    if run.script is not None and run.script in command:
        command = command[command.index(run.script) :]
    shown = [part[len(home) :] if run.cwd and part.startswith(home) else part for part in command]
    return words.short(words.plain(shlex.join(shown)), longest)


def _circumstances(report: Report) -> list[str]:
    run = report.run
    unused, other = report.environment.get("device") == "cpu", report.device is not None
    facts = [words.seconds(run.duration_s), *machine_facts(run, unused, other)]
    if not run.torch:
        facts.append("no torch seen")
    if run.stopped_by:
        facts.append(f"stopped by {words.plain(run.stopped_by)}")
    elif run.exit_status:
        facts.append(f"ended with status {run.exit_status}")
    return facts


def machine_facts(run: RunSummary, unused: bool = False, other: bool = False) -> list[str]:
    """Cores, GPUs and torch, as far as known. ``unused``: the GPUs that there are; ``other``: no GPU, but
    another accelerator is there."""
    facts, cores, gpus = [], run.machine.get("cores"), run.machine.get("gpus")
    if isinstance(cores, (int, float)):
        facts.append(f"{words.count(cores)} {'core' if cores == 1 else 'cores'}")
    if isinstance(gpus, list) and (gpus or not other):
        named = words.plain(", ".join(map(str, gpus))) + (" not used" if unused else "")
        facts.append(named if gpus else "no GPU")
    return [*facts, f"torch {words.plain(run.torch)}"] if run.torch else facts


def _grounds(verdict: Verdict, whole: bool) -> list[str]:
    """The cause by its id, and how sure that is; of the ``whole``, what each resource made infinitely fast
    would gain."""
    texts = [] if verdict.cause == "none" else [words.plain(verdict.cause)]
    texts.append(f"{words.plain(verdict.confidence)} confidence")
    if verdict.runner_up:
        texts.append(f"close behind: {RESOURCES.get(verdict.runner_up, words.plain(verdict.runner_up))}")
    known = [(value, name) for name, value in verdict.gain.items() if value is not None]
    known.sort(key=lambda pair: -pair[0])
    gains = [f"{RESOURCES.get(name, words.plain(name))} {words.ratio(value)}" for value, name in known]
    return [*texts, f"upper bound if removed: {', '.join(gains)}"] if gains and whole else texts


def _device(device: DeviceSummary | None) -> list[tuple[str, str]]:
    """Label and number; in the place of one that is not known, why."""
    told = device.told if device is not None else []
    return [
        (
            words.plain(one.text),
            words.plain(one.source) if one.value is None else words.quantity(one.metric, one.value),
        )
        for one in told
    ]


def _step(report: Report) -> str:
    name = "evaluation_step_time_s" if report.budget_of == "evaluation" else "step_time_s"
    metric = report.metrics.get(name)
    if metric is None or metric.value is None:
        return ""
    value, interval = words.seconds(metric.value), _interval("step_time_s", metric)
    return words.within(value, interval if interval != value else "")


def _interval(name: str, metric: Metric) -> str:
    if metric.low is None or metric.high is None:
        return ""
    return words.number_range(*(words.quantity(name, end, metric.unit) for end in (metric.low, metric.high)))


def _read_at(report: Report) -> dict[str, str]:
    """The pauses after readbacks by the line that makes most of them, where one does."""
    most = sum(one.s_per_step for one in report.budget if one.part == READ) / 2
    for finding in report.findings:
        if any(one.metric == "device_sync_s" and (one.value or 0.0) > most for one in finding.evidence):
            return {READ: f"{READ}: {place(finding.location, '').rpartition('/')[2]}"}
    return {}


def _bars(parts: list[tuple[str, float, float]], longest: int, marked: set[str]) -> list[Bar]:
    """Name, share and seconds of each part, in their order; of too many, the smallest join "other"."""
    kept = sorted(parts, key=lambda part: -part[1])[: longest if len(parts) <= longest else longest - 1]
    left = [part for part in parts if part not in kept]
    other = [("other", sum(share for _, share, _ in left), sum(s for _, _, s in left))] if left else []
    return [
        Bar(words.plain(name), share, words.percent(share), words.seconds(s), name in marked)
        for name, share, s in [*(part for part in parts if part in kept), *other]
    ]


def _phases(report: Report) -> list[str]:
    """A line for each phase; none where what limits them is the same."""
    if len({(one.verdict.bound, one.verdict.cause) for one in report.phases}) < 2:
        return []
    return [
        f"steps {words.count(phase.from_step)}–{words.count(phase.to_step)}, {words.plain(phase.label)}: "
        f"{verdict_of(report, phase.verdict)}"
        for phase in report.phases
    ]


def _finding(finding: ReportedFinding, report: Report, lengths: Lengths) -> FindingBlock:
    points = []
    for one in finding.evidence[: lengths.points]:
        number, metric = "", report.metrics.get(one.metric)
        if one.value is not None and f"{one.metric}=" not in one.text:  # else the text has it
            number = words.quantity(one.metric, one.value, metric.unit if metric else "")
        text = IN_FILE.sub(lambda found: place(Location(found[1], int(found[2])), report.run.cwd), one.text)
        texts = (words.plain(text), number, words.plain(one.metric), words.plain(one.source))
        points.append(EvidenceLine(*texts))
    return FindingBlock(words.plain(finding.id), place(finding.location, report.run.cwd), points)


def _remedy(remedy: Remedy, report: Report, lengths: Lengths, rank: int) -> RemedyBlock:
    """The remedy as texts; a snippet of several lines only for the first ``lengths.snippets``."""
    speedup, fix = remedy.predicted_speedup, remedy.fix
    snippet = words.block(fix.snippet) if fix.snippet.strip() else []
    snippet = snippet if len(snippet) == 1 or rank < lengths.snippets else []
    cut = len(snippet) - lengths.snippet
    basis = BASES.get(speedup.basis, words.plain(speedup.basis))
    if speedup.likely is not None:
        basis = f"{words.ratio_range(speedup.low, speedup.high)}, {basis}"
    else:
        measures = f"; bdoc prove --remedy {words.plain(remedy.id)} measures it"
        basis = words.promised(speedup) + (measures if remedy.treatments else "")
    return RemedyBlock(
        id=words.plain(remedy.id),
        title=words.capital(words.plain(remedy.title)),
        likely="not predicted" if speedup.likely is None else words.ratio(speedup.likely),
        basis=basis,
        place=place(fix.location, report.run.cwd),
        text=words.plain(fix.text),
        snippet=[*snippet[: lengths.snippet], f"# {words.counted(cut, 'more line')}"] if cut > 0 else snippet,
        apply=words.plain(remedy.apply),
        effort=words.plain(remedy.effort),
        risk="" if remedy.risk == "none" else words.short(words.plain(remedy.risk), lengths.risk),
        alternative=is_alternative(remedy, report.remedies),
        ceiling=speedup.likely is None,
        setting=is_setting(remedy.id, speedup),
    )


def _watching(report: Report) -> str:
    quality, overhead = report.quality, report.quality.overhead
    steps = words.counted(quality.steady_steps, "steady step")
    others = sum(one.to_step - one.from_step for one in report.phases) - quality.steady_steps
    excluded = [words.counted(quality.warmup_steps, "warm-up step")] if quality.warmup_steps else []
    excluded += [f"{words.count(others)} of other phases"] if others > 0 else []
    steps += f", {' and '.join(excluded)} excluded" if excluded else ""
    if overhead.within_s is not None and overhead.around_s is not None:
        within, around = words.seconds(overhead.within_s), words.seconds(overhead.around_s)
        cost = f"overhead: {within} while it trained, {around} before and after"
    else:
        cost = "overhead not measured"
        if overhead.share_of_step is not None:
            cost = f"overhead: {words.percent(overhead.share_of_step)} of step time"
            if overhead.agent_s_per_step is not None:
                cost += f" ({words.seconds(overhead.agent_s_per_step)})"
        if overhead.supervisor_cpu_share is not None:
            cost += f", monitor {words.percent(overhead.supervisor_cpu_share)} of a core"
    unexamined = f"{words.counted(len(report.abstentions), 'check')} did not apply"
    return " · ".join([steps, cost, *([unexamined] if report.abstentions else [])])


INTERRUPTED = {129, 130, 143}  # hang-up, Ctrl-C, and what batch systems end a job with: no failure


def how_it_failed(run: RunSummary) -> list[str]:
    """``ended with status 1 after 150 steps, ValueError at train.py:40``, and memory if it was short; empty
    where it did not fail, or before its first step."""
    end = run.end
    if end is None or not end.steps or run.stopped_by or run.exit_status in (0, *INTERRUPTED):
        return []
    after = f"{ended(run).removeprefix('was ')} after {words.counted(end.steps, 'step')}"
    return [f"{after}{crash_of(run, ', ')}; seen until then:", *memory_of(run)]


def ended(run: RunSummary) -> str:
    """``ended with status 1``, ``was killed by signal 9 (SIGKILL)``."""
    number = run.end.signal if run.end is not None else None
    if number is None:
        return f"ended with status {run.exit_status}"
    names = {int(one): one.name for one in signal.Signals}
    return f"was killed by signal {number} ({names.get(number, 'real-time')})"


def crash_of(run: RunSummary, before: str) -> str:
    """``ValueError at train.py:40`` behind ``before``; nothing where no exception was seen."""
    crash = run.end.crash if run.end is not None else None
    if crash is None or not crash.error:
        return ""
    at = f" at {place(Location(crash.file, crash.line), run.cwd)}" if crash.file else ""
    return f"{before}{words.plain(crash.error)}{at}"


# What the numbers of memory are, in their order.
HELD = {
    "job_rss_bytes": "resident at the peak", "job_largest_rss_bytes": "in the largest process",
    "memory_limit_bytes": "allowed", "oom_kills": "OOM kill{s} by the kernel",
    "foreign_memory_bytes": "of other processes",
    "peak_bytes": "in tensors at their peak", "cached_bytes": "more kept by torch's allocator",
    "memory_bytes": "on the device",
}  # fmt: skip


def memory_of(run: RunSummary) -> list[str]:
    """A line on the memory at its peak, where that was short."""
    found = run.end.memory if run.end is not None else {}
    texts = [f"{words.quantity(name, found[name])} {text}" for name, text in HELD.items() if name in found]
    line = ", ".join(texts).replace("{s}", "" if found.get("oom_kills") == 1 else "s")
    return [f"memory: {line}"] if texts else []
