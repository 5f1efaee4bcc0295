"""Makes all wishes come true in one text: each asks for places in the script as it was."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .calls import argument_edits, find_call
from .source import BYTE_ORDER_MARK, Edit, ParsedScript, Unsafe, dotted
from .statements import ahead_edits, setting_edits, top_edits
from .wishes import Arguments, InsertBefore, SetStatement, Wish

# what only a loader with workers takes -> what it is without
NEED_WORKERS = {
    "prefetch_factor": "None",
    "persistent_workers": "False",
    "multiprocessing_context": "None",
    "timeout": "0",
}


def edited(source: ParsedScript, wishes: Sequence[Wish]) -> str:
    """The text with all of them; raises ``Unsafe`` where one cannot be had, or nothing would change."""
    edits = _arguments(source, [wish for wish in wishes if isinstance(wish, Arguments)])
    ahead = list(dict.fromkeys(wish for wish in wishes if isinstance(wish, InsertBefore)))
    for wish in ahead:
        edits += ahead_edits(source, wish, find_call(source, wish.line, wish.callee))
    changed, new = setting_edits(source, _settings(wishes))
    edits += changed + top_edits(source, new, [wish.module for wish in ahead])
    if not edits:
        raise Unsafe("the script says so already")
    data = source.data
    for edit in sorted(edits, key=lambda one: (one.begin, one.end), reverse=True):
        data = data[: edit.begin] + edit.text.encode() + data[edit.end :]
    mark = BYTE_ORDER_MARK if source.whole.startswith(BYTE_ORDER_MARK) else ""
    return mark + data.decode("utf-8", "surrogatepass")


def _arguments(source: ParsedScript, wishes: list[Arguments]) -> list[Edit]:
    """Each call is changed once, with the arguments of all wishes for it."""
    found: dict[int, tuple[ast.Call, Arguments, dict[str, str]]] = {}
    for wish in wishes:
        call = find_call(source, wish.line, wish.callee)
        _must_be_the_same(source, call, wish)
        wanted = found.setdefault(id(call), (call, wish, {}))[2]
        for name, value in wish.wanted:
            if wanted.setdefault(name, value) != value:
                raise Unsafe(f"two of the remedies want another {name}")
    edits: list[Edit] = []
    for call, wish, wanted in found.values():
        is_own = dotted(call.func, source.names) in wish.own
        also = [keyword.arg for keyword in call.keywords if keyword.arg in wish.excludes]
        if also:
            raise Unsafe(f"the call says {also[0]} itself")
        edits += argument_edits(
            source, call, _settled(call, wanted), wish.positions if is_own else (), is_own
        )
    return edits


def _must_be_the_same(source: ParsedScript, call: ast.Call, wish: Arguments) -> None:
    """The call as the run saw it, by what its arguments are called."""
    if wish.seen is None:
        return
    positional = ["*" if isinstance(one, ast.Starred) else "" for one in call.args]
    named = [keyword.arg or "**" for keyword in call.keywords]
    if (*positional, *named) != wish.seen:
        raise Unsafe("the file has changed since the run: the call has other arguments")


def _settled(call: ast.Call, wanted: dict[str, str]) -> dict[str, str]:
    """Without workers, what only workers take has to go."""
    if wanted.get("num_workers") != "0":
        return wanted
    present = {keyword.arg for keyword in call.keywords}
    return wanted | {name: value for name, value in NEED_WORKERS.items() if name in present}


def _settings(wishes: Sequence[Wish]) -> list[SetStatement]:
    found: dict[str, SetStatement] = {}
    for wish in wishes:
        if isinstance(wish, SetStatement) and found.setdefault(wish.target, wish) != wish:
            raise Unsafe(f"two of the remedies set {wish.target} differently")
    return list(found.values())
