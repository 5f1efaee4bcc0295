"""What a run leaves beside its profile or sends away, and what it leaves out of the profile."""

import os
import pstats
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.commands import run
from bottleneck_doctor.commands.app import main
from bottleneck_doctor.commands.hide_paths import _text, _word, pathless
from bottleneck_doctor.commands.options import KEEP_TRACE, OUTPUT
from bottleneck_doctor.commands.run import keep
from bottleneck_doctor.commands.run_options import Form, Options
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.launch.start import RunFolder
from bottleneck_doctor.model.codec import decode_profile, encode_profile, read_profile
from tests.commands.conftest import Store
from tests.commands.running import bdoc, gaps, plain, script
from tests.lab.golden import GOLDEN, read

CPROFILED = {
    "exits": "import sys; print(__name__, sys.argv, sys.path[0]); sys.exit(3)",
    "has threads": """
import threading
thread = threading.Thread(target=print, args=("from a thread",))
thread.start()
thread.join()
""",
    "spawns": """
import multiprocessing
def twice(number):
    return 2 * number
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(twice, [1, 2]))
""",
}


@pytest.mark.parametrize(("name", "module"), [("has threads", False), ("exits", True), ("spawns", False)])
def test_under_cprofile_a_script_ends_as_without(name: str, module: bool, folder: Path) -> None:
    line = ["-m", "train"] if module else [str(folder / "train.py")]
    script(folder, CPROFILED[name])
    told = bdoc(folder, "--cprofile", *line, "a", "-m")
    assert (told.status, told.out) == plain(folder, *line, "a", "-m")
    assert any("train.py" in file for file, _, _ in pstats.Stats(str(folder / "profile.prof")).stats)  # type: ignore[attr-defined]
    assert "cProfile's times in profile.prof" in told.err


@pytest.mark.parametrize(
    "source", ["def f():\n    raise KeyError('x')\nf()", "import os; os.kill(os.getpid(), 2)"]
)
def test_what_a_script_says_about_its_failure_is_its_own(source: str, folder: Path) -> None:
    """No frame of the runner, of runpy or of cProfile stands in the traceback."""
    name = script(folder, source)
    told = bdoc(folder, "--quiet", "--cprofile", name)
    without = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=False)
    status = without.returncode if without.returncode >= 0 else 128 - without.returncode
    assert (told.status, told.err) == (status, without.stderr)
    assert (folder / "profile.prof").exists()


def test_a_script_named_from_where_one_stands_sees_itself_as_always(folder: Path) -> None:
    """In ``sys.argv``, in its own globals, and in ``__main__`` once it is over."""
    script(
        folder,
        """
import atexit, sys, __main__
number: int = 1
print(sys.argv, __file__, __spec__, sorted(globals()), __builtins__)
atexit.register(lambda: print(sys.modules["__main__"] is __main__, __main__.number))
""",
    )
    told = bdoc(folder, "--cprofile", "train.py", "a")
    assert (told.status, told.out) == plain(folder, "train.py", "a")


def test_where_cprofile_cannot_tell_it_is_said(folder: Path) -> None:
    killed = bdoc(folder, "--cprofile", script(folder, "import os; os._exit(7)"))
    assert killed.status == 7
    assert "bdoc: cProfile left nothing" in killed.err
    launched = bdoc(folder, "--cprofile", "--", sys.executable, script(folder, "print(1)"))
    assert "launcher" in gaps(launched)["cProfile"]
    assert not (folder / "profile.prof").exists()


def test_each_process_has_a_trace_of_its_own(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for pid in (11, 12):
        (run / f"{pid}-99.trace.json").write_text(f'{{"pid": {pid}}}')
    (run / "11-99.rows").write_bytes(b"")
    options = Options(Form("a.py"), {KEEP_TRACE: True, OUTPUT: str(tmp_path / "profile.json")})
    files = [tmp_path / name for name in ("profile.trace.json", "profile.trace.1.json")]
    kept = keep(options, RunFolder(str(run), ""), "")
    assert kept == [f"the profiler's trace in {file}; ui.perfetto.dev opens it" for file in files]
    assert [file.read_text() for file in files] == ['{"pid": 11}', '{"pid": 12}']


@pytest.mark.slow
def test_without_an_accelerator_there_is_none_and_that_is_said(folder: Path) -> None:
    told = bdoc(folder, "--keep-trace", script(folder, "import os; print(os.environ['BDOC_KEEP_TRACE'])"))
    assert (told.status, told.out) == (0, b"1\n"), "the agent knows that it was asked for"
    assert "bdoc: no trace was recorded" in told.err
    assert not list(folder.glob("*.trace*.json"))


KEPT = GOLDEN / "accuracy"
SALT = b"salt"


GOES = {
    "/home/ann/acme/train.py": ["ann", "acme"], "np.load('acme/ann.npy')": ["acme", "ann"],
    "/mnt/acme corp/ann lee.csv": ["acme", "ann", "corp", "lee"], "~/acme/x": ["acme"],
}  # fmt: skip
STAYS = ["12.5 MB/s of 1/2 the samples", "/usr/lib/python3.11/queue.py", "return x / 255.0", "https://a.b/c"]


def test_names_of_folders_and_data_files_go_and_all_else_stays() -> None:
    for text, gone in GOES.items():
        assert [name for name in gone if name in _text(text, SALT)] == []
    assert [_text(text, SALT) for text in STAYS] == STAYS
    assert _text("/home/ann/acme/train.py", SALT).endswith("/train.py")
    inside = _text("/home/ann/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", SALT)
    assert inside.endswith("/python3.11/site-packages/torch/nn/modules/module.py")
    assert _text("/a/b", SALT).startswith(_text("/a", SALT) + "/"), "what lies in a folder still does"
    assert _word("--data=acme/ann.csv", SALT).startswith("--data=")
    assert _word("--data=acme/ann.csv", SALT).endswith(".csv")


@pytest.mark.parametrize("name", ["zip-reopened", "checkpoint-each-epoch"])
def test_the_diagnosis_stays_as_it_was(name: str) -> None:
    profile = decode_profile(read(KEPT, f"{name}.profile.json"))
    before, after = write_up(profile), write_up(pathless(profile))
    assert after.verdict == before.verdict
    assert [one.id for one in after.remedies] == [one.id for one in before.remedies]


@pytest.mark.slow
def test_a_run_leaves_no_name_in_its_profile(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    source = "import json, sys, torch\nopen('acme-data/ann', 'w') if 0 else None\nprint(len(sys.argv))\n"
    told = bdoc(folder, "-q", "--no-paths", script(folder, source), "--data", str(tmp_path / "ann.csv"))
    assert told.status == 0, told.err
    text = encode_profile(read_profile(folder / "profile.json")).decode()
    assert "acme" not in text
    assert "ann.csv" not in text
    assert "train.py" in text


FAILS = "open('seen', 'w').close(); import sys; print('hello'); sys.exit(7)"
NOWHERE = "otlp:http://ann:s3cret@127.0.0.1:9"


def test_an_export_that_fails_is_one_line_behind_the_report_and_changes_nothing(folder: Path) -> None:
    name = script(folder, FAILS)
    without = bdoc(folder, name)
    files = sorted(os.listdir(folder))
    with_it = bdoc(folder, name, env={"BDOC_EXPORT": NOWHERE})
    assert (with_it.status, with_it.out, with_it.left) == (7, b"hello\n", []) == (
        without.status, without.out, without.left,
    )  # fmt: skip
    assert sorted(os.listdir(folder)) == files
    *report, line = with_it.err.splitlines()
    assert line.startswith("bdoc: not exported to otlp:http://127.0.0.1:9: ")
    assert "nothing to report" in "\n".join(report)
    assert "s3cret" not in with_it.err
    assert with_it.profile["run"]["exit_status"] == 7


def test_a_run_is_exported_with_a_script_that_sees_nothing_of_it(folder: Path) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra `prometheus`")
    source = "import os, sys; print(sorted(os.environ)); print('prometheus_client' in sys.modules)"
    name = script(folder, source)
    without = bdoc(folder, "-q", name)
    told = bdoc(folder, "-q", "--export", "prometheus:a.prom", name)
    assert (told.status, told.out, told.err) == (0, without.out, "")
    assert 'bdoc_run_exit_status{run="a"} 0' in (folder / "a.prom").read_text()


def test_who_looks_at_a_report_again_does_not_send_it_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(run, "export", lambda profile, to: sent.extend(one.kind for one in to))
    monkeypatch.setenv("BDOC_EXPORT", "mlflow:")
    store("typical")
    assert main(["report"]) == 0
    assert sent == []
    printed = capsys.readouterr().out
    assert main(["report", "--export", "wandb:", "--export", "otlp:http://host"]) == 0
    assert (sent, capsys.readouterr().out) == (["wandb", "otlp"], printed)
