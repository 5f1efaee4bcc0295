"""Where the proof goes: stdout, and the files that were asked for."""

from __future__ import annotations

import sys

from ..model.profile import Profile
from ..model.proof import Plan, Proof
from ..model.report import Report
from .output import Screen, complain, say, screen, write
from .prove_options import ProveOptions


def show_plan(options: ProveOptions, plan: Plan) -> None:
    """What would be tried, to stdout."""
    from ..render.proof.terminal import render_plan

    shown = screen(sys.stdout)
    text = render_plan(plan, options.format, width=shown.width, color=shown.color, encoding=shown.encoding)
    say(text, shown.encoding)


def hand_over(options: ProveOptions, proof: Proof, profile: Profile, report: Report) -> None:
    """The proof to stdout; then what else was asked for."""
    from ..prove.patch.proven import with_patches
    from ..render.proof import render_proof
    from ..render.proof.compose import expected_lines

    proof = with_patches(proof, report.remedies, profile)
    shown = Screen(100, False, "utf-8") if options.format == "json" else screen(sys.stdout)
    text = render_proof(proof, options.format, width=shown.width, color=shown.color, encoding=shown.encoding)
    say(text, shown.encoding)
    for line in expected_lines(proof.expected) if options.format == "json" else ():
        complain(line)  # the text says it itself
    if options.output is not None:
        write(options.output, render_proof(proof, "json").encode(), private=True)
    if options.write_patch is not None:
        _write_patch(options.write_patch, proof)


def _write_patch(path: str, proof: Proof) -> None:
    """The winner's diff, byte for byte; where there is none, no file and a line why."""
    winner = next((row for row in proof.rows if proof.winner and row.id == proof.winner), None)
    if winner is not None and winner.patch is not None and winner.patch.diff:
        write(path, winner.patch.diff.encode("utf-8", "surrogateescape"), "--write-patch")
        return
    why = winner.patch.why if winner is not None and winner.patch is not None else "no remedy is kept"
    complain(f"no patch in {path!r}: {why}")
