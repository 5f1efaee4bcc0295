"""``bdoc fleet`` on the command line."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from bottleneck_doctor.commands.app import main
from tests.fleet.made_up import Plan, put


@pytest.fixture
def fleet(folder: Path) -> Path:
    put(folder / "runs", Plan(60, 8, 6))
    (folder / "runs" / "broken.json").write_text("{")
    return folder


def test_every_question_is_answered_on_a_terminal(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "runs"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.startswith("bdoc fleet · 60 runs · 8 jobs · 6 nodes · 2026-10-2")
    heads = [line for line in told.out.splitlines() if line and not line.startswith(" ")]
    assert [line.partition("  ")[0].partition(" 2026")[0] for line in heads[1:]] == [
        "wasted, by cause",
        "wasted, by job",
        "the one remedy that would save most",
        "slower since",
        "1 file could not be read",
    ]


def test_json_goes_to_a_file(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "runs", "-o", "fleet.json"]) == 0
    assert capsys.readouterr().out == ""
    told = json.loads((fleet / "fleet.json").read_text())
    found = told["schema"], told["schema_version"], told["totals"]["runs"]
    assert found == ("bottleneck-doctor/fleet", 2, 60)


def test_sql_reads_the_tables(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT judged, count(*) AS runs FROM runs JOIN findings USING (run) GROUP BY ALL"
    assert main(["fleet", "runs", "--sql", query]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["judged", "runs"]
    query = "SELECT max(started_at) AS last FROM runs"
    assert main(["fleet", "runs", "--format", "json", "--sql", query]) == 0
    assert json.loads(capsys.readouterr().out)[0]["last"].startswith("2026-11-2")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["runs/broken.json"], "no run could be read: "),
        (["empty"], "no report or profile is there"),
        (["runs", "--sql", "SELEKT"], "--sql: Parser Error"),
        (["runs", "--since", "monday"], "--since 'monday': no date"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    fleet: Path, line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (fleet / "empty").mkdir()
    assert main(["fleet", *line]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert said in told.err


def test_without_the_extra_it_says_how_to_get_it(
    fleet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("bottleneck_doctor.fleet")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(["fleet", "runs"]) == 2
    assert "pip install 'bottleneck-doctor[fleet]'" in capsys.readouterr().err
