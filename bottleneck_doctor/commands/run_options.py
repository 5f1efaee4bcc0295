"""How the command lines of run and prove are read. Not by typer, where that can be avoided: it takes time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..model.errors import UsageError
from .options import (
    FAIL_IF,
    MAX_DATA_WAIT,
    MODULE,
    OUTPUT,
    PLACE,
    RUN,
    Option,
    Settings,
    read_settings,
    thresholds,
)
from .output import with_folder

if TYPE_CHECKING:
    from ..model.report import Condition


T = TypeVar("T")


class Form(NamedTuple):
    """What is to be run: one of ``script``, ``module``, ``launcher``, and the ``args`` behind it."""

    script: str | None
    module: str | None = None
    launcher: list[str] | None = None
    args: Sequence[str] = ()


@dataclass(frozen=True)
class Options:
    """A checked command line: ``options[QUIET]`` is what that option is in this run."""

    form: Form
    values: Mapping[Option[Any], Any]
    settings: Settings = field(default_factory=Settings)

    def __getitem__(self, option: Option[T]) -> T:
        value: T = self.values.get(option, option.default)
        return value


def checked(target: list[str], launched: bool, typed: Mapping[str, Any]) -> Options:
    """What was ``typed``, by the options' keys, else the settings; ``launched``: after ``--``."""
    of_prove = typed.get(PLACE.key) is not None  # `bdoc prove` has read the settings itself
    settings = Settings() if of_prove else read_settings()
    settings.refuse()
    options = read(RUN, target, launched, typed, settings)
    conditions(options)
    if options[OUTPUT] != OUTPUT.default:  # a training does not fail for the default path
        with_folder(options[OUTPUT], "--output")
    return options


def conditions(options: Options) -> list[Condition]:
    """What fails the gate at the end of the run."""
    return thresholds(options[MAX_DATA_WAIT], options[FAIL_IF])


def read(
    declared: Sequence[Option[Any]],
    target: list[str],
    launched: bool,
    typed: Mapping[str, Any],
    settings: Settings,
    command: str = "run",
) -> Options:
    """The same for the options of any command that starts a training, each checked on its own."""
    form = form_of(target, bool(typed.get(MODULE.key)), launched, command)
    return Options(form, {one: settings.of(one, typed.get(one.key)) for one in declared}, settings)


def form_of(target: list[str], module: bool, launched: bool, command: str) -> Form:
    """Script, module or launcher, and arguments."""
    if not target:
        raise UsageError(
            f"nothing to run: give a script, '-m MODULE' or '-- COMMAND', see `bdoc {command} --help`"
        )
    if module:
        return Form(None, target[0], None, target[1:])
    return Form(None, None, target, []) if launched else Form(target[0], None, None, target[1:])


def refuse_stdin(form: Form) -> None:
    """Of what is to run several times, a script may not come from there."""
    if form.script == "-":
        raise UsageError("a script on stdin can be read once only, and is to run several times: give a file")


NUMBERS: dict[type, str] = {int: r"\d{1,9}", float: r"\d{1,9}(\.\d{1,9})?"}  # typer knows of others
WORDS = {word: option for option in RUN for word in option.words}


def quickly(arguments: list[str]) -> Options | None:
    """The options of this command line, or None where typer is to read it."""
    if arguments[:1] != ["run"]:
        return None
    typed: dict[str, Any] = {}
    words = iter(arguments[1:])
    for word in words:
        if word in ("-", "--") or not word.startswith("-"):
            target = list(words) if word == "--" else [word, *words]
            return checked(target, word == "--", typed) if target else None
        if not _take(word, words, typed):
            return None
    return None


def words_typed(words: Sequence[str], known: Sequence[Option[Any]]) -> dict[str, Any]:
    """Options that stand alone, without anything to run behind them."""
    typed: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if WORDS.get(word.partition("=")[0]) not in known or not _take(word, rest, typed):
            names = ", ".join(one.words[-1] for one in known)
            raise UsageError(f"{word[:40]!r} is no option here, or lacks its value; there are {names}")
    return typed


def _take(word: str, words: Iterator[str], typed: dict[str, Any]) -> bool:
    """Note one option, with its value from ``words`` where it has one; False: typer is to see to it."""
    word, equals, value = word.partition("=")
    option = WORDS.get(word)
    if option is None or (equals and (option.kind is bool or not word.startswith("--"))):
        return False
    if option.kind is bool:
        typed[option.key] = True
        return True
    if not equals:
        value = next(words, "-")
        if value.startswith("-"):
            return False
    if option.kind is list:
        typed.setdefault(option.key, []).append(value)
    elif option.kind is str or re.fullmatch(NUMBERS[option.kind], value, re.ASCII):
        typed[option.key] = option.kind(value)
    else:
        return False
    return True
