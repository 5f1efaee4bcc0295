"""Has random numbers begin with a seed, in each run of a trial alike; a script's own come later and win.

The order of a set of texts is seeded by the supervisor: PYTHONHASHSEED is read before any code of ours runs.
"""

from __future__ import annotations

import os
import random

from ..hints import Any, Table

BITS = 0xFFFFFFFF  # numpy takes no larger seed


def watchers(seed: int) -> Table:
    """Seed Python now, and torch and numpy once they are there. Ranks that seed nothing differ from each
    other, as they would without us: else all of them might draw the same samples."""
    rank = os.environ.get("RANK", "")
    mine = (seed + (int(rank) if rank.isdigit() else 0)) & BITS
    random.seed(mine)

    def torch_is_there(module: Any) -> None:
        module.manual_seed(mine)

    def numpy_is_there(module: Any) -> None:
        module.seed(mine)

    return {"torch": torch_is_there, "numpy.random": numpy_is_there}
