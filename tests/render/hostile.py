"""Reports in which every string that a user's machine can choose is an attack."""

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")
ATTACKS = {
    "escape": "a\x1b[2J\x1b]0;owned\x07b",
    "c1": "a\x9b31mb\x85",
    "newline": "a\n# heading\r\n\tb\rc",
    "rich": "[bold red]a[/bold red] [link=file:///etc]b[/link] :boom:",
    "html": "<script>alert(1)</script><img src=x onerror=y>&lt;",
    "markdown": "](http://evil) **b** `c` | d | _e_ ~~f~~ $g$ ![h](i)",
    "fence": "```\n</details>\n````",
    "list": "1. a",
    "rule": "- --- # +",
    "mention": "@everyone #12",
    "bidi": "a\u202eb\u2066c\u200bd",
    "surrogate": "caf\udce9",
    "lines": "a\u2028b\u2029c\x0bd\x0ce",
    "nul": "a\x00b",
    "wide": "漢字" * 60,
    "long": "x" * 500,
    "empty": "",
}
# Words with a meaning of their own; what they may be is decided by us, not by the machine.
OURS = frozenset({"bound", "cause", "basis", "severity", "unit", "schema", "started_at", "op"})


def attacked(value: T, attack: str) -> T:
    """The same value with the attack in every string that is not one of our own words."""
    return _attacked(value, attack, "")  # type: ignore[no-any-return]


def without_code(page: str) -> str:
    """The page without fenced blocks and code spans, where markup means nothing."""
    page = re.sub(r"^( *)(`{3,})(?:python|diff)\n.*?^ *\2$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)", "", page)


def _attacked(value: Any, attack: str, name: str) -> Any:
    if name in OURS:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: _attacked(getattr(value, f.name), attack, f.name) for f in fields(value)}
        return replace(value, **changed)
    if isinstance(value, list):
        return [_attacked(item, attack, name) for item in value]
    if isinstance(value, dict):
        return {key: _attacked(item, attack, name) for key, item in value.items()}
    return attack if isinstance(value, str) else value
