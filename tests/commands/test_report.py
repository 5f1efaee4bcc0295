"""``bdoc report``: formats, files, and what it refuses."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor import __version__
from bottleneck_doctor.commands.app import main
from bottleneck_doctor.render import render
from tests.commands.conftest import Store
from tests.render.reports import TYPICAL


@pytest.mark.parametrize("format", ["terminal", "markdown", "json"])
def test_a_report_is_printed_in_the_format_asked_for(
    format: str, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    store("typical")
    assert main(["report", "--format", format]) == 0
    drawn = replace(TYPICAL, bdoc=__version__)  # who drew it, which a report at hand does not know
    assert capsys.readouterr().out == render(drawn, format, width=77)


def test_details_are_shown_when_asked_for(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store("typical")
    assert main(["report", "--details"]) == 0
    assert capsys.readouterr().out == render(TYPICAL, "terminal", details=True)


def test_a_profile_by_name_is_read(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", store("healthy", "other.json")]) == 0
    assert "balanced" in capsys.readouterr().out


@pytest.mark.parametrize("format", ["pdf", "", "JSON"])
def test_a_format_that_does_not_exist_is_refused_before_anything_is_read(
    format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "absent.json", "--format", format]) == 2
    refusal = f"--format {format!r}: no such format, there are terminal, markdown, json, html"
    assert refusal in capsys.readouterr().err


def test_a_report_can_be_written_to_a_file(
    store: Store, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    store("typical")
    assert main(["report", "--format", "json", "-o", "report.json"]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((folder / "report.json").read_text())["verdict"]["bound"] == "cpu"
    assert sorted(file.name for file in folder.iterdir()) == ["profile.json", "report.json"]


def test_a_report_written_to_a_file_has_no_colours(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    store("typical")
    assert main(["report", "-o", "report.txt"]) == 0
    assert "\x1b" not in (folder / "report.txt").read_text()


def test_colours_can_be_forced_into_a_pipe(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    store("typical")
    assert main(["report"]) == 0
    assert "\x1b[1m" in capsys.readouterr().out


def test_a_place_that_cannot_be_written_is_one_line(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store("typical")
    assert main(["report", "-o", "absent/report.txt"]) == 2
    assert "cannot write 'absent/report.txt': No such file or directory" in capsys.readouterr().err


def test_a_foreign_profile_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "trace.json").write_text('{"traceEvents": []}')
    assert main(["report", "trace.json"]) == 2
    assert capsys.readouterr().err == (
        "bdoc: 'trace.json': not a bdoc profile: it names no schema, expected 'bottleneck-doctor/profile'"
        " [bad-profile]\n"
    )


def test_a_format_from_the_settings_is_used(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text('[tool.bdoc]\nformat = "markdown"\nmax-steps = 3\n')
    monkeypatch.setenv("BDOC_OUTPUT", "p.json")
    store("typical", "p.json")
    assert main(["report"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("## CPU-bound")
    assert err == f"bdoc: settings from {folder}/pyproject.toml: format\n"
    assert main(["report", "--format", "json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_bad_format_in_the_settings_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text('[tool.bdoc]\nformat = "pdf"\n')
    assert main(["report"]) == 2
    assert "pyproject.toml [tool.bdoc] format 'pdf': no such format" in capsys.readouterr().err


def test_an_ascii_terminal_gets_ascii(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store("typical")
    with open(tmp_path / "out.txt", "w", encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["report"]) == 0
    assert "x2.5 (x2.2-2.6, by replay)" in (tmp_path / "out.txt").read_text("ascii")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("r.html", "<!doctype html>"),
        ("R.HTM", "<!doctype html>"),
        ("r.md", "## CPU-bound"),
        ("r.json", "{"),
        ("r.trace.json", '{"displayTimeUnit"'),
        ("r.speedscope.json", '{"$schema":"https://www.speedscope'),
    ],
)
def test_the_ending_of_a_file_says_its_format(name: str, begins: str, store: Store, folder: Path) -> None:
    store("typical")
    assert main(["report", "-o", name]) == 0
    assert (folder / name).read_text().startswith(begins)


def test_a_format_that_was_asked_for_outweighs_the_ending(store: Store, folder: Path) -> None:
    store("typical")
    assert main(["report", "--format", "markdown", "-o", "report.html"]) == 0
    assert (folder / "report.html").read_text().startswith("## CPU-bound")
    (folder / "pyproject.toml").write_text('[tool.bdoc]\nformat = "markdown"\n')
    assert main(["report", "-o", "report.json"]) == 0
    assert (folder / "report.json").read_text().startswith("## CPU-bound")


def test_a_page_goes_into_a_pipe_but_not_onto_a_terminal(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store("typical")
    assert main(["report", "--format", "html"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["report", "--format", "html"]) == 2
    refusal = "bdoc: --format html is no text for a terminal: name a file with -o, or pipe it on [usage]\n"
    assert capsys.readouterr() == ("", refusal)
