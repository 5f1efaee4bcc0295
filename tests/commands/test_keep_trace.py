"""``--keep-trace`` leaves the profiler's trace beside the profile, or says that there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.commands.run import keep_trace
from bottleneck_doctor.launch.folder import RunFolder
from tests.commands.running import bdoc, script


def test_each_process_has_a_trace_of_its_own(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for pid in (11, 12):
        (run / f"{pid}-99.trace.json").write_text(f'{{"pid": {pid}}}')
    (run / "11-99.rows").write_bytes(b"")
    kept = keep_trace(str(tmp_path / "profile.json"), RunFolder(str(run), ""))
    assert kept == [str(tmp_path / name) for name in ("profile.trace.json", "profile.trace.1.json")]
    assert [Path(file).read_text() for file in kept] == ['{"pid": 11}', '{"pid": 12}']


@pytest.mark.slow
def test_without_an_accelerator_there_is_none_and_that_is_said(folder: Path) -> None:
    told = bdoc(folder, "--keep-trace", script(folder, "import os; print(os.environ['BDOC_KEEP_TRACE'])"))
    assert (told.status, told.out) == (0, b"1\n"), "the agent knows that it was asked for"
    assert "bdoc: no trace was recorded" in told.err
    assert not list(folder.glob("*.trace*.json"))
