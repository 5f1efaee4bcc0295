"""Sends a report to the targets of ``--export``; kept out of reading.py, which the package's root imports."""

from __future__ import annotations

from ..export.send import Destination, export_data, send
from ..model.profile import Profile
from .output import complain
from .reading import with_picture


def export(profile: Profile, to: list[Destination], quiet: bool = False) -> None:
    """Send the report, and print for each target what came of it; when ``quiet`` only what failed. No failure
    is a status."""
    try:
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
