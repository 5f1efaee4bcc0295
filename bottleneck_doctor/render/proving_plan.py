"""Shows what ``bdoc prove`` would try, what each arm changes, and what it would cost."""

from __future__ import annotations

from ..model.codec import encode_plan
from ..model.proof import Arm, Plan
from ..model.trial import Treatment
from . import words


def plan_text(plan: Plan, format: str, width: int, encoding: str) -> str:
    """The plan in one of the formats that print."""
    if format == "json":
        return encode_plan(plan).decode()
    tried = [arm for arm in plan.arms if arm.kind != "baseline"]
    lines = [_head(plan) if tried else "nothing to try: no remedy of the report can be applied from outside"]
    for arm in plan.arms if tried else []:
        lines += ["", f"{arm.id}: {words.plain(arm.title)}{_predicted(arm)}"]
        lines += [f"  {said}" for one in arm.treatments for said in _changes(one)]
    if plan.missed:
        lines += ["", "not tried:", *(f"  {one.id}: {words.plain(one.why)}" for one in plan.missed)]
    mark = "- " if format == "markdown" else ""
    return words.fit("".join(f"{mark if line and mark else ''}{line}\n" for line in lines), encoding)


def _head(plan: Plan) -> str:
    return (
        f"would run the training {words.counted(plan.span.end, 'step')} at a time, about "
        f"{words.seconds(plan.run_s)} each, {words.seconds(plan.least_s)} to "
        f"{words.seconds(plan.most_s)} in all; "
        f"steps {plan.span.begin + 1} to {plan.span.end} are compared"
    )


def _predicted(arm: Arm) -> str:
    if arm.predicted is None:
        return ""
    return f", predicted {words.gain(arm.predicted.likely)}"


def _changes(treatment: Treatment) -> list[str]:
    """What a treatment sets, one thing a line."""
    options = {name: value for name, value in treatment.options.items() if name != "where"}
    inner = options.pop("arguments", None)
    settings = {**options, **(inner if isinstance(inner, dict) else {})}
    if not settings:
        return [f"applies {treatment.name}"]
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    return [f"{treatment.name}: {words.plain(shown)}"]
