"""Hides what looks like a secret in a command line before it is written down."""

from __future__ import annotations

import re
from collections.abc import Sequence

SECRET = re.compile(
    r"(api[-_]?key|access[-_]?key|secret|token|passw(or)?d|passphrase|credential|auth|private[-_]?key|\bkey\b)",
    re.I,
)
INNOCENT = re.compile(
    r"tokeni[sz]|(num|n|max|min|vocab)[-_]?tokens?|tokens?[-_](per|len)|author|keypoint", re.I
)
MASK = "***"


def mask(argv: Sequence[str]) -> list[str]:
    """``--api-key X`` and ``--api-key=X`` lose X; everything else stays."""
    shown: list[str] = []
    hide = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hide and not word.startswith("-"):
            shown.append(MASK)
        elif equals and _looks_secret(name):
            shown.append(f"{name}={MASK}")
        else:
            shown.append(_without_password(word))
        hide = not equals and word.startswith("-") and _looks_secret(word)
    return shown


def _looks_secret(name: str) -> bool:
    return bool(SECRET.search(name)) and not INNOCENT.search(name)


def _without_password(word: str) -> str:
    """``scheme://user:password@host`` loses the password."""
    return re.sub(r"(\w+://[^/\s:@]+):[^/\s@]+@", rf"\1:{MASK}@", word)
