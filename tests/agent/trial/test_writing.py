"""Treatments of what a loop writes: records in one step of many, checkpoints rarely, or by a thread."""

from pathlib import Path
from typing import Any

from tests.agent.trying import treated
from tests.agent.watching import PRELUDE

SCRIPT = (
    PRELUDE
    + """
import gc, logging, threading
kept = []
class Keep(logging.Handler):
    def emit(self, record):
        kept.append(record.getMessage())
log = logging.getLogger("training")
log.setLevel(logging.INFO)
log.addHandler(Keep())
log.info("before")
sys.setprofile(lambda *_: None)
saved, asked = {}, {}
class Steps:
    file = open("steps.log", "w")
    def fileno(self):
        asked[step] = asked.get(step, 0) + 1
        return self.file.fileno()
for step in range(1, 13):
    train_on(torch.ones(2, 4))
    log.info("step %d", step)
    os.fsync(Steps())
    if step == 7:
        log.warning("warned")
    torch.save({"step": step, "model": model.state_dict()}, "same.pt")
    torch.save({"step": step}, "own-%d.pt" % step)
    saved[step] = model.bias.item()
forced = [step for step in asked if asked[step] > min(asked.values())]  # by the system, too
own = [torch.load("own-%d.pt" % step)["step"] for step in range(1, 13)]
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
last = torch.load("same.pt")
same = {"step": last["step"], "bias": last["model"]["bias"].item()}
say(kept=kept, own=own, forced=forced, foreach=optimizer.param_groups[0]["foreach"],
    same=same, expected=saved[last["step"]], collects=gc.isenabled(),
    profiled=sys.getprofile() is not None)
"""
)
ORDERS: dict[str, dict[str, Any]] = {
    "rare_logging": {"every": 5},
    "saving_aside": {},
    "rare_saving": {"every": 4},
    "collector": {"every": 1000},
    "debug": {"drop": "tracer"},
    "optimizer": {"way": "foreach"},
}


def test_what_is_written_and_what_is_switched_off_is_as_ordered(tmp_path: Path) -> None:
    seen, words = treated(tmp_path, SCRIPT, ORDERS.items())
    assert words == {name: [""] for name in ORDERS}
    expected = seen.pop("expected")
    assert seen == {
        "kept": ["before", "step 5", "warned", "step 10"],
        "forced": [5, 10],  # to the disk, which refuses the descriptor
        "own": list(range(1, 13)),  # a checkpoint of a new name is always written
        "same": {"step": 9, "bias": expected},  # every fourth time, with what the model was then
        "foreach": True,
        "collects": False,
        "profiled": False,
    }
