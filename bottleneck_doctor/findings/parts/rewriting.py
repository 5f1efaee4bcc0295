"""Writes the user's own loader call with other arguments, or says where to set them when it cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...analyse.loader_arguments import POSITIONS, TRAINER_NAMES, without_workers
from ...model.code import Argument
from ...model.loops import Loader

LINE = 100  # columns; a longer call has a line for each argument
LONGEST_NOTE = 40  # of what an argument was
UNPACKED = ("*", "**")
PLAIN = re.compile(r"-?\d+(\.\d+)?|True|False|None")
SURELY_OTHER = 1  # unnamed argument after the data set, of a library's class, is taken for the batch size
# Frameworks that rebuild the user's loader: where the user's own call is.
ELSEWHERE = {
    "lightning": "the one that train_dataloader() returns",
    "pytorch_lightning": "the one that train_dataloader() returns",
    "accelerate": "the one given to accelerator.prepare()",
}


class Code(str):
    """A value that is no literal, as it stands in source: ``collate_fn=Code("collate")``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class CallArgument:
    """An argument of the new call; ``note`` says what became of it, "" where nothing did."""

    text: str
    name: str
    note: str = ""


def loader_call(loader: Loader, **changed: object) -> str:
    """The user's own call with the changed arguments put in and marked; a comment says what could not be
    put in: names that ``**options`` may hold already, or a loader that a framework builds."""
    wanted = {name: repr(value) for name, value in changed.items()}
    if loader.call is None and loader.through:
        return _by_framework(loader.through, wanted)
    if loader.call is None:
        dataset = [wanted.pop("dataset")] if "dataset" in wanted else []
        known = loader.arguments | without_workers(wanted, loader.arguments)
        return f"DataLoader({', '.join([*dataset, '...', *_each(known)])})"
    names = _names(loader.call.arguments, foreign=bool(loader.through))
    wanted = without_workers(wanted, names)
    pairs = zip(loader.call.arguments, names, strict=True)
    pieces = [_piece(one, name, wanted, loader.arguments.get(name, "")) for one, name in pairs]
    missing = {name: value for name, value in wanted.items() if name not in names}
    if set(names) & set(UNPACKED) or names.count("") > SURELY_OTHER:  # names may be given in there
        return _told(missing, names) + _laid_out(loader.call.function, pieces)
    new = [CallArgument(f"{name}={value}", name, "new") for name, value in missing.items()]
    return _laid_out(loader.call.function, pieces + new)


def _names(arguments: list[Argument], foreign: bool) -> list[str]:
    """The name of each argument, ``*``, ``**``, or "" for positional ones of another library's class."""
    first = POSITIONS[:1] if foreign else POSITIONS
    if any(one.name == "*" for one in arguments):
        first = ()
    return [one.name or (first[place] if place < len(first) else "") for place, one in enumerate(arguments)]


def _piece(one: Argument, name: str, wanted: dict[str, str], known: str) -> CallArgument:
    """``known`` is the argument's value in the run; the note quotes it if it is a plain literal."""
    value = wanted.get(name, one.text) if name not in UNPACKED else one.text
    value = one.text if value == known else value  # it has this value already
    was = known if PLAIN.fullmatch(known) else one.text
    was = was if len(was) <= LONGEST_NOTE else was[: LONGEST_NOTE - 4] + " ..."
    note = "" if value == one.text else f"was {was}"
    lead = one.name if one.name in UNPACKED else f"{one.name}=" if one.name else ""
    return CallArgument(lead + value, name, note)


def _laid_out(function: str, pieces: list[CallArgument]) -> str:
    call = f"{function}({', '.join(piece.text for piece in pieces)})"
    new = ", ".join(piece.name for piece in pieces if piece.note == "new")
    notes = [f"{piece.name} {piece.note}" for piece in pieces if piece.note not in ("", "new")]
    comment = "; ".join(notes + ([f"new: {new}"] if new else []))
    line = f"{call}  # {comment}" if comment else call
    if len(line) <= LINE:
        return line
    rows = [f"    {piece.text}," + (f"  # {piece.note}" if piece.note else "") for piece in pieces]
    return "\n".join([f"{function}(", *rows, ")"])


def _told(missing: dict[str, str], names: list[str]) -> str:
    if not missing:
        return ""
    where = "what is unpacked below" if set(names) & set(UNPACKED) else "the call below"
    return f"# set in {where}: {_listed(missing)}\n"


def _by_framework(through: list[str], wanted: dict[str, str]) -> str:
    """How to set the arguments in the framework that builds the loader."""
    if "transformers" in through:
        known = {TRAINER_NAMES[name]: value for name, value in wanted.items() if name in TRAINER_NAMES}
        rest = {name: value for name, value in wanted.items() if name not in TRAINER_NAMES}
        lines = [f"TrainingArguments(..., {_listed(known)})"] if known else []
        lines += [f"# in what get_train_dataloader() of the Trainer returns: {_listed(rest)}"] if rest else []
        return "\n".join(lines)
    where = next((ELSEWHERE[name] for name in through if name in ELSEWHERE), "")
    if where:
        return f"DataLoader(..., {_listed(wanted)})  # {where}"
    return f"# {through[-1]} builds this DataLoader; let it have: {_listed(wanted)}"


def _listed(arguments: dict[str, str]) -> str:
    return ", ".join(_each(arguments))


def _each(arguments: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in arguments.items()]
