"""Treatments of what a loop writes: records in one step of many, checkpoints rarely, or by a thread."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent.trial.hook_points import at_saving
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


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[str]]]:
    return treated(tmp_path_factory.mktemp("writing"), SCRIPT, ORDERS)


@pytest.fixture
def seen(outcome: tuple[dict[str, Any], dict[str, list[str]]]) -> dict[str, Any]:
    return outcome[0]


def test_each_says_that_it_was_applied(outcome: tuple[dict[str, Any], dict[str, list[str]]]) -> None:
    assert outcome[1] == {name: [""] for name in ORDERS}


def test_one_step_of_five_is_logged_and_every_warning(seen: dict[str, Any]) -> None:
    assert seen["kept"] == ["before", "step 5", "warned", "step 10"]
    assert seen["forced"] == [5, 10]  # to the disk, which refuses the descriptor


def test_a_checkpoint_of_a_new_name_is_always_written(seen: dict[str, Any]) -> None:
    assert seen["own"] == list(range(1, 13))


def test_the_same_file_is_written_every_fourth_time_with_what_the_model_was_then(
    seen: dict[str, Any],
) -> None:
    assert seen["same"] == {"step": 9, "bias": seen["expected"]}


def test_the_collector_rests_and_the_tracer_is_gone(seen: dict[str, Any]) -> None:
    assert (seen["collects"], seen["profiled"]) == (False, False)


def test_an_optimizer_steps_over_all_tensors_at_once(seen: dict[str, Any]) -> None:
    assert seen["foreach"] is True


def test_a_checkpoint_is_met_by_place_and_by_name_and_a_wrong_call_is_the_scripts_own() -> None:
    saved: list[Any] = []
    met: list[Any] = []

    def around(save: Any, thing: Any, target: Any) -> Any:
        met.append(target)
        return save(thing)

    def save(obj: object, f: object, pickle_protocol: int = 2) -> None:
        saved.append((obj, f, pickle_protocol))

    module = SimpleNamespace(save=save)
    at_saving(around)["torch.serialization"](module)
    module.save("model", "a.pt", pickle_protocol=4)
    module.save(obj="model", f="b.pt")
    assert met == ["a.pt", "b.pt"]
    assert saved == [("model", "a.pt", 4), ("model", "b.pt", 2)]
    with pytest.raises(TypeError):
        module.save("model")
