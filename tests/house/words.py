"""Words that readers stumble over, each with the plain word; code in backticks and fences may hold them."""

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.house.source import Source

INSTEAD = {
    "told": "reported, given",
    "said": "reported, named",
    "beside": "next to, in addition to",
    "nobody": "no one, or the passive voice",
    "ours": "the agent's, the project's, chosen",
    "whoever": "what, the process that",
    "meanwhile": "in that time",
    "ill": "slow, with a known problem",
    "illness": "problem",
    "ailment": "problem, finding",
    "patient": "test training",
    "stranger": "another process",
    "crowd": "too many threads, oversubscription",
    "crowded": "oversubscribed",
    "somebody": "a user, another process",
    "sick": "slow",
    "mended": "fixed",
    "kernel's books": "kernel accounting",
    "looked at": "sampled, read",
    "close look": "sampled step",
}
WORD = re.compile(
    r"(?<![\w`/.-])(%s)s?(?![\w`/-])" % "|".join(sorted(INSTEAD, key=len, reverse=True)), re.IGNORECASE
)
TEXT = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
CODE = re.compile(r"^```.*?^```|``[^`]*``|`[^`\n]*`|\]\([^)\s]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)


def found(prose: str) -> Iterator[tuple[int, str]]:
    """(line, word) of each that stands in a text; what is code or a link is blanked."""
    plain = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), prose)
    for number, line in enumerate(plain.splitlines(), 1):
        for match in WORD.finditer(line):
            if match[0].lower() != "besides":
                yield number, match[1].lower()


def counts(sources: Iterable[Source]) -> dict[str, int]:
    """How often each stands in the comments, docstrings and texts of Python files."""
    counted: Counter[str] = Counter()
    for source in sources:
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT or (token.type in TEXT and " " in token.string):
                counted.update(word for _, word in found(token.string))
    return dict(sorted(counted.items()))
