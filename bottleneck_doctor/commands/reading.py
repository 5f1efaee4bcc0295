"""From a profile to its report, as every command but ``run`` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def with_picture(profile: Profile) -> tuple[Report, Picture]:
    """The report, and what is drawn of it."""
    from ..analyse.diagnose import diagnose
    from ..analyse.lanes import picture_of
    from ..findings.report import write_up

    diagnosis = diagnose(profile)
    return write_up(profile, diagnosis), picture_of(diagnosis)
