"""Tables of a page as markdown; that of judgements, and what it adds up to."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

from tests.lab.judge import NEAR, Judgement

T = TypeVar("T")
BASES = ("replay", "amdahl", "bound")  # of a promise
HEADER = (
    "| training | bound | cause | first remedy | data wait: bdoc / truth | cured by "
    "| predicted: low – likely – high | by | measured | inside |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def row(judgement: Judgement) -> str:
    """One line of the table."""
    wait = "–" if judgement.wait is None else f"{judgement.wait:.3f}"
    truth = "–" if judgement.wait_truth is None else f"{judgement.wait_truth:.3f}"
    promise = "–" if judgement.most is None else f"at most ×{judgement.most:.2f}"
    if judgement.predicted is not None:
        promise = " – ".join(f"×{x:.2f}" for x in judgement.predicted)
    cells = [
        judgement.name,
        judgement.bound + mark(judgement.bound_right),
        judgement.cause + mark(judgement.cause_right),
        (judgement.remedy or "none") + mark(judgement.remedy_right),
        f"{wait} / {truth}" + mark(judgement.wait_right),
        judgement.twin or "–",
        promise,
        judgement.basis or "–",
        "–" if judgement.measured is None else f"×{judgement.measured:.2f}" + mark(judgement.near),
        mark(judgement.inside if judgement.most is None else judgement.bounded).strip() or "–",
    ]
    return line(cells)


def summary(judgements: Sequence[Judgement]) -> list[str]:
    """What the rows add up to, for those that stand for a finding and for all."""
    lines = []
    for title, rows in (
        ("one per finding", [j for j in judgements if j.group == "ailment"]),
        ("all", list(judgements)),
    ):
        if rows:
            counts = ", ".join(f"{name} {count(rows, right)}" for name, right in COUNTED.items())
            lines.append(f"{title}: {counts}")
            lines += [f"{title}: {line}" for line in _errors(rows)]
    lines.extend(
        f"{j.name}: promises a gain from {j.hurts}, which brings none" for j in judgements if j.hurts
    )
    lines.extend(
        f"{j.name}: its output or status changed under bdoc" for j in judgements if not j.same_output
    )
    return lines


def _errors(rows: Sequence[Judgement]) -> list[str]:
    """How large the errors are: the middle one, the worst, and for speedups the one that 90 % stay below."""
    waits = sorted(error for j in rows if (error := j.wait_error) is not None)
    lines = []
    if waits:
        middle, worst = 100 * median(waits), 100 * waits[-1]
        lines.append(f"data wait off by {middle:.1f} percentage points (median), {worst:.1f} at worst")
    slowed = sorted(100 * (j.slowed - 1) for j in rows if j.slowed is not None)
    if slowed:
        lines.append(
            f"steps under bdoc longer by {median(slowed):.0f} % (median), {slowed[-1]:.0f} % at worst"
        )
    lines += _speedups("speedup", rows)
    lines += _tried_by_hand(rows)
    for basis in BASES:
        lines += _speedups(f"speedup by {basis}", [j for j in rows if j.basis == basis])
    return lines


def _speedups(title: str, rows: Sequence[Judgement]) -> list[str]:
    errors = [error for j in rows if (error := j.speedup_error) is not None]
    return [f"{title}, {len(errors)} twins: {_off(errors)}"] if errors else []


def _off(errors: Sequence[float]) -> str:
    middle, most = middle_and_most(errors)
    return f"off by {100 * middle:.0f} % (median), {100 * most:.0f} % (90th percentile)"


def middle_and_most(errors: Sequence[float]) -> tuple[float, float]:
    """The median, and the 90th percentile."""
    ranked = sorted(errors)
    return median(ranked), ranked[min(len(ranked) - 1, int(0.9 * len(ranked)))]


def _tried_by_hand(rows: Sequence[Judgement]) -> list[str]:
    tried = [one for j in rows for one in j.tried]
    numbers = [one.error for one in tried if one.error is not None]
    if not numbers:
        return []
    firsts = [one.error for j in rows for one in j.tried if one.remedy == j.remedy and one.error is not None]
    ceilings = [one for one in tried if one.most and one.likely is None]
    bounds = [one.measured <= (one.most or 0) * (1 + NEAR) for one in ceilings]
    return [
        f"remedies tried by hand: {len(tried)}; {len(numbers)} numbers {_off(numbers)}; "
        f"{sum(bounds)} of {len(bounds)} bounds hold within 25 %; "
        f"{sum(one.harmful for one in tried)} promised a gain and slowed down",
        *([f"of these, first remedies: {len(firsts)} numbers {_off(firsts)}"] if firsts else []),
    ]


COUNTED: dict[str, Callable[[Judgement], bool | None]] = {
    "bound right": lambda j: j.bound_right,
    "cause right": lambda j: j.cause_right,
    "first remedy right": lambda j: j.remedy_right,
    "data wait within 0.02": lambda j: j.wait_right,
    "speedup within 25 %": lambda j: j.near,
    "speedup inside its interval": lambda j: j.inside,
    "upper bound holds within 25 %": lambda j: j.bounded,
    "first of those tried brings most": lambda j: j.best_first,
}


def gpus(page: str) -> str:
    """What the page about GPUs has sections on, in a sentence that leads there."""
    titles = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    return f"GPUs: [{'; '.join(titles)}](accuracy-gpu.md)."


def line(cells: Sequence[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"


def with_sum(header: str, rows: Sequence[str], adds_up: Sequence[str]) -> str:
    """A table, and below it a list of what it adds up to."""
    return "\n".join([header, *rows, "", *(f"- {line}" for line in adds_up)])


def mark(right: bool | None) -> str:
    """Behind what was judged: whether it is right."""
    return "" if right is None else " ✓" if right else " ✗"


def count(rows: Sequence[T], right: Callable[[T], bool | None]) -> str:
    """How many are right of those that were judged."""
    judged = [verdict for verdict in map(right, rows) if verdict is not None]
    return f"{sum(judged)} of {len(judged)}"
