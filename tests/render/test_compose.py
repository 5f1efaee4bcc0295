"""What is said, before it is laid out."""

import re
from dataclasses import replace

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.report import DeviceSummary, Evidence, HotOperator, Remedy, Speedup
from bottleneck_doctor.model.run import Treatment
from bottleneck_doctor.render import render
from bottleneck_doctor.render.compose import compose, is_alternative, place, staircase
from bottleneck_doctor.render.document import WHOLE
from tests.render.reports import PHASED, REMEDIES, TYPICAL


def test_a_bound_that_can_be_measured_says_how() -> None:
    bound = Speedup(1.0, None, 1.6, "bound")
    remedy = replace(REMEDIES[0], predicted_speedup=bound, treatments=(Treatment("autocast"),))
    (block,) = compose(replace(TYPICAL, remedies=[remedy]), WHOLE).remedies
    assert block.likely == "not predicted"
    assert block.basis == "at most ×1.6; bdoc prove --remedy workers-auto measures it"


@pytest.mark.parametrize(
    ("command", "script", "said"),
    [
        (["/usr/bin/python", "/home/ann/cats/train.py"], "/home/ann/cats/train.py", "train.py"),
        (["/usr/bin/python", "-m", "cats.train", "-q"], "cats.train", "cats.train -q"),
        (["torchrun", "--x", "a b"], None, "torchrun --x 'a b'"),
    ],
)
def test_the_command_is_what_the_user_typed(command: list[str], script: str | None, said: str) -> None:
    run = replace(TYPICAL.run, command=command, script=script)
    assert compose(replace(TYPICAL, run=run), WHOLE).command == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"exit_status": 0, "stopped_by": "--max-steps"}, "stopped by --max-steps"),
        ({"machine": {"gpus": ["H100", "H100"]}}, "H100, H100"),
        ({"machine": {"cores": 1.0}}, "1 core"),
    ],
)
def test_the_circumstances_are_named(change: dict[str, object], said: str) -> None:
    report = replace(TYPICAL, run=replace(TYPICAL.run, **change))  # type: ignore[arg-type]
    assert said in compose(report, WHOLE).circumstances
    if said.startswith("H100"):
        left_alone = replace(report, environment={"device": "cpu"})
        assert f"{said} not used" in compose(left_alone, WHOLE).circumstances


TOLD = [
    Evidence("busy", "gpu_busy_fraction", 0.31, "the accelerator's clock"),
    Evidence("kernels per step", "kernels", 812.0, "torch.profiler window"),
]


def test_the_device_has_a_table_of_its_own() -> None:
    operators = [
        HotOperator("aten::mm", 3.0, 1e-5, 2e-3, 1.0),
        HotOperator("aten::view", 3.0, 1e-5, 0.0, 0.0),
    ]
    summary = DeviceSummary("Simulated", "cuda", TOLD)
    report = replace(TYPICAL, device=summary, operators=operators)
    for kind in ("terminal", "markdown"):
        drawn = render(report, kind, width=100)
        assert re.search(r"Simulated(.|\n)*busy +31 %(.|\n)*kernels per step +812", drawn)
        assert "time of the accelerator in one profiled step, 2 ms in all" in drawn
        assert "no GPU" not in drawn
        assert "view" not in drawn, "it takes none of the device's time"
        assert "no GPU" in render(TYPICAL, kind)


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/home/ann/cats/train.py", "train.py:7"),
        ("/home/ann/dogs.py", "/home/ann/dogs.py:7"),
        ("/opt/env/lib/python3.11/site-packages/PIL/Image.py", "PIL/Image.py:7"),
        ("/usr/lib64/python3.9/json/decoder.py", "python3.9/json/decoder.py:7"),
        ("<string>", "<string>:7"),
    ],
)
def test_a_file_is_seen_from_where_it_is_looked_for(file: str, shown: str) -> None:
    assert place(Location(file, 7, "f"), "/home/ann/cats") == shown


def test_a_place_in_a_text_is_seen_from_there_too_and_an_interval_differs_from_its_value() -> None:
    text = "time of each all_reduce at /home/ann/cats/train.py:110"
    found = replace(TYPICAL.findings[0], evidence=[Evidence(text, "each_s", 0.7, "")])
    exact = replace(TYPICAL.metrics["step_time_s"], low=0.0241, high=0.0241)
    document = compose(replace(TYPICAL, findings=[found], metrics={"step_time_s": exact}), WHOLE)
    assert document.findings[0].points[0].text == "time of each all_reduce at train.py:110"
    assert document.step == "24.1 ms"


def test_phases_are_listed_where_what_limits_them_differs_and_their_steps_are_counted_in_any_case() -> None:
    alike = replace(PHASED, phases=[replace(one, verdict=TYPICAL.verdict) for one in PHASED.phases])
    assert compose(alike, WHOLE).phases == []
    assert "10 warm-up steps and 120 of other phases excluded" in compose(alike, WHOLE).watching


def stairs(*combined: float | None, basis: str = "replay") -> list[Remedy]:
    """Remedies with these combined speedups."""
    return [
        replace(
            REMEDIES[0],
            id=f"r-{at}",
            predicted_speedup=Speedup(1.1, None if basis == "bound" else 1.2, 1.3, basis),
            combined_speedup=one,
        )
        for at, one in enumerate(combined)
    ]


@pytest.mark.parametrize(
    ("combined", "said"),
    [
        ((2.5,), ""),
        ((2.5, None, 2.7), "together: 1 ×2.5 → with 3 ×2.7"),
        ((None, 1.5, 2.0), "together: 2 ×1.5 → with 3 ×2.0"),
        ((1.04, 1.08), "together: 1 ×1.04 → with 2 ×1.08"),
    ],
)
def test_each_remedy_that_adds_is_a_stair(combined: tuple[float | None, ...], said: str) -> None:
    assert staircase(stairs(*combined)) == said


@pytest.mark.parametrize(
    ("combined", "basis", "alternatives"),
    [
        ((2.5, None, 2.7), "replay", [False, True, False]),
        ((2.5, None, 2.7), "bound", [False, False, False]),  # not replayed: it may well add
        ((None, None), "replay", [False, False]),
    ],
)
def test_what_adds_nothing_is_an_alternative(
    combined: tuple[float | None, ...], basis: str, alternatives: list[bool]
) -> None:
    remedies = stairs(*combined, basis=basis)
    assert [is_alternative(one, remedies) for one in remedies] == alternatives
