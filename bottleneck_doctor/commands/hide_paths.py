"""Takes names of folders and data files out of a profile: they may be those of people and customers."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2s
from typing import Any

from ..model.codec import decode_profile, encode_profile
from ..model.profile import Profile

ABSOLUTE = re.compile(r"(?<![\w./~-])~?(?:/[^\s/:'\"(),=\[\]{}]+)+")
QUOTED = re.compile(r"(?<=['\"])[^'\"\n/]*/[^'\"\n]*(?=['\"])")  # in the user's source text
EVERYBODYS = frozenset(
    "bin dev etc home lib lib64 media mnt opt proc root run sbin srv sys tmp usr var".split()
)
SYSTEMS = ("/proc/", "/sys/", "/dev/", "/usr/", "/lib/", "/lib64/", "/etc/")
# What the analysis knows code by, and what follows there, is the same on every machine.
PUBLIC = re.compile(r"^(site-packages|dist-packages|python\d+(\.\d+)?|bottleneck_doctor|_bdoc_agent)$")
CODE = (".py", ".pyx", ".so", ".ipynb")


def pathless(profile: Profile) -> Profile:
    """The profile with each folder and each data file called by a short hash, salted anew in each run: equal
    names stay equal within it. Names of scripts, modules, functions and classes stay."""
    salt = secrets.token_bytes(16)
    command = [_word(word, salt) for word in profile.run.command]
    script = profile.run.script and _word(profile.run.script, salt)
    plain = replace(profile, run=replace(profile.run, command=[], script=None))
    found = _changed(plain, lambda text: _text(text, salt))
    return replace(found, run=replace(found.run, command=command, script=script))


def renamed(profile: Profile, names: Mapping[str, str]) -> Profile:
    """The profile with these paths called otherwise."""

    def change(text: str) -> str:
        for path, name in names.items():
            text = text.replace(path, name)
        return text

    return _changed(profile, change)


def _changed(profile: Profile, change: Callable[[str], str]) -> Profile:
    return decode_profile(json.dumps(_each(json.loads(encode_profile(profile)), change)).encode())


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """The same JSON value with every string changed, names of members too."""
    if isinstance(value, str):
        return change(value) if "/" in value else value
    if isinstance(value, list):
        return [_each(one, change) for one in value]
    if isinstance(value, dict):
        return {_each(name, change): _each(one, change) for name, one in value.items()}
    return value


def _text(text: str, salt: bytes) -> str:
    if text.startswith("/") and "\n" not in text and ":" not in text:
        return _path(text, salt)  # one path and nothing else: it may hold blanks
    text = QUOTED.sub(lambda found: found[0] if "://" in found[0] else _path(found[0], salt), text)
    return ABSOLUTE.sub(lambda found: _path(found[0], salt), text)


def _word(word: str, salt: bytes) -> str:
    """A word of the command line, where paths may be relative: ``--data=customers/x``."""
    before, equals, value = word.rpartition("=")
    return before + equals + _path(value, salt) if "/" in value and "://" not in value else word


def _path(path: str, salt: bytes) -> str:
    if path.startswith(SYSTEMS) and "site-packages" not in path:
        return path
    parts = path.split("/")
    public = next((place for place, part in enumerate(parts) if PUBLIC.match(part)), len(parts))
    for place, part in enumerate(parts[:public]):
        last = place == len(parts) - 1
        if (
            part in ("", ".", "..", "~")
            or (place == 1 and part in EVERYBODYS)
            or (last and part.endswith(CODE))
        ):
            continue
        stem, dot, suffix = part.partition(".") if last else (part, "", "")
        parts[place] = blake2s(salt + stem.encode("utf-8", "replace")).hexdigest()[:6] + dot + suffix
    return "/".join(parts)
