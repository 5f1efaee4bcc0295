"""On a real terminal, under a real shell: keys, fg, bg, pipelines and hang-ups behave as without us."""

import os
import shlex
import shutil
import signal
import sys

import pytest

PATIENCE_S = 30
INTERRUPT, QUIT, SUSPEND = "\x03", "\x1c", "\x1a"


@pytest.fixture
def shell(stage):
    """An interactive shell on a terminal; what is typed into it is not echoed."""
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    terminal, process = stage.on_terminal(["bash", "--norc", "--noprofile", "-i"])
    terminal.type("stty -echo; PS1=''; PS2=''; unset PROMPT_COMMAND; echo shell-is-''ready\n")
    terminal.await_text("shell-is-ready")
    yield terminal
    os.killpg(process.pid, signal.SIGHUP)


def line(stage, source: str) -> str:
    return shlex.join(stage.line(sys.executable, stage.script(source)))


def test_the_training_sees_the_terminal_as_its_own(stage):
    source = """
print([os.isatty(number) for number in range(3)], os.ttyname(0), os.tcgetpgrp(0) == os.getpgrp())
"""
    terminal, process = stage.on_terminal(stage.line(sys.executable, stage.script(source)))
    assert process.wait(PATIENCE_S) == 0
    terminal.await_text(f"[True, True, True] {os.ttyname(terminal.screen)} True")


@pytest.mark.parametrize(("key", "number"), [(INTERRUPT, signal.SIGINT), (QUIT, signal.SIGQUIT)])
def test_a_key_reaches_the_training_exactly_once(stage, key, number):
    source = "count(signal.SIGINT, signal.SIGQUIT)\nleave_on(signal.SIGUSR2)\nwait_for_ever()\n"
    terminal, process = stage.on_terminal(stage.line(sys.executable, stage.script(source)))
    stage.await_mark("ready")
    terminal.type(key)
    stage.await_mark(f"count-{int(number)}")
    process.send_signal(signal.SIGUSR2)
    assert process.wait(PATIENCE_S) == 0
    assert stage.await_mark("counts") == str({int(number): 1})


def test_a_hang_up_reaches_the_training_although_only_the_session_leader_gets_it(stage):
    source = "leave_on(signal.SIGHUP, 8)\nwait_for_ever()\n"
    terminal, process = stage.on_terminal(stage.line(sys.executable, stage.script(source)))
    stage.await_mark("ready")
    os.dup2(os.open(os.devnull, os.O_RDWR), terminal.keyboard)  # the last way to the other end is gone
    assert process.wait(PATIENCE_S) == 8


def test_ctrl_z_stops_the_job_and_fg_continues_it(stage, shell):
    source = """
mark("ready")
answer = input("name? ")
print("hello " + answer)
sys.exit(9)
"""
    shell.type(line(stage, source) + "; echo status-$?\n")
    shell.await_text("name? ")
    shell.type(SUSPEND)
    shell.await_text("Stopped")
    shell.type("fg\n")
    shell.type("world\n")
    shell.await_text("hello world")
    assert stage.await_ended()["exit_status"] == 9


def test_a_stopped_job_goes_on_in_the_background(stage, shell):
    source = "leave_on(signal.SIGUSR2)\nmark('ready', os.getpid())\nawait_mark('go')\nmark('went')\n"
    shell.type(line(stage, source) + "\n")
    stage.await_mark("ready")
    shell.type(SUSPEND)
    shell.await_text("Stopped")
    shell.type("bg\n")
    (stage.folder / "go").touch()
    stage.await_mark("went")
    assert stage.await_ended()["exit_status"] == 0


def test_a_background_job_that_wants_to_read_stops_until_fg(stage, shell):
    shell.type(line(stage, "print('hello ' + input())\n") + " &\n")
    shell.type("until jobs | grep Stopped; do :; done; fg\n")
    shell.await_text("Stopped")
    shell.type("world\n")
    shell.await_text("hello world")
    assert stage.await_ended()["exit_status"] == 0


def test_a_training_that_handles_ctrl_z_itself_is_not_stopped_by_us(stage, shell):
    source = "count(signal.SIGTSTP)\nleave_on(signal.SIGUSR2, 3)\nwait_for_ever()\n"
    shell.type(line(stage, source) + "; echo status-$?\n")
    training = int(stage.await_mark("ready"))
    shell.type(SUSPEND)
    assert stage.await_mark(f"count-{int(signal.SIGTSTP)}") == "1"
    os.kill(training, signal.SIGUSR2)
    shell.await_text("status-3")


def test_a_pipeline_keeps_the_terminal_at_both_ends(stage, shell):
    source = "print('hello ' + sys.stdin.readline().strip(), flush=True)\n"
    reader = "(read text; echo got $text; read answer </dev/tty; echo $answer to you)"
    shell.type(f"head -n 1 | {line(stage, source)} | {reader}\n")
    shell.type("world\n")
    shell.await_text("got hello world")
    shell.type("hello\n")
    shell.await_text("hello to you")
    assert stage.await_ended()["exit_status"] == 0


def test_ctrl_c_reaches_the_rest_of_the_pipeline(stage, shell):
    source = "leave_on(signal.SIGINT)\nwait_for_ever()\n"
    reader = "(trap 'echo reader-was-interrupted >&2' INT; cat)"
    shell.type(f"{line(stage, source)} | {reader}\n")
    stage.await_mark("ready")
    shell.type(INTERRUPT)
    shell.await_text("reader-was-interrupted")


def test_a_job_killed_as_a_whole_leaves_no_training_behind(stage, shell):
    shell.type(line(stage, "wait_for_ever()") + " &\n")
    training = int(stage.await_mark("ready"))
    shell.type("kill -9 %1; wait; echo all-is-''over\n")
    shell.await_text("all-is-over")
    stage.await_gone(training)
