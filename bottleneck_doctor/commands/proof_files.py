"""Where the proof goes: stdout, and the files that were asked for."""

from __future__ import annotations

import sys

from ..model.profile import Profile
from ..model.proof import Plan, Proof
from ..model.report import Report
from .output import Screen, complain, say, screen, write
from .prove import ProveOptions


def show_plan(options: ProveOptions, plan: Plan) -> None:
    """What would be tried, to stdout."""
    from ..render.proving_plan import plan_text

    shown = screen(sys.stdout)
    say(plan_text(plan, options.format, shown.width, shown.encoding), shown.encoding)


def hand_over(options: ProveOptions, proof: Proof, profile: Profile, report: Report) -> None:
    """The proof to stdout; then what else was asked for."""
    from ..render.expected import expected_lines
    from ..render.proof import render_proof

    shown = Screen(100, False, "utf-8") if options.format == "json" else screen(sys.stdout)
    text = render_proof(proof, options.format, width=shown.width, color=shown.color, encoding=shown.encoding)
    say(text, shown.encoding)
    for line in expected_lines(proof.expected):
        complain(line)
    if options.output is not None:
        write(options.output, render_proof(proof, "json").encode())
