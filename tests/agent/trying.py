"""A training that the agent treats: what the script saw of it, and what the agent says became of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bottleneck_doctor.assemble.rows import read_logs
from tests.agent.watching import said, watched


def treated(
    folder: Path, script: str, orders: Iterable[tuple[str, dict[str, Any]]]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """What the script said, and by each treatment's name why it was not applied: "" where it was."""
    order = folder / "order.json"
    treatments = [{"name": name, "options": options} for name, options in orders]
    order.write_text(json.dumps({"treatments": treatments, "losses": 0}))
    told = watched(folder, script, BDOC_TRIAL=str(order))
    words: dict[str, list[str]] = {}
    for log in read_logs(told.folder):
        for fact in log.facts:
            if fact.get("fact") == "treated":
                words.setdefault(str(fact["name"]), []).append(str(fact["why"]))
    return said(told), words
