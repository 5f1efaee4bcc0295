"""bdoc run changes nothing for a script, whatever fails around it or in bdoc itself."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.model.codec import read_profile
from tests.commands.running import bdoc, gaps, in_its_own_world, may_mount, plain, script, started

HELLO = "print('hello')"

ENDINGS = {
    "ends": HELLO,
    "leaves at once": "import os; print('a', flush=True); os._exit(7)",
    "raises": "print('a')\nraise ValueError('[red]boom[/red]')",
    "is torn by the kernel": "import ctypes; ctypes.string_at(0)",
    "kills itself": "import os; os.kill(os.getpid(), 9)",
    "is no Python": "def f(:",
    "removes its folder": "import os; os.mkdir('x'); os.chdir('x'); os.rmdir('../x'); print('gone')",
    "saves on Ctrl-C": """
import os, time
try:
    os.kill(os.getpid(), 2)
    time.sleep(9)
except KeyboardInterrupt:
    print("saved")
""",
    "forks and goes": """
import os, sys
if os.fork() == 0:
    print("child", flush=True)
    os._exit(5)
os.wait()
sys.exit(4)
""",
    "has its own handlers": """
import signal
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
print(signal.getsignal(2), signal.getsignal(10), signal.pthread_sigmask(0, []))
""",
    "has a pool": """
import multiprocessing
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            print(pool.map(abs, [-1, -2]))
""",
}


@pytest.mark.parametrize("source", ENDINGS.values(), ids=ENDINGS)
def test_a_script_ends_as_without_bdoc(source: str, folder: Path) -> None:
    name = script(folder, source)
    told = bdoc(folder, name)
    assert (told.status, told.out) == plain(folder, name)
    assert (told.profile["run"]["exit_status"], told.left) == (told.status, [])
    assert "before its first training step" in told.err or "no training step was seen in " in told.err
    assert "bottleneck_doctor" not in told.err, "a traceback of ours"


SAY = "import sys; print(__name__, sys.argv, sys.path[0], sys.flags.unbuffered)"


def test_arguments_that_look_like_ours_are_the_scripts(folder: Path) -> None:
    name, args = script(folder, SAY), ["--max-steps", "3", "-o", "x", "--help", "--", "-m", "", "a b\n", "é"]
    assert bdoc(folder, "-q", name, *args).out == plain(folder, name, *args)[1]
    assert not (folder / "x").exists()


def test_a_module_a_folder_and_a_script_from_stdin_are_run_as_python_runs_them(folder: Path) -> None:
    script(folder, SAY, "job.py")
    (folder / "pack").mkdir()
    script(folder / "pack", SAY, "__main__.py")
    for line in (["-m", "job", "-o"], ["pack", "a"]):
        assert bdoc(folder, "-q", *line).out == plain(folder, *line)[1]
    text = {"input": SAY.encode(), "stdin": None}
    assert bdoc(folder, "-q", "-", "a", **text).out == plain(folder, "-", "a", **text)[1]


def test_any_command_can_be_started_and_python_below_it_is_seen(folder: Path) -> None:
    name = script(folder, HELLO)
    told = bdoc(folder, "-q", "--", "sh", "-c", f"{sys.executable} {name}; exit 5")
    assert (told.status, told.out) == (5, b"hello\n")
    assert [process["role"] for process in told.profile["processes"]] == ["other"]


def test_a_python_that_ignores_its_environment_is_said_to_have_been_unseen(folder: Path) -> None:
    told = bdoc(folder, "--", sys.executable, "-I", script(folder, HELLO))
    assert (told.status, told.out) == (0, b"hello\n")
    assert "no Python process of this run loaded the agent" in gaps(told)["hooks"]
    assert "python -I" in told.err


def test_the_scripts_status_comes_before_the_gates(folder: Path) -> None:
    assert bdoc(folder, "-q", "--max-data-wait", "0.5", script(folder, "import sys; sys.exit(4)")).status == 4


def test_quiet_is_silent_and_json_is_json(folder: Path) -> None:
    name = script(folder, HELLO)
    assert bdoc(folder, "-q", name).err == ""
    told = bdoc(folder, "--format", "json", name)
    assert told.out == b"hello\n"
    assert json.loads(told.err)["verdict"]["bound"] == "inconclusive"


WAITING = """
import os, time
print("on", flush=True)
for _ in range(3000):
    if os.path.exists("go"):
        open("done", "w").close()
        break
    time.sleep(0.01)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_bdoc_ends_the_script_as_it_would_without(number: int, folder: Path) -> None:
    supervisor = started(folder, b"on\n", script(folder, WAITING))
    supervisor.send_signal(number)
    assert supervisor.wait(30) == 128 + number
    assert read_profile(str(folder / "profile.json")).run.signal == number
    assert not list(folder.glob(".bdoc*"))


DAEMON = """
import os, sys
for number in range(3, 64):  # as daemons do: close what one does not know
    try:
        if os.readlink(f"/proc/self/fd/{number}").startswith("/"):
            os.close(number)
    except OSError:
        pass
pipes = [os.pipe() for _ in range(8)]  # they take the numbers that have become free
if os.fork() == 0:
    for _, writer in pipes:
        os.write(writer, b"x")
    os._exit(0)
for _, writer in pipes:
    os.close(writer)
print(os.wait()[1], [os.read(reader, 1) for reader, _ in pipes])
"""


def test_a_script_that_closes_what_it_does_not_know_may_use_the_numbers(folder: Path) -> None:
    """The agent's maps hold descriptors; freed in a forked child, they closed pipes of the user's loader."""
    name = script(folder, DAEMON)
    assert bdoc(folder, "-q", name).out == plain(folder, name)[1]


def test_a_command_line_is_kept_small_readable_and_without_secrets(folder: Path) -> None:
    name = script(folder, "import sys; print(len(sys.argv))")
    args = ["--api-key", "hunter2", "--db=pg://me:hunter2@host", "--tokenizer", "bert", "--max-tokens", "77"]
    strange = [b"\xff\xfe", "\x1b[31m", "x" * 100_000, *map(str, range(100_000, 120_000))]
    told = bdoc(folder, name, *args, *strange, env={"HF_TOKEN": "hunter2"})
    assert told.out == b"20011\n"
    kept = (folder / "profile.json").read_text()
    assert len(kept) < 50_000
    assert "hunter2" not in kept + told.err
    assert "\x1b[31m" not in told.err
    command = read_profile(str(folder / "profile.json")).run.command
    assert {"***", "bert", "77"} <= set(command)
    assert command[-1].endswith("more")


@pytest.mark.parametrize("closed", [(2,), (0, 1, 2)])
def test_closed_streams_do_not_stop_the_script_and_our_words_do_not_land_on_stdout(
    closed: tuple[int, ...], folder: Path
) -> None:
    line = ["--max-data-wait", "0.5", script(folder, "open('seen', 'w').close()")]
    told = bdoc(folder, *line, preexec_fn=lambda: [os.close(number) for number in closed])
    assert (told.status, told.out, told.left) == (3, b"", [])
    assert told.profile["run"]["exit_status"] == 0
    assert (folder / "seen").exists()


def test_a_full_stderr_and_a_reader_that_left_change_nothing(folder: Path) -> None:
    name = script(folder, HELLO)
    with open("/dev/full", "wb") as full:
        assert bdoc(folder, name, stderr=full).status == 0
    reader, writer = os.pipe()
    os.close(reader)
    assert bdoc(folder, name, stderr=writer).status == 0


def test_on_a_terminal_the_scripts_lines_stay_its_own_until_it_has_ended(folder: Path) -> None:
    reader, writer = os.openpty()
    asks = "import time\nprint('sure? ', end='', flush=True)\ntime.sleep(1)\nprint('yes')"
    bdoc(folder, script(folder, asks), stdout=writer, stderr=writer)
    seen = b""
    while b"bdoc" not in seen:
        seen += os.read(reader, 4096)
    assert seen.startswith(b"sure? yes\r\nbdoc: no training step")


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
    assert "nothing to report" in told.err


def test_where_nothing_can_be_written_the_script_is_not_started(folder: Path) -> None:
    told = bdoc(folder, "-o", "train.py/p.json", script(folder, "open('started', 'w')"))
    assert told.status == 2
    assert told.err.startswith("bdoc: --output 'train.py/p.json': there is no such folder")
    assert not (folder / "started").exists()


LUCK = "OSError: no [b]luck"
NO_PLACE = "import bottleneck_doctor.launch.start as f; f.usual_places = lambda: ['/nowhere']"


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
        ("assemble.profile", "assemble", f"profile could not be assembled: {LUCK}"),
        ("commands.hide_paths", "pathless", f"profile could not be assembled: {LUCK}"),
        ("findings.report", "write_up", f"report could not be written: {LUCK}; the profile is in p"),
    ],
)
def test_a_failure_of_ours_is_one_line_and_the_script_keeps_its_status(
    module: str, name: str, said: str, folder: Path
) -> None:
    line = [*([] if name == "write_up" else ["-q"]), "-o", "p"]  # a quiet run needs no report
    line += ["--no-paths"] if name == "pathless" else []
    told = bdoc(folder, *line, script(folder, "import sys; sys.exit(8)"), first=fails(module, name))
    assert (told.status, told.err, told.left) == (8, f"bdoc: the {said}\n", [])


def test_a_gate_that_lost_its_report_cannot_say(folder: Path) -> None:
    broken = fails("findings.report", "write_up")
    assert bdoc(folder, "-q", "--fail-if", "step_time_s>1", script(folder, HELLO), first=broken).status == 3


def test_without_eyes_the_run_goes_on_and_the_profile_says_so(folder: Path) -> None:
    longer = script(folder, "import time; time.sleep(2); print('hello')")
    told = bdoc(folder, longer, first=fails("sense.sensors", "Sensors"))
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
    told = bdoc(folder, script(folder, "import time; time.sleep(2); print('hello')"), wrapper=world)
    assert (told.status, told.out) == (0, b"hello\n")
    assert {"pressure stall information", "disk counters"} <= set(gaps(told))


def _stand_in_nothing(gone: Path) -> None:
    os.chdir(gone)
    gone.rmdir()
