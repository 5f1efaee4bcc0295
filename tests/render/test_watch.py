"""What somebody sees who watches a run: on a terminal or in a log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from bottleneck_doctor.model.report import Report
from bottleneck_doctor.model.run import Announcement, Ending, Lifetime, LiveView, PacePoint, Surroundings
from bottleneck_doctor.render.watch import block, listed, plain_line
from tests.render.reports import HEALTHY, INCONCLUSIVE, TYPICAL

SAID = Announcement(
    Lifetime(4242, 9), "here", ["/usr/bin/python", "train.py", "--epochs", "3"], "train.py", "/data", "now",
    5, "/data/profile.json",
)  # fmt: skip
AROUND = Surroundings(2.0, 1.62, 0.11, {"cpu": 0.12, "io": 0.0, "memory": 0.0}, [0.87, 0.5], [0.4, 0.3])
LOOK = LiveView(
    SAID, "running", 192.0, 1204, 1200, ranks=2, now=PacePoint(0.0207, 0.59),
    history=[PacePoint(0.02, 0.5), PacePoint(None, None), PacePoint(0.03, 0.9)] * 40, around=AROUND,
)  # fmt: skip
ENDED = replace(LOOK, state="ended", ending=Ending(0), profile="profile.json")


def drawn(look: LiveView, report: Report | None = TYPICAL, width: int = 80, encoding: str = "utf-8") -> str:
    return block(look, report, width, False, encoding)


def test_a_block_says_pace_machine_verdict_and_the_best_remedy() -> None:
    text = drawn(LOOK)
    for words in (
        "train.py --epochs 3", "pid 4242", "3 min 12 s", "1 204 steps", "2 ranks", "20.7 ms, 48.3/s", "59 %",
        "job 1.62 of 2 cores · strangers 0.11", "busy 87 %, 50 %", "CPU 12 %", "so far",
        "confidence", "Ctrl-C", TYPICAL.remedies[0].title[1:],
    ):  # fmt: skip
        assert words in " ".join(text.split())


@pytest.mark.parametrize("report", [TYPICAL, HEALTHY, INCONCLUSIVE, None])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int, report: Report | None) -> None:
    for look in (LOOK, ENDED, LiveView(SAID, "starting", 3.0)):
        lines = drawn(look, report, width).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert width < 80 or len(lines) <= 15


def test_a_terminal_without_our_signs_gets_plainer_ones() -> None:
    text = drawn(LOOK, encoding="ascii")
    text.encode("ascii")
    assert "\\u" not in text


def test_colours_only_where_they_are_wanted() -> None:
    assert "\x1b[" in block(LOOK, TYPICAL, 80, True, "utf-8")
    assert "\x1b[" not in drawn(LOOK)


def test_before_there_are_enough_steps_it_is_too_early_to_say() -> None:
    assert "too early to say" in drawn(LOOK, None)
    assert "too early to say: 5 of 13 steps" in drawn(replace(LOOK, steps=5, enough_steps=13), None)
    assert f"too early to say: {INCONCLUSIVE.verdict.summary}" in " ".join(drawn(LOOK, INCONCLUSIVE).split())


def test_why_there_is_no_verdict_is_said() -> None:
    assert "no verdict yet: the diagnosis runs at idle CPU priority" in drawn(
        replace(LOOK, judging=True), None
    )
    assert "no verdict: not enough memory" in drawn(replace(LOOK, unjudged="not enough memory"))


@pytest.mark.parametrize(
    ("look", "last"),
    [
        (ENDED, "ended with status 0 · profile in profile.json · bdoc report profile.json"),
        (replace(ENDED, profile=None), "ended with status 0"),
        (replace(ENDED, profile=None, ending=Ending(137, 9)), "ended with status 137, killed by signal 9"),
        (replace(ENDED, profile=None, ending=Ending(0, None, "max-steps")), "ended by --max-steps"),
        (replace(LOOK, state="killed"), "bdoc was killed: there will be no profile"),
        (
            replace(LOOK, state="killed", survivor=77),
            "bdoc was killed: there will be no profile; the training (pid 77) goes on unwatched",
        ),
        (replace(LOOK, state="finishing"), "the training has ended; bdoc is writing the profile"),
    ],
)
def test_the_last_line_says_how_it_ended(look: LiveView, last: str) -> None:
    assert drawn(look, width=100).splitlines()[-1] == last
    assert last in plain_line(look, None, "utf-8")


def test_a_job_that_stands_still_says_so() -> None:
    assert "no new batch for 42 s" in drawn(replace(LOOK, state="stalled", silent_s=42.0))
    assert "stopped: SIGCONT" in drawn(replace(LOOK, state="stopped"))


def test_a_log_gets_one_line_with_everything() -> None:
    line = plain_line(LOOK, TYPICAL, "utf-8")
    assert line.count("\n") == 1
    for words in ("3 min 12 s", "1 204 steps", "20.7 ms each", "59 % waiting for data", "best so far"):
        assert words in line


def test_what_a_stranger_wrote_into_a_command_line_is_harmless() -> None:
    hostile = replace(SAID, command=["python", "a\x1b[2Jb\n.py"], script=None)
    for text in (drawn(replace(LOOK, announcement=hostile)), listed(hostile, 3.0)):
        assert "\x1b" not in text
    assert "\n" not in listed(hostile, 3.0)


def test_a_list_names_pid_command_time_and_folder() -> None:
    assert listed(SAID, 192.0) == "4242 · train.py --epochs 3 · 3 min 12 s · /data"
