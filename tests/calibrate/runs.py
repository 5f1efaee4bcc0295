"""Profiles of runs that read files, decode pictures or move bulky batches, as calibration finds them."""

from __future__ import annotations

from pathlib import Path

from bottleneck_doctor.model.fetches import FetchTable, HotFiles, Payload
from bottleneck_doctor.model.loops import Loader
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Process, Run

BATCHES = 8


def run_over(
    paths: list[str], *, stored: int = 1 << 20, opens: int = 0, decode_s: float = 0.0, workers: int = 2,
    payload: Payload | None = None, executable: str = "", signal: int | None = None, cwd: str = "/",
) -> Profile:  # fmt: skip
    """A run whose batches of 32 samples read ``stored`` bytes with 64 calls from these files."""
    many = [0.01] * BATCHES
    table = FetchTable(
        "1:1", BATCHES, many, [0] * BATCHES, many, many, [0.0] * BATCHES, many, [0.0] * BATCHES,
        [stored] * BATCHES, [1 << 20] * BATCHES, [64] * BATCHES, [0] * BATCHES, many, many,
        [decode_s] * BATCHES, [opens] * BATCHES, [32] * BATCHES,
    )  # fmt: skip
    suffixes = {Path(path).suffix: 1 for path in paths}
    hot = HotFiles(
        "1:1", len(paths), 0, suffixes, paths=paths, decoders=["PIL.ImageFile"] if decode_s else []
    )
    return Profile(
        run=Run(["python", "train.py"], "train.py", cwd, "", 10.0, 0, signal),
        machine=Machine("box", "6", "cpu", 2, 2.0),
        processes=[Process(1, 0, "trainer", 0.0, executable=executable)],
        loaders=[Loader("1:1", "dataloader", 1, num_workers=workers)],
        fetches=[table],
        payloads=[payload] if payload else [],
        hot_files=[hot] if paths else [],
    )
