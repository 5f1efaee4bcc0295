"""What one record is to a script: read, prepared, and made into a pair of tensors."""

from __future__ import annotations

import random

from tests.random_trainings.costs import COSTS, as_it_is
from tests.random_trainings.draft import Draft
from tests.random_trainings.plan import Plan
from tests.random_trainings.stores import STORES


def add_records(draft: Draft, plan: Plan, choice: random.Random) -> None:
    """``$read(index)``, ``$prepare(row)`` and ``$sample(row, index)``."""
    draft.needs("import numpy as np")
    draft.constant("WIDTH", 64 if plan.cost == "rows" else 768)
    STORES[plan.store](draft, plan, choice)
    (COSTS.get(plan.cost) or as_it_is)(draft, plan.cost_ms / plan.batch, choice)
    draft.define(SAMPLES[plan.flavour])
    if plan.flavour == "tokens":
        draft.constant("SEQUENCE", 32)
        draft.constant("VOCABULARY", 64)
    elif plan.flavour == "ids":
        draft.constant("TABLE", choice.choice([100_000, 200_000]))


SAMPLES = {
    "table": """
        def $sample(row, index):
            return torch.from_numpy(row[:WIDTH]), (index * 7 + 3) % 10
        """,
    "image": """
        def $sample(row, index):
            # channels first
            return torch.from_numpy(row[:WIDTH]).view(3, 16, 16), (index * 7 + 3) % 10
        """,
    "tokens": """
        def $sample(row, index):
            ids = torch.from_numpy((row[: SEQUENCE + 1] * 977).astype(np.int64) % VOCABULARY)
            return ids[:-1], ids[1:]
        """,
    "ids": """
        def $sample(row, index):
            ids = torch.from_numpy((row[:32] * 1e6).astype(np.int64) % TABLE)
            return ids, (index * 7 + 3) % 10
        """,
}
