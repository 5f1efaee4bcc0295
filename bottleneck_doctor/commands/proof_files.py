"""Where the proof goes: stdout, and the files that were asked for."""

from __future__ import annotations

import sys

from ..model.profile import Profile
from ..model.proof import Plan, Proof
from ..model.report import Report
from .options import FORMAT
from .output import Screen, complain, say, screen, write
from .prove_options import PROOF, WRITE_PATCH
from .run_options import Options


def show_plan(options: Options, plan: Plan) -> None:
    """What would be tried, to stdout."""
    from ..render.proof.terminal import render_plan

    shown = screen(sys.stdout)
    text = render_plan(plan, options[FORMAT], width=shown.width, color=shown.color, encoding=shown.encoding)
    say(text, shown.encoding)


def hand_over(options: Options, proof: Proof, profile: Profile, report: Report) -> None:
    """The proof to stdout; then what else was asked for."""
    from ..prove.patch.proven import with_patches
    from ..render.proof import render_proof
    from ..render.proof.compose import expected

    proof = with_patches(proof, report.remedies, profile)
    shown = Screen(100, False, "utf-8") if options[FORMAT] == "json" else screen(sys.stdout)
    text = render_proof(proof, options[FORMAT], width=shown.width, color=shown.color, encoding=shown.encoding)
    say(text, shown.encoding)
    for one in proof.expected if options[FORMAT] == "json" else ():
        complain(expected(one)[1])  # the text says it itself
    if (place := options[PROOF]) is not None:
        write(place, render_proof(proof, "json").encode(), private=True)
    if (place := options[WRITE_PATCH]) is not None:
        _write_patch(place, proof)


def _write_patch(path: str, proof: Proof) -> None:
    """The winner's diff, byte for byte; where there is none, no file and a line why."""
    winner = next((row for row in proof.rows if proof.winner and row.id == proof.winner), None)
    if winner is not None and winner.patch is not None and winner.patch.diff:
        write(path, winner.patch.diff.encode("utf-8", "surrogateescape"), "--write-patch")
        return
    why = winner.patch.why if winner is not None and winner.patch is not None else "no remedy is kept"
    complain(f"no patch in {path!r}: {why}")
