"""Gives each row of a proof that is worth keeping its patch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...model.profile import Profile
from ...model.proof import Patch, Proof, Proved
from ...model.report import Remedy
from . import patch_of
from .edits import read_source

Read = Callable[[str], str]


def with_patches(
    proof: Proof, remedies: Sequence[Remedy], profile: Profile, read: Read = read_source
) -> Proof:
    """The proof with a patch, or the reason for none, in each row whose verdict is "kept"."""
    known = {remedy.id: remedy for remedy in remedies}

    def patched(row: Proved) -> Proved:
        if row.verdict != "kept":
            return row
        meant = [known[name] for name in row.remedies if name in known]
        if not meant or len(meant) < len(row.remedies):
            return replace(row, patch=Patch("", "the report does not say how to write it"))
        return replace(row, patch=patch_of(meant, profile, read))

    return replace(proof, rows=[patched(row) for row in proof.rows])
