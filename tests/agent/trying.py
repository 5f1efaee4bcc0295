"""A training that the agent treats: what the script saw of it, and what the agent says became of it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bottleneck_doctor.assemble.profile import read_trial
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.model.run import Order, Trial
from tests.agent.watching import said, watched


def tried(folder: Path, script: str, **order: Any) -> tuple[dict[str, Any], Trial]:
    """What the script said, and what is known of the trial with this order."""
    file = folder / "order.json"
    file.write_text(json.dumps(order))
    told = watched(folder, script, BDOC_TRIAL=str(file))
    trial = read_trial(Order(), read_logs(told.folder))
    assert trial is not None
    return said(told), trial


def treated(
    folder: Path, script: str, orders: Iterable[tuple[str, dict[str, Any]]]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """What the script said, and by each treatment's name why it was not applied: "" where it was."""
    seen, trial = tried(folder, script, treatments=[{"name": name, "options": of} for name, of in orders])
    words: dict[str, list[str]] = {}
    for one in trial.treated:
        words.setdefault(one.name, []).append(one.why)
    return seen, words
