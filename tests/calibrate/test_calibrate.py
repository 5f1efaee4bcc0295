"""What was timed becomes rows, what was not becomes gaps, and nothing is left behind."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.calibrate import calibrate as room
from bottleneck_doctor.calibrate.calibrate import Answer, calibrate
from bottleneck_doctor.model.computing import Computing, ProductShape, Shapes
from bottleneck_doctor.model.fetches import Payload
from bottleneck_doctor.model.profile import Profile
from tests.calibrate.runs import run_over

ROW = {"subject": "read", "variant": "cold", "seconds": 1e-4, "cpu_s": 1e-5, "repeats": 9, "depth": 2}
MANY = Payload("1:1", 9, tensors=200.0, tensor_bytes=3e5)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of the training's, in a folder of its own; temporary files go elsewhere."""
    for name in ("data", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "data" / "a.bin").write_bytes(b"x" * 100_000)
    return str(tmp_path / "data" / "a.bin")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(interpreter, probe) of each question; all are answered with one row."""
    questions: list[tuple[str, str]] = []

    def answer(python: str, probe: str, *_: Any) -> Answer:
        questions.append((python, probe))
        return Answer([ROW])

    monkeypatch.setattr(room, "ask", answer)
    return questions


def local(_: str) -> bool:
    return False


def test_real_files_are_timed_and_the_users_folder_is_left_as_it_was(data: str) -> None:
    before = os.stat(data)
    rows, gaps = calibrate(run_over([data]), sys.executable, local)
    assert {(row.subject, row.variant) for row in rows} == {
        ("read", "cold"), ("read", "memory"), ("files", "sizes"),
    }  # fmt: skip
    assert gaps == []
    assert os.listdir(os.path.dirname(data)) == ["a.bin"]
    assert (os.stat(data).st_mtime_ns, os.stat(data).st_size) == (before.st_mtime_ns, before.st_size)
    assert os.listdir(tempfile.gettempdir()) == []


def test_files_on_a_server_are_left_alone(data: str, asked: list[tuple[str, str]]) -> None:
    rows, _ = calibrate(run_over([data]), "python", lambda path: True)
    assert (rows, asked) == ([], [])


def test_what_needs_torch_runs_in_the_trainings_own_interpreter(
    data: str, asked: list[tuple[str, str]]
) -> None:
    calibrate(run_over([data], payload=MANY, executable="/env/bin/python"), "python", local)
    calibrate(run_over([], payload=MANY), "python", local)
    assert asked == [(sys.executable, "reads"), ("/env/bin/python", "moving"), ("python", "moving")]


def test_a_models_shapes_are_timed_also_where_no_loader_was(asked: list[tuple[str, str]]) -> None:
    layer = ProductShape(1, "cpu", "float32", 2, 0, 64, 128, 256)
    run = replace(run_over([], executable="/env/bin/python"), fetches=[])
    run = replace(run, computing=Computing(shapes=Shapes([layer])))
    rows, _ = calibrate(run, "python", local)
    assert asked == [("/env/bin/python", "computing")]
    assert [row.loader for row in rows] == [""]


def lasting(run: Profile, seconds: float) -> Profile:
    return replace(run, run=replace(run.run, duration_s=seconds))


def test_unasked_only_what_decides_the_first_remedies_is_timed(
    data: str, asked: list[tuple[str, str]]
) -> None:
    run = lasting(run_over([data], payload=MANY), 60.0)
    for remedies in (["checkpoint-less", "pack-shards"], ["gc-freeze"], ["a", "b", "c", "pack-shards"]):
        calibrate(run, "python", local, remedies)
    assert asked == [(sys.executable, "reads")]


def test_unasked_a_tenth_of_the_run_is_spent_at_most(data: str, asked: list[tuple[str, str]]) -> None:
    assert calibrate(lasting(run_over([data]), 15.0), "python", local, ["pack-shards"]) == ([], [])
    calibrate(lasting(run_over([data]), 18.0), "python", local, ["pack-shards"])
    assert asked == [(sys.executable, "reads")]


def test_unasked_a_step_is_timed_only_in_the_ways_that_are_advised(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[dict[str, Any]] = []
    monkeypatch.setattr(room, "ask", lambda *given: requests.append(given[2]) or Answer())
    layer = ProductShape(1, "cpu", "float32", 2, 0, 64, 128, 256)
    shapes = Shapes([layer], [], [])
    run = lasting(replace(run_over([data]), computing=Computing(shapes=shapes)), 60.0)
    calibrate(run, "python", local, ["workers-auto", "cpu-bf16", "optimizer-fused"])
    (request,) = (one for one in requests if "subjects" in one)
    assert (list(request["subjects"]), request["ways"]) == (["product"], ["now", "bfloat16", "fused"])
    requests.clear()
    calibrate(run, "python", local, ["optimizer-fused"])
    on_device = Computing(shapes=Shapes([replace(layer, device="cuda")], [], []))
    calibrate(replace(run, computing=on_device), "python", local, ["cpu-bf16"])
    assert requests == []


def test_nothing_to_compare_with_is_a_gap(asked: list[tuple[str, str]]) -> None:
    rows, (gap,) = calibrate(replace(run_over([]), fetches=[]), "python", local)
    assert (rows, asked) == ([], [])
    assert "nothing to compare with" in gap.why


def test_an_interrupt_ends_it_and_keeps_what_is_there(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ask", lambda *_: Answer([ROW], interrupted=True))
    rows, gaps = calibrate(run_over([data], payload=MANY), "python", local)
    assert [row.subject for row in rows] == ["read", "files"]
    assert [gap.why for gap in gaps] == ["it was interrupted"]


def test_a_probe_that_fails_is_a_gap(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ask", lambda *_: Answer(problem="its process ended with 1"))
    _, gaps = calibrate(run_over([data]), "python", local)
    assert [(gap.what, gap.why) for gap in gaps] == [("calibration of reads", "its process ended with 1")]


def test_when_the_time_is_used_up_nothing_more_is_begun(
    data: str, asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "BUDGET_S", 0.1)
    _, gaps = calibrate(run_over([data]), "python", local)
    assert (asked, [gap.why for gap in gaps]) == ([], ["no time was left for it"])


def test_a_training_that_was_interrupted_is_not_followed_by_more_waiting(
    data: str, asked: list[tuple[str, str]]
) -> None:
    rows, gaps = calibrate(run_over([data], signal=2), "python", local)
    assert (rows, asked) == ([], [])
    assert gaps[0].why == "the training was ended by signal 2"


@pytest.mark.parametrize(
    "wrong",
    [{"seconds": -1.0}, {"seconds": float("nan")}, {"cpu_s": "x"}, {"repeats": None}, {"repeats": 1e400}],
)
def test_a_row_that_makes_no_sense_is_not_believed(
    data: str, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
) -> None:
    monkeypatch.setattr(room, "ask", lambda *_: Answer([{**ROW, **wrong}]))
    rows, _ = calibrate(run_over([data]), "python", local)
    assert [row.subject for row in rows] == ["files"]
