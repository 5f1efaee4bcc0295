"""Carries out all edit requests in one text: each names places in the script as it was.

What is set once for a library is set in the script's own statement, or in a new one.
"""

from __future__ import annotations

import ast
import difflib
import io
import os
import re
import tokenize
from collections.abc import Iterator, Sequence

from ...analyse.loader_arguments import without_workers
from .calls import BYTE_ORDER_MARK, Edit, ParsedScript, Unsafe, argument_edits, calls, dotted, find_call
from .edit_requests import Arguments, EditRequest, SetStatement

LARGEST = 4 << 20  # bytes of one source file; more is no script


def read_source(path: str) -> str:
    """The file's text. Raises ``OSError``, and ``SyntaxError`` or ``ValueError`` where it is not UTF-8."""
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if encoding not in ("utf-8", "utf-8-sig", "ascii"):
        raise ValueError(f"it is written in {encoding}, not in UTF-8")
    return data.decode()


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
    old, new = (re.findall(r"[^\n]*\n|[^\n]+$", text) for text in (before, after))  # `patch`'s lines
    lines = difflib.unified_diff(old, new, f"a/{name}{tail}", f"b/{name}{tail}", n=CONTEXT)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def edited(source: ParsedScript, requests: Sequence[EditRequest]) -> str:
    """The text with all of them; raises ``Unsafe`` where one cannot be had, or nothing would change."""
    edits = _arguments(source, [request for request in requests if isinstance(request, Arguments)])
    edits += _setting_edits(source, [request for request in requests if isinstance(request, SetStatement)])
    if not edits:
        raise Unsafe("the script says so already")
    data = source.data
    for edit in sorted(edits, key=lambda one: (one.begin, one.end), reverse=True):
        data = data[: edit.begin] + edit.text.encode() + data[edit.end :]
    mark = BYTE_ORDER_MARK if source.whole.startswith(BYTE_ORDER_MARK) else ""
    return mark + data.decode()


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


BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.With)


def _setting_edits(source: ParsedScript, requests: list[SetStatement]) -> list[Edit]:
    """Other values for the script's own statements, and new statements for what it does not set."""
    edits: list[Edit] = []
    new: list[SetStatement] = []
    found: dict[str, SetStatement] = {}
    for one in requests:
        if found.setdefault(one.target, one) != one:
            raise Unsafe(f"two of the remedies set {one.target} differently")
    for one in found.values():
        values = list(_values(source, one))
        if len(values) > 1:
            raise Unsafe(f"the script sets {one.target} in several places")
        if not values and one.only_existing:
            raise Unsafe(f"{one.target}() is not called in the file that starts the training")
        if not values:
            new.append(one)
        elif source.text(values[0]) != one.value:
            edits.append(Edit(source.begin(values[0]), source.end(values[0]), one.value))
    return edits + ([_behind_imports(source, new)] if new else [])


def _values(source: ParsedScript, setting: SetStatement) -> Iterator[ast.expr]:
    """What the script sets it to, at each place where it does."""
    if setting.is_call:
        for call in calls(source.tree):
            if dotted(call.func, source.names) == setting.target:
                yield from [*call.args, *(keyword.value for keyword in call.keywords)][:1]
        return
    for node in ast.walk(source.tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        attributes = [one for one in targets if isinstance(one, ast.Attribute)]
        if any(dotted(one, source.names) == setting.target for one in attributes):
            yield node.value  # type: ignore[attr-defined]


def _behind_imports(source: ParsedScript, settings: list[SetStatement]) -> Edit:
    """New statements behind the imports at the top, with the imports that they need."""
    imports = list(_top_imports(source.tree))
    if not imports:
        raise Unsafe("it has no imports at its top, behind which to set anything")
    bound: dict[str, str] = {}  # what the imports bind, to the names that the script has for it
    for node in imports:
        for one in node.names if isinstance(node, ast.Import) else ():
            name = one.asname or one.name.partition(".")[0]
            bound.setdefault(source.names.get(name, ""), name)
    lacking = sorted({one.target.partition(".")[0] for one in settings} - set(bound))
    lines = [*(f"import {name}" for name in lacking), ""]
    for setting in settings:
        module, _, rest = setting.target.partition(".")
        name = f"{bound.get(module, module)}.{rest}"
        lines.append(f"{name}({setting.value})" if setting.is_call else f"{name} = {setting.value}")
    line = imports[-1].end_lineno or 0
    for below in source.tree.body:
        if below.lineno <= line:  # another statement begins on that line, and may end on a later one
            line = max(line, below.end_lineno or 0)
    if line >= len(source.starts):
        raise Unsafe("nothing stands behind its imports")
    at = source.starts[line]
    return Edit(at, at, "".join(text + source.newline for text in lines))


def _top_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, BODIES) or (isinstance(node, ast.If) and "__name__" in ast.dump(node.test)):
            return
