"""The three lines that a report begins with."""

from dataclasses import replace

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.report import (
    BudgetPart,
    DeviceSummary,
    Evidence,
    HotFunction,
    HotOperator,
    LedgerPart,
    Remedy,
    Report,
    ReportedFinding,
    Speedup,
    Verdict,
)
from bottleneck_doctor.render import render
from bottleneck_doctor.render.head import WIDTH, Head, culprits, head_of
from tests.render.reports import HEALTHY, INCONCLUSIVE, REMEDIES, TYPICAL

LINE = Evidence("share of data-loading samples in data.py:88, mostly inside json", "line_share", 0.86, "")
QUERY = Evidence("it asks a database")
CEILING = Speedup(1.0, None, 7.8, "bound")
TITLE = "ask the database once for a whole batch, or keep the table in memory"


def judged(cause: str, *evidence: Evidence, line: int | None = 36, **parts: float) -> Report:
    """A verdict, its one finding, and the parts of a step by their names with ``_`` for a blank."""
    place = Location("/home/ann/cats/train.py", line, "main") if line is not None else None
    finding = ReportedFinding("f", cause, "primary", list(evidence), place)
    budget = [BudgetPart(name.replace("_", " "), share, 0.01 * share) for name, share in parts.items()]
    verdict = Verdict("cpu", cause, "the sentence about the cause", "high", None, {"cpu": 4.0, "io": 3.0})
    remedies = [replace(REMEDIES[0], finding="f")]
    return replace(TYPICAL, verdict=verdict, findings=[finding], budget=budget, ledger=[], remedies=remedies)


CALLS = [Evidence("", "called_share", 0.74), Evidence("", "operators_per_step", 47786.0),
         Evidence("", "launch_s", 0.8e-6)]  # fmt: skip
RUNS = [LedgerPart("starting workers", 0.5, 5.0), LedgerPart("stopping workers", 0.2, 2.0),
        LedgerPart("evaluation", 0.64, 6.4), LedgerPart("training steps", 0.06, 0.6)]  # fmt: skip
MODEL = judged("model.compute", line=None, backward=0.63, forward=0.32)
WAITING = judged("input.preprocess", LINE, data_wait=0.87)
STARTING = judged(
    "input.worker_startup", Evidence("", "workers_started", 10.0), Evidence("", "worker_start_s", 8.05)
)


@pytest.mark.parametrize(
    ("report", "claim", "why"),
    [
        (WAITING, "87 % of each step waits for batches",
         "data.py:88 (mostly inside json) is 86 % of making batches"),
        (judged("input.preprocess", LINE, QUERY, data_wait=0.87), "87 % of each step waits for batches",
         "data.py:88 (asks a database) is 86 % of making batches"),
        (judged("host.checkpoint", Evidence("", "checkpoints", 48.0), Evidence("", "checkpoint_s", 0.282),
                checkpoint=0.57),
         "saving checkpoints takes 57 % of each step", "train.py:36 saves 48 checkpoints, 282 ms each"),
        (judged("host.memory", Evidence("time per step, for pages", "memory_stall_s", 0.037)),
         "waiting for memory takes 67 % of each step", "time per step: 37 ms (train.py:36)"),
        (MODEL, "the model takes 95 % of each step", "of each step: backward 63 %, forward 32 %"),
        (replace(MODEL, operators=[HotOperator("aten::mm", 2.0, 0.1, 0.0, 0.48)]),
         "the model takes 95 % of each step",
         "of each step: backward 63 %, forward 32 %; of operators: mm 48 %"),
        (judged("host.python", Evidence("", "hottest_share", 0.7), **{"rollout()": 0.5, "a.py:9_f()": 0.3}),
         "code of the loop takes 80 % of each step",
         "train.py:36 (main) has 70 % of the loop's samples"),
        (replace(STARTING, ledger=RUNS, budget_of="run"),
         "starting workers takes 70 % of the run, training steps 6 %",
         "train.py:36 starts 10 workers, in 8.05 s"),
        (replace(judged("host.evaluation", line=None), ledger=RUNS), "evaluation takes 64 % of the run", ""),
        (replace(WAITING, ledger=RUNS, budget_of="evaluation"),
         "evaluation takes 64 % of the run; 87 % of it waits for batches",
         "data.py:88 (mostly inside json) is 86 % of making batches"),
        (INCONCLUSIVE, INCONCLUSIVE.verdict.summary, ""),
        (judged("host.launch", *CALLS, **{"a.py:81 triplet(...)": 0.76, "backward": 0.14}),
         "computing in small operators takes 14 % of each step",
         "train.py:36 (main): 74 % of samples; 47 786 operators a step, 0.8 µs each"),
    ],
)  # fmt: skip
def test_what_was_found_is_named_with_its_number(report: Report, claim: str, why: str) -> None:
    head = head_of(report)
    assert (head.claim, head.why) == (claim, why)


def test_the_parts_that_the_verdict_is_about_are_named() -> None:
    assert culprits(WAITING) == {"data wait"}
    assert culprits(judged("model", forward=0.2, backward=0.6, loss=0.05)) == {"forward", "backward"}
    run = replace(STARTING, ledger=RUNS, budget_of="run")
    assert culprits(run) == {"starting workers", "stopping workers"}
    launching = judged("host.launch", **{"a.py:81 triplet(...)": 0.76, "backward": 0.14})
    assert culprits(launching) == {"a.py:81 triplet(...)"}
    assert culprits(judged("host.launch", **{"a.py:81 f(...)": 0.2, "forward": 0.7})) == {"forward"}
    assert culprits(judged("host.evaluation", data_wait=0.5)) == {"evaluation"}
    assert culprits(judged("host.checkpoint", **{"idle: saving, logging": 0.3})) == {"idle: saving, logging"}
    assert culprits(HEALTHY) == culprits(INCONCLUSIVE) == set()


def remedy(title: str, speedup: Speedup, id: str = "workers-auto", finding: str = "f") -> Remedy:
    """One remedy of ``judged``."""
    return replace(REMEDIES[0], id=id, title=title, predicted_speedup=speedup, finding=finding)


@pytest.mark.parametrize(
    ("remedies", "first", "promise"),
    [
        ([remedy("use 3 workers", Speedup(2.0, 2.4, 2.9, "replay"))],
         "do first: use 3 workers", ", ×2.4 (an hour becomes 25 minutes)"),
        ([remedy("use 3 workers", Speedup(0.9, 2.4, 2.9, "replay"))],
         "do first: use 3 workers", ", ×2.4 (×0.9–2.9)"),
        ([remedy("use 3 workers", Speedup(40.0, 85.0, 99.0, "replay"))],
         "do first: use 3 workers", ", ×85 (an hour becomes 1 minute)"),
        ([remedy("save a checkpoint ten times less often", Speedup(2.0, 2.3, 2.9, "replay"))],
         "do first: save a checkpoint ten times less often", ", ×2.3 (1 h becomes 26 min)"),
        ([remedy(TITLE, CEILING)],
         "do first: ask the database once for a whole batch", "; not predicted (at most ×7.8)"),
        ([remedy("use 2 workers and 1 thread of torch, which leaves cores for the model", CEILING)],
         "do first: use 2 workers and 1 thread of torch", "; not predicted (at most ×7.8)"),
        ([remedy("a title of " + "words " * 20, CEILING)],
         "do first: a title of words words words words words words word ...", "; not predicted"),
        ([remedy("do little", Speedup(1.0, 1.04, 1.1, "replay")), remedy("do more", CEILING)],
         "do first: do more", "; not predicted (at most ×7.8)"),
        ([remedy("compute in bfloat16", CEILING, id="cpu-bf16")],
         "a setting to try: compute in bfloat16", "; not predicted (at most ×7.8)"),
        ([], "no remedy is known; start at train.py:36", ""),
    ],
)  # fmt: skip
def test_the_first_remedy_says_what_it_promises(remedies: list[Remedy], first: str, promise: str) -> None:
    head = head_of(replace(WAITING, remedies=remedies))
    assert (head.first, head.promise) == (first, promise)
    assert head.ceiling == ("not predicted" in promise)
    assert len(first + promise) <= WIDTH


def test_where_no_remedy_is_known_the_head_says_where_to_start() -> None:
    hot = HotFunction("Net.forward", Location("/a/net.py", 7), "trainer", True, 0.6, 0.6, 90)
    slow = replace(MODEL, remedies=[], functions=[hot])
    assert head_of(slow).first == "no remedy is known; start at net.py:7 (60 % of samples)"
    assert "faster hardware" in head_of(replace(slow, functions=[])).first
    waits = replace(judged("device.memory", line=None), remedies=[], device=DeviceSummary("GPU", "cuda"))
    assert head_of(waits).first == "no remedy is known"
    small = replace(slow, remedies=[remedy("do little", Speedup(1.0, 1.04, 1.1, "replay"))])
    assert head_of(small).first == "no remedy in the list gains 5 % or more"
    assert head_of(replace(judged("input.wait"), remedies=[])).claim == "the sentence about the cause"


def test_a_remedy_for_something_else_is_no_answer() -> None:
    other = ReportedFinding("other", "comm.allreduce", "secondary", [])
    exchange = remedy("exchange half as often", Speedup(1.1, 1.2, 1.3, "replay"), finding="other")
    report = replace(WAITING, findings=[*WAITING.findings, other], remedies=[exchange])
    assert head_of(report).first == "try: exchange half as often"


def test_a_healthy_run_has_nothing_to_do() -> None:
    claim = "an infinitely fast CPU would gain ×1.04 at most"
    assert head_of(replace(HEALTHY, budget=[])) == Head(claim, "", "nothing to do")
    gains = {"cpu": 1.01, "comm": 1.03}
    ranks = replace(HEALTHY, verdict=replace(HEALTHY.verdict, gain=gains))
    assert head_of(ranks).claim == "infinitely fast communication would gain ×1.03 at most"


def test_a_ceiling_is_never_green_and_settings_stand_under_their_heading() -> None:
    settings = [remedy(one, CEILING, id=one) for one in ("cpu-bf16", "more-cores")]
    drawn = render(replace(WAITING, remedies=[remedy(TITLE, CEILING), *settings]), "terminal", color=True)
    assert "\x1b[1;32m" not in drawn
    assert drawn.index("ask the database") < drawn.index("settings worth a try") < drawn.index("Cpu-bf16")
    assert drawn.count("settings worth a try") == 1


def test_what_is_small_is_left_to_the_details() -> None:
    operators = [HotOperator("aten::mm", 2.0, 0.1, 0.0, 0.48)]
    steps = [LedgerPart("start-up and imports", 0.3, 3.0), LedgerPart("training steps", 0.7, 7.0)]
    report = replace(WAITING, operators=operators, ledger=steps)
    for details in (False, True):
        drawn = render(report, "terminal", details=details)
        for section in ("where the run goes", "operators", "upper bound if removed"):
            assert (section in drawn) == details
    assert "where the run goes" in render(replace(report, ledger=RUNS), "terminal")
    assert "operators" in render(replace(MODEL, operators=operators), "terminal")
