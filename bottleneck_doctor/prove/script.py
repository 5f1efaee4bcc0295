"""A script as text and as a tree, the places of one in the other, and the names that it imports."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..model.loops import TRAINER_NAMES, Loader
from ..model.profile import Profile

BYTE_ORDER_MARK = "\ufeff"
LINE_END = re.compile(rb"\r\n|\r|\n")


class Unsafe(Exception):
    """Why a script is not rewritten: part of a sentence, in the user's words."""


@dataclass(frozen=True)
class Edit:
    """``text`` instead of what stands from ``begin`` to ``end``, offsets in the file's bytes."""

    begin: int
    end: int
    text: str


@dataclass(frozen=True)
class ParsedScript:
    """``data`` is the text without a byte order mark, as the tree's offsets count it; ``starts`` are those of
    its lines. ``names`` are what the file's imports bind, to their dotted names."""

    whole: str
    data: bytes
    tree: ast.Module
    starts: tuple[int, ...]
    names: dict[str, str]

    def begin(self, node: ast.expr | ast.keyword) -> int:
        """Where a node's text begins."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        """Where it ends."""
        return self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr) -> str:
        """As the user wrote it."""
        return self.data[self.begin(node) : self.end(node)].decode()

    @property
    def newline(self) -> str:
        """How lines end here."""
        first = LINE_END.search(self.data)
        return first[0].decode() if first else "\n"


def parse(whole: str) -> ParsedScript:
    """The script; raises ``Unsafe`` where this Python cannot read it."""
    data = whole.removeprefix(BYTE_ORDER_MARK).encode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's escapes
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise Unsafe(f"it cannot be parsed: {problem}") from None
    starts = (0, *(found.end() for found in LINE_END.finditer(data)))
    return ParsedScript(whole, data, tree, starts, _imported(tree))


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """``torch.optim.AdamW`` of what the script may call ``optim.AdamW``; "" where it is no plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def _imported(tree: ast.Module) -> dict[str, str]:
    """A name that two imports bind to different things is known by neither."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            pairs = [(one.asname or one.name.partition(".")[0], one) for one in node.names]
            bound = [(name, one.name if one.asname else name) for name, one in pairs]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            bound = [(one.asname or one.name, f"{node.module}.{one.name}") for one in node.names]
        else:
            continue
        for name, meaning in bound:
            found[name] = meaning if found.get(name, meaning) == meaning else name
    return found


ARGUMENTS = "TrainingArguments"
OWN_ARGUMENTS = frozenset({f"transformers.{ARGUMENTS}", f"transformers.training_args.{ARGUMENTS}"})


def is_trainers(loader: Loader) -> bool:
    """Whether the Trainer of transformers builds it."""
    return loader.call is None and "transformers" in loader.through


def trainers(names: Iterable[str], loaders: list[Loader], profile: Profile) -> dict[str, str]:
    """What TrainingArguments calls these arguments of a loader; raises ``Unsafe`` where it has none such."""
    unknown = [name for name in names if name not in TRAINER_NAMES]
    if unknown:
        raise Unsafe(f"{ARGUMENTS} has no argument for {', '.join(unknown)}")
    keys = {loader.key for loader in loaders}
    if any(loop.loader in keys and loop.role == "evaluation" for loop in profile.loops):
        raise Unsafe(f"{ARGUMENTS} sets the loaders of training and of evaluation alike")
    return {name: TRAINER_NAMES[name] for name in names}


def handed_over(loader: Loader, profile: Profile) -> Loader:
    """The script's own loader that a framework has built anew, as Accelerate does, where it is surely one."""
    alike = [one for one in profile.loaders
             if one.call is not None and one.location is not None and not one.through
             and (one.pid, one.dataset, one.dataset_length)
             == (loader.pid, loader.dataset, loader.dataset_length)]  # fmt: skip
    if "accelerate" not in loader.through or len({one.location for one in alike}) != 1:
        raise Unsafe(f"{loader.through[-1]} builds the loader, not the script")
    return alike[0]


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """Every call below a node. Those in f-strings have no reliable place before Python 3.12."""
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from calls(child)


def find_call(source: ParsedScript, line: int | None, callee: str) -> ast.Call:
    """The call of ``callee`` (the last part of its name, imports seen through) whose text covers the line,
    or any line where that is None; raises ``Unsafe`` unless it is exactly one."""
    found = [
        call
        for call in calls(source.tree)
        if (line is None or call.lineno <= line <= (call.end_lineno or call.lineno))
        and callee in (source.text(call.func), dotted(call.func, source.names).rpartition(".")[2])
    ]
    if line is None and len(found) != 1:
        raise Unsafe(
            f"{'several calls' if found else 'no call'} of {callee} in the file that starts the training"
        )
    if not found:
        raise Unsafe(f"no call of {callee} is at line {line}: another one builds it, or the file has changed")
    if len(found) > 1:
        raise Unsafe(f"several calls of {callee} are at line {line}")
    return found[0]


def argument_edits(
    source: ParsedScript, call: ast.Call, wanted: dict[str, str], positions: tuple[str, ...], is_own: bool
) -> list[Edit]:
    """What gives the call these arguments. ``positions`` are its parameters that may come without a name;
    ``is_own``: it surely takes all of them."""
    present = _present(call, positions)
    missing = {name: value for name, value in wanted.items() if name not in present}
    names = ", ".join(missing)
    unpacked = [source.text(keyword.value) for keyword in call.keywords if keyword.arg is None]
    if missing and unpacked:
        raise Unsafe(f"what **{unpacked[0]} holds is not seen: it may set {names}")
    if missing and any(isinstance(one, ast.Starred) for one in call.args):
        raise Unsafe(f"what stands in the unpacked arguments is not seen: they may set {names}")
    if missing and not is_own:
        raise Unsafe(f"{source.text(call.func)} may not take {names}")
    same = {name for name, node in present.items() if source.text(node) == wanted.get(name)}
    edits = [
        Edit(source.begin(node), source.end(node), wanted[name])
        for name, node in present.items()
        if name in wanted and name not in same
    ]
    return edits + ([_added(source, call, missing)] if missing else [])


def _present(call: ast.Call, positions: tuple[str, ...]) -> dict[str, ast.expr]:
    """Arguments by name, as far as they are known by one."""
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    if any(isinstance(one, ast.Starred) for one in call.args):
        return named
    return {**dict(zip(positions, call.args, strict=False)), **named}


def _added(source: ParsedScript, call: ast.Call, missing: dict[str, str]) -> Edit:
    """New arguments before the first that has a name, on lines of their own where that one has its own;
    without any behind the last one."""
    new = [f"{name}={value}" for name, value in missing.items()]
    if call.keywords:
        at = source.begin(call.keywords[0])
        before = source.data[source.starts[call.keywords[0].lineno - 1] : at].decode()
        between = f",{source.newline}{before}" if not before.strip() else ", "
        return Edit(at, at, "".join(one + between for one in new))
    close = source.end(call) - 1
    if not call.args:
        return Edit(close, close, ", ".join(new))
    last = source.end(call.args[-1])
    behind = source.data[last:close].rstrip()  # brackets around the argument, and a comma
    if last > close:  # a lone generator shares its brackets with the call
        raise Unsafe("its argument is a generator without brackets of its own")
    if b"#" in behind:
        raise Unsafe("a comment stands behind its last argument")
    at = last + len(behind)
    return Edit(at, at, (" " if behind.endswith(b",") else ", ") + ", ".join(new))
