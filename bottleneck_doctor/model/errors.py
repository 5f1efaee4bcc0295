"""Errors for refused input, which end a command with one line and status 2."""

from __future__ import annotations


class Refused(ValueError):
    """What happened with the value, why, what to do next; ``slug`` leads to a page of ``bdoc explain``."""

    slug = "usage"


class UsageError(Refused):
    """The command line or the settings ask for something that cannot be done."""


class BadProfile(Refused):
    """The file is not a valid profile for this version."""

    slug = "bad-profile"
