"""The guest behaves: it raises nothing of its own, starts nothing, and leaves no hook behind."""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import PACKAGE, Broken, Source, python_sources, require_none, tree

# What someone's training job must not get from us, by the last name that is called.
STARTS = {
    "Thread": "a thread",
    "Timer": "a thread",
    "start_new_thread": "a thread",
    "Process": "a process",
    "Popen": "a process",
    "socket": "a socket",
    "setitimer": "a timer",
    "settrace": "a trace function",
    "setprofile": "a profile function",
}
HOOKS = {("atexit", "register"): "an exit hook", ("signal", "signal"): "a signal handler"}
NEEDED = {
    "agent/state.py": "an exit hook",  # notes the instant: where the script ends, and its teardown begins
    "agent/profiler.py": "an exit hook",  # while a window is open: torch crashes if it ends with one
    "agent/trial/prefetch.py": "a thread",  # it is the remedy that a trial was asked for
    "agent/trial/writing.py": "a thread",
}
# What the user's code raised out of turn is raised when its turn comes.
HANDED_OVER = ("agent/trial/prefetch.py", "agent/guard.py")


def raised_by_guest(source: Source) -> Iterator[Broken]:
    """Exceptions that the guest starts and does not catch in the same function."""
    caught = {
        id(inner)
        for node in ast.walk(tree(source))
        if (isinstance(node, ast.Try) and node.handlers)
        or (isinstance(node, ast.With) and "GuardedBlock(" in ast.unparse(node.items[0]))
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.Raise) and node.exc is not None and id(node) not in caught:
            do = "note it and go on: losing our data is a nuisance, hurting their training unforgivable"
            yield Broken(source.file, node.lineno, "the guest raises into the user's program", do)


def starts(source: Source) -> Iterator[Broken]:
    """Calls of the guest that start something, or leave a hook in the user's process."""
    for node in ast.walk(tree(source)):
        if not isinstance(node, ast.Call):
            continue
        what = _started(node.func)
        if what and not any(source.file.endswith(file) and what == why for file, why in NEEDED.items()):
            do = "write a row and let the supervisor do the rest from outside"
            yield Broken(source.file, node.lineno, f"the guest brings {what} into the user's program", do)


def test_the_guest_raises_nothing_of_its_own() -> None:
    require_none(
        broken
        for source in _guests()
        for broken in raised_by_guest(source)
        if not source.file.endswith(HANDED_OVER)
    )


def test_the_guest_starts_nothing_and_leaves_no_hook() -> None:
    require_none(broken for source in _guests() for broken in starts(source))


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("raise ValueError", True),
        ("try:\n    go()\nexcept OSError:\n    raise", False),
        ("try:\n    raise OSError\nexcept OSError:\n    pass", False),
        ("try:\n    go()\nexcept OSError:\n    raise ValueError", True),
    ],
)
def test_the_rule_itself_lets_the_guest_pass_on_what_the_user_raised(text: str, broken: bool) -> None:
    assert bool(list(raised_by_guest(Source("a.py", text)))) is broken


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("threading.Thread(target=go).start()", True),
        ("atexit.register(go)", True),
        ("shelf.register(go)", False),
        ("signal.signal(signal.SIGINT, go)", True),
        ("isinstance(x, threading.Thread)", False),
    ],
)
def test_the_rule_itself_sees_what_is_started(text: str, broken: bool) -> None:
    assert bool(list(starts(Source("a.py", text)))) is broken


def _started(called: ast.expr) -> str | None:
    match called:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in HOOKS:
            return HOOKS[module, name]
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return STARTS.get(name)
    return None


def _guests() -> list[Source]:
    guests = [*python_sources(f"{PACKAGE}/agent/"), *python_sources(f"{PACKAGE}/inject/")]
    assert guests, "the guest is gone: this rule would pass whatever it does"
    return guests
