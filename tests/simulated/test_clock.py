"""What the agent reads off a device's clock is, look by look, what the simulated device did."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.rows import Row, read_logs
from tests.agent.watching import INJECT, watched
from tests.simulated.watched import ROOT

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone]

STEPS = 32  # as many as are looked at before any are left out
ENOUGH = 5  # looks that began in time; fewer say nothing. Of 32 a crowded machine had 8
TELLS_MS = 0.2  # between a reading and the truth, typically: the marks stand inside of the loop's wait
LATE_NS = 500_000  # after the loop asked: somebody had the core before the first mark was set
POINTS = 0.02  # of a step, all looks together
SCRIPT = """
import sys
sys.argv = ["train.py", "--steps", "{steps}", "--truth", "{truth}"]
from tests.simulated.trainings.{name} import main
main()
"""


class Reading(NamedTuple):
    """One look: nanoseconds of exposed wait as read and as true, and of the whole step as read."""

    read: int
    true: int
    whole: int


def readings(name: str, folder: Path) -> list[Reading]:
    """All looks that began in time but the first, which builds what others keep."""
    truth = folder / "truth.json"
    script = SCRIPT.format(steps=STEPS, truth=truth, name=name)
    told = watched(folder, script, PYTHONPATH=f"{INJECT}:{ROOT}")
    assert told.status == 0, told.stderr
    true = json.loads(truth.read_text())["exposed"]
    rows = [row for log in read_logs(told.folder) for row in log.of(wire.DEVICE_STEP)]
    pairs = [(row, _step(true, row)) for row in rows[1:]]
    return [
        Reading(row.wait_ns, idle, row.whole_ns) for row, (begin, idle) in pairs if row.t - begin < LATE_NS
    ]


def _step(exposed: list[tuple[int, int]], row: Row) -> tuple[int, int]:
    """When the step began in which the look did, and how long its wait was exposed."""
    return exposed[bisect_right([begin for begin, _ in exposed], row.t) - 1]


@pytest.mark.parametrize("name", ["starved_by_source", "hidden_wait", "sync_bound"])
def test_each_exposed_wait_is_read_as_it_was(name: str, tmp_path: Path) -> None:
    found = readings(name, tmp_path)
    assert len(found) >= ENOUGH
    assert median(abs(one.read - one.true) for one in found) < TELLS_MS * 1e6
    whole = sum(one.whole for one in found)
    assert sum(one.read for one in found) / whole == pytest.approx(
        sum(one.true for one in found) / whole, abs=POINTS
    )
