"""The checked options of ``bdoc run``; ``commands/run.py`` acts on them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from . import pyproject_settings
from .pyproject_settings import Settings
from .reading import printed_format

if TYPE_CHECKING:
    from ..model.gate import Condition
    from ..model.run import Order

LENGTH = re.compile(r"(\d+\.?\d*|\.\d+)\s*([smh])", re.ASCII)
UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class TrialFile:
    """A trial's order, and the file that holds it, for the agent."""

    path: str
    order: Order


@dataclass(frozen=True)
class RunOptions:
    """A checked command line: one of ``script``, ``module``, ``launcher``, and the ``args`` behind it.
    ``calibrate`` None: shortly. ``prove_s``: for how long remedies are tried afterwards, None: not at all."""

    script: str | None
    module: str | None
    launcher: list[str] | None
    args: list[str]
    output: str
    conditions: list[Condition]
    max_steps: int | None
    max_seconds: float | None
    format: str
    quiet: bool
    profiler: bool
    py_spy: bool
    cprofile: bool
    python: str | None
    data_fn: list[str]
    calibrate: bool | None = None
    keep_trace: bool = False
    trial: TrialFile | None = None
    place: str | None = None
    until_steady: bool = False
    prove_s: float | None = None
    paths: bool = True


def checked(
    target: list[str],
    launched: bool,
    *,
    module: bool = False,
    output: str | None = None,
    max_data_wait: list[str] | None = None,
    fail_if: list[str] | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    format: str | None = None,
    quiet: bool = False,
    no_profiler: bool = False,
    no_py_spy: bool = False,
    cprofile: bool = False,
    keep_trace: bool = False,
    no_paths: bool = False,
    calibrate: bool = False,
    no_calibrate: bool = False,
    python: str | None = None,
    data_fn: list[str] | None = None,
    trial: str | None = None,
    place: str | None = None,
    until_steady: bool = False,
    prove: str | None = None,
) -> RunOptions:
    """What was given on the command line, else in the settings; ``launched``: it stood behind ``--``."""
    defaults = pyproject_settings.load() if place is None else Settings()  # `bdoc prove` has read them itself
    script, name, launcher, args = form(target, module, launched)
    return RunOptions(
        script=script if prove is None else repeatable(script),
        module=name,
        launcher=launcher,
        args=args,
        output=output or defaults.output,
        conditions=_conditions(max_data_wait or [], fail_if or [], defaults),
        max_steps=_steps(max_steps, defaults),
        max_seconds=_seconds(max_seconds, defaults),
        format=printed_format(format, defaults),
        quiet=quiet or defaults.quiet,
        profiler=not (no_profiler or defaults.no_profiler),
        py_spy=not (no_py_spy or defaults.no_py_spy),
        cprofile=cprofile or defaults.cprofile,
        calibrate=_calibrate(calibrate, no_calibrate, defaults) if place is None else False,
        keep_trace=keep_trace,
        paths=not (no_paths or defaults.no_paths),
        python=python or defaults.python,
        data_fn=[function(name) for name in data_fn or defaults.data_fn],
        trial=_trial(trial),
        place=place,
        until_steady=until_steady,
        prove_s=length("--prove", prove),
    )


def _calibrate(calibrate: bool, no_calibrate: bool, defaults: Settings) -> bool | None:
    """Whether remedies are timed afterwards; None: shortly, for nobody said. The command line goes first."""
    if calibrate and no_calibrate:
        raise UsageError("--calibrate and --no-calibrate: give one of them")
    if calibrate or no_calibrate:
        return calibrate
    return defaults.calibrate or (False if defaults.no_calibrate else None)


def _conditions(max_data_wait: list[str], fail_if: list[str], defaults: Settings) -> list[Condition]:
    """The gate's; it is imported only where there is one, for the training waits until this is over."""
    if not (max_data_wait or fail_if or defaults.fail_if) and defaults.max_data_wait is None:
        return []
    from .gate import conditions

    return conditions(max_data_wait, fail_if, defaults)


def form(
    target: list[str], module: bool, launched: bool, command: str = "run"
) -> tuple[str | None, str | None, list[str] | None, list[str]]:
    """Script, module, launcher and arguments."""
    if not target:
        raise UsageError(
            f"nothing to run: give a script, '-m MODULE' or '-- COMMAND', see `bdoc {command} --help`"
        )
    if module:
        return None, target[0], None, target[1:]
    if launched:
        return None, None, target, []
    return target[0], None, None, target[1:]


def repeatable(script: str | None) -> str | None:
    """The script, which is to run several times."""
    if script == "-":
        raise UsageError("a script on stdin can be read once only, and is to run several times: give a file")
    return script


def length(option: str, text: str | None) -> float | None:
    """Seconds of a length of time like 30s, 5m or 1h."""
    if text is None:
        return None
    found = LENGTH.fullmatch(text.strip())
    seconds = float(found[1]) * UNITS_S[found[2]] if found is not None else 0.0
    if not 0 < seconds < 1e7:
        raise UsageError(f"{option} {text[:40]!r}: expected a length of time like 30s, 5m or 1h")
    return seconds


def _trial(path: str | None) -> TrialFile | None:
    if path is None:
        return None
    from ..model.codec import read_order

    return TrialFile(os.path.abspath(path), read_order(path))


def _steps(given: int | None, defaults: Settings) -> int | None:
    origin = "--max-steps" if given is not None else pyproject_settings.origin(defaults, "max-steps")
    value = defaults.max_steps if given is None else given
    if value is not None and value < 1:
        raise UsageError(f"{origin} {value}: expected a whole number of at least 1")
    return value


def _seconds(given: float | None, defaults: Settings) -> float | None:
    origin = "--max-seconds" if given is not None else pyproject_settings.origin(defaults, "max-seconds")
    value = defaults.max_seconds if given is None else given
    if value is not None and not (math.isfinite(value) and value > 0):
        raise UsageError(f"{origin} {value}: expected a number of seconds above 0")
    return value


def function(name: str) -> str:
    """A function of the user's that fetches batches, as MODULE:FUNCTION."""
    module, colon, function = name.partition(":")
    parts = [*module.split("."), *function.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise UsageError(f"--data-fn {name!r} is not MODULE:FUNCTION, for example 'cats.data:next_batch'")
    return name


FLAGS = (
    "--quiet", "--no-profiler", "--no-py-spy", "--cprofile", "--keep-trace", "--calibrate", "--no-calibrate",
    "--until-steady", "--no-paths",
)  # fmt: skip
TEXTS = ("--output", "--format", "--python", "--prove", "--trial", "--place")
LISTS = ("--max-data-wait", "--fail-if", "--data-fn")
NUMBERS: dict[str, tuple[type, str]] = {
    "--max-steps": (int, r"\d{1,9}"),
    "--max-seconds": (float, r"\d{1,9}(\.\d{1,9})?"),
}
SHORT = {"-q": "--quiet", "-o": "--output"}


def quickly(arguments: list[str]) -> RunOptions | None:
    """The options of this command line, or None where typer is to read it."""
    if arguments[:1] != ["run"]:
        return None
    given: dict[str, Any] = {}
    words = iter(arguments[1:])
    for word in words:
        if word in ("-", "--") or not word.startswith("-"):
            target = list(words) if word == "--" else [word, *words]
            return checked(target, word == "--", **given) if target else None
        if word == "-m":
            given["module"] = True
        elif not _take(SHORT.get(word, word), words, given):
            return None
    return None


def _take(word: str, words: Iterator[str], given: dict[str, Any]) -> bool:
    """Note one option, with its value from ``words`` where it has one; False: typer is to see to it."""
    option, equals, value = word.partition("=")
    name = option[2:].replace("-", "_")
    if option in FLAGS and not equals:
        given[name] = True
        return True
    if not equals:
        value = next(words, "-")
        if value.startswith("-"):
            return False
    if option in TEXTS:
        given[name] = value
    elif option in LISTS:
        given.setdefault(name, []).append(value)
    elif option in NUMBERS and re.fullmatch(NUMBERS[option][1], value, re.ASCII):
        given[name] = NUMBERS[option][0](value)
    else:
        return False
    return True
