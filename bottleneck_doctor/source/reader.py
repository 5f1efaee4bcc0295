"""Reads user source: the hottest functions, the call that built a loader, loops around a backward pass."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from ..model.code import Argument, FunctionSource, Location, SourceCall
from ..model.instruments import Operation, Stack
from ..model.loops import Feed, LoopBody
from ..model.profile import Profile
from . import code
from .code import Names
from .files import INDENTED, Mask, is_users, last_name, masked, parsed, tree_at, users_path

FUNCTIONS_AT_MOST = 24  # with the most samples
LETTERS_AT_MOST = 20_000  # of one function: a longer one is kept around the line that was seen
LETTERS_A_LINE = 40  # about
KINDS = ("checkpoint", "logging", "flush")


def read_sources(
    stacks: list[Stack], operations: list[Operation], cwd: str, mask: Mask | None
) -> list[FunctionSource]:
    """The functions, most samples first, none twice. Without a ``mask`` for secrets nothing is kept."""
    found: dict[tuple[str, int], FunctionSource] = {}
    if mask is None:
        return []
    for place in _places(stacks, operations):
        if len(found) >= FUNCTIONS_AT_MOST:
            break
        kept = any(
            (one.file, one.function) == (place.file, last_name(place.function))
            and one.first <= place.line <= one.first + one.text.count("\n")
            for one in found.values()
        )
        source = None if kept else _read(place, cwd, mask)
        if source is not None:
            found.setdefault((source.file, source.first), source)
    return list(found.values())


def _places(stacks: list[Stack], operations: list[Operation]) -> list[Location]:
    """Users' places by samples, those of the functions that they call included: callers show what a result
    is for. Of threads other than the main one only running samples count: those that feed the loop run."""
    seen: Counter[Location] = Counter()
    for stack in stacks:
        count = stack.count if "Main" in stack.thread else stack.running or 0
        for place in set(users_path(stack.frames)) if count else ():
            seen[place] += count
    places = [place for place, _ in seen.most_common()]
    for one in operations:
        if one.kind in KINDS and one.location is not None and one.location.file:
            places.append(one.location)
    return places


def _read(place: Location, cwd: str, mask: Mask) -> FunctionSource | None:
    found = tree_at(os.path.join(cwd, place.file))
    node = _around(found[1], place) if found is not None else None
    if found is None or node is None:
        return None
    first, last = _span(node)
    lines = found[0].splitlines(keepends=True)[first - 1 : last]
    kept = _without_words("".join(lines))
    if kept is None or len(kept) > LETTERS_AT_MOST:
        return None
    before = INDENTED if kept[:1].isspace() else ""
    if parsed(before + kept) is None:
        return None
    hidden = masked(before + kept, mask).removeprefix(before)
    if not hidden or hidden.count("\n") != kept.count("\n"):
        return None  # masking would move its lines
    name = node.name if isinstance(node, code.Function) else last_name(place.function)  # never "<listcomp>"
    return FunctionSource(place.file, name, first, hidden)


AROUND = 8  # lines before and after
ABSOLUTE = re.compile(r"(?<![\w./~-])~?(?:/[^\s/:'\"(),=\[\]{}]+){2,}")


def lines_around(place: Location, profile: Profile, here: str, mask: Mask) -> FunctionSource | str:
    """The lines around a place as they are now, if they are those that ran, else why not: the profile has
    kept the same text, or the file lies below the folder ``here``, where the run began, and is older.

    Of other files nothing is shown: a profile may be of other people, who would choose what is read. Secrets
    are masked, and paths that the profile does not hold.
    """
    cwd, sources, root = profile.run.cwd or "/", profile.sources, os.path.realpath(here)
    ran = os.path.join(cwd, place.file)
    path = next(filter(os.path.isfile, (ran, os.path.join(here, os.path.relpath(ran, cwd)))), "")
    read = tree_at(path) if path.endswith(".py") else None
    if read is None:
        return "the file cannot be read here"
    kept = [one for one in sources if one.file == place.file and one.first <= place.line <= _last(one)]
    now = (_read(replace(place, file=path, function=one.function), "", mask) for one in kept)
    same = [one for one, other in zip(kept, now, strict=True) if other == replace(one, file=path)]
    inside = os.path.realpath(path).startswith(root.rstrip("/") + "/") and os.path.realpath(cwd) == root
    began = profile.run.started_at.replace("Z", "+00:00")  # as Python 3.10 reads it
    older = inside and os.stat(path).st_mtime < datetime.fromisoformat(began).timestamp()
    lines = masked(read[0], mask).split("\n")
    if not (same or older) or len(lines) != read[0].count("\n") + 1 or place.line > len(lines):
        return "it is not sure that the file is still the one that ran"
    first, last = max(1, place.line - AROUND), place.line + AROUND
    if not older:
        first, last = max(first, same[0].first), min(last, _last(same[0]))
    known = "".join(one.text for one in sources)
    text = re.sub(r"#.*", lambda found: mask([found[0]])[0], "\n".join(lines[first - 1 : last]))
    text = ABSOLUTE.sub(lambda found: found[0] if found[0] in known else "/...", text)
    return FunctionSource(place.file, place.function, first, text)


def _last(source: FunctionSource) -> int:
    return source.first + source.text.rstrip("\n").count("\n")


def _around(tree: ast.Module, place: Location) -> ast.stmt | None:
    """The function of that name around the line, or the module's statement; of a long one the outermost loop
    around the line."""
    holding = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _spans(node, place.line)]
    functions = [node for node in holding if isinstance(node, code.Function)]
    name = last_name(place.function)
    chosen: ast.stmt | None = None
    if name == "<module>":
        chosen = next((node for node in tree.body if _spans(node, place.line)), None)
    elif functions:
        named = [node for node in functions if node.name == name or name.startswith("<")]  # "<lambda>"
        chosen = max(named, key=lambda node: node.lineno, default=None)
    if chosen is None:
        return None
    loops = [node for node in ast.walk(chosen) if isinstance(node, code.LOOPS) and _spans(node, place.line)]
    first, last = _span(chosen)
    return loops[0] if loops and LETTERS_A_LINE * (last - first) > LETTERS_AT_MOST else chosen


def _spans(node: ast.stmt, line: int) -> bool:
    first, last = _span(node)
    return first <= line <= last


def _span(node: ast.stmt) -> tuple[int, int]:
    """First and last line, decorators included."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)]), node.end_lineno or node.lineno


def _without_words(text: str) -> str | None:
    """The code with its comments and docstrings blanked: a profile is passed on, and they may be private."""
    rows = text.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return None
    begins = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL}
    spans: list[tuple[int, int, int, int, str]] = []
    before = tokenize.NEWLINE
    for one, after in pairwise(tokens):
        alone = before in begins and after.type in (tokenize.NEWLINE, tokenize.COMMENT)
        if one.type == tokenize.COMMENT or (one.type == tokenize.STRING and alone):
            spans.append((*one.start, *one.end, "" if one.type == tokenize.COMMENT else "..."))
        if one.type != tokenize.COMMENT:
            before = one.type
    for first, begin, last, end, instead in reversed(spans):
        for line in range(first, last + 1):
            row = rows[line - 1]
            left, right = begin if line == first else 0, end if line == last else len(row.rstrip("\n"))
            blank = (instead if line == first else "").ljust(right - left)
            rows[line - 1] = row[:left] + blank + row[right:]
    return "".join(rows)


LONGEST_CALL = 1000


def quote(node: ast.Call, source: str, mask: Mask) -> SourceCall | None:
    """The call's text, or None where it is longer than ``LONGEST_CALL``."""
    text = ast.get_source_segment(source, node)
    if text is None or len(text) > LONGEST_CALL:
        return None
    whole = masked(f"({text}\n)", mask)  # in brackets lines may begin anywhere
    tree = parsed(whole)
    statement = tree.body[0] if tree and tree.body else None
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    starred = [(one.value, "*") if isinstance(one, ast.Starred) else (one, "") for one in call.args]
    named = [(one.value, one.arg or "**") for one in call.keywords]
    arguments = [Argument(_text(value, whole), name) for value, name in [*starred, *named]]
    return SourceCall(_text(call.func, whole), arguments)


def _text(node: ast.expr, whole: str) -> str:
    """As the user wrote it; what spans lines is put on one, and loses its comments."""
    text = ast.get_source_segment(whole, node)
    if text is None or "\n" in text:
        text = ast.unparse(node)
    return text if parsed(f"f(x={text})") else f"({text})"


LOADER = "Loader"  # what the names of loaders end with, in torch and in the libraries that subclass it
COMPARED = frozenset(
    "batch_size shuffle num_workers pin_memory drop_last prefetch_factor persistent_workers in_order "
    "collate_fn sampler multiprocessing_context".split()
)  # the keywords of which the agent says whether they arrived


@dataclass(frozen=True)
class Site:
    """Where a call was seen.

    ``columns`` is [line, end line, column, end column] as Python 3.11 and later know it; ``through`` names
    the libraries between the line and the loader, ``names`` the keywords that arrived there.
    """

    file: str
    line: int
    columns: tuple[int, ...] = ()
    through: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()


def read_call(site: Site, cwd: str, mask: Mask) -> SourceCall | None:
    """The call at a place, or None: source gone, changed or not text, or no call that builds a loader."""
    read = tree_at(os.path.join(cwd, site.file))
    if read is None:
        return None
    calls = [node for node in ast.walk(read[1]) if isinstance(node, ast.Call)]
    found = [node for node in calls if _is_at(node, site) and _builds_loader(node, site)]
    return quote(found[0], read[0], mask) if len(found) == 1 else None


def _is_at(node: ast.Call, site: Site) -> bool:
    if site.columns:
        # A bracket closes one call only; on where a call begins, Python versions differ.
        return (node.end_lineno, node.end_col_offset) == (site.columns[1], site.columns[3])
    return site.line in (node.lineno, node.func.end_lineno)


def _builds_loader(node: ast.Call, site: Site) -> bool:
    """Whether its keywords are among those that arrived, and its name one that a loader may have."""
    named = last_name(ast.unparse(node.func))
    looks = named.endswith(LOADER) and named[0].isupper()
    given = {keyword.arg for keyword in node.keywords}
    if site.through:
        return looks  # a library's own loader may take other keywords than torch's
    return (looks or bool(site.columns)) and given & COMPARED <= site.names


LOOPS_AT_MOST = 4
FILLS = frozenset("append appendleft extend insert add push put store".split())  # and others may only look
DRAWS = re.compile(r"sample|draw|batch|choice")  # in the name of what takes something out of a store
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)

LoopStatement = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True)
class _Statement:
    """A statement, or the head of a compound one: its lines, the names that it binds and those it uses; of
    these the ones that it only adds to (``fills``), those that it draws from, those that it calls, by
    themselves or a method of theirs, and those that it hands to a call."""

    first: int
    last: int
    binds: Names
    uses: Names
    fills: Names
    draws: Names
    calls: Names
    hands: Names

    def needs(self, other: _Statement) -> bool:
        """Whether it uses what the other binds. Drawing from a store does not need the statement that adds to
        it: a replay buffer returns batches of older data."""
        return bool((other.binds & self.uses) - (other.fills & self.draws))


def read_body(chain: Sequence[Location], cwd: str) -> LoopBody | None:
    """The innermost loop around these calls; ``chain`` begins with the innermost call."""
    found: list[tuple[Location, LoopStatement]] = []
    for call in chain:
        if is_users(call.file):
            read = tree_at(os.path.join(cwd, call.file))
            loops = _loops_around(read[1], call.line) if read is not None else []
            # `for weight, slope in zip(weights, grad(loss, weights))` differentiates once, before its turns.
            found += [(call, loop) for loop in loops if call is not chain[0] or not _in_head(loop, call.line)]
    body: LoopBody | None = None
    for call, loop in reversed(found[:LOOPS_AT_MOST]):
        last, name = loop.end_lineno or loop.lineno, call.function or ""
        # A closure that the loop defines for its optimizer differentiates in the loop's own text.
        lines = (one.line for one in chain if one.file == call.file and loop.lineno <= one.line <= last)
        body = LoopBody(call.file, name, loop.lineno, last, _feeds(loop, next(lines)), body)
    return body


def around(body: LoopBody | None, calls: Sequence[Location]) -> LoopBody | None:
    """The innermost of these loops that one of the calls is made in, or of all: a loop over the parts of a
    batch asks for none."""
    one = body
    while one is not None:
        if any(call.file == one.file and one.first <= call.line <= one.last for call in calls):
            return one
        one = one.outer
    return body


def _loops_around(tree: ast.Module, line: int) -> list[LoopStatement]:
    """The loops around a line within the innermost function around it, the innermost first."""
    around = [node for node in ast.walk(tree) if code.holds(node, line)]
    functions = [node for node in around if isinstance(node, FUNCTIONS)]
    begin = max((node.lineno for node in functions), default=0)
    loops = [node for node in around if isinstance(node, code.LOOPS) and node.lineno >= begin]
    return sorted(loops, key=lambda node: -node.lineno)


def _in_head(loop: LoopStatement, line: int) -> bool:
    return not isinstance(loop, ast.While) and loop.body[0].lineno > line >= loop.iter.lineno


def _feeds(loop: LoopStatement, line: int) -> list[Feed]:
    """The statements of the loop that feed the one at ``line``, and that one last."""
    statements = list(_statements(loop, line))
    at_line = [one for one in statements if one.first <= line <= one.last]
    innermost = max((one.first for one in at_line), default=0)
    trains = [one for one in at_line if one.first == innermost]  # several, where semicolons join them
    found, more = list(trains), trains
    while more:
        needed = code.NO_NAMES.union(*(one.uses for one in found))
        more = [one for one in statements if one.binds & needed and one not in found]
        found += more
    found = [one for one in found if one not in trains] + trains

    def needs(one: _Statement) -> list[int]:
        return [place for place, other in enumerate(found) if one.needs(other)]

    bound = code.NO_NAMES.union(*(one.binds for one in statements))

    def calls_too(one: _Statement) -> list[int]:
        handed = one.hands - bound
        return [place for place, other in enumerate(found) if other is not one and other.calls & handed]

    return [Feed(one.first, one.last, needs(one), calls_too(one)) for one in found]


def _statements(node: ast.AST, line: int) -> Iterator[_Statement]:
    """All statements below, compound ones as their heads; what functions do stands for their definition,
    except in the one around the line that trains."""
    opened = isinstance(node, ast.Try | ast.Match) or (isinstance(node, FUNCTIONS) and code.holds(node, line))
    if isinstance(node, ast.stmt) and not opened:
        yield _statement(node)
        if not isinstance(node, COMPOUND):
            return
    for child in code.inside(node):
        yield from _statements(child, line)


def _statement(node: ast.stmt) -> _Statement:
    parts = code.header(node) if isinstance(node, COMPOUND) else [node]
    nodes = [one for part in parts for one in ast.walk(part)]
    made = [one for one in nodes if isinstance(one, ast.Call)]
    filling = [node.value.func] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else []
    fills = [one for one in filling if isinstance(one, ast.Attribute) and one.attr in FILLS]
    named = {node.name} if isinstance(node, code.Function | ast.ClassDef) else set()
    filled, assigned = code.roots(*(one.value for one in fills)), code.assigned(node)
    handed = [one for call in made for one in call.args if isinstance(one, ast.Name) or code.is_own(one)]
    return _Statement(
        first=node.lineno,
        last=max(getattr(one, "end_lineno", None) or node.lineno for one in nodes),
        binds=filled | assigned | named,
        uses=code.names_read(*parts, context=ast.Load),
        fills=filled,
        draws=code.names_read(*(call for call in made if DRAWS.search(code.called(call)))),
        calls=code.roots(*(call.func for call in made)),
        hands=code.names_read(*handed),
    )
