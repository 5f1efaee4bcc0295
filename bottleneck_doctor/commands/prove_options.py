"""The checked options of ``bdoc prove``; ``commands/proving.py`` acts on them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProveOptions:
    """A checked command line: one of ``script``, ``module``, ``launcher``, and the ``args`` behind it.

    ``budget_s``: None where it was left to us."""

    script: str | None
    module: str | None
    launcher: list[str] | None
    args: list[str]
    budget_s: float | None = None
    profile: str | None = None
    remedies: list[str] = field(default_factory=list)
    expect: list[str] = field(default_factory=list)
    allow_numerics: bool = False
    dry_run: bool = False
    format: str = "terminal"
    output: str | None = None
    write_patch: str | None = None
    python: str | None = None
    data_fn: list[str] = field(default_factory=list)
    max_steps: int | None = None
    quiet: bool = False
