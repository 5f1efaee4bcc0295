"""The commands that need no profile: ``bdoc explain``, and ``bdoc env``."""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ..model.errors import UsageError
from ..model.instruments import Capability
from .cli import declared
from .options import PYTHON, read_settings
from .output import say, screen

NEAREST, NEAR = 3, 0.7  # of two words of three letters that share two, difflib says 0.67


def explain_command(
    id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="What to explain: an id, or a word such as num_workers."),
    ] = None,
) -> int:
    """Explain a word of a report; without ID, list what there is."""
    from ..analyse.verdict import SENTENCES
    from ..findings.registry import entries_of, offered, pages
    from ..render.glossary import ALIASES, APPLY, BOUND_PAGES, GAPS, MESSAGES, METRICS, TOPICS
    from ..render.terminal import index_of, list_pages, page, remedy_page, slug

    width = screen(sys.stdout).width
    remedies = {name: _usual_first(by_finding) for name, by_finding in offered().items()}
    shelves = {
        "findings": pages(),
        "remedies": {name: next(iter(found.values())).title for name, found in remedies.items()},
        "bounds": BOUND_PAGES,
        "causes": {
            name: f"{text}\n\n{_of_cause(name)}" for name, text in SENTENCES.items() if name != "none"
        },
        "metrics": METRICS,
        "levels": APPLY,
        "messages": MESSAGES,
        "gaps": GAPS,
    }
    if id is None:
        topics = {
            topic: [one.id for family in families for one in entries_of(family)]
            for topic, families in TOPICS.items()
        }
        say(index_of(topics, shelves, width))
        return 0
    asked = id.strip("[]`'\" ")
    if asked in shelves:
        say(list_pages(shelves[asked], width))
        return 0
    for name in (asked, slug(asked), ALIASES.get(slug(asked).replace("_", "-"), "")):
        found = [
            remedy_page(name, remedies[name]) if shelf == "remedies" else page(name, texts[name])
            for shelf, texts in shelves.items()
            if name in texts
        ]
        if found:
            break
    else:
        names = [*ALIASES, *(name for shelf in shelves.values() for name in shelf)]
        near = difflib.get_close_matches(slug(asked), names, n=NEAREST, cutoff=NEAR)
        hint = f"did you mean {' or '.join(near)}?" if near else "`bdoc explain` lists what there is"
        raise UsageError(f"no page {id!r}: {hint}")
    say("\n".join(found))
    return 0


def _usual_first(by_finding: Mapping[str, Any]) -> dict[str, Any]:
    """A remedy as findings propose it, what most of them propose first."""
    titles = Counter(one.title for one in by_finding.values())
    return dict(sorted(by_finding.items(), key=lambda item: -titles[item[1].title]))


def _of_cause(cause: str) -> str:
    """Which findings belong to a cause; some name the one that the verdict found instead."""
    from ..findings.registry import entries

    names = [entry.id for entry in entries() if entry.cause == cause]
    return f"findings: {', '.join(names)}" if names else "no finding belongs to this cause alone"


def env_command(python: Annotated[str | None, declared(PYTHON)] = None) -> int:
    """Show what can be measured on this machine, what cannot, why, and how to allow it."""
    from ..launch.start import choose
    from ..render.terminal import capabilities_text
    from ..sense.capabilities import list_capabilities

    target = describe(choose(read_settings().of(PYTHON, python)))
    shown = screen(sys.stdout)
    say(
        capabilities_text([target, *list_capabilities()], shown.width, shown.color, shown.encoding),
        shown.encoding,
    )
    return 0


PATIENCE_S = 20.0
QUESTION = """
import sys
sys.path[:] = filter(None, sys.path)  # modules in the working directory may be another user's
import platform
from importlib import metadata
try:
    torch = metadata.version("torch")
except Exception:
    torch = ""
print(platform.python_version() + "|" + torch)
"""


def describe(python: str) -> Capability:
    """The interpreter and its torch, as one row of the table."""
    name, do = "python and torch", "name the training's interpreter with --python PATH"
    try:
        done = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        return Capability(name, False, f"{python} could not be asked: {problem}", do)
    version, bar, torch = (done.stdout.strip().splitlines() or [""])[-1].partition("|")
    if done.returncode or not bar:
        return Capability(name, False, f"{python} left with status {done.returncode}", do)
    if not torch:
        return Capability(name, False, f"python {version} at {python} has no torch", do)
    return Capability(name, True, f"python {version} at {python}, torch {torch}")
