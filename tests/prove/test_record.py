"""Predictions and what became of them, in the user's own file: nothing of anybody's is lost, or leaves."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.model.errors import UsageError
from bottleneck_doctor.model.proof import Gain, Proof
from bottleneck_doctor.model.report import Speedup
from bottleneck_doctor.prove import record
from bottleneck_doctor.prove.record import default_path, machine_of, remember, track_record
from tests.render.proof.proofs import BROKEN, TYPICAL, WORKERS


def proof_of(measured: float, script: str = "train.py", low: float = 1.7, high: float = 2.6) -> Proof:
    """A proof of one remedy, predicted ×2."""
    gain = Gain(measured, measured * 0.97, measured * 1.03, 3)
    row = replace(WORKERS, predicted=Speedup(low, 2.0, high, "replay"), measured=gain)
    return replace(TYPICAL, rows=[row, BROKEN], run=replace(TYPICAL.run, command=["python", script]))


def test_each_pair_is_a_line_and_what_was_not_measured_is_none(tmp_path: Path) -> None:
    path = tmp_path / "state" / "bdoc" / "proofs.jsonl"
    assert remember(str(path), proof_of(1.9)) == 1
    (line,) = path.read_text().splitlines()
    told = json.loads(line)
    assert (told["remedy"], told["predicted"], told["measured"][1]) == ("workers-auto", [1.7, 2.0, 2.6], 1.9)
    assert path.stat().st_mode & 0o077 == 0


def test_the_file_names_neither_script_nor_host(tmp_path: Path) -> None:
    remember(str(tmp_path / "p"), proof_of(1.9, "secret_project.py"))
    written = (tmp_path / "p").read_text()
    assert [word for word in ("secret", "box", "ann", "train") if word in written] == []


def test_the_record_counts_predictions_those_inside_and_their_median_error(tmp_path: Path) -> None:
    path = str(tmp_path / "p")
    for script, measured in (("a", 2.0), ("b", 1.6), ("c", 2.5), ("d", 1.8)):
        remember(path, proof_of(measured, script))
    found = track_record(path)
    assert (found.path, found.whole.tried, found.whole.inside) == (path, 4, 3)
    assert found.whole.median_error == pytest.approx((0.2 + 0.1111) / 2, abs=1e-3)
    assert found.remedies == {"workers-auto": found.whole}


def test_a_job_proven_again_counts_once_with_what_it_said_last(tmp_path: Path) -> None:
    path = str(tmp_path / "p")
    for measured in (1.0, 1.2, 2.0):
        remember(path, proof_of(measured))
    assert (track_record(path).whole.tried, track_record(path).whole.inside) == (1, 1)


def test_another_machine_keeps_its_own_record_in_the_same_file(tmp_path: Path) -> None:
    path, here = str(tmp_path / "p"), proof_of(2.0)
    there = replace(here, run=replace(here.run, host="other"))
    remember(path, here)
    remember(path, there)
    assert track_record(path).whole.tried == 2
    assert track_record(path, machine_of(here.run)).whole.tried == 1


@pytest.mark.parametrize(
    "broken",
    [
        b"\x00\xff\n",
        b"[1, 2]\n",
        b'{"remedy": "workers-auto"}\n',
        b'{"at":"","machine":"m","job":"j","remedy":"r","basis":"replay","predicted":[1,-2,3],'
        b'"measured":[1,2,3],"verdict":"kept"}\n',
        b'{"at": "2026',
        b"x" * 9000 + b"\n",
    ],
)
def test_a_broken_line_is_skipped_and_no_later_one_is_lost_to_it(broken: bytes, tmp_path: Path) -> None:
    path = tmp_path / "p"
    remember(str(path), proof_of(2.0, "a"))
    with open(path, "ab") as file:
        file.write(broken)
    remember(str(path), proof_of(2.0, "b"))
    assert track_record(str(path)).whole.tried == 2


def test_a_file_that_grows_too_large_loses_its_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LARGEST_FILE", 4000)
    path = tmp_path / "p"
    for script in map(str, range(40)):
        remember(str(path), proof_of(2.0, script))
        assert path.stat().st_size <= 4000 + 400
    newest = json.loads(path.read_text().splitlines()[-1])
    remember(str(tmp_path / "q"), proof_of(2.0, "39"))
    assert newest == json.loads((tmp_path / "q").read_text())
    assert [name for name in os.listdir(tmp_path) if name not in "pq"] == []


def _remember_often(path: str, name: str) -> None:
    for count in range(20):
        remember(path, proof_of(2.0, f"{name}{count}"))


def test_several_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "p")
    writers = [multiprocessing.Process(target=_remember_often, args=(path, name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert track_record(path).whole.tried == 60


def test_a_lock_that_is_never_given_back_delays_and_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "WAIT_S", 0.0)
    path = tmp_path / "p"
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert remember(str(path), proof_of(2.0)) == 1
    assert track_record(str(path)).whole.tried == 1


def test_a_place_that_cannot_be_written_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write .*file/p.*--record-file"):
        remember(str(tmp_path / "file" / "p"), proof_of(2.0))


def test_no_file_is_an_empty_record(tmp_path: Path) -> None:
    assert track_record(str(tmp_path / "none")).whole.tried == 0


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"XDG_STATE_HOME": "/state"}, "/state/bdoc/proofs.jsonl"),
        ({"XDG_STATE_HOME": "state"}, None),
        ({}, None),
    ],
)
def test_the_file_is_where_programs_keep_their_state(environment: dict[str, str], path: str | None) -> None:
    expected = path or os.path.expanduser("~/.local/state/bdoc/proofs.jsonl")
    assert default_path(environment) == expected
