"""Writes a remedy into the user's script as a unified diff, where that is safe; touches no file itself.

The script is parsed, not searched, and only the arguments meant are spliced into its text: formatting,
comments and line ends stay. What is not certain is refused with a reason, and the snippet stands for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...model.profile import Profile
from ...model.proof import Patch
from ...model.report import Remedy
from .edit_requests import Wish, wishes_of
from .edits import edited, relative, unified
from .edits import read_source as read_source
from .source import ParsedScript, Unsafe, parse

Read = Callable[[str], str]


def patch_for(remedy: Remedy, profile: Profile, read: Read = read_source) -> Patch:
    """The diff that makes the script do what the remedy's treatments did, or why there is none.

    ``read(path)`` gives a file's text, line ends as they are, and raises ``OSError`` or ``ValueError``.
    """
    return patch_of([remedy], profile, read)


def patch_of(remedies: Sequence[Remedy], profile: Profile, read: Read = read_source) -> Patch:
    """One diff for all of these remedies together; none where one of them has none."""
    try:
        wishes = [_placed(wish, profile) for remedy in remedies for wish in wishes_of(remedy, profile)]
        files = dict.fromkeys(wish.file for wish in wishes)
        return Patch("".join(_of_file(file, wishes, profile.run.cwd, read) for file in files))
    except Unsafe as reason:
        return Patch("", str(reason))


def _placed(wish: Wish, profile: Profile) -> Wish:
    """A script goes by several names: as typed, and as Python has made it whole."""
    return replace(wish, file=os.path.normpath(os.path.join(profile.run.cwd, wish.file)))


def _of_file(file: str, wishes: list[Wish], cwd: str, read: Read) -> str:
    name = relative(file, cwd)
    source = parse(_text(file, name, read))
    mine = [wish for wish in wishes if wish.file == file]
    after = edited(source, mine)
    _must_parse(after, name)
    return unified(source.whole, after, name)


def _text(file: str, name: str, read: Read) -> str:
    try:
        return read(file)
    except (OSError, ValueError) as problem:
        raise Unsafe(f"{name} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None


def _must_parse(after: str, name: str) -> ParsedScript:
    try:
        return parse(after)
    except Unsafe:
        raise Unsafe(f"{name} is written in a way that cannot be changed safely") from None
