"""What can fail around a run, or in bdoc itself: one line tells, the script and its status are as without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands.running import bdoc, gaps, in_its_own_world, may_mount, plain, script

HELLO = "print('hello')"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_do_not_stop_the_script(closed: tuple[int, ...], folder: Path) -> None:
    name = script(folder, "open('seen', 'w').close()")
    told = bdoc(folder, name, preexec_fn=lambda: [os.close(number) for number in closed])
    assert (told.status, told.out, told.left) == (0, b"", [])
    assert told.profile["run"]["exit_status"] == 0
    assert (folder / "seen").exists()


def test_with_stderr_closed_our_words_do_not_land_on_stdout(folder: Path) -> None:
    told = bdoc(folder, "--max-data-wait", "0.5", script(folder, HELLO), preexec_fn=lambda: os.close(2))
    assert (told.status, told.out) == (3, b"hello\n")


def test_a_full_stderr_and_a_reader_that_left_change_nothing(folder: Path) -> None:
    name = script(folder, HELLO)
    with open("/dev/full", "wb") as full:
        assert bdoc(folder, name, stderr=full).status == 0
    reader, writer = os.pipe()
    os.close(reader)
    assert bdoc(folder, name, stderr=writer).status == 0
    os.close(writer)


@pytest.mark.parametrize(
    ("output", "source"),
    [("/dev/full", ""), ("nowhere/p.json", "import shutil; shutil.rmtree('nowhere')\n")],
    ids=["full", "removed meanwhile"],
)
def test_a_profile_that_cannot_be_written_costs_one_line_and_not_the_report(
    output: str, source: str, folder: Path
) -> None:
    told = bdoc(folder, "-o", output, script(folder, f"{source}import sys; sys.exit(6)"))
    assert told.status == 6
    assert f"bdoc: cannot write {output!r}" in told.err
    assert "choose another place with --output" in told.err
    assert "inconclusive" in told.err


def test_a_folder_keeps_the_usual_name_and_is_made(folder: Path) -> None:
    told = bdoc(folder, "-o", "runs/7/", script(folder, "import sys; sys.exit(6)"))
    assert told.status == 6
    assert "profile in runs/7/profile.json" in told.err
    assert (folder / "runs" / "7" / "profile.json").is_file()


def test_where_nothing_can_be_written_the_script_is_not_started(folder: Path) -> None:
    name = script(folder, "open('started', 'w')")
    told = bdoc(folder, "-o", f"{name}/p.json", name)
    assert told.status == 2
    assert told.err == f"bdoc: --output '{name}/p.json': there is no such folder [usage]\n"
    assert not (folder / "started").exists()


NO_PLACE = "import bottleneck_doctor.launch.folder as f; f.usual_places = lambda: ['/nowhere']"


def test_without_a_place_for_the_run_folder_the_training_runs_and_the_gap_says_why(folder: Path) -> None:
    name = script(folder, "import os, sys; print([n for n in os.environ if 'BDOC' in n]); sys.exit(9)")
    told = bdoc(folder, "--max-steps", "3", "--cprofile", name, first=NO_PLACE)
    assert (told.status, told.out) == plain(folder, name)
    assert "no place for the run folder (/nowhere: no such file" in gaps(told)["hooks"].lower()
    assert {"limits", "cProfile"} <= set(gaps(told))


def fails(module: str, name: str) -> str:
    """A supervisor in which this function of bdoc's raises."""
    return f"import bottleneck_doctor.{module} as m\ndef no(*_): raise OSError('no [b]luck')\nm.{name} = no"


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("assemble.profile", "assemble", "the profile could not be assembled: OSError: no [b]luck\n"),
        ("model.codec", "encode_profile", "the profile could not be written: OSError: no [b]luck\n"),
        (
            "prescribe",
            "write_up",
            "the report could not be written: OSError: no [b]luck; the profile is in p.json\n",
        ),
    ],
)
def test_a_failure_of_ours_is_one_line_and_the_script_keeps_its_status(
    module: str, name: str, said: str, folder: Path
) -> None:
    line = [*([] if name == "write_up" else ["-q"]), "-o", "p.json"]  # a quiet run needs no report
    told = bdoc(folder, *line, script(folder, "import sys; sys.exit(8)"), first=fails(module, name))
    assert (told.status, told.err, told.left) == (8, f"bdoc: {said}", [])


def test_a_gate_that_lost_its_report_cannot_say(folder: Path) -> None:
    broken = fails("prescribe", "write_up")
    assert bdoc(folder, "-q", "--fail-if", "step_time_s>1", script(folder, HELLO), first=broken).status == 3


@pytest.mark.parametrize(
    ("module", "name"), [("sense.sensors", "open_sensors"), ("launch.agent_counters", "Board.refresh")]
)
def test_without_eyes_the_run_goes_on_and_the_profile_says_so(module: str, name: str, folder: Path) -> None:
    longer = script(folder, "import time; time.sleep(4); print('hello')")
    told = bdoc(folder, longer, first=fails(module, name))
    assert (told.status, told.out) == (0, b"hello\n")
    assert "OSError: no [b]luck" in gaps(told)["watching"]


def test_from_a_folder_that_is_gone_the_script_still_runs(folder: Path) -> None:
    name = str(folder / script(folder, HELLO))
    gone = folder / "gone"
    gone.mkdir()
    told = bdoc(folder, "-o", str(folder / "profile.json"), name, preexec_fn=lambda: _stand_in_nothing(gone))
    assert (told.status, told.out) == (0, b"hello\n")
    assert told.profile["run"]["cwd"] == ""


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount")
def test_files_of_proc_that_are_missing_are_gaps(folder: Path) -> None:
    (folder / "nothing").mkdir()
    nothing, null = folder / "nothing", "/dev/null"
    world = in_its_own_world(
        f"mount --bind {nothing} /proc/pressure",
        f"mount --bind {nothing} /sys/fs/cgroup",
        *(f"mount --bind {null} /proc/{name}" for name in ("stat", "diskstats", "vmstat", "meminfo")),
    )
    told = bdoc(folder, script(folder, "import time; time.sleep(4); print('hello')"), wrapper=world)
    assert (told.status, told.out) == (0, b"hello\n")
    assert {"pressure stall information", "disk counters"} <= set(gaps(told))


def _stand_in_nothing(gone: Path) -> None:
    os.chdir(gone)
    gone.rmdir()
