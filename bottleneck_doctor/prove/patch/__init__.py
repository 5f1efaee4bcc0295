"""Writes a remedy into the user's script as a unified diff, where that is safe; touches no file itself.

The script is parsed, not searched, and only the arguments meant are spliced into its text: formatting,
comments and line ends stay. What is not certain is refused with a reason, and the snippet stands for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...model.profile import Profile
from ...model.proof import Patch, Proof, Proved
from ...model.report import Remedy
from .calls import Unsafe, parse
from .edit_requests import EditRequest, requests_of
from .edits import edited, read_source, relative, unified

Read = Callable[[str], str]


def patch_of(remedies: Sequence[Remedy], profile: Profile, read: Read = read_source) -> Patch:
    """One diff that makes the script do what all treatments of these remedies did, or why there is none.

    ``read(path)`` gives a file's text, line ends as they are, and raises as ``read_source`` does.
    """
    cwd = profile.run.cwd
    try:
        requests = [one for remedy in remedies for one in requests_of(remedy, profile)]
        # A script goes by several names: as typed, and as Python has made it whole.
        requests = [replace(one, file=os.path.normpath(os.path.join(cwd, one.file))) for one in requests]
        files = dict.fromkeys(one.file for one in requests)
        return Patch("".join(_diff(file, requests, cwd, read) for file in files))
    except Unsafe as reason:
        return Patch("", str(reason))


def with_patches(proof: Proof, remedies: Sequence[Remedy], profile: Profile) -> Proof:
    """The proof with a patch, or the reason for none, in each row whose verdict is "kept"."""
    known = {remedy.id: remedy for remedy in remedies}

    def patched(row: Proved) -> Proved:
        if row.verdict != "kept":
            return row
        meant = [known[name] for name in row.remedies if name in known]
        if not meant or len(meant) < len(row.remedies):
            return replace(row, patch=Patch("", "the report does not say how to write it"))
        return replace(row, patch=patch_of(meant, profile))

    return replace(proof, rows=[patched(row) for row in proof.rows])


def _diff(file: str, requests: list[EditRequest], cwd: str, read: Read) -> str:
    name = relative(file, cwd)
    try:
        text = read(file)
    except (OSError, SyntaxError, ValueError) as problem:
        raise Unsafe(f"{name} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    source = parse(text)
    after = edited(source, [one for one in requests if one.file == file])
    try:
        parse(after)
    except Unsafe:
        raise Unsafe(f"{name} is written in a way that cannot be changed safely") from None
    return unified(source.whole, after, name)
