"""Carries out all edit requests in one text: each names places in the script as it was."""

from __future__ import annotations

import ast
import codecs
import difflib
import os
import re
import tokenize
from collections.abc import Sequence

from ...analyse.loader_arguments import without_workers
from .calls import argument_edits, find_call
from .edit_requests import Arguments, EditRequest, InsertBefore, SetStatement
from .source import BYTE_ORDER_MARK, Edit, ParsedScript, Unsafe, dotted
from .statements import ahead_edits, setting_edits, top_edits

LARGEST = 4 << 20  # bytes of one source file; more is no script


def read_source(path: str) -> str:
    """The file's text. Raises ``OSError`` where it cannot be read, ``ValueError`` where it is not UTF-8."""
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    try:
        encoding, _ = tokenize.detect_encoding(iter(data.splitlines(keepends=True)).__next__)
    except SyntaxError as problem:
        raise ValueError(f"its encoding is not known: {problem}") from None
    if codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig", "ascii"):
        raise ValueError(f"it is written in {encoding}, not in UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


CONTEXT = 3  # lines
NOT_OURS = re.compile(r"(^|/)(site-packages|dist-packages)/")
UNSPEAKABLE = re.compile(r"[\x00-\x1f\x7f\"\\]")


def relative(file: str, cwd: str) -> str:
    """The file as seen from where the training was started; raises ``Unsafe`` outside of it."""
    name = os.path.relpath(os.path.join(cwd, file), cwd) if cwd else file
    if NOT_OURS.search(file):
        raise Unsafe(f"the place is in an installed library, {os.path.basename(file)}")
    if os.path.isabs(name) or name.split(os.sep)[0] == os.pardir:
        raise Unsafe(f"{file} is not below the working directory, and a patch names its files from there")
    if UNSPEAKABLE.search(name):
        raise Unsafe("the file has a name that a patch cannot say")
    return name


def unified(before: str, after: str, name: str) -> str:
    """The diff, with the line ends of the file; "" where nothing differs."""
    tail = "\t" if " " in name else ""  # so that a name with blanks ends where it ends
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"a/{name}{tail}", f"b/{name}{tail}", n=CONTEXT, lineterm="\n"
    )
    return "".join(map(_ended, lines))


def _lines(text: str) -> list[str]:
    """Cut at line feeds alone, as `patch` does."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def edited(source: ParsedScript, requests: Sequence[EditRequest]) -> str:
    """The text with all of them; raises ``Unsafe`` where one cannot be had, or nothing would change."""
    edits = _arguments(source, [request for request in requests if isinstance(request, Arguments)])
    ahead = list(dict.fromkeys(request for request in requests if isinstance(request, InsertBefore)))
    for request in ahead:
        edits += ahead_edits(source, request, find_call(source, request.line, request.callee))
    changed, new = setting_edits(source, _settings(requests))
    edits += changed + top_edits(source, new, [request.module for request in ahead])
    if not edits:
        raise Unsafe("the script says so already")
    data = source.data
    for edit in sorted(edits, key=lambda one: (one.begin, one.end), reverse=True):
        data = data[: edit.begin] + edit.text.encode() + data[edit.end :]
    mark = BYTE_ORDER_MARK if source.whole.startswith(BYTE_ORDER_MARK) else ""
    return mark + data.decode("utf-8", "surrogatepass")


def _arguments(source: ParsedScript, requests: list[Arguments]) -> list[Edit]:
    """Each call is changed once, with the arguments of all requests for it."""
    found: dict[int, tuple[ast.Call, Arguments, dict[str, str]]] = {}
    for request in requests:
        call = find_call(source, request.line, request.callee)
        _must_be_the_same(source, call, request)
        wanted = found.setdefault(id(call), (call, request, {}))[2]
        for name, value in request.wanted:
            if wanted.setdefault(name, value) != value:
                raise Unsafe(f"two of the remedies want another {name}")
    edits: list[Edit] = []
    for call, request, wanted in found.values():
        is_own = dotted(call.func, source.names) in request.own
        also = [keyword.arg for keyword in call.keywords if keyword.arg in request.excludes]
        if also:
            raise Unsafe(f"the call says {also[0]} itself")
        present = {keyword.arg for keyword in call.keywords}
        positions = request.positions if is_own else ()
        edits += argument_edits(source, call, without_workers(wanted, present), positions, is_own)
    return edits


def _must_be_the_same(source: ParsedScript, call: ast.Call, request: Arguments) -> None:
    """The call as the run saw it, by what its arguments are called."""
    if request.seen is None:
        return
    positional = ["*" if isinstance(one, ast.Starred) else "" for one in call.args]
    named = [keyword.arg or "**" for keyword in call.keywords]
    if (*positional, *named) != request.seen:
        raise Unsafe("the file has changed since the run: the call has other arguments")


def _settings(requests: Sequence[EditRequest]) -> list[SetStatement]:
    found: dict[str, SetStatement] = {}
    for request in requests:
        if isinstance(request, SetStatement) and found.setdefault(request.target, request) != request:
            raise Unsafe(f"two of the remedies set {request.target} differently")
    return list(found.values())
