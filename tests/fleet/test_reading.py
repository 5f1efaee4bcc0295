"""Files of a fleet: what is read, once, and what is refused in one line."""

import gc
import json
import os
import tempfile
from pathlib import Path

import pytest

from bottleneck_doctor.fleet.questions import answer
from bottleneck_doctor.fleet.reading import open_store, runs_of
from tests.fleet.conftest import asked, taken
from tests.fleet.made_up import RECORDED, Plan, put, recorded
from tests.lab import golden

GOOD = recorded("augment-bound").decode()


def test_what_does_not_fit_in_memory_goes_to_a_private_folder_that_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "bdoc-fleet").mkdir()  # as another user may have made it
    store = open_store(threads=1)
    (place,) = tmp_path.glob("bdoc-fleet-*")
    assert place.stat().st_mode & 0o777 == 0o700
    store.execute("SET memory_limit = '30MB'")
    store.execute("CREATE TABLE big AS SELECT range, md5(range::VARCHAR) FROM range(1000000)")
    assert any(place.iterdir())
    del store
    gc.collect()
    assert [one.name for one in tmp_path.rglob("*")] == ["bdoc-fleet"]


BROKEN = {
    "cut": (GOOD[:500].encode(), "not readable as JSON"),
    "deep": (b"[" * 1_000_000, "not readable as JSON"),
    "deep and whole": (b"[" * 100_000 + b"]" * 100_000, "names no schema"),
    "foreign": (b'{"schema":"a\\u0000\\u001b[2Jb"}', "its schema is a"),
    "newer": (GOOD.replace('"schema_version": 1', '"schema_version": 9').encode(), "written by a newer bdoc"),
    "nan": (GOOD.replace('"duration_s": 7.', '"duration_s": NaN, "x": 7.').encode(), "no duration"),
    "negative": (GOOD.replace('"duration_s": 7.', '"duration_s": -7.').encode(), "no duration"),
    "tomorrow": (GOOD.replace("2026-11-22T", "2999-11-22T").encode(), "not in the past"),
    "other types": (GOOD.replace('"run": {', '"run": [1], "x": {').encode(), "no instant"),
}


@pytest.mark.parametrize("which", BROKEN)
def test_a_broken_file_is_one_line_and_kills_nothing(tmp_path: Path, which: str) -> None:
    data, why = BROKEN[which]
    (tmp_path / "broken.json").write_bytes(data)
    (tmp_path / "good.json").write_text(GOOD)
    store, reading = taken(tmp_path)
    assert runs_of(store) == 1
    (refused,) = reading.refused
    assert refused.file.endswith("broken.json")
    assert why in refused.why
    assert answer(store, reading.refused).totals.runs == 1


@pytest.mark.parametrize(
    "change",
    [
        ('"metrics": {', '"metrics": {"x": {"value": 1}, "x": {"value": 2}, '),
        ('"likely": null', '"likely": "inf"'),
        ('"likely": null', '"likely": 1e-300'),
        ('"host": "box"', '"host": "\\u202e\\u001b]0;x\\u0007"'),
        ('"step_time_s": {\n      "value": ', '"step_time_s": {\n      "value": 1e-308, "x": '),
    ],
)
def test_odd_values_are_survived(tmp_path: Path, change: tuple[str, str]) -> None:
    assert change[0] in GOOD
    for number in range(8):  # so that it is compared, too
        text = GOOD.replace(*change, 1).replace('"duration_s": 7.', f'"duration_s": {number + 1}.')
        (tmp_path / f"{number}.json").write_text(text.replace("-22T", f"-{16 + number}T"))
    fleet = asked(tmp_path)
    assert fleet.totals.runs == 8
    assert fleet.totals.wasted.core == 0


def test_files_that_vanish_or_may_not_be_read_are_named(tmp_path: Path) -> None:
    put(tmp_path, Plan(3, 1, 1))
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    store, reading = taken(tmp_path, tmp_path / "missing.json")
    assert runs_of(store) == 3
    assert {os.path.basename(one.file) for one in reading.refused} == {"gone.json", "missing.json"}


def test_a_run_that_two_files_tell_of_counts_once(tmp_path: Path) -> None:
    put(tmp_path, Plan(4, 2, 2))
    (tmp_path / "again.json").write_text((tmp_path / "0.json").read_text())
    fleet = asked(tmp_path, tmp_path / "*.json")
    assert (fleet.totals.runs, fleet.totals.repeated) == (4, 1)


@pytest.mark.slow
def test_profiles_are_diagnosed_in_processes_of_their_own(tmp_path: Path) -> None:
    for kind in ("augment-bound", "loader-in-main"):
        data = golden.read(RECORDED, f"{kind}.profile.json")
        (tmp_path / f"{kind}.json").write_bytes(data)
    (tmp_path / "cut.json").write_bytes(data[: len(data) // 2])
    (tmp_path / "hostile.json").write_text('{"schema": "bottleneck-doctor/profile", "schema_version": 1}')
    (tmp_path / "again.json").write_bytes(recorded("augment-bound"))
    store, reading = taken(tmp_path)
    assert reading.diagnosed == 2
    assert runs_of(store) == 2, "the report and the profile of one run are one run"
    assert {os.path.basename(one.file): one.why.split(":")[0] for one in reading.refused} == {
        "cut.json": "not readable as JSON",
        "hostile.json": "not a bdoc profile",
    }
    report = json.loads(recorded("loader-in-main"))
    (found,) = store.execute("SELECT bound, step_s FROM runs WHERE job LIKE 'loader_in_main%'").fetchall()
    assert found == (report["verdict"]["bound"], report["metrics"]["step_time_s"]["value"])
