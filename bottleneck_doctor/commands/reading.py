"""From a profile's path to its report, as every command but ``run`` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.errors import UsageError

if TYPE_CHECKING:
    from ..model.picture import Picture
    from ..model.profile import Profile
    from ..model.report import Report


def report_of(path: str) -> Report:
    """The report that this version draws from the profile at ``path``."""
    from ..model.codec import read_profile

    profile = read_profile(path)
    from ..findings.report import write_up

    return write_up(profile)


def report_and_picture(path: str) -> tuple[Report, Picture]:
    """The same, with what is drawn of it."""
    from ..model.codec import read_profile

    return with_picture(read_profile(path))


def with_picture(profile: Profile) -> tuple[Report, Picture]:
    """The same of a profile that is at hand."""
    from ..analyse.diagnose import diagnose
    from ..analyse.lanes import picture_of
    from ..findings.report import write_up

    diagnosis = diagnose(profile)
    return write_up(profile, diagnosis), picture_of(diagnosis)


def known_format(name: str, origin: str) -> str:
    """The format that was asked for, if it exists."""
    from ..render import FORMATS

    if name not in FORMATS:
        raise UsageError(f"{origin} {name!r}: no such format, there are {', '.join(FORMATS)}")
    return name


def printed_format(name: str, origin: str) -> str:
    """The same for the end of a run, which prints: formats that only files hold are for ``bdoc report``."""
    from ..render import DRAWN

    if known_format(name, origin) in DRAWN:
        raise UsageError(
            f"{origin} {name!r}: a run prints terminal, markdown or json; afterwards "
            f"`bdoc report --format {name} -o FILE` writes this"
        )
    return name
