"""``python -m tests.bench.merge``: what merging many ranks takes, and whether the late ones are found.

Ranks are drawn from a recorded one: each row's own time is varied, and all wait for the slowest, as ranks do.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.profile import Profile
from tests.lab.golden import GOLDEN, read
from tests.lab.run import BDOC

RECORDED = GOLDEN / "accuracy"
ON_A_HOST = 8
LATE_S = 0.02  # a step, of 53 ms
CAUSES = {"wait_s": "waiting for data", "runq_s": "ready without a core", "": "in work of its own"}


def main(argv: Sequence[str] | None = None) -> int:
    """Merge once with three late ranks, then healthy ones often; a line for each number."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.merge", description=__doc__)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--healthy", type=int, default=20, help="merges of 64 ranks of which none is late")
    given = parser.parse_args(argv)
    late = dict(zip((given.ranks // 4, given.ranks // 2, given.ranks - 1), CAUSES, strict=True))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        put(folder, given.ranks, late, seed=0)
        began = time.monotonic()
        said = bdoc("merge", str(folder), "-o", str(folder / "all.json"))
        took = time.monotonic() - began
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        began = time.monotonic()
        bdoc("report", str(folder / "all.json"), "--format", "html", "-o", str(folder / "page.html"))
        drawn_s = time.monotonic() - began
        sizes = [os.path.getsize(folder / one) / 2**20 for one in ("all.json", "page.html")]
    print(f"{given.ranks} ranks: {took:.1f} s, {memory:.0f} MiB of memory")
    print("profile {:.1f} MiB, page {:.1f} MiB, drawn in {:.1f} s".format(*sizes, drawn_s))
    print(said, end="")
    found = sum(f"rank {rank} on " in said and CAUSES[column] in said for rank, column in late.items())
    print(f"{found} of {len(late)} late ranks named")
    wrong = [seed for seed in range(1, given.healthy + 1) if "no rank comes late" not in _healthy(seed)]
    print(f"{len(wrong)} of {given.healthy} healthy merges name a late rank")
    return 0


def _healthy(seed: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        put(Path(name), 64, {}, seed)
        return bdoc("merge", name, "-o", f"{name}/all.json")


def bdoc(*line: str) -> str:
    """What it says on stdout."""
    return subprocess.run([*BDOC, *line], capture_output=True, text=True, check=True).stdout


def put(folder: Path, count: int, late: Mapping[int, str], seed: int) -> None:
    """Write a profile for each rank; ``late`` ones spend more in each step, in that column."""
    recorded = decode_profile(read(RECORDED, "two-ranks-healthy.profile.json"))
    for rank, profile in enumerate(drawn(recorded, count, late, random.Random(seed))):
        (folder / f"profile.{profile.machine.host}.{rank}.json").write_bytes(encode_profile(profile))


def drawn(recorded: Profile, count: int, late: Mapping[int, str], draw: random.Random) -> list[Profile]:
    """So many ranks of which each does what the first recorded one did, give or take a tenth."""
    loop, process = recorded.loops[0], recorded.processes[0]
    table = loop.table
    rows = range(len(table.t))
    slept = [value or 0.0 for value in table.exchange_s]
    own = [
        [(table.wall_s[row] - slept[row]) * draw.uniform(0.9, 1.1) + extra * table.steps[row] for row in rows]
        for extra in (LATE_S if rank in late else 0.0 for rank in range(count))
    ]
    walls = [max(one[row] for one in own) + min(slept) for row in rows]
    ranks = []
    for rank, mine in enumerate(own):
        exchange = [wall - busy for wall, busy in zip(walls, mine, strict=True)]
        kept = replace(table, wall_s=walls, exchange_s=exchange)
        if late.get(rank):
            spent = [(getattr(table, late[rank])[row] or 0.0) + LATE_S * table.steps[row] for row in rows]
            kept = replace(kept, **{late[rank]: spent})
        ranks.append(
            replace(
                recorded,
                loops=[replace(loop, table=kept)],
                processes=[replace(process, rank=rank, world_size=count)],
                machine=replace(recorded.machine, host=f"node{rank // ON_A_HOST:03}"),
            )
        )
    return ranks


if __name__ == "__main__":
    sys.exit(main())
