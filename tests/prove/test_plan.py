"""What is tried: the report's best, those asked for by name, and of the kept ones what goes together."""

from typing import Any

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.report import (
    Abstention,
    Fix,
    Metric,
    Overhead,
    Quality,
    Remedy,
    Report,
    ReportedFinding,
    RunSummary,
    Speedup,
    Verdict,
)
from bottleneck_doctor.model.run import Treatment
from bottleneck_doctor.prove.plan import choose_arms, together

from .simulated_runs import remedy as arm

OFFERED = {name: ["finding-of-" + name] for name in ("a", "b", "c", "d", "e")}
WHERE = {"file": "/src/train.py", "line": 7}


def remedy(name: str, likely: float = 1.5, apply: str = "hook", treated: bool = True) -> Remedy:
    return Remedy(
        id=name, title=f"do {name}", finding="finding-of-" + name,
        predicted_speedup=Speedup(likely * 0.9, likely, likely * 1.1, "replay"), predicted_step_s=0.1,
        combined_speedup=None, fix=Fix("do it", "", Location("train.py", 7)), apply=apply, effort="minutes",
        risk="", treatments=(Treatment(name),) if treated else (),
    )  # fmt: skip


def report(*remedies: Remedy, wait: float = 0.0, abstained: str = "", found: str = "") -> Report:
    return Report(
        run=RunSummary(["python", "train.py"], "train.py", "/src", "", 10.0, 0, "host", "3.12", "2.13"),
        quality=Quality(300, 10, 0.01, Overhead(None, None, None)),
        metrics={"data_wait_fraction": Metric(wait, "share")},
        budget=[],
        verdict=Verdict("cpu", "input.preprocess", "", "high"),
        findings=[ReportedFinding(found, "none", "notice", [])] if found else [],
        remedies=list(remedies),
        abstentions=[Abstention(abstained, "a training loop")] if abstained else [],
    )


def chosen(of: Report, named: str = "", numerics: bool = False) -> tuple[list[str], dict[str, str]]:
    arms, missed = choose_arms(of, named.split(), numerics, OFFERED)
    return [one.id for one in arms], {one.id: one.why for one in missed}


FOUR = report(*map(remedy, "abcd"))


@pytest.mark.parametrize(
    ("of", "how", "tried"),
    [
        (FOUR, {}, "a b c"),
        (report(remedy("a"), wait=0.3), {}, "a cached-batches"),  # the loop waits for data
        (report(remedy("a"), wait=0.01), {}, "a"),
        (report(remedy("a"), remedy("e", likely=0.8)), {"named": "e"}, "e"),  # whatever it promises
        (report(remedy("a", apply="hook~")), {"numerics": True}, "a"),
        (report(remedy("a", apply="hook~")), {"named": "a"}, ""),  # nor by name, unless that is allowed
    ],
)
def test_the_best_are_tried_or_those_that_are_asked_for(of: Report, how: dict[str, Any], tried: str) -> None:
    assert chosen(of, **how)[0] == ["baseline", *tried.split()]


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (remedy("a", apply="manual"), "it takes an edit of the script"),
        (remedy("a", apply="admin"), "it takes a change of the machine"),
        (remedy("a", apply="hook~"), "--allow-numerics tries it"),
        (remedy("a", treated=False), "bdoc cannot apply it"),
        (remedy("a", likely=0.8), "it would hurt"),
        (remedy("a", likely=1.0), "it promises no faster steps"),
    ],
)
def test_what_cannot_be_tried_is_told_with_the_reason(one: Remedy, why: str) -> None:
    tried, missed = chosen(report(one, remedy("b")))
    assert tried == ["baseline", "b"]
    assert why in missed["a"]


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (report(), "nothing here calls for it: it is for finding-of-a"),
        (report(abstained="finding-of-a"), "finding-of-a lacks a training loop"),
        (report(found="finding-of-a"), "finding-of-a was found, but this would not help here"),
    ],
)
def test_a_remedy_that_the_report_does_not_offer_is_missed_with_the_reason(of: Report, why: str) -> None:
    tried, missed = chosen(of, "a")
    assert tried == ["baseline"]
    assert why in missed["a"]


def loader(where: dict[str, object] | None = WHERE, **arguments: object) -> Treatment:
    return Treatment("loader", {"where": where, "arguments": arguments})


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        (Treatment("x"), Treatment("y"), (Treatment("x"), Treatment("y"))),
        (Treatment("x"), Treatment("x"), (Treatment("x"),)),
        (loader(num_workers=2), loader(pin_memory=True), (loader(num_workers=2, pin_memory=True),)),
        (loader(num_workers=2), loader(num_workers=4), None),
        (loader(num_workers=2), loader({"file": "/b.py", "line": 1}, num_workers=4),
         (loader(num_workers=2), loader({"file": "/b.py", "line": 1}, num_workers=4))),
        (Treatment("environment", {"A": "1"}), Treatment("environment", {"A": "2"}), None),
        (Treatment("threads", {"torch": 4}), Treatment("threads", {"torch": 1}), None),
    ],
)  # fmt: skip
def test_two_remedies_go_together_unless_they_set_the_same_thing_otherwise(
    one: Treatment, other: Treatment, merged: tuple[Treatment, ...] | None
) -> None:
    joint = together([arm("a", one), arm("b", other)])
    assert (joint.treatments if joint is not None else None) == merged


def test_of_alternatives_the_first_goes_into_the_combination() -> None:
    joint = together(
        [arm("a", loader(num_workers=2)), arm("b", loader(num_workers=4)), arm("c", Treatment("z"))]
    )
    assert joint is not None
    assert joint.remedies == ("a", "c")
