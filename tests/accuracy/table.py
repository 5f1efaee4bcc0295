"""The accuracy table as markdown, with how it was measured and what it adds up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.accuracy import reliability
from tests.accuracy.judge import Judgement

GPU_PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy-gpu.md"
PROVED = "Remedies that bdoc applies by itself: [how right `bdoc prove` is](accuracy-prove.md)."
OTHERS = "On [trainings that others wrote](accuracy-others.md), at first sight and now."
DRAWING = "accuracy.svg"
HEADER = (
    "| patient | bound | cause | first remedy | data wait: bdoc / truth | cured by "
    "| predicted: low – likely – high | by | measured | inside |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)

METHOD = """\
Each patient is a small training script that is sick in one known way; its twin is the same training with
one remedy applied. The illness is known by construction, not by measurement.

- Diagnosis: the sick script runs once under `bdoc run`; bound, cause and first remedy are held against the
  table in `tests/patients/expected.py`. The first remedy is the first one that promises more than ×1.05;
  advice about strangers on the cores is passed over, except for the patient that is about them.
- Data wait: the script times its own `next()` calls with its own clock in that same run, from its
  twentieth step on; right means within 0.02.
- Speedup: sick and cured script run plain, interleaved (sick, cured, sick, cured); the measured speedup is
  the ratio of the medians over runs of the mean step time, from the twentieth step on.
  "By" is how the prediction was made: calibrated, replay, amdahl; or a bound, where nothing measured says
  how much of it there is to be had. Inside means within bdoc's low to high, or not above its bound; near
  means that the likely value is off by at most 25 %.
- Where the remedy is a number of workers, the twin has the number that the report advises.
- The runs behind the page are kept in `tests/golden/accuracy`, profile and measurements of each:
  `python -m tests.accuracy --again tests/golden/accuracy` diagnoses them with the code at hand. So did this
  page: the diagnosis may be newer than the runs. A test holds later versions against them.
- Where the kernel allows it, the disk of two storage patients is held to the limit named in their truth.
"""


def row(judgement: Judgement) -> str:
    """One line of the table."""
    wait = "–" if judgement.wait is None else f"{judgement.wait:.3f}"
    truth = "–" if judgement.wait_truth is None else f"{judgement.wait_truth:.3f}"
    promise = "–" if judgement.most is None else f"at most ×{judgement.most:.2f}"
    if judgement.predicted is not None:
        promise = " – ".join(f"×{x:.2f}" for x in judgement.predicted)
    cells = [
        judgement.name,
        judgement.bound + _mark(judgement.bound_right),
        judgement.cause + _mark(judgement.cause_right),
        (judgement.remedy or "none") + _mark(judgement.remedy_right),
        f"{wait} / {truth}" + _mark(judgement.wait_right),
        judgement.twin or "–",
        promise,
        judgement.basis or "–",
        "–" if judgement.measured is None else f"×{judgement.measured:.2f}" + _mark(judgement.near),
        _mark(judgement.inside if judgement.most is None else judgement.bounded).strip() or "–",
    ]
    return "| " + " | ".join(cells) + " |"


def summary(judgements: Sequence[Judgement]) -> list[str]:
    """What the rows add up to, for the ailments and for all patients."""
    lines = []
    for title, rows in (
        ("ailments", [j for j in judgements if j.group == "ailment"]),
        ("all patients", list(judgements)),
    ):
        if rows:
            counts = ", ".join(f"{name} {_count(rows, right)}" for name, right in COUNTED.items())
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
    for basis in reliability.BASES:
        lines += _speedups(f"speedup by {basis}", [j for j in rows if j.basis == basis])
    return lines


def _speedups(title: str, rows: Sequence[Judgement]) -> list[str]:
    errors = [error for j in rows if (error := j.speedup_error) is not None]
    return [f"{title}, {len(errors)} twins: {_off(errors)}"] if errors else []


def _off(errors: Sequence[float]) -> str:
    ranked = sorted(100 * error for error in errors)
    most = ranked[min(len(ranked) - 1, int(0.9 * len(ranked)))]
    return f"off by {median(ranked):.0f} % (median), {most:.0f} % (90th percentile)"


def _tried_by_hand(rows: Sequence[Judgement]) -> list[str]:
    tried = [one for j in rows for one in j.tried]
    numbers = [one.error for one in tried if one.error is not None]
    if not numbers:
        return []
    firsts = [one.error for j in rows for one in j.tried if one.remedy == j.remedy and one.error is not None]
    bounds = [one.measured <= (one.most or 0) for one in tried if one.most and one.likely is None]
    return [
        f"remedies tried by hand: {len(tried)}; {len(numbers)} numbers {_off(numbers)}; "
        f"{sum(bounds)} of {len(bounds)} bounds hold; "
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
    "upper bound holds": lambda j: j.bounded,
    "first of those tried brings most": lambda j: j.best_first,
}


def page(
    judgements: Sequence[Judgement], machine: str, repeats: int, settings: Mapping[str, Sequence[Judgement]]
) -> str:
    """The whole page; ``settings`` are those made on other machines, by their names."""
    elsewhere = {name: reliability.pairs_of(some) for name, some in settings.items()}
    promises = reliability.page(reliability.pairs_of(judgements), DRAWING, elsewhere)
    rows = "\n".join(row(judgement) for judgement in judgements)
    adds_up = "\n".join(f"- {line}" for line in summary(judgements))
    return (
        "# How often bdoc is right\n\n"
        "Generated by `make accuracy`.\n\n"
        f"{METHOD}\nMachine: {machine}; {repeats} runs of each twin. {gpus(GPU_PAGE.read_text())}\n"
        f"{PROVED}\n{OTHERS}\n\n"
        f"{HEADER}\n{rows}\n\n{adds_up}\n\n{promises}\n"
    )


def gpus(page: str) -> str:
    """What the page about GPUs has sections on, in a sentence that leads there."""
    titles = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    return f"GPUs: [{'; '.join(titles)}](accuracy-gpu.md)."


def _mark(right: bool | None) -> str:
    return "" if right is None else " ✓" if right else " ✗"


def _count(rows: Sequence[Judgement], right: Callable[[Judgement], bool | None]) -> str:
    judged = [verdict for verdict in map(right, rows) if verdict is not None]
    return f"{sum(judged)} of {len(judged)}"
