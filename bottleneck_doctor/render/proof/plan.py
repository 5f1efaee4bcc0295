"""What `bdoc prove --dry-run` says: what would be tried, what each run changes, and what all would cost."""

from __future__ import annotations

from typing import Any

from ...model.proof import BASELINE, Arm, Plan
from ...model.run import ENVIRONMENT, Treatment
from .. import words
from ..sheet import Sheet
from . import DEFAULT_WIDTH

LONGEST_CHANGE = 200
NOTHING = "nothing to try: no remedy of the report can be applied from outside"
UNSAID = ("where",)  # of a treatment's options: which call is meant


def render_plan(
    plan: Plan, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The plan in one of the proof's formats; markdown is the text of a pipe."""
    if format == "json":
        from ...model.codec import encode_plan

        return encode_plan(plan).decode()
    sheet = Sheet(width or DEFAULT_WIDTH, color and format == "terminal", encoding)
    tried = plan.arms if any(arm.kind != BASELINE for arm in plan.arms) else []
    sheet.line((_head(plan) if tried else NOTHING, "bold"))
    for arm in tried:
        predicted = f"  {words.promised(arm.predicted)} predicted" if arm.predicted is not None else ""
        sheet.line((_name(arm), "bold"), predicted, indent=2)
        sheet.line((words.plain(arm.title), "dim"), indent=4)
        for treatment in arm.treatments:
            sheet.line(_change(treatment), indent=4)
    if plan.missed:
        sheet.heading(("not tried", "bold"))
    for missed in plan.missed:
        sheet.line(words.plain(missed.id), (f"  {words.plain(missed.why)}", "dim"), indent=2)
    return sheet.drawn()


def _head(plan: Plan) -> str:
    span = f"steps {words.count(plan.span.begin + 1)} to {words.count(plan.span.end)} would be compared"
    least, most = words.seconds(plan.least_s), words.seconds(plan.most_s)
    cost = f"{words.seconds(plan.run_s)} a run, {least} to {most} in all"
    return f"{words.counted(len(plan.arms), 'way')} to run the training: {span}, {cost}"


def _name(arm: Arm) -> str:
    if arm.kind in (BASELINE, "ceiling"):
        return {BASELINE: "without a remedy"}.get(arm.kind, "with batches from memory")
    return words.plain(" + ".join(arm.remedies) or arm.id)


def _change(treatment: Treatment) -> str:
    """What the agent is asked to set; "" where the title says it all."""
    options = {name: value for name, value in treatment.options.items() if name not in UNSAID}
    if isinstance(options.get("arguments"), dict):
        options |= options.pop("arguments")
    shown = " ".join(f"{name}={_value(value)}" for name, value in options.items())
    if not shown:
        return ""
    name = "" if treatment.name == ENVIRONMENT else f"{treatment.name}: "
    return words.short(words.plain(f"{name}{shown}"), LONGEST_CHANGE)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
