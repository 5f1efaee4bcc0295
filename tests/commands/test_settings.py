"""Defaults from pyproject.toml: found upwards, typed, and refused by file and key."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from bottleneck_doctor.commands.pyproject_settings import KINDS, Settings, load
from bottleneck_doctor.model.errors import UsageError


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text)
    return file


def test_without_a_file_everything_is_the_default(folder: Path) -> None:
    assert load(str(folder)) == Settings()


def test_every_key_is_a_setting() -> None:
    assert {name.replace("-", "_") for name in KINDS} == {item.name for item in fields(Settings)} - {"file"}


def test_settings_are_read(folder: Path) -> None:
    file = write(
        folder,
        "[tool.bdoc]\nmax-data-wait = 0.2\nfail-if = ['step_time_s > 1']\nmax-steps = 100\nmax-seconds = 3\n"
        "quiet = true\noutput = 'out/p.json'\n",
    )
    assert load(str(folder)) == Settings(
        file=str(file),
        max_data_wait=0.2,
        fail_if=["step_time_s > 1"],
        max_steps=100,
        max_seconds=3,
        quiet=True,
        output="out/p.json",
    )


def test_a_list_of_one_may_be_a_string(folder: Path) -> None:
    write(folder, "[tool.bdoc]\nfail-if = 'step_time_s > 1'\n")
    assert load(str(folder)).fail_if == ["step_time_s > 1"]


def test_the_nearest_file_with_the_table_counts(folder: Path) -> None:
    write(folder, "[tool.bdoc]\nquiet = true\n")
    write(folder / "inner", "[tool.other]\nx = 1\n")
    (folder / "inner" / "deeper").mkdir()
    assert load(str(folder / "inner" / "deeper")).quiet


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.bdoc]\nmax-data-weight = 0.2", "no key 'max-data-weight', did you mean 'max-data-wait'"),
        ("[tool.bdoc]\nmax_data_wait = 0.2", "no key 'max_data_wait', did you mean 'max-data-wait'"),
        ("[tool.bdoc]\nzzz = 1", "no key 'zzz', known are output, format"),
        ("[tool.bdoc]\nmax-data-wait = '0.2'", "max-data-wait = '0.2': expected a number"),
        ("[tool.bdoc]\nmax-data-wait = true", "max-data-wait = True: expected a number"),
        ("[tool.bdoc]\nmax-steps = 1.5", "max-steps = 1.5: expected a whole number"),
        ("[tool.bdoc]\nquiet = 'yes'", "quiet = 'yes': expected true or false"),
        ("[tool.bdoc]\nquiet = 1", "quiet = 1: expected true or false"),
        ("[tool.bdoc]\noutput = 1", "output = 1: expected a string"),
        ("[tool.bdoc]\nfail-if = [1]", "fail-if = [1]: expected a list of strings"),
        ("[tool]\nbdoc = 3", "[tool.bdoc] is not a table"),
        ("[tool.bdoc\n", "cannot read"),
        ("tool = [1]\nx = ", "cannot read"),
    ],
)
def test_a_bad_value_is_named_by_file_and_key(text: str, said: str, folder: Path) -> None:
    file = write(folder, text)
    with pytest.raises(UsageError) as caught:
        load(str(folder))
    assert said in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_of_somebody_else_does_no_harm(folder: Path) -> None:
    write(folder, "tool = 3\n")
    assert load(str(folder)) == Settings()
