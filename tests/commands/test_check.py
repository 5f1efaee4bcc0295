"""``bdoc check``: the status is the message, and nonsense never passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bottleneck_doctor.commands.app import main
from bottleneck_doctor.model.codec import encode_profile
from tests.commands.conftest import Store
from tests.model.profiles import PROFILE


@pytest.mark.parametrize(
    ("report", "arguments", "status"),
    [
        ("typical", ["--max-data-wait", "0.7"], 0),
        ("typical", ["--max-data-wait", "0.2"], 1),
        ("typical", ["--max-data-wait", "0.7", "--max-data-wait", "0.2"], 1),
        ("typical", ["--max-data-wait", "1"], 0),
        ("typical", ["--fail-if", "step_time_s > 1"], 0),
        ("typical", ["--fail-if", "step_time_s > 1", "--fail-if", "cpu_busy_fraction < 0.5"], 1),
        ("typical", ["--fail-if", "gpu_busy_fraction < 0.8"], 3),
        ("typical", ["--fail-if", "gpu_busy_fraction < 0.8", "--max-data-wait", "0.2"], 1),
        ("typical", ["--fail-if", "gpu_busy_fraction < 0.8", "--max-data-wait", "0.9"], 3),
        ("inconclusive", ["--max-data-wait", "0.2"], 3),
        ("typical", ["--max-data-wait", "nan"], 2),
        ("typical", ["--max-data-wait", "-0.1"], 2),
        ("typical", ["--max-data-wait", "20"], 2),
        ("typical", ["--max-data-wait", ""], 2),
        ("typical", ["--fail-if", ""], 2),
        ("typical", ["--fail-if", "data_wait > 0.2"], 2),
        ("typical", ["--fail-if", "data_wait_fraction > inf"], 2),
        ("typical", ["--fail-if", "step_time_s > 1", "--fail-if", "step_time_s < 2"], 2),
        ("typical", [], 2),
        ("typical", ["--max-regression", "0.05"], 2),
        ("typical", ["--baseline", "base.json"], 0),
        ("typical", ["--baseline", "base.json", "--max-regression", "5"], 2),
        ("typical", ["--baseline", "base.json", "--max-regression", "nan"], 2),
        ("typical", ["--baseline", "base.json", "--max-regression", ""], 2),
        ("typical", ["--baseline", "base.json", "--max-regression", "0.05"], 0),
        ("typical", ["--baseline", "base.json", "--allow-different", "torch"], 0),
        ("typical", ["--baseline", "base.json", "--allow-different", "touch"], 2),
        ("typical", ["--baseline", "base.json", "--baseline", "./base.json"], 2),
        ("typical", ["--baseline", "profile.json"], 2),
        ("typical", ["--baseline", "copy.json"], 2),
        ("typical", ["--baseline", ""], 2),
        ("typical", ["--baseline", "", "--max-data-wait", "0.7"], 2),
        ("typical", ["--baseline", "empty"], 2),
        ("typical", ["--baseline", "short.json"], 3),
        ("inconclusive", ["--baseline", "base.json"], 3),
        ("typical", ["--allow-different", "torch", "--max-data-wait", "0.7"], 2),
        ("typical", ["profile.json", "profile.json", "--max-data-wait", "0.7"], 2),
        ("typical", ["", "--max-data-wait", "0.7"], 2),
        ("typical", ["--max-data-wait", "0.7", "--junit", ""], 2),
        ("typical", ["--max-data-wait", "0.7", "--junit", "empty"], 2),
        ("typical", ["--max-data-wait", "0.7", "--junit", "no/such/folder.xml"], 2),
        ("typical", ["--max-data-wait", "0.7", "--junit", "profile.json"], 2),
        ("typical", ["--max-data-wait", "0.7", "--junit", "a", "--summary", "a"], 2),
        ("typical", ["--max-data-wait", "0.7", "--summary", "no/such/folder.md"], 2),
        ("typical", ["--max-data-wait", "0.7", "--annotations", "gitlab"], 2),
        ("typical", ["--baseline", "absent.json", "--max-regression", "0.05"], 2),
        ("typical", ["absent.json", "--max-data-wait", "0.2"], 2),
    ],
)
def test_the_status_says_it_all(
    report: str,
    arguments: list[str],
    status: int,
    store: Store,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "empty").mkdir()
    store("typical", "base.json")
    store("inconclusive", "short.json")
    store(report)
    (folder / "copy.json").write_bytes((folder / "profile.json").read_bytes())
    assert main(["check", *arguments]) == status
    shown = capsys.readouterr()
    assert shown.err.count("\n") == (1 if status == 2 else 0)
    assert bool(shown.out) is (status != 2)


def test_each_threshold_is_one_line(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store("typical")
    main(["check", "--max-data-wait", "0.2", "--fail-if", "gpu_busy_fraction < 0.8"])
    assert capsys.readouterr().out == (
        "FAIL data_wait_fraction = 0.6213 (90 % interval 0.601–0.6402, n = 402);"
        " fails when > 0.2 (--max-data-wait)\n"
        "?    cannot say: gpu_busy_fraction was not measured; fails when < 0.8 (--fail-if) [cannot-say]\n"
    )


def test_of_several_profiles_each_is_named_and_the_worst_decides(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [store("typical", "a.json"), store("inconclusive", "b.json")]
    assert main(["check", *names, "--max-data-wait", "0.7"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line[:12] for line in lines] == ["a.json: ok  ", "b.json: ?   "]


def test_defaults_from_the_settings_are_checked(
    store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.bdoc]\nmax-data-wait = 0.2\nfail-if = ["step_time_s > 1"]\n'
    )
    store("typical")
    assert main(["check"]) == 1
    assert "pyproject.toml [tool.bdoc] max-data-wait" in capsys.readouterr().out


def test_the_command_line_replaces_a_default(store: Store, folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.bdoc]\nmax-data-wait = 0.2\n")
    store("typical")
    assert main(["check", "--max-data-wait", "0.7"]) == 0


@pytest.mark.parametrize("value", ["nan", "inf", "20", "-0.1", "1.5"])
def test_a_default_that_is_no_fraction_is_refused_by_its_name(
    value: str, store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.bdoc]\nmax-data-wait = {value}\n")
    store("typical")
    assert main(["check"]) == 2
    assert "pyproject.toml [tool.bdoc] max-data-wait" in capsys.readouterr().err


def test_a_default_for_regressions_waits_for_a_baseline(
    store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text("[tool.bdoc]\nmax-regression = 0.05\n")
    store("typical")
    assert main(["check", "--max-data-wait", "0.7"]) == 0
    assert main(["check", "--baseline", store("typical", "base.json")]) == 0
    assert "slower than the baseline by more than 5 %" in capsys.readouterr().out


@pytest.mark.parametrize("given", ['"base.json"', '["base.json", "base2.json"]'])
def test_baselines_may_stand_in_the_settings(
    given: str, store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.bdoc]\nbaseline = {given}\n")
    for name in ("profile.json", "base.json", "base2.json", "other.json"):
        store("typical", name)
    assert main(["check"]) == 0
    assert f"{given.count('base')} run" in capsys.readouterr().out
    assert main(["check", "--baseline", "other.json"]) == 0
    assert "1 run against 1" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["nan", "inf", "5", "-0.1"])
def test_a_default_limit_that_is_no_fraction_is_refused_by_its_name(
    value: str, store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.bdoc]\nmax-regression = {value}\n")
    store("typical")
    for gate in (["--baseline", store("typical", "base.json")], ["--max-data-wait", "0.5"]):
        assert main(["check", *gate]) == 2
        assert "pyproject.toml [tool.bdoc] max-regression" in capsys.readouterr().err


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


def test_a_threshold_given_twice_is_judged_once(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store("typical")
    asked = ["--fail-if", "step_time_s > 1", "--fail-if", "step_time_s  >  1.0"]
    assert main(["check", *asked]) == 0
    assert capsys.readouterr().out.count("step_time_s") == 1


def test_a_check_that_is_refused_leaves_no_file(store: Store, folder: Path) -> None:
    store("typical")
    assert main(["check", "absent.json", "--max-data-wait", "0.2", "--junit", "out.xml"]) == 2
    assert not (folder / "out.xml").exists()


def test_a_profile_of_the_future_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(encode_profile(PROFILE))
    (folder / "profile.json").write_text(json.dumps({**content, "schema_version": 99}))
    assert main(["check", "--max-data-wait", "0.2"]) == 2
    assert "written by a newer bdoc" in capsys.readouterr().err
