"""Files for other programs: speedscope and Perfetto."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bottleneck_doctor.analyse.lanes import PIECES_AT_MOST
from bottleneck_doctor.analyse.timeline import POINTS_AT_MOST
from bottleneck_doctor.model.picture import CallPath, CallPaths, Curve, Lanes, Mark, Picture, Pieces, Timeline
from bottleneck_doctor.render.stacks import speedscope_file
from bottleneck_doctor.render.trace import trace
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import TYPICAL
from tests.render.scenes import SAMPLED, UNSAMPLED

SCHEMA = json.loads((Path(__file__).parent / "speedscope" / "file-format-schema.json").read_text())


def written(picture: Picture) -> dict[str, Any]:
    """The file, valid."""
    found: dict[str, Any] = json.loads(speedscope_file(TYPICAL, picture))
    jsonschema.Draft7Validator({**SCHEMA, "$ref": "#/definitions/FileFormat.File"}).validate(found)
    return found


def test_each_role_is_a_profile_and_another_of_what_was_on_a_core() -> None:
    profiles = written(SAMPLED)["profiles"]
    assert [(one["name"], one["endValue"]) for one in profiles] == [
        ("the training thread", 98),
        ("the training thread, on CPU alone", 17),
        ("the workers", 389),
        ("the workers, on CPU alone", 188),
        ("other threads", 98),
    ]


def test_paths_stand_outermost_first_with_file_and_line() -> None:
    found = written(SAMPLED)
    frames = found["shared"]["frames"]
    first = [frames[place] for place in found["profiles"][0]["samples"][0]]
    assert [(one["name"], one["file"], one["line"]) for one in first] == [
        ("main", "train.py", 41),
        ("__next__", "torch/utils/data/dataloader.py", 630),
        ("wait", "python3.11/threading.py", 331),
    ]
    assert found["profiles"][0]["weights"] == [80, 18]


def test_a_run_without_stacks_gives_a_valid_empty_file() -> None:
    assert written(UNSAMPLED)["profiles"] == []


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_hostile_names_stay_names(attack: str) -> None:
    path = CallPath([attack, f"{attack} ({attack}:7)", f"f (/a.py:{attack})"], 3)
    found = written(replace(SAMPLED, stacks=[CallPaths(attack, 3, [path])]))
    said = [one["name"] for one in [*found["shared"]["frames"], *found["profiles"]]]
    assert said
    assert [name for name in said if not name.isprintable()] == []


TRACE_SCHEMA = json.loads((Path(__file__).parent / "trace_event_format.json").read_text())
MOST_BYTES = 4 << 20

# Worker 1 makes batch 7 while the loop waits for it; batch 8 was there already, batch 9 is still being made.
PIECES = Pieces(
    lane=[0, 0, 0, 0, 0, 1, 1, 1, 1],
    begin_s=[5.0, 5.1, 5.2, 5.25, 5.26, 4.9, 5.05, 5.1, 5.15],
    length_s=[0.1, 0.1, 0.05, 0.01, 0.04, 0.15, 0.05, 0.05, 0.2],
    what=["wait", "compute", "backward", "wait", "unseen", "cpu", "hand over", "idle", "storage"],
    batch=[7, 7, 7, 8, None, 7, 7, None, 9],
)
LANES = Lanes(5.0, 5.3, [3], 2, 0.37, PIECES)
TIMELINE = Timeline(
    20.0,
    [
        Curve("step_time_s", "step", [1.0, 2.0, 3.0], [0.1, None, 0.3]),
        Curve("job_cores", "cpu", [1.5], [2.0]),
    ],
    [Mark("warm-up", 0.5, 1.0), Mark("phase", 1.0, 9.0, "steady: io"), Mark("phase", 5.0, 5.0, "later: cpu")],
)
DRAWN = Picture(TIMELINE, LANES)


def events(picture: Picture) -> list[dict[str, Any]]:
    """The events of the trace, valid by the schema."""
    whole = json.loads(trace(TYPICAL, picture))
    jsonschema.Draft202012Validator(TRACE_SCHEMA).validate(whole)
    found: list[dict[str, Any]] = whole["traceEvents"]
    return found


def of(picture: Picture, phase: str) -> list[dict[str, Any]]:
    return [one for one in events(picture) if one["ph"] == phase]


def test_the_lanes_are_threads_with_names_in_order() -> None:
    named = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in of(DRAWN, "M")
        if one["name"] == "thread_name"
    }
    assert list(named.values()) == ["training loop", "worker 3"]
    assert {(one["pid"], one["tid"]) for one in of(DRAWN, "X")} == set(named)


def test_a_piece_is_a_slice_in_microseconds_that_knows_its_batch() -> None:
    first = of(DRAWN, "X")[1]
    assert (first["ts"], first["dur"]) == (5_000_000, 100_000)
    assert first["args"] == {"kind": "wait", "batch": 7}
    assert first["name"] == "waits for a batch"


def test_an_arrow_leads_from_the_fetch_of_a_batch_to_the_step_that_has_it() -> None:
    (begin,), (end,) = of(DRAWN, "s"), of(DRAWN, "f")
    assert begin["id"] == end["id"] == 7
    assert end["bp"] == "e"
    assert enclosing(begin)["args"] == {"kind": "hand over", "batch": 7}
    assert enclosing(end)["args"] == {"kind": "compute", "batch": 7}


def enclosing(flow: dict[str, Any]) -> dict[str, Any]:
    """The one slice that an end of an arrow lies on, its edges apart."""
    (found,) = [
        one
        for one in of(DRAWN, "X")
        if one["tid"] == flow["tid"] and one["ts"] < flow["ts"] < one["ts"] + one["dur"]
    ]
    return found


def test_a_curve_is_a_counter_and_what_was_not_measured_is_left_out() -> None:
    counted = [(one["name"], one["ts"], one["args"]["value"]) for one in of(DRAWN, "C")]
    assert counted == [
        ("step_time_s", 1_000_000, 0.1),
        ("job_cores", 1_500_000, 2.0),
        ("step_time_s", 3_000_000, 0.3),
    ]


def test_a_mark_begins_and_ends_once_and_may_overlap_others() -> None:
    begins, ends = of(DRAWN, "b"), of(DRAWN, "e")
    spans = {one["id"]: (one["name"], one["ts"]) for one in begins}
    assert {one["id"]: one["ts"] - spans[one["id"]][1] for one in ends} == {0: 500_000, 1: 8_000_000, 2: 0}
    assert [name for name, _ in spans.values()] == ["warm-up", "phase: steady: io", "phase: later: cpu"]


def test_the_trace_says_what_the_verdict_is() -> None:
    told = json.loads(trace(TYPICAL, DRAWN))["otherData"]
    assert (told["bound"], told["verdict"]) == (TYPICAL.verdict.bound, TYPICAL.verdict.summary)


def test_a_run_of_which_nothing_can_be_drawn_is_a_trace_too() -> None:
    assert {one["ph"] for one in events(Picture(Timeline(0.0)))} == {"M"}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_foreign_words_stay_words(attack: str) -> None:
    timeline = Timeline(
        1.0, [Curve(attack or "x", "step", [0.5], [1.0])], [Mark("instrument", 0.0, 1.0, attack)]
    )
    text = trace(attacked(TYPICAL, attack), Picture(timeline, LANES))
    assert text.isascii()
    whole = json.loads(text)
    jsonschema.Draft202012Validator(TRACE_SCHEMA).validate(whole)
    names = [one["name"] for one in whole["traceEvents"]] + list(whole["otherData"].values())
    assert all(name.isprintable() and len(name) < 400 for name in names)


def test_what_lies_closer_than_a_microsecond_neither_overlaps_nor_has_no_length() -> None:
    pieces = Pieces([0] * 4, [1.0, 1.0000004, 1.0000012, 1.0000019], [4e-7, 9e-7, 7e-7, 1.0],
                    ["wait", "compute", "backward", "wait"], [1, 1, 1, 2])  # fmt: skip
    slices = of(Picture(Timeline(2.0), Lanes(1.0, 2.0, [], 1, 0.5, pieces)), "X")
    assert all(one["dur"] > 0 for one in slices)
    assert all(one["ts"] + one["dur"] <= later["ts"] for one, later in pairwise(slices))


def largest() -> Picture:
    """As much as an analysis ever draws: every curve full, lanes and marks at their limits."""
    times = [place * 86.4123456789 for place in range(POINTS_AT_MOST)]
    values: list[float | None] = [123456789.123456789 / (1 + t) for t in times]
    curves = [
        Curve(f"quantity_number_{number}_bytes_per_s", "pressure", times, values) for number in range(20)
    ]
    marks = [Mark("checkpoint", 80.0 * place, 80.0 * place + 1.5, "a label") for place in range(700)]
    count = PIECES_AT_MOST
    pieces = Pieces(
        [place % 65 for place in range(count)],
        [86000.0 + (place // 65) * 0.01 for place in range(count)],
        [0.0099] * count,
        ["hand over", "storage"] * (count // 2),
        list(range(count)),
    )
    return Picture(
        Timeline(86400.0, curves, marks), Lanes(86000.0, 86002.0, list(range(64)), 40, 0.5, pieces)
    )


def test_the_largest_picture_makes_a_trace_of_at_most_4_mib() -> None:
    assert len(trace(TYPICAL, largest())) <= MOST_BYTES


def test_events_are_in_order_and_slices_of_a_thread_never_overlap() -> None:
    found = json.loads(trace(TYPICAL, largest()))["traceEvents"]
    reached: Counter[tuple[int, int]] = Counter()
    for one in found:
        if one["ph"] == "X":
            assert one["ts"] >= reached[one["pid"], one["tid"]]
            reached[one["pid"], one["tid"]] = one["ts"] + one["dur"]
    instants = [one["ts"] for one in found]
    assert instants == sorted(instants)
