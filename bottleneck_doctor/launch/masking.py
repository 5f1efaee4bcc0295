"""Hides what looks like a secret in a command line before it is written down."""

from __future__ import annotations

import re
from collections.abc import Sequence

SECRET = re.compile(
    r"api[-_]?key|access[-_]?key|private[-_]?key|secret|token|passw(or)?d|passphrase|credential|auth|\bkey\b",
    re.I,
)
# Counts and kinds of a language model's tokens, authors, key points and key frames.
INNOCENT = re.compile(
    r"tokeni[sz]|(num|n|max|min|vocab|total|target|new|pad|eos|bos|unk|sep|cls|mask|special|image|patch)[-_]tokens?"
    r"|tokens?[-_](per|len|dim|id|type|drop|count|budget|mix|merg)|authors?\b|key[-_]?(point|frame)",
    re.I,
)
# What the issuers' own prefixes give away, whatever stands before it.
ISSUED = re.compile(
    r"\b(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|eyJ[\w-]{1,512}\.eyJ)[\w.-]{12,}"
)
# Every repetition below is bounded or begins at a boundary: arguments can be megabytes long.
# A name and its value inside a longer text: a shell command, JSON, a header, the end of a URL.
INSIDE = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,64})(?P<mark>["']?\s{0,8}[=:]\s{0,8}|\s{1,8})"""
    r"""(?P<value>"[^"]*"|'[^']*'|[^\s"',;&?{\[}]+)"""
)
SCHEME = re.compile(r"\b(bearer|basic)\s+\S+", re.I)
URL = re.compile(r"(\b\w{1,32}://[^/\s:@]{0,256}):[^/\s@]{1,256}@")
MASK = "***"


def mask(argv: Sequence[str]) -> list[str]:
    """``--api-key X`` and ``--api-key=X`` lose X; everything else stays."""
    shown: list[str] = []
    hide = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hide and not word.startswith("-"):
            shown.append(MASK)
        elif equals and _is_name(name) and _looks_secret(name):
            shown.append(f"{name}={MASK}")
        else:
            shown.append(_masked_inside(word))
        hide = not equals and word.startswith("-") and _is_name(word) and _looks_secret(word)
    return shown


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[\w.+~@/-]+", text) is not None


def _looks_secret(name: str) -> bool:
    return bool(SECRET.search(name)) and not INNOCENT.search(name)


def _masked_inside(word: str) -> str:
    """Passwords in URLs, tokens known by their looks, and named values in a text of several words."""
    word = ISSUED.sub(MASK, URL.sub(rf"\1:{MASK}@", word))
    return INSIDE.sub(_hidden, SCHEME.sub(rf"\1 {MASK}", word))


def _hidden(found: re.Match[str]) -> str:
    named, value = found["name"], found["value"]
    spoken = found["mark"].isspace() and not (named.startswith("-") and not value.startswith("-"))
    if spoken or not _looks_secret(named):
        return found[0]
    return f"{named}{found['mark']}{MASK}"
