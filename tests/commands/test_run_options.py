"""Options of run and prove: the command line, the environment, pyproject.toml."""

from pathlib import Path

import pytest

from bottleneck_doctor.commands import cli
from bottleneck_doctor.commands.app import COMMANDS, main
from bottleneck_doctor.commands.options import (
    CPROFILE,
    EXPORT,
    FORMAT,
    KEYS,
    MAX_STEPS,
    NO_PROFILER,
    NO_PY_SPY,
    OUTPUT,
    PROVE,
    PYTHON,
    RUN,
    read_settings,
)
from bottleneck_doctor.commands.run_options import Options, conditions, quickly
from bottleneck_doctor.model.errors import UsageError


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """What reached the command; it left with status 7."""
    options: list[Options] = []
    monkeypatch.setattr("bottleneck_doctor.commands.run.run_training", lambda one: options.append(one) or 7)
    return options


@pytest.mark.parametrize(
    "line",
    [
        "train.py --lr 0.1 -o x",
        "-o p.json -m pkg.train -m",
        "--quiet --no-profiler --no-py-spy --cprofile --keep-trace --until-steady -- env x -- y",
        "--max-steps 5 --max-seconds=1.5 --format json --python=/usr/bin/python3 --place /tmp train.py",
        "--max-data-wait 0.3 --max-data-wait=0.2 --data-fn a.b:c --data-fn e:f --max-seconds 3 train.py",
    ],
)
def test_an_ordinary_line_is_read_as_typer_reads_it(line: str, seen: list[Options]) -> None:
    arguments = ["run", *line.split()]
    assert quickly(arguments) is not None
    assert cli.obey(arguments, COMMANDS) == 7
    assert seen == [quickly(arguments)]


@pytest.mark.parametrize(
    "line",
    [
        "", "-m", "--", "-h", "--lr 1 t.py", "-qo p.json t.py", "--quiet=1 t.py", "--max-steps x t.py",
        "--max-seconds nan t.py", "--output", "--output -- t.py", "--max-steps 1_0 t.py",
    ],
)  # fmt: skip
def test_any_other_line_is_left_to_typer(line: str) -> None:
    assert quickly(["run", *line.split()]) is None


def test_defaults_come_from_the_settings_and_the_environment(
    seen: list[Options], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BDOC_OUTPUT", "p.json")
    monkeypatch.setenv("BDOC_EXPORT", "mlflow: prometheus:a.prom mlflow:")
    (folder / "pyproject.toml").write_text(
        "[tool.bdoc]\nmax_steps = 9\nno-py-spy = true\nmax-data-wait = 0.1\nformat = 'markdown'\n"
        "fail-if = 'step_time_s > 1'\n"
    )
    assert main(["run", "--format", "terminal", "train.py"]) == 7
    options = seen[0]
    assert (options[OUTPUT], options[MAX_STEPS], options[NO_PY_SPY]) == ("p.json", 9, True)
    assert (options[NO_PROFILER], options[FORMAT], options[CPROFILE]) == (False, "terminal", False)
    assert [condition.threshold for condition in conditions(options)] == [0.1, 1.0]
    assert conditions(options)[0].origin == f"{folder / 'pyproject.toml'} [tool.bdoc] max-data-wait"
    assert [one.shown for one in options[EXPORT]] == ["mlflow", "prometheus:a.prom"]
    assert [*options.settings.used] == ["max-steps", "max-data-wait", "fail-if", "no-py-spy"]
    assert main(["run", "--place", "/tmp", "train.py"]) == 7  # a trial of `bdoc prove`
    assert (seen[1][OUTPUT], seen[1][EXPORT], seen[1][MAX_STEPS]) == ("profile.json", [], None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["-m"], "nothing to run"),
        (["--max-steps", "0", "t.py"], "--max-steps 0: expected a whole number of at least 1"),
        (["--max-seconds", "nan", "t.py"], "--max-seconds nan: expected a number of seconds above 0"),
        (["--fail-if", "data_wait > 1", "t.py"], "did you mean data_wait_fraction"),
        (["--format", "pdf", "t.py"], "there are terminal, markdown, json"),
        (["--format", "html", "t.py"], "afterwards `bdoc report --format html -o FILE` writes this"),
        (["--data-fn", "a.b", "t.py"], "is not MODULE:FUNCTION"),
    ],
)
def test_a_usage_error_starts_nothing(
    line: list[str], said: str, seen: list[Options], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *line]) == 2
    assert seen == []
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text)
    return file


def test_what_the_table_may_say_is_a_key_of_it() -> None:
    for option in {*RUN, *PROVE, *KEYS.values()}:
        assert bool(option.in_table) is (KEYS.get(option.name) is option), option.name


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.bdoc]\nmax-data-weight = 0.2", "no key 'max-data-weight', did you mean 'max-data-wait'"),
        ("[tool.bdoc]\nmax-data-wait = '0.2'", "max-data-wait = '0.2': expected a number"),
        ("[tool.bdoc]\nmax-steps = 1.5", "max-steps = 1.5: expected a whole number"),
        ("[tool.bdoc]\nquiet = 1", "quiet = 1: expected true or false"),
        ("[tool.bdoc]\npython = 'x'", "no key 'python', "),
        ("[tool.bdoc]\nfail-if = [1]", "fail-if = [1]: expected a list of strings"),
        ("[tool]\nbdoc = 3", "[tool.bdoc] is not a table"),
        ("[tool.bdoc\n", "cannot read"),
    ],
)
def test_a_bad_value_is_named_by_file_and_key(text: str, said: str, folder: Path) -> None:
    file = write(folder, text)
    with pytest.raises(UsageError) as caught:
        read_settings(str(folder)).refuse()
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
