"""Defaults from pyproject.toml: found upwards, typed, and refused by file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.commands.options import (
    FAIL_IF,
    FORMAT,
    KEYS,
    MAX_DATA_WAIT,
    MAX_SECONDS,
    MAX_STEPS,
    OUTPUT,
    PYTHON,
    QUIET,
    VARIABLES,
    Option,
    Settings,
    read_settings,
)
from bottleneck_doctor.commands.run_options import PROVE, RUN
from bottleneck_doctor.model.errors import UsageError


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text)
    return file


def test_without_a_file_everything_is_the_default(folder: Path) -> None:
    assert read_settings(str(folder)) == Settings()


@pytest.mark.parametrize("option", dict.fromkeys([*RUN, *PROVE, *KEYS.values()]), ids=lambda one: one.name)
def test_what_the_table_may_say_is_a_key_of_it(option: Option[Any]) -> None:
    assert bool(option.in_table) is (KEYS.get(option.name) is option)


def test_settings_are_read(folder: Path) -> None:
    file = write(
        folder,
        "[tool.bdoc]\nmax-data-wait = 0.2\nfail-if = ['step_time_s > 1']\nmax-steps = 100\nmax-seconds = 3\n"
        "quiet = true\n",
    )
    settings = read_settings(str(folder))
    assert settings.file == str(file)
    assert (settings.of(MAX_STEPS), settings.of(MAX_SECONDS), settings.of(QUIET)) == (100, 3, True)
    assert (settings.of(OUTPUT), settings.of(FORMAT)) == ("profile.json", "terminal")
    conditions = [*settings.of(MAX_DATA_WAIT), *settings.of(FAIL_IF)]
    assert [one.threshold for one in conditions] == [0.2, 1.0]
    assert conditions[0].origin == f"{file} [tool.bdoc] max-data-wait"


def test_what_is_typed_goes_before_all_else_and_an_empty_name_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BDOC_OUTPUT", "p.json")
    monkeypatch.setenv("BDOC_PYTHON", "")
    write(folder, "[tool.bdoc]\nmax-steps = 0\n")
    settings = read_settings(str(folder))
    assert (settings.of(OUTPUT, "r.json"), settings.of(OUTPUT, "")) == ("r.json", "p.json")
    assert settings.of(PYTHON) is None
    assert settings.of(MAX_STEPS, 5) == 5
    with pytest.raises(UsageError, match=r"\[tool.bdoc\] max-steps 0: expected"):
        settings.of(MAX_STEPS)


def test_a_list_of_one_may_be_a_string(folder: Path) -> None:
    write(folder, "[tool.bdoc]\nfail-if = 'step_time_s > 1'\n")
    assert read_settings(str(folder)).said == {"fail-if": ["step_time_s > 1"]}


def test_the_nearest_file_with_the_table_counts(folder: Path) -> None:
    write(folder, "[tool.bdoc]\nquiet = true\n")
    write(folder / "inner", "[tool.other]\nx = 1\n")
    (folder / "inner" / "deeper").mkdir()
    assert read_settings(str(folder / "inner" / "deeper")).of(QUIET)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.bdoc]\nmax-data-weight = 0.2", "no key 'max-data-weight', did you mean 'max-data-wait'"),
        ("[tool.bdoc]\nmax_data_wait = 0.2", "no key 'max_data_wait', did you mean 'max-data-wait'"),
        ("[tool.bdoc]\nzzz = 1", "no key 'zzz', known are format, max-data"),
        ("[tool.bdoc]\nmax-data-wait = '0.2'", "max-data-wait = '0.2': expected a number"),
        ("[tool.bdoc]\nmax-data-wait = true", "max-data-wait = True: expected a number"),
        ("[tool.bdoc]\nmax-steps = 1.5", "max-steps = 1.5: expected a whole number"),
        ("[tool.bdoc]\nquiet = 'yes'", "quiet = 'yes': expected true or false"),
        ("[tool.bdoc]\nquiet = 1", "quiet = 1: expected true or false"),
        ("[tool.bdoc]\nformat = 1", "format = 1: expected a string"),
        *((f"[tool.bdoc]\n{name} = 'x'", f"give --{name}, or set BDOC_{name.upper()}") for name in VARIABLES),
        ("[tool.bdoc]\nfail-if = [1]", "fail-if = [1]: expected a list of strings"),
        ("[tool]\nbdoc = 3", "[tool.bdoc] is not a table"),
        ("[tool.bdoc\n", "cannot read"),
        ("tool = [1]\nbdoc = ", "cannot read"),
    ],
)
def test_a_bad_value_is_named_by_file_and_key(text: str, said: str, folder: Path) -> None:
    file = write(folder, text)
    with pytest.raises(UsageError) as caught:
        read_settings(str(folder))
    assert said in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_about_other_tools_does_no_harm(folder: Path) -> None:
    for text in ("tool = 3\n", "[tool.black\n"):
        write(folder, text)
        assert read_settings(str(folder)) == Settings()
