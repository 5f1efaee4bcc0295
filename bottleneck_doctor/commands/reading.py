"""From a profile's path to its report, as every command but ``run`` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.errors import UsageError
from . import pyproject_settings
from .pyproject_settings import Settings

if TYPE_CHECKING:
    from ..model.picture import Picture
    from ..model.report import Report


def report_of(path: str) -> Report:
    """The report that this version draws from the profile at ``path``."""
    from ..model.codec import read_profile

    profile = read_profile(path)
    from ..prescribe import write_up

    return write_up(profile)


def report_and_picture(path: str) -> tuple[Report, Picture]:
    """The same, with what is drawn of it."""
    from ..model.codec import read_profile

    profile = read_profile(path)
    from ..analyse.diagnose import diagnose
    from ..analyse.picture import picture_of
    from ..prescribe import write_up

    diagnosis = diagnose(profile)
    return write_up(profile, diagnosis), picture_of(diagnosis)


def known_format(asked: str | None, defaults: Settings) -> str:
    """The format that was asked for, else the settings' one; only if it exists."""
    from ..render import FORMATS

    name = defaults.format if asked is None else asked
    if name not in FORMATS:
        raise UsageError(
            f"{_origin(asked, defaults)} {name!r}: no such format, there are {', '.join(FORMATS)}"
        )
    return name


def printed_format(asked: str | None, defaults: Settings) -> str:
    """The same for the end of a run, which prints: formats that only files hold are for ``bdoc report``."""
    from ..render import DRAWN

    name = known_format(asked, defaults)
    if name in DRAWN:
        raise UsageError(
            f"{_origin(asked, defaults)} {name!r}: a run prints terminal, markdown or json; afterwards "
            f"`bdoc report --format {name} -o FILE` writes this"
        )
    return name


def _origin(asked: str | None, defaults: Settings) -> str:
    return pyproject_settings.origin(defaults, "format") if asked is None else "--format"
