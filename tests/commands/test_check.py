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
        ("typical", ["--baseline", "profile.json"], 2),
        ("typical", ["--baseline", "profile.json", "--max-regression", "5"], 2),
        ("typical", ["--baseline", "profile.json", "--max-regression", "0.05"], 0),
        ("typical", ["--baseline", "absent.json", "--max-regression", "0.05"], 2),
        ("typical", ["absent.json", "--max-data-wait", "0.2"], 2),
    ],
)
def test_the_status_says_it_all(
    report: str, arguments: list[str], status: int, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store(report)
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


def test_a_default_for_regressions_waits_for_a_baseline(store: Store, folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.bdoc]\nmax-regression = 0.05\n")
    store("typical")
    assert main(["check", "--max-data-wait", "0.7"]) == 0
    assert main(["check", "--baseline", "profile.json"]) == 0


def test_a_profile_of_the_future_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(encode_profile(PROFILE))
    (folder / "profile.json").write_text(json.dumps({**content, "schema_version": 99}))
    assert main(["check", "--max-data-wait", "0.2"]) == 2
    assert "written by a newer bdoc" in capsys.readouterr().err
