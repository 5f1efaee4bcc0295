"""What would be tried, before anything is run."""

from __future__ import annotations

import json

from bottleneck_doctor.model.proof import BASELINE, Arm, ComparedSteps, Missed, Plan
from bottleneck_doctor.model.report import Speedup
from bottleneck_doctor.model.run import ENVIRONMENT, Treatment
from bottleneck_doctor.render.proof import render_plan

LOADER = Treatment("loader", {"where": {"file": "train.py", "line": 3}, "arguments": {"num_workers": 2}})
THREADS = Treatment(ENVIRONMENT, {"OMP_NUM_THREADS": "2"})
PLAN = Plan(
    [
        Arm(BASELINE, BASELINE),
        Arm("cached-batches", "ceiling", treatments=(Treatment("replay"),)),
        Arm("workers-auto", "remedy", "make batches in 2 worker processes", ("workers-auto",),
            (LOADER, THREADS), Speedup(1.7, 2.1, 2.6, "replay")),
    ],
    [Missed("columnar-numpy", "an edit of the source")],
    ComparedSteps(20, 140), 0.0217, 9.3, 60.0, 150.0,
)  # fmt: skip


def test_each_way_to_run_it_is_named_with_what_it_changes_and_what_all_would_cost() -> None:
    assert (
        render_plan(PLAN, "terminal")
        == """\
3 ways to run the training: steps 21 to 140 would be compared, 9.3 s a run, 60 s
to 2 min 30 s in all
  without a remedy
  with batches from memory
  workers-auto  ×2.1 predicted
    make batches in 2 worker processes
    loader: num_workers=2
    OMP_NUM_THREADS=2

not tried
  columnar-numpy  an edit of the source
"""
    )


def test_json_names_its_schema_first() -> None:
    told = json.loads(render_plan(PLAN, "json"))
    assert next(iter(told)) == "schema"
    assert told["schema"] == "bottleneck-doctor/plan"
