"""The run folder: private, somewhere that has room, and gone afterwards."""

import errno
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.launch import start

ROOT = Path(__file__).parents[2]


def test_the_folder_is_private_and_gone_after_the_block(tmp_path):
    with start.run_folder([str(tmp_path)]) as made:
        path = Path(made.path)
        assert path.parent == tmp_path
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert list(path.iterdir()) == []
        (path / "rows").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_gives_files_to_others_is_passed_over(tmp_path, monkeypatch):
    """Some network and foreign file systems give every file to one user: no agent would accept the folder."""
    monkeypatch.setattr(start, "is_ours", lambda path: not path.startswith(str(tmp_path / "odd")))
    (tmp_path / "odd").mkdir()
    made = start.create([str(tmp_path / "odd"), str(tmp_path)])
    assert Path(made.path).parent == tmp_path
    assert list((tmp_path / "odd").iterdir()) == []
    nowhere = start.create([str(tmp_path / "odd")])
    assert "its file system does not keep owners and modes" in nowhere.reason


def test_a_full_place_is_passed_over_and_left_clean(tmp_path, monkeypatch):
    full, roomy = tmp_path / "full", tmp_path / "roomy"
    full.mkdir()
    roomy.mkdir()
    reserve = start._reserve

    def fail_when_full(path: str) -> None:
        if path.startswith(str(full)):
            raise OSError(errno.ENOSPC, "No space left on device")
        reserve(path)

    monkeypatch.setattr(start, "_reserve", fail_when_full)
    made = start.create([str(full), str(roomy)])
    assert Path(made.path).parent == roomy
    assert list(full.iterdir()) == []


def test_no_place_at_all_is_a_reason_and_not_an_error(tmp_path):
    with start.run_folder([str(tmp_path / "a"), str(tmp_path / "b")]) as made:
        assert made.path is None
        assert f"{tmp_path / 'a'}: No such file or directory; {tmp_path / 'b'}:" in made.reason
        assert "TMPDIR" in made.reason


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_the_folder_goes_when_a_signal_ends_us(tmp_path, number):
    source = (
        "import sys, signal; from bottleneck_doctor.launch.start import run_folder\n"
        "with run_folder([sys.argv[1]]) as made:\n"
        "    print(made.path, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        path = Path(process.stdout.readline().strip())
        assert path.is_dir()
        process.send_signal(number)
        assert process.wait(30) in (128 + number, -number)
    assert list(tmp_path.iterdir()) == []
