"""What `bdoc watch` shows: on a terminal, in a log, as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from bottleneck_doctor.model.run import Announcement, Ending, Lifetime, LiveView
from bottleneck_doctor.render.watch import listed, plain_line, record, short, whole
from tests.render.reports import INCONCLUSIVE, TYPICAL

SAID = Announcement(
    Lifetime(4242, 9), "here", ["/usr/bin/python", "train.py", "--epochs", "3"], "train.py", "/data", "now",
    5, "/data/profile.json",
)  # fmt: skip
VIEW = LiveView(SAID, "running", 192.0, 1204, 1200, ranks=2, step_s=0.0207, wait_share=0.59)
ENDED = replace(VIEW, state="ended", ending=Ending(0), profile="profile.json")


def test_a_terminal_shows_pace_verdict_and_remedies_on_one_screen() -> None:
    text = short(VIEW, TYPICAL, 80, False, "utf-8")
    for words in (
        "train.py --epochs 3", "pid 4242", "3 min 12 s", "1 204 steps", "2 ranks", "20.7 ms each",
        "59 % waiting for data", TYPICAL.remedies[0].title[1:], "Ctrl-C leaves",
    ):  # fmt: skip
        assert words in " ".join(text.split())
    assert TYPICAL.verdict.summary[:30] in text
    assert len(text.splitlines()) <= 42


@pytest.mark.parametrize("report", [TYPICAL, INCONCLUSIVE, None])
def test_no_line_is_wider_than_the_terminal(report: object) -> None:
    for view in (VIEW, LiveView(SAID, "starting", 3.0)):
        text = whole(view, report, 40, False, "ascii")  # type: ignore[arg-type]
        assert max(map(cell_len, text.splitlines())) <= 40
        text.encode("ascii")


def test_a_log_gets_one_line() -> None:
    line = plain_line(VIEW, TYPICAL, 80, False, "utf-8")
    assert line.count("\n") == 1
    for words in ("3 min 12 s", "1 204 steps", "20.7 ms each", "59 % waiting for data", "best so far"):
        assert words in line


def test_json_has_the_whole_report() -> None:
    line = record(VIEW, TYPICAL, 80, False, "utf-8")
    assert line.count("\n") == 1
    found = json.loads(line)
    assert (found["steps"], found["step_time_s"], found["data_wait_fraction"]) == (1204, 0.0207, 0.59)
    assert found["report"]["verdict"]["bound"] == TYPICAL.verdict.bound
    assert json.loads(record(ENDED, None, 80, False, "utf-8"))["exit_status"] == 0
    bare = json.loads(record(LiveView(SAID, "starting", 1.0), None, 80, False, "utf-8"))
    assert {bare[key] for key in ("step_time_s", "report", "exit_status", "profile")} == {None}


@pytest.mark.parametrize(
    ("view", "last"),
    [
        (ENDED, "ended with status 0 · profile in profile.json · bdoc report profile.json"),
        (replace(ENDED, profile=None, ending=Ending(137, 9)), "ended with status 137, killed by signal 9"),
        (
            replace(VIEW, state="killed", survivor=77),
            "bdoc was killed: there will be no profile; the training (pid 77) goes on unwatched",
        ),
    ],
)
def test_the_last_line_says_how_it_ended(view: LiveView, last: str) -> None:
    assert short(view, None, 100, False, "utf-8").splitlines()[-1] == last
    assert last in plain_line(view, None, 100, False, "utf-8")


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (replace(VIEW, state="stalled", silent_s=42.0), "no new batch for 42 s"),
        (replace(VIEW, state="stopped"), "stopped: SIGCONT"),
        (replace(VIEW, note="too early to say: 5 of 13 steps"), "too early to say: 5 of 13 steps"),
        (replace(VIEW, announcement=replace(SAID, max_steps=2000)), "1 200 of 2 000 steps"),
    ],
)
def test_what_is_unusual_stands_beside_the_pace(view: LiveView, said: str) -> None:
    assert said in " ".join(short(view, None, 100, False, "utf-8").split())
    assert said in plain_line(view, None, 100, False, "utf-8")


def test_a_command_line_cannot_control_the_terminal() -> None:
    hostile = replace(SAID, command=["python", "a\x1b[2Jb\n.py"], script=None)
    for text in (short(replace(VIEW, announcement=hostile), None, 80, False, "utf-8"), listed(hostile, 3.0)):
        assert "\x1b" not in text
    assert "\n" not in listed(hostile, 3.0)


def test_a_list_names_pid_command_time_and_folder() -> None:
    assert listed(SAID, 192.0) == "4242 · train.py --epochs 3 · 3 min 12 s · /data"
