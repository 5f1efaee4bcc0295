"""Reads the user's own source: the statement at a line, what it calls, and what becomes of its result.

What a name means is not followed beyond one function, nor in which order statements run: a result counts as
part of the training rather too often than too seldom, for what is part of it must not be left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeGuard

from ..model.code import FunctionSource, Location
from .files import INDENTED, last_name, parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef
LOOPS = (ast.For, ast.While, ast.AsyncFor)
ELEMENTWISE = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRANCHES = (*LOOPS, ast.If, ast.Try)
TRAINS = frozenset({"backward", "manual_backward", "grad"})  # torch.autograd.grad, before an update by hand
RETURNS_LOSS = frozenset({"training_step", "compute_loss", "forward", "closure", "loss_fn"})
WRITES = frozenset(
    "print write writelines writerow writerows dump info debug warning error exception log_metrics log_dict "
    "log_image log_text savefig imsave imwrite save_image to_csv to_json set_postfix set_description "
    "log_metric log_scalar emit publish post sendall sendto".split()
)
SENDS = ("POST", "PUT")
PICTURED = re.compile(r"\.(png|jpe?g|gif|webp|svg|pdf|html|csv|jsonl?|txt)['\"]")  # by its file's name
GRADIENTS_OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled|\.eval\(")  # marks code that evaluates
HARMLESS = frozenset({"flush", "eval", "train"})  # methods that change no value that is trained
COMMON = frozenset({"train", "update", "step", "run", "fit"})  # methods of that name do many things
MATHS = frozenset({"torch", "np", "numpy", "math", "F", "functional", "jnp"})
# Of these what only moves, makes or stores arrays.
MOVES = frozenset(
    "array asarray as_tensor cat concatenate empty from_numpy frombuffer fromfile full load manual_seed "
    "memmap ones save savez stack tensor zeros".split()
)

SHORT = 28  # letters of what runs at a line, as a row's name

Names = frozenset[str]
NO_NAMES: Names = frozenset()


@lru_cache(maxsize=64)
def tree_of(source: FunctionSource) -> ast.Module:
    """The parsed text, its lines numbered as in the file; empty where it is not valid Python."""
    before = INDENTED if source.text[:1].isspace() else ""
    tree = parsed(before + source.text)
    if tree is None:
        return ast.Module([], [])
    ast.increment_lineno(tree, source.first - 1 - before.count("\n"))
    return tree


def source_at(sources: Sequence[FunctionSource], place: Location) -> FunctionSource | None:
    """The kept source around a line, the innermost."""
    name, here = last_name(place.function), [one for one in sources if one.file == place.file]
    found = [one for one in here if one.first <= place.line <= one.first + one.text.count("\n")]
    named = [one for one in found if one.function == name or name.startswith("<")]
    return max(named, key=lambda one: one.first, default=None)


def statements_around(tree: ast.AST, line: int) -> list[ast.stmt]:
    """The statements that hold the line, from the outermost; the last is the one that runs there."""
    around: list[ast.stmt] = []
    inner: ast.AST | None = tree
    while inner is not None:
        inner = next((node for node in inside(inner) if holds(node, line)), None)
        if inner is not None:
            around.append(inner)
    return around


def statement_at(source: FunctionSource, line: int) -> ast.stmt | None:
    """The statement that runs at a line."""
    return next(reversed(statements_around(tree_of(source), line)), None)


def holds(node: ast.AST, line: int) -> bool:
    """Whether a node's text, decorators apart, covers the line."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


def inside(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly below, those of handlers and cases included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from inside(child)


def header(statement: ast.stmt) -> list[ast.AST]:
    """What runs at the statement itself: of a loop, a branch or a definition not what is below it."""
    return [
        child
        for child in ast.iter_child_nodes(statement)
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
    ]


def is_own(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether it is an attribute of ``self``: it stands for itself, since all methods share ``self``."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def names_read(*nodes: ast.AST, context: type[ast.expr_context] = ast.expr_context) -> Names:
    """Names in them, with this context; of ``self.x.y`` the attribute ``self.x``."""
    found: set[str] = set()
    for node in nodes:
        if is_own(node) or isinstance(node, ast.Name):
            if isinstance(node.ctx, context):
                found.add(node.id if isinstance(node, ast.Name) else f"self.{node.attr}")
        else:
            found |= names_read(*ast.iter_child_nodes(node), context=context)
    return frozenset(found)


def roots(*nodes: ast.AST) -> Names:
    """The names that targets or receivers of methods hang on; none of one that is what a call returned."""
    found = NO_NAMES
    for node in nodes:
        while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred) and not is_own(node):
            node = node.value
        found |= names_read(node) if isinstance(node, ast.Name | ast.Attribute) else NO_NAMES
    return found


def assigned(statement: ast.stmt) -> Names:
    """Names that are given another value, or a part of whose value is, there."""
    nodes = [one for part in header(statement) for one in ast.walk(part)]
    targets = (one for one in nodes if isinstance(one, ast.Name | ast.Attribute | ast.Subscript))
    return roots(*(one for one in targets if isinstance(one.ctx, ast.Store)))


def names_bound(statement: ast.stmt) -> Names:
    """The same with what methods are called on for their effect alone."""
    alone = _outermost(statement.value) if isinstance(statement, ast.Expr) else ()
    methods = [one.func for one in alone if isinstance(one.func, ast.Attribute) and not is_output(one)]
    return assigned(statement) | roots(*(one.value for one in methods))


def _outermost(node: ast.AST) -> Iterator[ast.Call]:
    """Calls that are no part of another one."""
    if isinstance(node, ast.Call):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _outermost(child)


def calls_in(node: ast.AST) -> list[ast.Call]:
    """Calls made at a statement itself."""
    parts = header(node) if isinstance(node, ast.stmt) else [node]
    return [call for part in parts for call in ast.walk(part) if isinstance(call, ast.Call)]


def in_short(sources: Sequence[FunctionSource], place: Location) -> str:
    """What runs at a line, arguments left out: ``x.clamp_(...)``; "" where its source is not kept."""
    source = source_at(sources, place)
    statement = statement_at(source, place.line) if source is not None else None
    if statement is None:
        return ""
    value: ast.expr | None = getattr(statement, "value", None)
    shown = statement if value is None or isinstance(value, ast.Constant) else value
    longer, text = "", ast.unparse(shown).partition("\n")[0]
    while text != longer:  # from the innermost brackets
        longer, text = text, re.sub(r"\([^()]*\)", "\0", text)
    text = "" if text == "\0" else text.replace("\0", "(...)")  # a tuple has no name
    cut = text.rfind("(...)", 0, SHORT) + len("(...)") if len(text) > SHORT else SHORT
    whole = cut >= len("(...)") and text.count("[", 0, cut) == text.count("]", 0, cut)
    return text[:cut] if whole else f"{text[: SHORT - 4].rstrip()} ..."


def called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def given_to(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*call.args, *(one.value for one in call.keywords)]


def is_output(call: ast.Call) -> bool:
    """Whether a call writes for people to read: a file, a log, a terminal, a tracker or its server."""
    name = called(call)
    if name == "log":  # a tracker's or a logger's; not the logarithm
        return bool(call.args or call.keywords) and not names_read(call.func) & MATHS
    if name == "save":  # of a picture or a table; not of weights
        return PICTURED.search(ast.unparse(call)) is not None
    if name == "request":  # of an HTTP connection
        return any(isinstance(one, ast.Constant) and one.value in SENDS for one in call.args)
    return name in WRITES or (
        name.startswith("add_") and name[4:].startswith(("scalar", "image", "hist", "fig", "text"))
    )


def trains(source: FunctionSource, also: Names = NO_NAMES) -> bool:
    """Whether a function runs a backward pass, or passes a loss to one that does; ``also`` names functions
    that are known to."""
    return source.function in RETURNS_LOSS or runs_backward(source, also)


def runs_backward(source: FunctionSource, also: Names = NO_NAMES) -> bool:
    """Whether a function runs a backward pass, or calls one of those that are known to."""
    return training_statement(source, also) is not None


def _sinks(tree: ast.AST, also: Names) -> Iterator[ast.stmt]:
    """Statements that run a backward pass."""
    for statement in statements(tree):
        for call in calls_in(statement):
            name = called(call)
            known = name in also and (isinstance(call.func, ast.Name) or name not in COMMON)
            if known or name in TRAINS:
                yield statement
                break


@lru_cache(maxsize=64)
def statements(tree: ast.AST) -> tuple[ast.stmt, ...]:
    """All statements below, at any depth."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))


@lru_cache(maxsize=64)
def free_names(source: FunctionSource) -> Names:
    """Names that a function takes from the module around it."""
    tree = tree_of(source)
    nodes = list(ast.walk(tree))
    arguments = {one.arg for one in nodes if isinstance(one, ast.arg)}
    bound = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return names_read(tree) - arguments - bound


def calls(source: FunctionSource, function: str) -> bool:
    """Whether a function calls one of that name."""
    return any(isinstance(one, ast.Call) and called(one) == function for one in ast.walk(tree_of(source)))


@lru_cache(maxsize=64)
def needed_to_train(source: FunctionSource, also: Names = NO_NAMES, elsewhere: Names = NO_NAMES) -> Names:
    """Names whose values the losses of a function come from; ``elsewhere`` those that functions which it may
    call take from the module."""
    tree = tree_of(source)
    sinks = list(_sinks(tree, also))
    if source.function in RETURNS_LOSS:
        sinks += [one for one in statements(tree) if isinstance(one, ast.Return)]
    return _origins(tree, sinks, elsewhere)


def _origins(tree: ast.AST, sinks: list[ast.stmt], elsewhere: Names = NO_NAMES) -> Names:
    """Everything that flows into some statements, through assignments, changes in place, and conditions."""
    needed = {name for sink in sinks for part in header(sink) for name in names_read(part)} | elsewhere
    flows = [(names_bound(one), _reads(one, tree)) for one in statements(tree)]
    before = -1
    while len(needed) != before:
        before = len(needed)
        for bound, read in flows:
            if bound & needed:
                needed |= read
    return frozenset(needed)


def _reads(statement: ast.stmt, tree: ast.AST) -> Names:
    """What a statement's own value depends on: the loops and branches around it say whether it runs."""
    around = [one for one in statements_around(tree, statement.lineno) if isinstance(one, ast.If | ast.While)]
    parts = [part for one in [*around, statement] for part in header(one)]
    return frozenset().union(*map(names_read, parts))


def feeds_training(
    source: FunctionSource, statement: ast.stmt, also: Names = NO_NAMES, elsewhere: Names = NO_NAMES
) -> bool:
    """Whether what a statement does becomes part of a loss, or decides what does."""
    tree, needed = tree_of(source), needed_to_train(source, also, elsewhere)
    sinks = set(_sinks(tree, also))
    below = [one for one in ast.walk(statement) if isinstance(one, ast.stmt)]
    if isinstance(statement, ast.Return) and source.function in RETURNS_LOSS:
        return True
    updates = {f"{one}.{method}" for one in _optimizers(tree) for method in ("zero_grad", "step")}
    return any(
        one in sinks
        or names_bound(one) & needed
        or any(ast.unparse(call.func) in updates for call in calls_in(one))
        for one in below
    )


@lru_cache(maxsize=64)
def _optimizers(tree: ast.AST) -> Names:
    """The objects whose ``zero_grad`` is called, as the source spells them."""
    calls = (call.func for one in statements(tree) for call in calls_in(one) if called(call) == "zero_grad")
    return frozenset(ast.unparse(one.value) for one in calls if isinstance(one, ast.Attribute))


def writes(statement: ast.stmt) -> bool:
    """Whether a statement itself writes something out for people."""
    return any(is_output(call) for call in calls_in(statement))


def hands_over(statement: ast.stmt, function: str) -> bool:
    """Whether a statement calls a function to write out what that returns: ``print(evaluate(model))``."""
    given = [one for call in calls_in(statement) if is_output(call) for one in given_to(call)]
    nodes = (node for one in given for node in ast.walk(one))
    return any(isinstance(one, ast.Call) and called(one) == function for one in nodes)


def is_written(source: FunctionSource, statement: ast.stmt) -> bool:
    """Whether what a statement does is written out for people, as often as it is done."""
    if writes(statement):
        return True
    tree = tree_of(source)
    mine = set(_branches(tree, statement))
    sinks = [one for one in statements(tree) if writes(one) and set(_branches(tree, one)) <= mine]
    return bool(names_bound(statement) & _origins(tree, sinks))


def _branches(tree: ast.AST, statement: ast.stmt) -> list[ast.stmt]:
    around = statements_around(tree, statement.lineno)
    return [one for one in around if isinstance(one, BRANCHES) and one is not statement]


def is_repeated(source: FunctionSource, line: int, within: ast.stmt | None = None) -> bool:
    """Whether a line runs for one element after the other: in a loop or a comprehension of its function, but
    for loops around ``within``."""
    tree = tree_of(source)
    around = statements_around(tree, line)
    outer = set(statements_around(tree, within.lineno)) if within is not None else set()
    if any(isinstance(one, LOOPS) and one not in outer for one in around):
        return True
    parts = header(around[-1]) if around else []
    inner = (node for part in parts for node in ast.walk(part))
    return any(
        isinstance(node, ELEMENTWISE) and node.lineno <= line <= (node.end_lineno or line) for node in inner
    )


def calculates(node: ast.AST) -> bool:
    """Whether a statement itself calculates with numbers, or looks each up by an index: what could be done on
    a whole array. Text that is put together, ranges of indices and what only moves arrays do not count."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        parts = [one for child in ast.iter_child_nodes(node) for one in ast.walk(child)]
        if not any(isinstance(one, ast.JoinedStr) or _is_text(one) for one in parts):
            return True
    elif isinstance(node, ast.Call):
        if called(node) == "range":
            return False
        converts = called(node) in ("float", "int") and any(
            isinstance(one, ast.Subscript) for one in node.args
        )
        if converts or (names_read(node.func) & MATHS and called(node) not in MOVES):
            return True
    elif isinstance(node, ast.ListComp | ast.GeneratorExp) and isinstance(node.elt, ast.Subscript):
        return not (_is_text(node.elt.slice) or isinstance(node.elt.slice, ast.Slice))
    elif isinstance(node, ast.Subscript):
        return calculates(node.value)
    return any(map(calculates, header(node) if isinstance(node, ast.stmt) else ast.iter_child_nodes(node)))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def is_seldom(source: FunctionSource, statement: ast.stmt, within: ast.stmt) -> bool:
    """Whether a statement is not done in each step: at every n-th, or between the loops of the steps, which
    are around ``within``."""
    tree = tree_of(source)
    around = statements_around(tree, statement.lineno)
    loops = [one for one in statements_around(tree, within.lineno) if isinstance(one, LOOPS)]
    tests = [node for one in around if isinstance(one, ast.If) for node in ast.walk(one.test)]
    nth = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod) for one in tests)
    return nth or (len(loops) > 1 and loops[-1] not in around and loops[0] in around)


def training_statement(source: FunctionSource, also: Names = NO_NAMES) -> ast.stmt | None:
    """The first statement of a function that runs a backward pass."""
    return next(_sinks(tree_of(source), also), None)


def changes_arguments(source: FunctionSource) -> bool:
    """Whether a function changes what it is given: its caller's values are then not only read."""
    function = next((one for one in statements(tree_of(source)) if isinstance(one, Function)), None)
    if function is None:
        return True
    arguments = function.args
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    given = {one.arg for one in named} - {"self", "cls"}
    return any(_changes(one, given) for one in statements(function))


def _changes(statement: ast.stmt, given: set[str]) -> bool:
    for part in header(statement):
        for node in ast.walk(part):
            stored = isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store)
            if stored and roots(node) & given:
                return True
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                in_place = node.func.attr.endswith("_") and not node.func.attr.endswith("__")
                if in_place and roots(node.func.value) & given:
                    return True
    return isinstance(statement, ast.Expr) and any(
        isinstance(call.func, ast.Attribute)
        and roots(call.func.value) & given
        and not is_output(call)
        and call.func.attr not in HARMLESS
        for call in _outermost(statement.value)
    )
