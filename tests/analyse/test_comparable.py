"""What refuses a comparison, what is only told, and what nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.compare import NAMES, OF_ONE_JOB, REFUSES, between, differences
from bottleneck_doctor.model.report import Report
from tests.render.reports import TYPICAL

ENVIRONMENT = {"device": "cuda:0", "world_size": 2, "num_workers": 4, "torch_threads": 1, "bdoc": "0.1"}
WATCHED = replace(TYPICAL, environment=ENVIRONMENT)


def changed(run: dict[str, object], environment: dict[str, object], machine: dict[str, object]) -> Report:
    changes = {**run, "machine": {**WATCHED.run.machine, "cpu": "Xeon", **machine}}
    return replace(
        WATCHED,
        run=replace(WATCHED.run, **changes),  # type: ignore[arg-type]
        environment={**WATCHED.environment, **environment},  # type: ignore[dict-item]
    )


def typed(script: str) -> dict[str, object]:
    return {"script": script, "command": ["python", script, *ARGUMENTS]}


ARGUMENTS = WATCHED.run.command[2:]
BASE = changed({}, {}, {})


@pytest.mark.parametrize(
    ("what", "new", "refuses"),
    [
        ("script", changed(typed("other.py"), {}, {}), True),
        ("script", changed({"script": None, "command": ["python", "-m", "train", *ARGUMENTS]}, {}, {}), True),
        ("script", changed({"script": None, "command": ["/bin/torchrun", *ARGUMENTS]}, {}, {}), True),
        ("torch", changed({"torch": "2.13.0+cu130"}, {}, {}), True),
        ("python", changed({"python": "3.12.1"}, {}, {}), True),
        ("cpu", changed({}, {}, {"cpu": "EPYC"}), True),
        ("cores", changed({}, {}, {"cores": 2.0}), True),
        ("gpus", changed({}, {}, {"gpus": ["H200"]}), True),
        ("world-size", changed({}, {"world_size": 4}, {}), True),
        ("host", changed({"host": "other"}, {}, {}), False),
        ("arguments", changed({"command": ["python", "train.py", "--lr", "1"]}, {}, {}), False),
        ("device", changed({}, {"device": "cpu"}, {}), False),
        ("workers", changed({}, {"num_workers": 0}, {}), False),
        ("torch-threads", changed({}, {"torch_threads": 4}, {}), False),
        ("bdoc", changed({}, {"bdoc": "0.2"}, {}), False),
        ("steps", replace(BASE, quality=replace(BASE.quality, steady_steps=50)), False),
    ],
)
def test_what_the_machine_brings_refuses_and_what_the_script_chose_is_told(
    what: str, new: Report, refuses: bool
) -> None:
    assert [(one.what, one.refuses) for one in differences(BASE, new)] == [(what, refuses)]
    found, why = between([BASE], [new])
    assert [one.what for one in found] == [what]
    assert bool(why) is refuses
    assert between([BASE], [new], allowed=[what])[1] == ""
    assert what in NAMES


@pytest.mark.parametrize(
    "new",
    [
        BASE,
        changed({"python": "3.11.9"}, {}, {}),
        changed(typed("/home/ann/cats/train.py"), {}, {}),
        changed({"torch": None}, {}, {}),
        changed({}, {"device": None}, {"cpu": ""}),
        changed({"host": ""}, {}, {"cores": None}),
        replace(BASE, metrics={}),
    ],
)
def test_what_is_the_same_or_not_known_is_no_difference(new: Report) -> None:
    assert differences(BASE, new) == []


def test_runs_of_one_side_must_be_repeats_of_one_job() -> None:
    more_workers = changed({}, {"num_workers": 8}, {})
    found, why = between([BASE], [BASE, more_workers])
    assert [one.what for one in found] == ["workers"]
    assert why == "the runs of the new side are not repeats of one job"
    assert between([BASE, more_workers], [BASE])[1] == "the runs of the baseline are not repeats of one job"
    assert between([BASE], [BASE, more_workers], allowed=["workers"])[1] == ""


def test_repeats_may_differ_in_seed_and_host() -> None:
    seeds = [
        changed({"command": ["python", "train.py", "--seed", seed], "host": seed}, {}, {}) for seed in "12"
    ]
    assert between([BASE], seeds)[1] == ""
    assert not OF_ONE_JOB & set(REFUSES)
