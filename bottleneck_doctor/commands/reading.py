"""From a profile to its report, as every command but ``run`` makes it, and to the targets of ``--export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .output import complain

if TYPE_CHECKING:
    from ..export.send import Destination
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


def export(profile: Profile, to: list[Destination], quiet: bool = False) -> None:
    """Send the report, and print for each target what came of it; when ``quiet`` only what failed. No failure
    is a status."""
    try:
        from ..export.data import export_data
        from ..export.send import send

        report, picture = with_picture(profile)
        page = ""
        if any(one.kind == "mlflow" for one in to):
            from ..render import render

            page = render(report, "html", picture=picture)
        for sent, sentence in send(export_data(report, page), to):
            if not (sent and quiet):
                complain(sentence)
    except KeyboardInterrupt:
        complain("not exported: it was interrupted")
    except Exception as error:
        complain(f"not exported: {type(error).__name__}: {error}")
