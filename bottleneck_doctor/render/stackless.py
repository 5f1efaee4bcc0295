"""Why a run has no sampled stacks, and what gets them, in one sentence."""

from __future__ import annotations

from ..model.report import Report
from . import words

AGAIN = (
    "let it run for 10 s or more after its first batch, without --no-py-spy; `bdoc env` says what may be seen"
)


def why_no_stacks(report: Report) -> str:
    """What py-spy was refused, with what allows it; else that its window never opened."""
    for gap in report.quality.gaps:
        if "py-spy" in gap.what:
            return words.plain(f"{gap.why}; {gap.do}" if gap.do else gap.why)
    return f"py-spy's window did not open; {AGAIN}"
