"""What `bdoc watch` shows: on a terminal, in a log, as JSON."""

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from bottleneck_doctor.model.run import Announcement, Ending, Lifetime, LiveView
from bottleneck_doctor.render.watch import listed, plain_line, record, short, whole
from tests.render.drawn import require_golden
from tests.render.reports import INCONCLUSIVE, TYPICAL

SAID = Announcement(
    Lifetime(4242, 9), "here", ["/usr/bin/python", "train.py", "--epochs", "3"], "train.py", "/data", "now",
    5, "/data/profile.json",
)  # fmt: skip
VIEW = LiveView(SAID, "running", 192.0, 1204, 1200, ranks=2, step_s=0.0207, wait_share=0.59)
ENDED = replace(VIEW, state="ended", ending=Ending(0), profile="profile.json")


VIEWS = [
    replace(VIEW, state="stalled", silent_s=42.0),
    replace(VIEW, state="stopped"),
    replace(VIEW, note="too early to say: 5 of 13 steps"),
    replace(VIEW, announcement=replace(SAID, max_steps=2000)),
    ENDED,
    replace(ENDED, profile=None, ending=Ending(137, 9)),
    replace(VIEW, state="killed", survivor=77),
]


def test_screens_and_lines_of_a_log_are_as_accepted() -> None:
    assert len(short(VIEW, TYPICAL, 80, False, "utf-8").splitlines()) <= 42
    said = [listed(SAID, 192.0), "\n"]
    for view, report in [(VIEW, TYPICAL), *((view, None) for view in VIEWS)]:
        line = plain_line(view, report, 80, False, "utf-8")
        assert line.count("\n") == 1
        said += [short(view, report, 80, False, "utf-8"), line, "\n"]
    require_golden("watch.txt", "".join(said))


@pytest.mark.parametrize("report", [TYPICAL, INCONCLUSIVE, None])
def test_no_line_is_wider_than_the_terminal(report: object) -> None:
    for view in (VIEW, LiveView(SAID, "starting", 3.0)):
        text = whole(view, report, 40, False, "ascii")  # type: ignore[arg-type]
        assert max(map(cell_len, text.splitlines())) <= 40
        text.encode("ascii")


def test_json_has_the_whole_report() -> None:
    line = record(VIEW, TYPICAL, 80, False, "utf-8")
    assert line.count("\n") == 1
    found = json.loads(line)
    assert (found["steps"], found["step_time_s"], found["data_wait_fraction"]) == (1204, 0.0207, 0.59)
    assert found["report"]["verdict"]["bound"] == TYPICAL.verdict.bound
    assert json.loads(record(ENDED, None, 80, False, "utf-8"))["exit_status"] == 0
    bare = json.loads(record(LiveView(SAID, "starting", 1.0), None, 80, False, "utf-8"))
    assert {bare[key] for key in ("step_time_s", "report", "exit_status", "profile")} == {None}


def test_a_command_line_cannot_control_the_terminal() -> None:
    hostile = replace(SAID, command=["python", "a\x1b[2Jb\n.py"], script=None)
    for text in (short(replace(VIEW, announcement=hostile), None, 80, False, "utf-8"), listed(hostile, 3.0)):
        assert "\x1b" not in text
    assert "\n" not in listed(hostile, 3.0)
