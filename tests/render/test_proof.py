"""The proof and its plan as drawn: the first line answers, every number stands once, nothing foreign acts."""

import json
import re
import unicodedata
from dataclasses import fields, replace

import pytest
from rich.cells import cell_len

from bottleneck_doctor.model.proof import (
    BASELINE,
    Arm,
    Attempt,
    ComparedSteps,
    Gain,
    Missed,
    Parity,
    Patch,
    Plan,
    Proof,
    ProofCost,
    Proved,
)
from bottleneck_doctor.model.report import Speedup
from bottleneck_doctor.model.run import ENVIRONMENT, Treatment
from bottleneck_doctor.prove.plan import NUMERICS
from bottleneck_doctor.render.proof import attempt_line, proving_line, render_plan, render_proof
from tests.house.source import ROOT
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked, without_code
from tests.render.proofs import COMBINED, SCENES, TYPICAL, WORKERS


@pytest.mark.parametrize(("name", "width"), [("typical", 60), ("combined", 100)])
def test_a_proof_is_drawn_as_accepted(name: str, width: int) -> None:
    require_golden(f"prove-{name}-{width}.txt", render_proof(SCENES[name], "terminal", width=width))


def test_what_did_not_work_out_is_drawn_as_accepted() -> None:
    names = ("nothing-pays", "undecided", "all-broke", "untried", "snippet")
    drawn = [f"{name}\n{render_proof(SCENES[name], 'terminal', width=80)}" for name in names]
    require_golden("prove-failed.txt", "\n".join(drawn))
    asked = replace(SCENES["untried"], missed=[Missed("cpu-bf16", NUMERICS)])
    assert "Nothing was tried: --remedy cpu-bf16 --allow-numerics tries one\n" in render_proof(
        asked, "terminal", width=99
    )


def test_a_page_is_written_as_accepted() -> None:
    require_golden("prove-combined.md.txt", render_proof(COMBINED, "markdown"))


def test_colours_mark_the_verdicts() -> None:
    require_golden("prove-colours.txt", render_proof(TYPICAL, "terminal", width=100, color=True))


@pytest.mark.parametrize("width", [20, 79, 120])
def test_only_the_diff_is_wider_than_the_terminal(width: int) -> None:
    without = replace(TYPICAL, rows=[replace(row, patch=None) for row in TYPICAL.rows])
    lines = render_proof(without, "terminal", width=width).splitlines()
    assert max(map(len, lines)) <= max(20, min(width, 100))
    drawn = render_proof(TYPICAL, "terminal", width=width)
    diff = WORKERS.patch.diff if WORKERS.patch else ""
    assert [line for line in diff.splitlines() if f"  {line}" not in drawn.splitlines()] == []


def test_a_changed_loss_is_said_beside_every_speedup() -> None:
    changed = replace(WORKERS, parity=Parity("changed", "", 20, 0.031))
    proof = replace(TYPICAL, rows=[changed, replace(changed, id="other", remedies=["other"])])
    drawn = render_proof(proof, "terminal", width=100)
    assert " ".join(drawn.split()).count("losses changed over 20 steps, by up to 3.1 %") == 2


KNOWN = [("workers-auto", Gain(1.95, 1.88, 2.02, 2)), ("gc-freeze", Gain(1.01, 0.99, 1.03, 2))]
FINISHED = [
    Attempt("baseline", "measured", step_s=0.0217, steps=120, run_s=9.3),
    Attempt("gc-freeze", "hung", "no step in 30 s", run_s=30.2),
    Attempt("a\x1b[2J", "out-of-memory"),
]


def test_finished_runs_and_the_line_of_progress_are_as_accepted() -> None:
    """What matters least goes first on a narrow terminal."""
    said = [*map(attempt_line, FINISHED)]
    said += [proving_line("baseline", 0.4, 100.3, KNOWN, width) for width in (100, 62, 40, 11)]
    said.append(proving_line("cached-batches", 0.5, None, [], 80, "ascii"))
    require_golden("prove-lines.txt", "\n".join(said) + "\n")


def test_json_holds_every_number_and_its_schema_first() -> None:
    told = json.loads(render_proof(TYPICAL, "json"))
    assert list(told)[:2] == ["schema", "schema_version"]
    assert told["schema"] == "bottleneck-doctor/proof"
    assert told["rows"][0]["measured"] == {"likely": 1.947, "low": 1.884, "high": 2.021, "runs": 3}
    assert told["rows"][0]["patch"]["diff"].startswith("--- a/train.py\n")


@pytest.mark.parametrize("kind", [Proof, Proved, Attempt, ProofCost])
def test_the_page_names_every_key_of_the_json(kind: type) -> None:
    table = (ROOT / "docs" / "prove.md").read_text(encoding="utf-8").partition("## For programs")[2]
    untold = [item.name for item in fields(kind) if f"`{item.name}`" not in table]
    assert [name for name in untold if name not in ("trial", "run", "arm")] == []


def test_a_long_diff_is_cut_on_the_screen_and_counted() -> None:
    rows = [replace(WORKERS, patch=Patch("".join(f"+{line}\n" for line in range(200))))]
    drawn = render_proof(replace(TYPICAL, rows=rows), "terminal")
    assert "140 more lines" in drawn


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_foreign_is_obeyed_on_a_terminal_or_a_page_or_breaks_json(attack: str) -> None:
    hostile = _attacked(COMBINED, attack)
    drawn = render_proof(hostile, "terminal", encoding="ascii")
    assert drawn.isascii()
    assert not [sign for sign in drawn if unicodedata.category(sign) == "Cc" and sign != "\n"]
    prose = without_code(render_proof(hostile, "markdown"))
    assert set(re.findall(r"<[^>]*>", prose)) <= {"<br>", "<sub>", "</sub>", "<!-- -->"}
    assert json.loads(render_proof(hostile, "json"))["schema_version"] == 1


def _attacked(proof: Proof, attack: str) -> Proof:
    """The attack in every string but those that say what a row is."""
    hostile = attacked(proof, ATTACKS[attack])
    rows = [replace(row, kind=was.kind) for row, was in zip(hostile.rows, proof.rows, strict=True)]
    winner = next((row.id for row, was in zip(rows, proof.rows, strict=True) if was.id == proof.winner), "")
    return replace(hostile, rows=rows, winner=winner)


LOADER = Treatment("loader", {"where": {"file": "train.py", "line": 3}, "arguments": {"num_workers": 2}})
THREADS = Treatment(ENVIRONMENT, {"OMP_NUM_THREADS": "2"})
PLAN = Plan(
    [
        Arm(BASELINE, BASELINE),
        Arm("cached-batches", "ceiling", treatments=(Treatment("replay"),)),
        Arm("workers-auto", "remedy", "make batches in 2 worker processes", ("workers-auto",),
            (LOADER, THREADS), Speedup(1.7, 2.1, 2.6, "replay")),
    ],
    [Missed("columnar-numpy", "an edit of the source")],
    ComparedSteps(20, 140), 0.0217, 9.3, 60.0, 150.0,
)  # fmt: skip


def test_a_plan_names_each_way_with_what_it_changes_and_what_all_would_cost() -> None:
    require_golden("prove-plan.txt", render_plan(PLAN, "terminal"))


def test_the_line_never_wraps() -> None:
    for width in range(100):
        assert cell_len(proving_line("漢字" * 9, 1.7, 4e5, KNOWN, width)) <= max(0, width - 1)
