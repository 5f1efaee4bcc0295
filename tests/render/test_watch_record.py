"""What a program reads that watches a run: one JSON object a line."""

from __future__ import annotations

import json

import pytest

from bottleneck_doctor.model.run import LiveView
from bottleneck_doctor.render.watch import record
from tests.render.reports import TYPICAL
from tests.render.test_watch import ENDED, LOOK, SAID


def test_json_is_one_object_a_line_with_the_names_of_the_metrics() -> None:
    line = record(LOOK, TYPICAL)
    assert line.count("\n") == 1
    found = json.loads(line)
    assert set(found) & set(TYPICAL.metrics) == {
        "step_time_s", "steps_per_s", "data_wait_fraction", "cpu_busy_fraction", "gpu_busy_fraction",
        "gpu_memory_fraction",
    }  # fmt: skip
    assert found["cpu_busy_fraction"] == pytest.approx(0.81)
    assert found["verdict"]["bound"] == TYPICAL.verdict.bound
    assert found["remedy"]["id"] == TYPICAL.remedies[0].id
    assert json.loads(record(ENDED, None))["exit_status"] == 0
    bare = json.loads(record(LiveView(SAID, "starting", 1.0), None))
    assert {bare[key] for key in ("step_time_s", "job_cores", "verdict", "remedy", "exit_status")} == {None}
