"""What is said, before it is laid out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.report import BudgetPart, Evidence, Metric, Report, Speedup
from bottleneck_doctor.model.run import Treatment
from bottleneck_doctor.render.compose import compose
from bottleneck_doctor.render.document import WHOLE, Lengths
from tests.render.reports import FINDINGS, REMEDIES, TYPICAL


def test_what_is_cut_is_counted() -> None:
    document = compose(TYPICAL, Lengths(findings=1, remedies=2, gaps=1, points=1))
    assert (len(document.findings), document.more_findings) == (1, 1)
    assert (len(document.remedies), document.more_remedies) == (2, 2)
    assert (len(document.gaps), document.more_gaps) == (1, 3)
    assert len(document.findings[0].points) == 1


def test_a_whole_report_is_not_cut() -> None:
    document = compose(TYPICAL, WHOLE)
    assert (document.more_findings, document.more_remedies, document.more_gaps) == (0, 0, 0)


def test_the_primary_finding_comes_first() -> None:
    assert [finding.id for finding in FINDINGS] == ["decode-bound", "loader-in-main"]
    assert [finding.id for finding in compose(TYPICAL, WHOLE).findings] == ["loader-in-main", "decode-bound"]


def test_remedies_that_hurt_never_count_as_remedies() -> None:
    document = compose(TYPICAL, WHOLE)
    assert [block.id for block in document.warnings] == ["batch-larger"]
    assert "batch-larger" not in [block.id for block in document.remedies]


@pytest.mark.parametrize(
    ("said", "treatments", "likely", "basis"),
    [
        (Speedup(1.0, None, 1.6, "bound"), (), "at most ×1.6", "an upper bound"),
        (
            Speedup(1.0, None, 1.6, "bound"),
            (Treatment("autocast"),),
            "at most ×1.6",
            "an upper bound; bdoc prove --remedy workers-auto measures it",
        ),
        (Speedup(0.9, 1.2, 1.6, "amdahl"), (), "×1.2", "×0.9–1.6, from the measured part"),
        (Speedup(1.0, 1.0, 1.0, "replay"), (), "×1.00", "×1.00, by replay"),
    ],
)
def test_what_promises_nothing_is_no_prediction(
    said: Speedup, treatments: tuple[Treatment, ...], likely: str, basis: str
) -> None:
    remedy = replace(REMEDIES[0], predicted_speedup=said, treatments=treatments)
    (block,) = compose(replace(TYPICAL, remedies=[remedy]), WHOLE).remedies
    assert (block.likely, block.basis) == (likely, basis)


@pytest.mark.parametrize(
    ("file", "cwd", "place"),
    [
        ("/home/ann/cats/train.py", "/home/ann/cats", "train.py:3"),
        ("/home/ann/cats/a/b.py", "/home/ann/cats/", "a/b.py:3"),
        ("/home/ann/cats2/b.py", "/home/ann/cats", "/home/ann/cats2/b.py:3"),
        ("/b.py", "/", "b.py:3"),
        ("/b.py", "", "/b.py:3"),
    ],
)
def test_places_are_said_from_where_the_run_was_started(file: str, cwd: str, place: str) -> None:
    remedy = replace(REMEDIES[0], fix=replace(REMEDIES[0].fix, location=Location(file, 3)))
    report = replace(TYPICAL, run=replace(TYPICAL.run, cwd=cwd), remedies=[remedy])
    assert compose(report, WHOLE).remedies[0].place == place


def test_a_long_snippet_says_how_much_is_missing() -> None:
    remedy = replace(REMEDIES[0], fix=replace(REMEDIES[0].fix, snippet="\n".join("abcdef")))
    assert compose(replace(TYPICAL, remedies=[remedy]), Lengths(snippet=3)).remedies[0].snippet == [
        "a",
        "b",
        "c",
        "# 3 more lines",
    ]


def test_small_parts_of_the_budget_join_other() -> None:
    shares = (0.5, 0.02, 0.3, 0.08, 0.1)
    budget = [BudgetPart(f"p{at}", share, share) for at, share in enumerate(shares)]
    bars = compose(replace(TYPICAL, budget=budget), Lengths(bars=3)).bars
    assert [(bar.part, bar.percent) for bar in bars] == [("p0", "50 %"), ("p2", "30 %"), ("other", "20 %")]


@pytest.mark.parametrize(
    ("command", "script", "said"),
    [
        (["/usr/bin/python", "train.py", "--lr", "1"], "train.py", "train.py --lr 1"),
        (["/usr/bin/python", "/home/ann/cats/train.py"], "/home/ann/cats/train.py", "train.py"),
        (["/usr/bin/python", "-m", "cats.train", "-q"], "cats.train", "cats.train -q"),
        (["torchrun", "--x", "a b"], None, "torchrun --x 'a b'"),
        (["train.py"], "elsewhere.py", "train.py"),
    ],
)
def test_the_command_is_what_the_user_typed(command: list[str], script: str | None, said: str) -> None:
    run = replace(TYPICAL.run, command=command, script=script)
    assert compose(replace(TYPICAL, run=run), WHOLE).command == said


@pytest.mark.parametrize(
    ("evidence", "number"),
    [
        (Evidence("the loader has num_workers=0", "num_workers", 0.0), ""),
        (Evidence("workers of the loader", "num_workers", 0.0), "0"),
        (Evidence("waits for data", "data_wait_fraction", 0.5), "50 %"),
        (Evidence("waits for data", "data_wait_fraction", None), ""),
    ],
)
def test_a_number_is_said_once(evidence: Evidence, number: str) -> None:
    report = replace(TYPICAL, findings=[replace(FINDINGS[0], evidence=[evidence])])
    assert compose(report, WHOLE).findings[0].points[0].number == number


def test_a_command_line_without_end_is_cut() -> None:
    run = replace(TYPICAL.run, command=["train.py", *map(str, range(10_000))])
    assert len(compose(replace(TYPICAL, run=run), WHOLE).command) == 160


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"exit_status": 3}, "ended with status 3"),
        ({"exit_status": 0, "stopped_by": "--max-steps"}, "stopped by --max-steps"),
        ({"torch": None}, "no torch seen"),
        ({"machine": {"gpus": ["H100", "H100"]}}, "H100, H100"),
        ({"machine": {"cores": 1.0}}, "1 core"),
        ({"machine": {"cores": 1.5}}, "1.5 cores"),
    ],
)
def test_the_circumstances_are_named(change: dict[str, object], said: str) -> None:
    report = replace(TYPICAL, run=replace(TYPICAL.run, **change))  # type: ignore[arg-type]
    assert said in compose(report, WHOLE).circumstances


@pytest.mark.parametrize(("device", "said"), [("cuda", "H100"), ("cpu", "H100 not used"), (None, "H100")])
def test_a_gpu_that_the_training_leaves_alone_is_not_shown_as_its_own(device: str | None, said: str) -> None:
    run = replace(TYPICAL.run, machine={"gpus": ["H100"]})
    report = replace(TYPICAL, run=run, environment={"device": device})
    assert said in compose(report, WHOLE).circumstances


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_without_a_value_are_said_to_have_none(value: float) -> None:
    report: Report = replace(TYPICAL, metrics={"step_time_s": Metric(value, "s", value, value, 3)})
    assert compose(report, WHOLE).step == "? (?)"


def test_the_run_is_divided_in_the_order_of_time_and_the_smallest_parts_join() -> None:
    told = compose(TYPICAL, Lengths(ledger=4)).ledger
    assert [bar.part for bar in told] == ["starting workers", "training steps", "evaluation", "other"]
    assert sum(bar.share for bar in told) == pytest.approx(1.0)
    assert [bar.part for bar in compose(TYPICAL, WHOLE).ledger] == [one.part for one in TYPICAL.ledger]


def test_a_verdict_about_evaluation_shows_the_evaluations_step() -> None:
    own = {"evaluation_step_time_s": Metric(0.5, "s", 0.4, 0.6, 20)}
    document = compose(
        replace(TYPICAL, budget_of="evaluation", metrics={**TYPICAL.metrics, **own}), Lengths()
    )
    assert document.one_step == "an evaluation step"
    assert document.step.startswith("500 ms")
