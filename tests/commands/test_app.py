"""The command line as a whole: help, version, wrong lines; the package as a library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bottleneck_doctor as bd
from bottleneck_doctor import __version__
from bottleneck_doctor.commands.app import COMMANDS, main
from tests.commands.conftest import Store
from tests.lab.run import BDOC, ROOT, execute, ours_first

# Each costs tens of milliseconds, and `bdoc run` stands before every training.
TOO_DEAR = {"rich", "msgspec", "psutil", "pynvml", "torch", "asyncio", "subprocess", "tempfile"}


def imported_by(code: str) -> set[str]:
    """All modules of a new interpreter after this."""
    done = execute([sys.executable, "-c", f"import sys; {code}; print(*sys.modules, file=sys.stderr)"])
    return set(done.stderr.split())


def test_help_lists_every_command_and_each_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in shown
        assert main([name, "--help"]) == 0
        own = capsys.readouterr().out
        assert f"Usage: bdoc {name}" in own
        assert [one for one in ("<str>", "<list", "<int>", "[default: (") if one in own] == []


def test_help_imports_nothing_that_it_does_not_need() -> None:
    known = imported_by("from bottleneck_doctor.commands.app import main; main(['--help'])")
    assert "bottleneck_doctor.commands.profiles" in known
    assert known & TOO_DEAR <= imported_by("import typer"), "no file of ours could avoid what typer brings"


def test_a_training_waits_for_no_dear_import() -> None:
    question = (
        "import sys; from bottleneck_doctor.commands import app, run;"
        "run.supervise = lambda *_: sys.exit(' '.join(sys.modules)); app.main(['run', app.__file__])"
    )
    known = set(execute([sys.executable, "-c", question]).stderr.split())
    assert "bottleneck_doctor.launch.supervise" in known
    assert not known & {"typer", "bottleneck_doctor.model.profile", *TOO_DEAR - {"tempfile"}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train.py"], "bdoc: no command 'train.py': did you mean `bdoc run train.py`?\n"),
        (["chek"], "did you mean 'check'"),
        (["check", "--max-data-weight", "1"], "see `bdoc check --help` [usage]"),
        (["compare", "a.json"], "missing argument"),
        (
            ["run", "--lr", "0.1", "t.py"],
            "bdoc has no --lr; the script's options stand behind it: bdoc run t.py --lr 0.1",
        ),
        (["report"], "no profile at 'profile.json': `bdoc run SCRIPT` writes one [bad-profile]"),
        (["\x1b[31m"], "\\x1b[31m"),
    ],
)
def test_a_wrong_line_is_one_line_and_status_2(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said.lower() in shown.err.lower()
    assert shown.err.count("\n") == 1
    assert "\x1b" not in shown.err


ELSEWHERE = """
import os, sys, typer, urllib.request, zoneinfo
from pathlib import Path
for name in "fcntl grp pwd resource termios".split():
    sys.modules[name] = None
for name in "O_PATH O_CLOEXEC fork geteuid getuid posix_spawnp sched_getaffinity statvfs sysconf".split():
    delattr(os, name)
sys.platform = "darwin"
from bottleneck_doctor.commands.app import main
Path("pyproject.toml").write_text("[tool.bdoc]\\nno-py-spy = true\\n")
print([main(line.split()) for line in sys.argv[1:]])
"""


def test_where_there_is_no_linux_profiles_are_shown_and_trainings_refused(
    store: Store, tmp_path: Path
) -> None:
    store("typical")
    lines = ["report", "check --max-data-wait 1", "view --no-browser -o a.html", "explain workers-auto", "-h"]
    command = [sys.executable, "-c", ELSEWHERE, *lines, "run train.py", "attach 1", "watch"]
    done = execute(command, cwd=tmp_path, PYTHONPATH=ours_first())
    assert done.stdout.endswith("[0, 3, 0, 0, 0, 2, 2, 2]\n"), done.stderr
    assert [line.partition(";")[0] for line in done.stderr.splitlines()] == [
        f"bdoc: bdoc {name} needs Linux" for name in ("run", "attach", "watch")
    ]
    assert "this is macOS" in done.stderr


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bottleneck_doctor.commands.report.read_settings", interrupted)
    assert main(["report"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_the_module_is_the_command() -> None:
    done = execute([*BDOC, "--version"], PYTHONPATH=ours_first())
    assert (done.returncode, done.stdout, done.stderr) == (0, f"bdoc {__version__}\n", "")


def test_a_reader_who_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(BDOC, stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, timeout=60)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(BDOC, stdout=full, stderr=subprocess.PIPE, cwd=ROOT, timeout=60)
    assert done.returncode == 2
    assert done.stderr.decode() == "bdoc: cannot write to stdout: No space left on device [usage]\n"


def test_what_is_no_profile_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text("{}")
    for path in (file, tmp_path / "missing.json"):
        with pytest.raises(ValueError, match=path.name) as refused:
            bd.load(path)
        assert "\n" not in str(refused.value)


def test_importing_the_package_imports_nothing_else() -> None:
    new = imported_by("import bottleneck_doctor") - imported_by("pass")
    assert new <= {"bottleneck_doctor", "__future__"}
