"""One look at a thread reads little, and tells a thread that ended from one that may not be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.sense.wait_channels import Thread, Wait, call_numbers
from tests.sense.conftest import Plant

CALLS = call_numbers("x86_64")


def thread(plant: Plant, state: str, channel: str, call: str) -> Thread:
    """Thread 8 of process 7 in the state that these files show."""
    folder = "proc/7/task/8"
    files = {
        f"{folder}/stat": f"8 (python) x) {state} 1 7\n",
        f"{folder}/wchan": channel,
        f"{folder}/syscall": call,
    }
    return Thread(7, 8, CALLS, plant(files))


@pytest.mark.parametrize(
    ("state", "channel", "call", "seen"),
    [
        ("R", "0", "running\n", None),
        (
            "D",
            "folio_wait_bit",
            "17 0x5 0x0 0x1 0x7f\n",
            (Wait("", "folio_wait_bit", "descriptor", "pread64"), 5),
        ),
        ("D", "a_new_name", "0 0x3 0x0\n", (Wait("D", "a_new_name", "descriptor", "read"), 3)),
        ("S", "0", "202 0x7f 0x80\n", (Wait("S", "", "lock", "futex"), 0x7F)),
        ("D", "folio_wait_bit", "-1 0x7ff 0x55\n", (Wait("D", "folio_wait_bit", "fault", ""), 0x7FF)),
        ("S", "do_wait", "61 0xff\n", (Wait("S", "do_wait", "other", ""), 0xFF)),
        (
            "S",
            "poll_schedule_timeout",
            "7 0x7f 0x2 0x5\n",
            (Wait("", "poll_schedule_timeout", "poll", "poll"), 0x7F),
        ),
    ],
)
def test_a_look_gives_call_channel_and_state(
    plant: Plant, state: str, channel: str, call: str, seen: tuple[Wait, int] | None
) -> None:
    assert thread(plant, state, channel, call).look() == seen


@pytest.mark.parametrize("call", ["23 0x0 0x0 0x0\n", "270 0x0 0x0\n", "7 0x7f 0x0 0x5\n", "271 0x0 0x0\n"])
def test_polling_nothing_is_a_sleep(plant: Plant, call: str) -> None:
    seen = thread(plant, "S", "poll_schedule_timeout", call).look()
    assert seen is not None
    assert seen[0].call_kind == "sleep"


@pytest.mark.parametrize(
    ("state", "seen"), [("R", None), ("D", (Wait("D", "", ""), -1)), ("S", (Wait("S", "", ""), -1))]
)
def test_without_the_call_the_state_letter_is_used(
    plant: Plant, state: str, seen: tuple[Wait, int] | None
) -> None:
    root = plant({"proc/7/task/8/stat": f"8 (python) {state} 1\n"})
    one = Thread(7, 8, CALLS, root)
    assert one.look() == seen
    assert one.refused


def test_a_call_that_may_be_opened_but_not_read_is_refused(plant: Plant) -> None:
    root = plant({"proc/7/task/8/stat": "8 (python) D 1\n", "proc/7/task/8/syscall/": ""})
    one = Thread(7, 8, CALLS, root)  # reading a folder fails, as reading does without the right to trace
    assert one.look() == (Wait("D", "", ""), -1)
    assert one.refused


@pytest.mark.parametrize("state", ["Z", "X", "T", "t"])
def test_a_thread_that_ended_or_was_stopped_is_not_counted(plant: Plant, state: str) -> None:
    with pytest.raises(ProcessLookupError):
        thread(plant, state, "do_signal_stop", "61 0x0\n").look()


def test_a_thread_that_never_was_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="stat"):
        Thread(7, 8, CALLS, tmp_path)


def test_closing_twice_is_harmless(plant: Plant) -> None:
    one = thread(plant, "S", "0", "running")
    one.close()
    one.close()
    with pytest.raises(OSError, match="Bad file"):
        one.look()
