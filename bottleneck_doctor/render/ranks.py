"""What `bdoc merge` says: how many ranks were joined, and which of them come late and why."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.elsewhere import SlowRank
from . import words

LATE_AT_MOST = 8  # lines: more late ranks than that are counted
CAUSES = {
    "data": "waiting for data",
    "quota": "ready without a core: its CPU quota was used up",
    "cores": "ready without a core",
    "work": "its own work",
}


def merged_lines(ranks: int, hosts: int, world_size: int, late: Sequence[SlowRank]) -> list[str]:
    """The sum, then a line for each late rank."""
    missing = f", {world_size - ranks} of {world_size} missing" if world_size > ranks else ""
    lines = [f"{words.counted(ranks, 'rank')} on {words.counted(hosts, 'host')}{missing}"]
    lines += [late_text(one) for one in late[:LATE_AT_MOST]]
    if len(late) > LATE_AT_MOST:
        lines.append(f"and {len(late) - LATE_AT_MOST} more that come late")
    return lines if late else [*lines, "no rank comes late step after step"]


def late_text(one: SlowRank) -> str:
    """Who, by how much, and what it went into."""
    beyond, part = words.seconds(one.beyond_s), words.seconds(one.part_s)
    where = f"rank {one.rank.rank} on {words.plain(one.rank.host)}"
    others = one.rank.foreign_cores
    beside = (
        f", where others keep {words.count(others)} cores busy" if one.cause == "cores" and others else ""
    )
    return f"{where} comes {beyond} a step after the median rank: {part} of it {CAUSES[one.cause]}{beside}"
