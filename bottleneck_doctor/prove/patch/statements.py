"""Sets what a library is told once: the script's own statement with another value, or a new one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .calls import calls
from .edit_requests import InsertBefore, SetStatement
from .source import Edit, ParsedScript, Unsafe, dotted

BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.With)
IMPORTS = (ast.Import, ast.ImportFrom)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


def setting_edits(
    source: ParsedScript, settings: Sequence[SetStatement]
) -> tuple[list[Edit], list[SetStatement]]:
    """What gives the script's own statements other values, and the settings that it has no statement for."""
    edits: list[Edit] = []
    new: list[SetStatement] = []
    for one in settings:
        values = list(_values(source, one))
        if len(values) > 1:
            raise Unsafe(f"the script sets {one.target} in several places")
        if not values and one.only_existing:
            raise Unsafe(f"{one.target}() is not called in the file that starts the training")
        if not values:
            new.append(one)
        elif source.text(values[0]) != one.value:
            edits.append(Edit(source.begin(values[0]), source.end(values[0]), one.value))
    return edits, new


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


def top_edits(source: ParsedScript, settings: Sequence[SetStatement], modules: Sequence[str]) -> list[Edit]:
    """New statements behind the imports at the top, with the imports that they and others need."""
    if not settings and not modules:
        return []
    imports = list(_top_imports(source.tree))
    if not imports:
        raise Unsafe("it has no imports at its top, behind which to set anything")
    bound = {name: meaning for node in imports for name, meaning in _bound(node, source)}
    own = {one.target.partition(".")[0] for one in settings} - set(bound.values())
    lacking = sorted(own | {name for name in modules if bound.get(name) != name})
    said = [_statement(one, bound) for one in settings]
    lines = [*(f"import {name}" for name in lacking), *(["", *said] if said else [])]
    line = _free_line(source, imports[-1].end_lineno or imports[-1].lineno)
    at = source.line_end(line)
    return [Edit(at, at, "".join(source.newline + text for text in lines))] if lines else []


def ahead_edits(source: ParsedScript, request: InsertBefore, call: ast.Call) -> list[Edit]:
    """The statements ahead of the outermost loop that goes over what ``call`` builds."""
    loop = _loop_over(source, call)
    begin = source.starts[loop.lineno - 1]
    indent = source.indent(loop.lineno)
    return [Edit(begin, begin, "".join(f"{indent}{text}{source.newline}" for text in request.statements))]


def _statement(setting: SetStatement, bound: dict[str, str]) -> str:
    """The setting under the name that the script has for its module."""
    module, _, rest = setting.target.partition(".")
    name = next((own for own, meaning in bound.items() if meaning == module), module)
    return f"{name}.{rest}({setting.value})" if setting.is_call else f"{name}.{rest} = {setting.value}"


def _top_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in tree.body:
        if isinstance(node, IMPORTS):
            yield node
        elif isinstance(node, BODIES) or (isinstance(node, ast.If) and "__name__" in ast.dump(node.test)):
            return


def _bound(node: ast.Import | ast.ImportFrom, source: ParsedScript) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for one in node.names:
            name = one.asname or one.name.partition(".")[0]
            yield name, source.names.get(name, "")


def _free_line(source: ParsedScript, line: int) -> int:
    """The first line from this one on, behind which no statement of the top goes on."""
    for node in source.tree.body:
        if node.lineno <= line < (node.end_lineno or node.lineno):
            return _free_line(source, node.end_lineno or node.lineno)
    return line


def _loop_over(source: ParsedScript, call: ast.Call) -> ast.For | ast.While:
    """The outermost loop around the only one over the name that the call's result is given to."""
    parents = {child: node for node in ast.walk(source.tree) for child in ast.iter_child_nodes(node)}
    statement = parents.get(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or statement is None:
        raise Unsafe("the loop over the loader is not found: the loader is not simply given a name")
    name, scope = targets[0].id, _up(parents, statement, SCOPES)
    inner = [one for one in ast.walk(scope) if isinstance(one, ast.For) and _mentions(one.iter, name)]
    loops = [one for one in inner if _up(parents, one, SCOPES) is scope]
    outermost = {id(one): one for one in (_outermost(parents, loop) for loop in loops)}
    if len(outermost) != 1:
        where = "several loops go" if outermost else "no loop in the same function goes"
        raise Unsafe(f"{where} over {name}")
    return next(iter(outermost.values()))


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


def _outermost(parents: dict[ast.AST, ast.AST], loop: ast.For | ast.While) -> ast.For | ast.While:
    found, node = loop, parents[loop]
    while not isinstance(node, SCOPES):
        found = node if isinstance(node, (ast.For, ast.While)) else found
        node = parents[node]
    return found


def _up(parents: dict[ast.AST, ast.AST], node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST:
    node = parents[node]
    while not isinstance(node, kinds):
        node = parents[node]
    return node
