"""``bdoc check``: the status is the message, and nonsense never passes."""

from pathlib import Path

import pytest

from bottleneck_doctor.commands.app import main
from tests.commands.conftest import Store


@pytest.mark.parametrize(
    ("report", "arguments", "status"),
    [
        ("typical", ["--max-data-wait", "0.7"], 0),
        ("typical", ["--max-data-wait", "0.2"], 1),
        ("typical", ["--fail-if", "step_time_s > 1", "--fail-if", "cpu_busy_fraction < 0.5"], 1),
        ("typical", ["--fail-if", "gpu_busy_fraction < 0.8", "--max-data-wait", "0.9"], 3),
        ("inconclusive", ["--max-data-wait", "0.2"], 3),
        ("typical", ["--fail-if", "step_time_s > 1", "--fail-if", "step_time_s < 2"], 2),
        ("typical", [], 2),
        ("typical", ["--max-regression", "0.05"], 2),
        ("typical", ["--baseline", "base.json", "--max-regression", "0.05"], 0),
        ("typical", ["--baseline", "base.json", "--allow-different", "touch"], 2),
        ("typical", ["--baseline", "copy.json"], 2),
        ("typical", ["--baseline", "empty"], 2),
        ("typical", ["--baseline", "short.json"], 3),
        ("typical", ["--allow-different", "torch", "--max-data-wait", "0.7"], 2),
        ("typical", ["--max-data-wait", "0.7", "--junit", "no/such/folder.xml"], 2),
        ("typical", ["--max-data-wait", "0.7", "--junit", "profile.json"], 2),
    ],
)
def test_the_status_says_it_all(
    report: str, arguments: list[str], status: int, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    store("typical", "base.json")
    store("inconclusive", "short.json")
    store(report)
    Path("copy.json").write_bytes(Path("profile.json").read_bytes())
    assert main(["check", *arguments]) == status
    shown = capsys.readouterr()
    assert shown.err.count("\n") == (1 if status == 2 else 0)
    assert bool(shown.out) is (status != 2)
    assert status != 2 or not list(Path().glob("*.xml"))


def test_defaults_from_the_settings_are_checked(
    store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.bdoc]\nmax-data-wait = 0.2\nfail-if = ["step_time_s > 1"]\n'
    )
    store("typical")
    assert main(["check"]) == 1
    assert "pyproject.toml [tool.bdoc] max-data-wait" in capsys.readouterr().out
    assert main(["check", "--max-data-wait", "0.7"]) == 0


def test_a_folder_stands_for_its_profiles(
    store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "new"):
        (folder / name).mkdir()
        for number in range(3):
            store("typical", f"{name}/{number}.json")
    (folder / "new" / "notes.txt").write_text("no profile")
    assert main(["check", "new", "--baseline", "base"]) == 0
    assert "3 runs against 3" in capsys.readouterr().out


@pytest.mark.parametrize(("limit", "status"), [("0.7", 0), ("0.2", 1)])
def test_every_file_that_was_asked_for_is_written_whatever_the_outcome(
    limit: str, status: int, store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store("typical")
    (folder / "summary.md").write_text("from before\n")
    files = ["--junit", "out.xml", "--summary", "summary.md", "--annotations", "github"]
    assert main(["check", "--max-data-wait", limit, *files]) == status
    assert f'failures="{status}"' in (folder / "out.xml").read_text()
    assert (folder / "summary.md").read_text().startswith("from before\n## bdoc check: ")
    assert ("::error " in capsys.readouterr().out) is bool(status)
