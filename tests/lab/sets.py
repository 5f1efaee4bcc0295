"""The table of all sets of trainings: how often bdoc was right at first sight, and now (sets.json)."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.lab.judge import Judgement
from tests.lab.table import count, line, middle_and_most

FILE = Path(__file__).with_name("sets.json")
FIRST = "first"  # the row of all first sights
COLUMNS = {
    "trainings": "trainings",
    "when": "",
    "bound": "bound right",
    "cause": "cause right",
    "remedy": "first remedy right",
    "wait": "data wait off by (median / worst)",
    "promise": "promised speedup off by (median / 90th percentile)",
}


def table(names: Sequence[str] = ()) -> str:
    """These rows as markdown; all of them without names."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    rows[FIRST] = _pooled([row for row in rows.values() if row["when"] == "first sight"])
    chosen = [rows[name] for name in names or rows]
    return "\n".join(
        [
            line(list(COLUMNS.values())),
            "|" + "---|" * len(COLUMNS),
            *(line([row[column] for column in COLUMNS]) for row in chosen),
        ]
    )


def _pooled(rows: Sequence[dict[str, str]]) -> dict[str, str]:
    """What the rows add up to, each by the version of its day."""
    row = {
        "trainings": "all sets by other authors, each by the version of its day",
        "when": "first sight",
        "wait": "–",
        "promise": "–",
    }
    for column in ("bound", "cause", "remedy"):
        counts = [tuple(map(int, one[column].split(" of "))) for one in rows if " of " in one[column]]
        row[column] = f"{sum(right for right, _ in counts)} of {sum(judged for _, judged in counts)}"
    return row


def put(name: str, judgements: Sequence[Judgement]) -> None:
    """What this version says of a set, in the place of what an earlier one said."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    tried = [one.error for row in judgements for one in row.tried if one.error is not None]
    promises = tried or [error for one in judgements if (error := one.speedup_error) is not None]
    waits = sorted(error for one in judgements if (error := one.wait_error) is not None)
    rows[name] |= {
        "bound": count(judgements, lambda one: one.bound_right),
        "cause": count(judgements, lambda one: one.cause_right),
        "remedy": count(judgements, lambda one: one.remedy_right),
        "wait": f"{100 * median(waits):.1f} / {100 * waits[-1]:.1f} points" if waits else "–",
        "promise": " / ".join(f"{100 * one:.0f} %" for one in middle_and_most(promises)) if promises else "–",
    }
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
