"""Proofs as the command would make them, for every test that needs one."""

from dataclasses import replace

from bottleneck_doctor.model.proof import CEILING, Gain, Missed, Parity, Patch, Proof, ProofCost, Proved
from bottleneck_doctor.model.report import Fix, Speedup
from tests.render.reports import RUN, TRAIN

DIFF = """\
--- a/train.py
+++ b/train.py
@@ -39,3 +39,3 @@
 def main():
     data = Photos("/data/cats")
-    loader = DataLoader(data, batch_size=32, shuffle=True)
+    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
"""
FIX = Fix("give the loader workers", "DataLoader(..., num_workers=2)  # new", TRAIN)
WORKERS = Proved(
    id="workers-auto", kind="remedy", title="make batches in 2 worker processes",
    remedies=["workers-auto"], apply="hook", predicted=Speedup(1.7, 2.1, 2.6, "replay"),
    measured=Gain(1.947, 1.884, 2.021, 3), verdict="kept", parity=Parity("identical", "", 20, 0.0),
    memory_ratio=1.41, fix=FIX, patch=Patch(DIFF),
)  # fmt: skip
BOTH = replace(
    WORKERS, id="combination", kind="combination", title="workers-auto + optimizer-fused",
    remedies=["workers-auto", "optimizer-fused"], predicted=Speedup(1.8, 2.3, 2.9, "replay"),
    measured=Gain(2.213, 2.14, 2.29, 2), parity=Parity("changed", "", 20, 0.00004),
)  # fmt: skip
FUSED = Proved(
    id="optimizer-fused", kind="remedy", title="let AdamW update all tensors in one call",
    remedies=["optimizer-fused"], apply="hook~", predicted=Speedup(1.0, None, 1.12, "bound"),
    measured=Gain(1.011, 0.98, 1.043, 3), verdict="no gain", parity=Parity("changed", "", 20, 0.00004),
    memory_ratio=1.0,
)  # fmt: skip
BROKEN = Proved(
    id="precompute-deterministic", kind="remedy", title="keep decoded samples in memory",
    remedies=["precompute-deterministic"], apply="hook", predicted=Speedup(1.3, 1.6, 2.0, "replay"),
    measured=None, verdict="broke",
    why="AttributeError: Can't pickle local object 'main.<locals>.scale'",
)  # fmt: skip
EVALUATION = replace(
    FUSED,
    id="eval-workers",
    remedies=["eval-workers"],
    title="give the validation loader workers",
    predicted=Speedup(1.05, 1.11, 1.15, "amdahl"),
    measured=Gain(1.09, 1.04, 1.14, 3),
    verdict="kept",
    parity=Parity("order", "", 20),
    scope="run",
)
ROOM = Proved(
    id=CEILING, kind="ceiling", title="", remedies=[], apply="hook", predicted=None,
    measured=Gain(2.62, 2.5, 2.75, 2), verdict="kept",
)  # fmt: skip
TYPICAL = Proof(
    run=RUN, baseline_s=0.0217, noise=0.021, steps=120, rows=[WORKERS, EVALUATION, FUSED, BROKEN],
    ceiling=ROOM, winner="workers-auto", cost=ProofCost(10.2, 73.4, 300.0, 12),
    missed=[
        Missed("columnar-numpy", "it takes an edit of the script"),
        Missed("isolate-cpus", "it takes a change of the machine"),
        Missed("decode-less", "it takes an edit of the script"),
    ],
    notes=["the third round was cut short: the budget was spent"],
)  # fmt: skip
COMBINED = replace(TYPICAL, rows=[BOTH, *TYPICAL.rows], winner=BOTH.id)
NOTHING_PAYS = replace(
    TYPICAL, rows=[FUSED], winner="", missed=[], notes=[],
    ceiling=replace(ROOM, measured=Gain(1.01, 0.99, 1.03, 2)),
)  # fmt: skip
UNDECIDED = replace(
    NOTHING_PAYS,
    rows=[replace(WORKERS, measured=Gain(1.06, 0.97, 1.16, 3), verdict="undecided"), FUSED],
    ceiling=replace(ROOM, measured=Gain(1.84, 0.89, 3.8, 1)),
    noise=0.41,
)
ALL_BROKE = replace(NOTHING_PAYS, rows=[BROKEN], ceiling=None, baseline_s=None, noise=None)
UNTRIED = replace(TYPICAL, rows=[], winner="", ceiling=None)
SNIPPET = replace(
    TYPICAL, rows=[replace(WORKERS, patch=Patch("", "what **options holds is not seen")), FUSED]
)
SCENES = {
    "typical": TYPICAL,
    "combined": COMBINED,
    "nothing-pays": NOTHING_PAYS,
    "undecided": UNDECIDED,
    "all-broke": ALL_BROKE,
    "untried": UNTRIED,
    "snippet": SNIPPET,
}
