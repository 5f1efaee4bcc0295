"""bdoc report, compare, explain and env print what their rooms say."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor import __version__
from bottleneck_doctor.commands import reference as env
from bottleneck_doctor.commands.app import main
from bottleneck_doctor.findings.registry import entries
from bottleneck_doctor.model.instruments import Capability
from bottleneck_doctor.render import render
from bottleneck_doctor.render.ends import onward
from bottleneck_doctor.render.glossary import ALIASES
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
    leads_on = onward(drawn, "profile.json", 77) if format == "terminal" else ""
    assert capsys.readouterr().out == render(drawn, format, width=77) + leads_on
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["report", "--details", "profile.json"]) == 0
    assert capsys.readouterr().out == render(TYPICAL, "terminal", width=77, color=True, details=True)


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
        ("r.md", "## CPU-bound"),
        ("r.json", "{"),
        ("r.speedscope.json", '{"$schema":"https://www.speedscope'),
    ],
)
def test_the_ending_of_a_file_says_its_format(
    name: str, begins: str, store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    store("typical")
    assert main(["report", "-o", name]) == 0
    text = (folder / name).read_text()
    assert text.startswith(begins)
    assert "\x1b" not in text
    assert sorted(file.name for file in folder.iterdir()) == sorted([name, "profile.json"])
    assert main(["report", "-o", f"absent/{name}"]) == 2


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


def test_two_profiles_are_compared(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", store("typical", "a.json"), store("healthy", "b.json")]) == 0
    assert capsys.readouterr().out.startswith("step 24.1 ms: no difference that these runs can show")


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("loader-in-main", "loader-in-main\n\nEvery batch is made by the training process itself."),
        ("workers-auto", "workers-auto\n\noffered by  loader-in-main, remote-storage-latency, "),
        ("python stacks (py-spy)", "python-stacks-py-spy\n\npy-spy took no"),
        ("data_wait_fraction", "data_wait_fraction\n\nShare of the steady training time"),
        ("num_workers", "workers-too-few\n\nThe workers are always busy"),
        ("DALI", "dali-pipeline\n\noffered by  decode-bound"),
        ("input.storage", "input.storage\n\ndata loading is blocked on storage reads"),
    ],
)
def test_an_id_leads_to_its_page(id: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", id]) == 0
    assert capsys.readouterr().out.startswith(said)


def test_without_an_id_all_findings_stand_by_topic_on_one_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain"]) == 0
    shown = capsys.readouterr().out
    assert [one.id for one in entries() if shown.count(f" {one.id}") < 1] == []
    assert len(shown.splitlines()) <= 30
    assert max(map(len, shown.splitlines())) <= 80


def test_every_alias_leads_to_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for alias, target in ALIASES.items():
        assert main(["explain", alias]) == 0
        assert capsys.readouterr().out.startswith(f"{target}\n\n"), alias


def test_an_unknown_id_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    hints = {"loader-in-mian": "did you mean loader-in-main? [usage]", "foo": "`bdoc explain` lists what"}
    for asked, hint in {**hints, "workers": "did you mean num-workers or "}.items():
        assert main(["explain", asked]) == 2
        assert f"no page {asked!r}: {hint}" in capsys.readouterr().err


def test_the_environment_is_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = [Capability("gpu counters", False, "no driver", "install one")]
    monkeypatch.setattr("bottleneck_doctor.sense.capabilities.list_capabilities", lambda: missing)
    monkeypatch.setattr(env, "describe", lambda python: Capability(python, True, ""))
    assert main(["env", "--python", sys.executable]) == 0
    assert capsys.readouterr().out == (
        f"yes  {sys.executable}\nno   gpu counters: no driver\n     to allow it: install one\n\n"
        "1 of 2 can be measured here\n"
    )


@pytest.mark.parametrize(
    ("python", "available", "said"),
    [
        (sys.executable, True, "python 3."),
        ("/absent/python", False, "could not be asked"),
        ("/bin/false", False, "left with status 1"),
    ],
)
def test_the_target_interpreter_is_asked(python: str, available: bool, said: str) -> None:
    capability = env.describe(python)
    assert said in capability.detail
    if python != sys.executable:  # ours may or may not have torch
        assert capability.available is available
        assert capability.do
