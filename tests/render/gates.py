"""Outcomes of checks, for every renderer of them."""

from __future__ import annotations

from bottleneck_doctor.model.gate import Checked, Condition, Difference, Gate, Judgement, Outcome, Regression
from tests.render.reports import INCONCLUSIVE, TYPICAL

WAIT = Condition("data_wait_fraction", ">", 0.2, "--max-data-wait")
BUSY = Condition("gpu_busy_fraction", "<", 0.8)
STEP = Condition("step_time_s", ">", 1.0)
FAILED = Judgement(WAIT, 1, 0.6213, 0.601, 0.6402, 402)
UNKNOWN = Judgement(BUSY, 3, None, why="gpu_busy_fraction was not measured")
HELD = Judgement(STEP, 0, 0.0241, 0.0238, 0.0245, 402)
SLOWER = Regression(
    1, 0.03, 5, 4, base_s=0.0212, new_s=0.0241, change=0.137, low=0.09, high=0.18, noise=0.02,
    sees=0.07, wanted=0.1, differences=[Difference("workers", 2, 4)],
)  # fmt: skip
REFUSED = Regression(
    3, 0.03, 5, 4, why="not comparable", refused=True, differences=[Difference("torch", "2.13", "2.14", True)]
)
ALL = Gate(1, [Checked("a.json", TYPICAL, Outcome(1, [FAILED, UNKNOWN, HELD]))], SLOWER)
FINE = Gate(0, [Checked("a.json", TYPICAL, Outcome(0, [HELD]))])
UNSURE = Gate(3, [Checked("a.json", INCONCLUSIVE, Outcome(3, [UNKNOWN]))], REFUSED)
SEVERAL = Gate(1, [Checked(f"{n}.json", TYPICAL, Outcome(1, [FAILED, HELD])) for n in range(30)], SLOWER)
GATES = {"all": ALL, "fine": FINE, "unsure": UNSURE, "several": SEVERAL}
