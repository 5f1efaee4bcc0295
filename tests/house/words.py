"""Words that readers stumble over, each with the plain word; code in backticks and fences may hold them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.house.source import Source, tree

INSTEAD = {
    "told": "reported, given",
    "said": "reported, named",
    "beside": "next to, in addition to",
    "nobody": "no one, or the passive voice",
    "ours": "the agent's, heuristic",
    "whoever": "what, the process that",
    "meanwhile": "in that time",
    "ill": "slow, with a known problem",
    "illness": "problem",
    "ailment": "problem, finding",
    "ailments": "problems, findings",
    "patient": "test training",
    "patients": "test trainings",
    "strangers": "other processes",
    "stranger": "another process",
    "crowd": "too many threads, oversubscription",
    "crowded": "oversubscribed",
    "somebody": "a user, another process",
    "sick": "slow",
    "mended": "fixed",
    "kernel's books": "kernel accounting",
    "looked at": "sampled, read",
    "close look": "sampled step",
    "close looks": "sampled steps",
}
WORD = re.compile(
    r"(?<![\w`/.-])(%s)(?![\w`/-])" % "|".join(sorted(INSTEAD, key=len, reverse=True)), re.IGNORECASE
)
CODE = re.compile(r"^```.*?^```|``[^`]*``|`[^`\n]*`|\]\([^)\s]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)


def found(prose: str) -> Iterator[tuple[int, str]]:
    """(line, word) of each that stands in a text; what is code or a link is blanked."""
    plain = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), prose)
    for number, line in enumerate(plain.splitlines(), 1):
        for match in WORD.finditer(line):
            yield number, match[0].lower()


def counts(sources: Iterable[Source]) -> dict[str, int]:
    """How often each stands in the texts and docstrings of Python files: their literals, without names."""
    counted: Counter[str] = Counter()
    for source in sources:
        for node in ast.walk(tree(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                counted.update(word for _, word in found(node.value))
    return dict(sorted(counted.items()))
