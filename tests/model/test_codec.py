"""Profiles and reports are read as they were written; what is hostile or later is refused."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.model import codec
from bottleneck_doctor.model.codec import (
    BadProfile,
    decode_profile,
    encode_profile,
    encode_report,
    read_profile,
)
from bottleneck_doctor.model.codec import decode_live as decode
from bottleneck_doctor.model.codec import encode_live as encode
from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.report import Metric
from bottleneck_doctor.model.run import Announcement, Ending, Gap, Lifetime, Snapshot
from tests.model.profiles import MACHINE, PROFILE, RUN
from tests.render.reports import TYPICAL

HEAD = b'{"schema":"bottleneck-doctor/profile","schema_version":2,'


def changed(*path: str | int, to: Any) -> bytes:
    """The good profile with one value replaced."""
    content = json.loads(encode_profile(PROFILE))
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return json.dumps(content).encode()


def refusal(data: bytes) -> str:
    with pytest.raises(BadProfile) as caught:
        decode_profile(data)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 400
    return text


@pytest.mark.parametrize("profile", [PROFILE, Profile(RUN, MACHINE)])
def test_a_profile_survives_being_written_and_read(profile: Profile) -> None:
    assert decode_profile(encode_profile(profile)) == profile


def test_what_another_version_of_the_same_schema_holds_is_ignored() -> None:
    assert decode_profile(changed("loaders", 0, "colour", to=[1, {"a": None}])) == PROFILE


def test_a_column_that_an_older_bdoc_did_not_write_was_not_measured() -> None:
    content = json.loads(encode_profile(PROFILE))
    del content["loops"][0]["table"]["ready"]
    assert decode_profile(json.dumps(content).encode()).loops[0].table.ready == [None, None]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not readable as JSON: it is empty"),
        (b"\xff\xfe{", "not readable as JSON"),
        (encode_profile(PROFILE)[:-20], "it ends too early"),
        (b'{"schema":"other/tool"}', "its schema is 'other/tool', expected 'bottleneck-doctor/profile'"),
        (b'{"schema":"\\u001b[31m"}', "its schema is '\\x1b[31m'"),
        (b'{"schema":"bottleneck-doctor/profile"}', "schema_version is missing"),
        (HEAD.replace(b":2,", b":7,") + b'"run":{}}', "newer bdoc: bottleneck-doctor/profile version 7"),
        (HEAD + b'"machine":{"host":1}}', "Expected `str`, got `int` - at `$.machine.host`"),
        (HEAD + b'"run":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_no_profile_is_refused(data: bytes, text: str) -> None:
    assert text in refusal(data)


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("run", "command"), "train.py", "Expected `array`, got `str` - at `$.run.command`"),
        (("run", "duration_s"), -1.0, "run.duration_s is -1.0, and cannot be negative"),
        (("loops", 0, "table", "wall_s", 1), -0.1, "loops[0].table.wall_s[1] is -0.1"),
        (("loops", 0, "table", "wall_s"), [0.1], "column 'wall_s' has 1 rows, its time axis has 2"),
        (("loops", 0, "epochs", "batches"), [2, 2], "loops[0].epochs: column 'batches' has 2 rows"),
        (("series", "values", "\x1b[2J"), [0.5], "series: column '\\x1b[2J' has 1 rows"),
        (("operations", 0, "events", 0), [0.1, -0.1], "operations[0].events[0][1] is -0.1"),
        (("loops", 0, "table", "ready"), [10**400, 1], "loops[0].table.ready[0] is beyond 2**62"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_refused(path: tuple[str | int, ...], value: Any, text: str) -> None:
    assert text in refusal(changed(*path, to=value))


@pytest.mark.parametrize("number", [b"NaN", b"1e999", b"9" * 5000])
def test_numbers_without_a_value_are_refused(number: bytes) -> None:
    good = encode_profile(PROFILE)
    assert b'"duration_s":38.2' in good
    assert "not " in refusal(good.replace(b'"duration_s":38.2', b'"duration_s":' + number))


@pytest.mark.parametrize(
    "path", [("processes", 0, "started_s"), ("series", "values", "cpu", 0), ("loops", 0, "table", "t", 0)]
)
def test_instants_and_readings_may_be_negative(path: tuple[str | int, ...]) -> None:
    decode_profile(changed(*path, to=-0.5))


def test_strings_that_are_no_unicode_are_written_escaped() -> None:
    odd = replace(PROFILE, gaps=[Gap("caf\udce9", "x")])
    assert decode_profile(encode_profile(odd)).gaps == [Gap("caf\\udce9", "x")]


def test_a_profile_that_is_too_large_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "LARGEST_FILE", 1 << 20)
    assert "larger than 1 MiB" in refusal(encode_profile(PROFILE) + b" " * (1 << 20))


def test_a_file_is_never_read_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "LARGEST_FILE", 1 << 20)
    with pytest.raises(BadProfile, match="larger than 1 MiB"):
        read_profile("/dev/zero")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("profile.json", "no profile at '.*profile.json': `bdoc run SCRIPT` writes one"),
        ("a\nb.json", r"a\\nb.json': not a bdoc profile"),
        ("a\x00b", "cannot read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "a\nb.json").write_bytes(b"{}")
    with pytest.raises(BadProfile, match=text) as caught:
        read_profile(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.touch(mode=0)
    with pytest.raises(BadProfile, match="Permission denied"):
        read_profile(file)


def test_a_report_is_written_in_the_order_of_the_contract() -> None:
    content = json.loads(encode_report(TYPICAL))
    assert list(content)[:5] == ["schema", "schema_version", "run", "quality", "metrics"]
    assert list(content)[5:11] == ["budget", "verdict", "phases", "findings", "remedies", "abstentions"]
    later = ["environment", "functions", "operators", "device", "ledger", "budget_of", "bdoc", "warnings"]
    assert list(content)[11:] == later
    assert content["schema"] == "bottleneck-doctor/report"
    assert content["metrics"]["gpu_busy_fraction"]["value"] is None
    assert list(content["remedies"][0]["predicted_speedup"]) == ["low", "likely", "high", "basis"]
    assert content["findings"][0]["location"] is None
    assert encode_report(TYPICAL).startswith(b'{\n  "schema": "bottleneck-doctor/report",\n')


def test_a_report_never_holds_what_json_cannot_say() -> None:
    with pytest.raises(BadProfile, match=r"report\.metrics\.x\.value holds nan"):
        encode_report(replace(TYPICAL, metrics={"x": Metric(math.nan, "s")}))


def test_loops_without_a_loader_of_version_1_are_read() -> None:
    content = json.loads(encode_profile(PROFILE))
    loop = content["outside"][0]
    newer = ("epoch", "wait_s", "set_aside", "ready", "wait_cpu_s", "wait_runq_s")
    flat = {name: cells for name, cells in loop["table"].items() if name not in newer}
    old = {"pid": 10, "thread": 10, "total": 1, "body": loop["body"], **flat, "logging_s": [None]}
    (found,) = decode_profile(json.dumps({**content, "schema_version": 1, "outside": [old]}).encode()).outside
    assert (found.loader, found.steps, found.wall_s, found.table.gap_s) == ("", 1, 0.1, [0.01])
    assert found.table.logging_s == [0.0]
    del old["total"]
    with pytest.raises(BadProfile, match="lacks columns"):
        decode_profile(json.dumps({**content, "schema_version": 1, "outside": [old, 3]}).encode())


SAMPLE = Sample(5, "system", {"cpu_busy_s": 1.5, "pressure_scope": "cgroup"})
SNAPSHOT = Snapshot(RUN, MACHINE, 7, samples=[SAMPLE])


def test_an_announcement_comes_back_as_it_was_but_for_what_is_no_unicode() -> None:
    made = Announcement(Lifetime(7, 9), "here", ["python", "a\udcff.py"], "a.py", "/", "now", 5, "/p.json")
    assert decode(encode(made), Announcement) == replace(made, command=["python", "a\\udcff.py"])


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'{"exit_status": "none"}', b"\xff\xfe"])
def test_what_is_torn_or_foreign_is_nothing(data: bytes) -> None:
    assert decode(data, Ending) is None
    assert decode(data, Announcement) is None
    assert decode(data, Snapshot) is None


def test_a_snapshot_comes_back_whole_and_every_cut_of_it_is_nothing_rather_than_an_error() -> None:
    data = encode(SNAPSHOT)
    assert decode(data, Snapshot) == SNAPSHOT
    assert [decode(data[:length], Snapshot) for length in range(len(data))] == [None] * len(data)
