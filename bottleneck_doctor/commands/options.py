"""The options that several commands share, and their defaults in pyproject.toml and the environment."""

from __future__ import annotations

import importlib
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..model.errors import UsageError
from .output import complain, writable

if TYPE_CHECKING:
    from ..export.send import Destination
    from ..model.report import Condition
    from ..model.run import Order


T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Option(Generic[T_co]):
    """``name`` is ``--name`` on the command line, unless ``spelled`` otherwise, and the key in pyproject's
    table, where its value is one of ``in_table``. ``variable`` is the environment variable that may hold it.
    ``kind`` is what is typed: bool, str, int, float, or list, of texts. ``read`` checks and converts that,
    given what an error calls it; None: as if not given."""

    name: str
    kind: type
    default: T_co
    help: str
    metavar: str | None = None
    spelled: tuple[str, ...] = ()
    shown_default: str = ""
    hidden: bool = False
    in_table: tuple[type, ...] = ()
    variable: str = ""
    read: Callable[[Any, str], T_co | None] = lambda value, _: value

    @property
    def key(self) -> str:
        """Its name as Python can write it."""
        return self.name.replace("-", "_")

    @property
    def words(self) -> tuple[str, ...]:
        """What stands for it on the command line."""
        return self.spelled or (f"--{self.name}",)


def named(text: str, _: str) -> str | None:
    """A text; an empty one, as of a variable that is unset, is none."""
    return text or None


def profile_file(text: str, _: str) -> str | None:
    """A file's path; of a folder, which is there or ends in a slash, that of the usual name in it."""
    in_folder = text.endswith(os.sep) or (text and os.path.isdir(text))
    return os.path.join(text, OUTPUT.default) if in_folder else text or None


def at_least_one(value: int, origin: str) -> int:
    """A number of steps."""
    if value < 1:
        raise UsageError(f"{origin} {value}: expected a whole number of at least 1")
    return value


def positive(value: float, origin: str) -> float:
    """A number of seconds."""
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{origin} {value}: expected a number of seconds above 0")
    return value


def functions(names: list[str], _: str) -> list[str]:
    """Functions of the user's that fetch batches, each as MODULE:FUNCTION."""
    for name in names:
        module, colon, function = name.partition(":")
        parts = [*module.split("."), *function.split(".")]
        if not colon or not all(part.isidentifier() for part in parts):
            raise UsageError(f"--data-fn {name!r} is not MODULE:FUNCTION, for example 'cats.data:next_batch'")
    return names


def data_wait_limits(given: list[str] | float, origin: str) -> list[Condition]:
    """Imports the gate, as ``failing`` does: the training waits for it only where there is one."""
    from ..analyse.compare import data_wait_condition

    return data_wait_condition(given if isinstance(given, list) else [repr(given)], origin)


def failing(texts: list[str], origin: str, known: Collection[str] = ()) -> list[Condition]:
    """The states that fail the gate; ``known`` are the metrics that there are, where more than usual."""
    from ..analyse.compare import METRIC_NAMES, parse_condition

    return [parse_condition(text, known or METRIC_NAMES, origin) for text in texts]


def thresholds(data_wait: list[Condition], fail_if: list[Condition]) -> list[Condition]:
    """Both together, each once; refuses what no run could hold."""
    found = [*data_wait, *fail_if]
    if found:
        from ..analyse.compare import refuse_contradictions

        refuse_contradictions(found)
    return list(dict.fromkeys(found))


def known_format(name: str, origin: str) -> str:
    """The format that was asked for, if it exists."""
    from ..render import FORMATS

    if name not in FORMATS:
        raise UsageError(f"{origin} {name!r}: no such format, there are {', '.join(FORMATS)}")
    return name


def printed_format(name: str, origin: str) -> str:
    """The same for the end of a run, which prints: the other formats are for ``bdoc report``."""
    from ..render import PRINTED

    if known_format(name, origin) not in PRINTED:
        raise UsageError(
            f"{origin} {name!r}: a run prints terminal, markdown or json; afterwards "
            f"`bdoc report --format {name} -o FILE` writes this"
        )
    return name


def targets(texts: list[str], origin: str) -> list[Destination]:
    """Where else the report goes."""
    from ..export.send import destinations

    return destinations(texts, origin)


def regression(given: str | float, origin: str) -> float:
    """The share by which a step may get slower than the baseline's."""
    from ..analyse.compare import parse_fraction

    return parse_fraction(given if isinstance(given, str) else repr(given), origin)


LENGTH = re.compile(r"(\d+\.?\d*|\.\d+)\s*([smh])", re.ASCII)
UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class TrialFile:
    """A trial's order, and the file that holds it, for the agent."""

    path: str
    order: Order


def length(text: str, origin: str) -> float:
    """Seconds of a length of time like 30s, 5m or 1h."""
    found = LENGTH.fullmatch(text.strip())
    seconds = float(found[1]) * UNITS_S[found[2]] if found is not None else 0.0
    if not 0 < seconds < 1e7:
        raise UsageError(f"{origin} {text[:40]!r}: expected a length of time like 30s, 5m or 1h")
    return seconds


def _trial(path: str, _: str) -> TrialFile:
    from ..model.codec import read_order

    return TrialFile(os.path.abspath(path), read_order(path))


NUMBER = (int, float)
MODULE = Option("module", bool, False, "SCRIPT is the name of a module, as for python -m.", spelled=("-m",))
OUTPUT = Option(
    "output", str, "profile.json", "The profile, or a folder for it.", "PATH", ("-o", "--output"),
    "profile.json", variable="BDOC_OUTPUT", read=profile_file,
)  # fmt: skip
FORMAT = Option(
    "format", str, "terminal", "terminal (the default), markdown or json.", "FORMAT",
    in_table=(str,), read=printed_format,
)  # fmt: skip
PYTHON = Option[str | None](
    "python", str, None, "The Python that runs the training.", "PATH", variable="BDOC_PYTHON", read=named
)
MAX_DATA_WAIT = Option["list[Condition]"](
    "max-data-wait", list, [], "Fail when data_wait_fraction is above this.", "FRACTION",
    in_table=NUMBER, read=data_wait_limits,
)  # fmt: skip
MAX_REGRESSION = Option[float | None](
    "max-regression", str, None, "Fail when steps got slower by more, beyond the noise (default 0.03).",
    "FRACTION", in_table=NUMBER, read=regression,
)  # fmt: skip
MAX_SECONDS = Option[float | None](
    "max-seconds", float, None, "End the training after S seconds.", "S", in_table=NUMBER, read=positive
)
MAX_STEPS = Option[int | None](
    "max-steps", int, None, "End the training after N steps.", "N", in_table=(int,), read=at_least_one
)
QUIET = Option("quiet", bool, False, "No report.", spelled=("-q", "--quiet"), in_table=(bool,))
NO_PROFILER = Option("no-profiler", bool, False, "Do not run torch.profiler.", in_table=(bool,))
NO_PY_SPY = Option("no-py-spy", bool, False, "Do not sample Python stacks by py-spy.", in_table=(bool,))
CPROFILE = Option("cprofile", bool, False, "Also run cProfile, which slows Python.", in_table=(bool,))
NO_PATHS = Option(
    "no-paths", bool, False, "Call folders and data files in the profile by hashes.", in_table=(bool,)
)
BASELINE = Option[list[str]](
    "baseline", list, [], "A profile from before, to compare with. Repeatable.", "PROFILE", in_table=(list,)
)
FAIL_IF = Option["list[Condition]"](
    "fail-if", list, [], "Fail when this is so. Repeatable.", "'METRIC OP VALUE'",
    in_table=(list,), read=failing,
)  # fmt: skip
DATA_FN = Option[list[str]](
    "data-fn", list, [], "A function that fetches batches. Repeatable.", "MODULE:FUNCTION",
    in_table=(list,), read=functions,
)  # fmt: skip
EXPORT = Option["list[Destination]"](
    "export", list, [], "Send the report there, too: otlp:URL, mlflow: and others. Repeatable.", "TARGET",
    variable="BDOC_EXPORT", read=targets,
)  # fmt: skip
KEEP_TRACE = Option("keep-trace", bool, False, "Keep the profiler's trace of an accelerator's steps.")
TRIAL = Option[TrialFile | None](
    "trial", str, None, "What `bdoc prove` wants tried, as JSON.", hidden=True, read=_trial
)
PLACE = Option[str | None]("place", str, None, "Where `bdoc prove` wants the run folder.", hidden=True)
UNTIL_STEADY = Option(
    "until-steady", bool, False, "End the training once its step time is known.", hidden=True
)
# Each command's options by the heading under which its help lists them.
RUN_GROUPS: dict[str, tuple[Option[Any], ...]] = {
    "What to run": (MODULE, PYTHON, DATA_FN),
    "When to end": (MAX_STEPS, MAX_SECONDS),
    "Results": (OUTPUT, FORMAT, QUIET, NO_PATHS, EXPORT),
    "Exit status 1 when": (MAX_DATA_WAIT, FAIL_IF),
    "How to measure": (NO_PROFILER, NO_PY_SPY, CPROFILE, KEEP_TRACE),
    "Internal": (TRIAL, PLACE, UNTIL_STEADY),
}
RUN = tuple(one for group in RUN_GROUPS.values() for one in group)
BUDGET_S = Option[float | None](
    "budget", str, None, "All that it may take, like 30s or 1h.", "TIME",
    shown_default="5m, at most 10 times the first run", read=length,
)  # fmt: skip
PROFILE = Option[str | None]("profile", str, None, "Start from this profile of the same training.", "PROFILE")
REMEDIES = Option[list[str]]("remedy", list, [], "Try this remedy, and no other. Repeatable.", "ID")
ALLOW_NUMERICS = Option(
    "allow-numerics", bool, False, "Also try what changes numerics or the order of samples."
)
DRY_RUN = Option("dry-run", bool, False, "Say what would be tried and what it would cost.")
PROOF = Option[str | None](
    "output", str, None, "Also write the proof, as JSON.", "FILE", ("-o", "--output"), read=writable
)
WRITE_PATCH = Option[str | None](
    "write-patch", str, None, "Write the winner as a diff of your script.", "FILE", read=writable
)
# The table's is for whole trainings.
LONGEST = replace(MAX_STEPS, help="No run trains more than N steps.", in_table=())
PROVE_GROUPS: dict[str, tuple[Option[Any], ...]] = {
    "What to run": (MODULE, PYTHON, DATA_FN, PROFILE),
    "What to try": (REMEDIES, ALLOW_NUMERICS, DRY_RUN),
    "How long": (BUDGET_S, LONGEST),
    "Results": (PROOF, WRITE_PATCH, FORMAT, QUIET),
}
PROVE = tuple(one for group in PROVE_GROUPS.values() for one in group)
OPTIONS = [one for one in list(globals().values()) if isinstance(one, Option)]
# What may stand in the table. What is executed, written over or sent away may not: the file may have come
# with a repository of other people's.
KEYS = {one.name: one for one in OPTIONS if one.in_table}

T = TypeVar("T")

TABLE = "[tool.bdoc]"
CALLED = {
    str: "a string", int: "a whole number", float: "a number", bool: "true or false",
    list: "a list of strings",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What the table of ``file`` says ("" = there is none), and the environment. ``ignored`` = a sentence on
    each file that is not trusted; ``used`` = the keys of the table that an option was taken from; ``strange``
    = those that no option has."""

    file: str = ""
    table: dict[str, Any] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    environ: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    used: dict[str, None] = field(default_factory=dict, compare=False)
    strange: list[str] = field(default_factory=list)

    def of(self, option: Option[T], typed: object = None) -> T:
        """An option's value: what was ``typed``, the environment's, the table's, or its default."""
        variable = self.environ.get(option.variable)
        words = variable.split() if variable and option.kind is list else variable
        entry = self.table.get(option.name) if option.in_table else None
        origins = (f"--{option.name}", option.variable, f"{self.file} {TABLE} {option.name}")
        for value, origin in zip((typed, words, entry), origins, strict=True):
            if value is not None and value is not False and value != []:
                found = option.read(value, origin)
                if found is not None:
                    if origin == origins[-1]:
                        self.used[option.name] = None
                    return found
        return option.default

    def refuse(self) -> None:
        """Raise for a key that there is not, before something is measured or judged without what it says."""
        for key in self.strange:
            import difflib

            near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}" if near else f"known are {', '.join(KEYS)}"
            raise UsageError(f"{self.file} {TABLE}: no key {key!r}, {hint}")

    def tell(self) -> None:
        """Print to stderr which file was used, once the options were taken."""
        if self.used:
            complain(f"settings from {self.file}: {', '.join(self.used)}")


NAME, MARK = "pyproject.toml", b"bdoc"
LARGEST_BYTES = 1 << 20


def read_settings(start: str | None = None) -> Settings:
    """The settings of the nearest pyproject.toml that has the table, from ``start`` upwards to the root of
    the repository or to the home folder. One that another user may have written is named on stderr."""
    settings = Settings(environ=os.environ)
    for folder in _folders(start):
        file, content, distrust = str(folder / NAME), b"", ""
        with suppress(OSError):  # there may be none, or none that this user may read
            content, distrust = _content(folder)
        if MARK not in content:  # it is about other tools
            continue
        if distrust:
            settings.ignored.append(f"{file} is ignored: {distrust}")
            complain(settings.ignored[-1])
        elif (table := _table(file, content)) is not None:
            table = {key.replace("_", "-"): value for key, value in table.items()}
            known = {key: _checked(key, value, file) for key, value in table.items() if key in KEYS}
            return replace(
                settings, file=file, table=known, strange=[one for one in table if one not in KEYS]
            )
    return settings


def _folders(start: str | None) -> Iterator[Path]:
    """Where a file may lie, the nearest first: as with git, what is above a repository is none of its own."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    with suppress(OSError):  # the working directory may have been removed
        here = Path(os.path.realpath(start or os.getcwd()))
        for folder in (here, *here.parents):
            yield folder
            if folder == home or os.path.lexists(folder / ".git"):
                return


def _content(folder: Path) -> tuple[bytes, str]:
    """What the file in this folder holds, and why it is not trusted, "" where it is. The folder and the file
    that are asked are those that are open: a name may lead elsewhere a moment later."""
    if not hasattr(os, "O_PATH"):  # no Linux: only reports are drawn here
        return (folder / NAME).read_bytes()[:LARGEST_BYTES], ""
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        handle = os.open(NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
        with os.fdopen(handle, "rb") as stream:
            found = os.fstat(handle)
            content = stream.read(LARGEST_BYTES) if stat.S_ISREG(found.st_mode) else b""
            return content, _distrust("it", found) or _distrust("its folder", os.fstat(place))
    finally:
        os.close(place)


def _distrust(what: str, found: os.stat_result) -> str:
    """Why another user may have a say in it, and what to do; "" where only this user and root have."""
    from ..launch.start import is_shared

    if found.st_uid not in (0, os.geteuid()):
        why, do = f"{what} belongs to user {found.st_uid}", "`chown` it"
    elif is_shared(found):
        why = f"other users may write to {what}"
        do = "move it" if found.st_mode & stat.S_ISVTX else "`chmod go-w` it"
    else:
        return ""
    return f"{why}; if you trust it, {do}, or give its settings as options"


def _table(file: str, content: bytes) -> dict[str, Any] | None:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        tool = toml.loads(content.decode()).get("tool")
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"cannot read {file}: {problem}") from None
    table = tool.get("bdoc") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{file}: {TABLE} is not a table")
    return table


def _checked(key: str, value: Any, file: str) -> Any:
    """The value in its option's type; lists may be given as one string."""
    kinds = KEYS[key].in_table
    if list in kinds and isinstance(value, str):
        return [value]
    wrong_bool = isinstance(value, bool) and bool not in kinds
    wrong_item = isinstance(value, list) and not all(isinstance(item, str) for item in value)
    if not isinstance(value, kinds) or wrong_bool or wrong_item:
        called = " or ".join(CALLED[kind] for kind in kinds if kind is not int or len(kinds) == 1)
        raise UsageError(f"{file} {TABLE} {key} = {value!r}: expected {called}")
    return value
