"""Kineto's window on an accelerator: opened and closed at arrivals, unseen and unheard.

The device is simulated; the recording is a real one, of the host.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.trace_window import STEPS, WARM_STEPS
from bottleneck_doctor.assemble.rows import ProcessLog, read_logs
from tests.agent.meta_device import IN_SCRIPT
from tests.agent.watching import PRELUDE, Told, both_ways, first, plain, profile_of, watched

SCRIPT = (
    PRELUDE
    + IN_SCRIPT
    + """
class Device(torch_api.Driver):  # simulated: it comes to a mark when the loop has asked BEHIND times more
    kind, asked = "simulated", 0
    def mark(self): return Device.asked
    def passed(self, mark): return Device.asked >= mark + BEHIND
    def between_ns(self, first, last): return 0

class Asked(Rows):
    def __getitem__(self, index):
        Device.asked += 1
        return super().__getitem__(index % 3)

driver, torch.version.cuda = Device(), None  # a build for CUDA holds the window until CUPTI has let go
clock = torch_api.adopt(driver)
for place, batch in enumerate(DataLoader(Asked(80), batch_size=1)):
    loss = train_on(batch)
    if place == 10 and clock is not None:
        BEFORE
        clock.state.control.on_profile()
    if place % 2:
        torch.save(model.state_dict(), os.devnull)
    time.sleep(0.003)
print(loss.item(), torch.rand(1).item())
"""
)


UPDATING = """loss = model(batch).square().mean()
    loss.backward()
    if place % 17 == 16:
        optimizer.step()
        optimizer.zero_grad()"""


def script(behind: int = 0, before: str = "pass") -> str:
    return SCRIPT.replace("BEHIND", str(behind)).replace("BEFORE", before)


# The wish is heard at a close look, as it is in a run: of steps as short as these, every tenth gets one.
AT_THE_NEXT_LOOK = """
        control = clock.state.control
        def wish(): del control.look; control.on_profile()
        control.look = wish
"""


def log_of(told: Told) -> ProcessLog:
    assert told.status == 0, told.stderr
    assert told.stderr == "", "the user's stderr is the user's"
    (log,) = read_logs(told.folder)
    return log


def named(told: Told, fact: dict[str, Any]) -> list[str]:
    events = json.loads((told.folder / fact["file"]).read_text())["traceEvents"]
    return [str(event.get("name")) for event in events if event.get("ph") == "X"]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A run in which all goes well."""
    return watched(tmp_path_factory.mktemp("usual"), script())


def test_some_steps_are_recorded_and_the_script_notices_nothing(usual: Told, tmp_path: Path) -> None:
    fact = first(log_of(usual), "trace")
    assert fact["steps"] == STEPS
    names = named(usual, fact)
    assert sum(name.startswith("bdoc#step#") for name in names) == STEPS + 1
    assert any(name.startswith("bdoc#checkpoint#") for name in names)
    assert "aten::addmm" in names
    assert usual.stdout == plain(tmp_path, script()).stdout


def test_every_step_of_the_window_is_set_aside(usual: Told) -> None:
    (window,) = log_of(usual).of(wire.PROFILER_WINDOW)
    (loop,) = profile_of(usual).loops
    ends = [usual.origin_ns + int(t * 1e9) for t in loop.table.t]
    inside = [place for place, end in enumerate(ends) if window.t < end < window.t + window.duration]
    assert len(inside) >= STEPS
    assert {loop.table.set_aside[place] for place in inside} == {"instrument"}


def asked_inside(log: ProcessLog) -> int:
    """How many batches the loop got while the window was open."""
    (window,) = log.of(wire.PROFILER_WINDOW)
    return sum(0 < row.t - window.t < window.duration for row in log.of(wire.NEXT))


def test_the_window_waits_for_the_device_to_come_past_its_last_step(tmp_path: Path) -> None:
    told = watched(tmp_path, script(behind=3))
    log = log_of(told)
    assert asked_inside(log) == WARM_STEPS + STEPS + 2
    names = named(told, first(log, "trace"))
    assert sum(name.startswith("enumerate(DataLoader)") for name in names) == STEPS, "waiting records no more"


def test_a_window_that_an_evaluation_cuts_short_is_opened_again_in_the_training(tmp_path: Path) -> None:
    evaluation = """
    if place == 13:
        with torch.no_grad():
            for held in DataLoader(Rows(12), batch_size=1):
                model(held)
"""
    told = watched(tmp_path, script().replace("    time.sleep(0.003)", evaluation))
    log = log_of(told)
    assert "left after" in first(log, "trace_refused")["why"]
    fact = first(log, "trace")
    assert fact["steps"] == STEPS
    training = {row.loader for row in log.of(wire.NEXT) if row.backwards}
    assert {fact["loader"]} <= training
    assert told.stdout == plain(tmp_path, script().replace("    time.sleep(0.003)", evaluation)).stdout


def test_where_somebody_else_profiles_no_window_is_opened(tmp_path: Path) -> None:
    other = "torch.autograd.profiler.profile().__enter__()"
    ends = "\ntorch.autograd._disable_profiler()"
    told = watched(tmp_path, script(before=other) + ends)
    (log,) = read_logs(told.folder)
    assert told.status == 0
    assert first(log, "trace") == {}
    assert "another profiler" in first(log, "trace_refused")["why"]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("Trace.prepare = lambda *rest: 1 / 0", "ZeroDivisionError"),
        ("SEVERITY = 'no_such_symbol'", "hides kineto's log level"),
    ],
)
def test_a_recording_that_fails_leaves_the_training_alone(tmp_path: Path, broken: str, why: str) -> None:
    before = f"from _bdoc_agent import trace_window; trace_window.{broken}"
    told = watched(tmp_path, script(before=before))
    log = log_of(told)
    assert len(told.stdout.split()) == 2
    assert first(log, "trace") == {}
    assert why in first(log, "trace_refused")["why"]


def test_of_slow_steps_fewer_are_recorded_but_an_update_is_among_them(tmp_path: Path) -> None:
    """Six slow steps of many operators would make a trace that nobody can read."""
    text = script().replace("    time.sleep(0.003)", "    time.sleep(0.09 if place > 10 else 0.003)")
    text = text.replace("loss = train_on(batch)", UPDATING)
    recorded = first(log_of(watched(tmp_path, text.replace("Asked(80)", "Asked(32)"))), "trace")["steps"]
    assert recorded in (4, 5)


def test_a_training_that_ends_inside_of_the_window_ends_well(tmp_path: Path) -> None:
    late = script(behind=1000).replace("place == 10", "place == 55")
    told = watched(tmp_path, late.replace("        clock.state.control.on_profile()\n", AT_THE_NEXT_LOOK))
    assert first(log_of(told), "trace")["steps"] in range(2, STEPS + 1)


def test_a_fork_inside_of_the_window_ends_it_first(tmp_path: Path) -> None:
    forks = """
    if place == 16:
        child = os.fork()
        if not child:
            os._exit(int(torch.autograd._profiler_enabled()))
        assert os.waitpid(child, 0)[1] == 0
"""
    told = watched(tmp_path, script().replace("    time.sleep(0.003)", forks))
    assert told.status == 0, told.stderr
    steps = [first(log, "trace").get("steps") for log in read_logs(told.folder)]
    assert steps[0] in range(2, STEPS)


@pytest.mark.parametrize("accelerated", [True, False])
def test_a_profiler_of_the_scripts_own_goes_first(tmp_path: Path, accelerated: bool) -> None:
    profiles = """
    if place == 10 + 4 * ACCELERATED:
        theirs = torch.autograd.profiler.profile()
        theirs.__enter__()
        torch.zeros(3)
        theirs.__exit__(None, None, None)
        names = [event.name for event in theirs.function_events]
"""
    text = script().replace("    time.sleep(0.003)", profiles.replace("ACCELERATED", str(int(accelerated))))
    text = text.replace("print(loss.item(),", "print(len(names), 'aten::zeros' in names,")
    text = text if accelerated else text.replace("torch_api.adopt(driver)", CLOCK)
    told = watched(tmp_path, text)
    assert told.status == 0, told.stderr
    assert told.stdout.split()[1] == "True"
    (log,) = read_logs(told.folder)
    assert len(log.of(wire.PROFILER_WINDOW)) == 1


CLOCK = 'sys.modules.get("_bdoc_agent.device_clock")'
COMPILED = """
net = torch.compile(model, backend="eager")

def train_on(batch):
    optimizer.zero_grad()
    loss = net(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss

for place, batch in"""


def test_a_compiled_model_stays_as_it_is(tmp_path: Path) -> None:
    """No graph breaks and none is compiled again: what torch counts is the same as without us."""
    count = "import torch._dynamo.utils as utils; print(sorted(map(str, utils.counters.items())))"
    text = script().replace("for place, batch in", COMPILED) + count
    alone, told = both_ways(tmp_path, text)
    assert first(log_of(told), "trace")["steps"] == STEPS
    assert told.stdout == alone.stdout


IN_WARM_UP = """
schedule = torch.profiler.schedule(wait=1, warmup=20, active=2, repeat=1)
mine = torch.profiler.profile(schedule=schedule, on_trace_ready=lambda one: print(len(one.events()) > 0))
mine.start()
"""


def test_a_profiler_of_the_scripts_in_warm_up_is_left_alone(tmp_path: Path) -> None:
    """It is prepared and not on; a recording of ours in between ended the training with SIGSEGV."""
    loop = "for place, batch in enumerate(DataLoader(Asked(80)"
    text = script().replace(loop, IN_WARM_UP + loop).replace("time.sleep(0.003)", "mine.step()")
    told = watched(tmp_path, text + "mine.stop()\n")
    assert told.status == 0, told.stderr
    (log,) = read_logs(told.folder)
    assert first(log, "trace") in (None, {}), "no window was opened"
    assert told.stdout.splitlines()[0] == "True", "the script's own profiler has its events"


KINETO = """
import ctypes, warnings; warnings.simplefilter('ignore')  # a fork beside threads, from Python 3.12 on
getenv = ctypes.CDLL(None).getenv  # as kineto asks
getenv.restype = ctypes.c_char_p

def found():
    return (getenv(b"TEARDOWN_CUPTI") or b"").decode()

def noting(call, fails):
    def noted(*args):
        recordings.append(found())
        result = call(*args)
        return 1 / 0 if fails and len(recordings) == 4 else result
    return noted

recordings, asked, torch.version.cuda = [], [], CUDA
torch.autograd._prepare_profiler = noting(torch.autograd._prepare_profiler, False)
torch.autograd._disable_profiler = noting(torch.autograd._disable_profiler, FAILS)
for place, batch in"""
FORKS = """child = os.fork()
        if not child:
            os._exit(found() == "1")
        assert os.waitpid(child, 0)[1] == 0"""

BROKEN = """pass
    if place == 15:
        driver.error = 'device-side assert'  # in the midst of the window"""


@pytest.mark.parametrize(
    ("cuda", "environ", "happens", "recordings", "fails"),
    [
        ("12.8", {}, "pass", ["", "", "", "1"], True),
        ("12.8", {}, FORKS, ["", "", "", "1"], False),
        ("12.8", {"TEARDOWN_CUPTI": "1"}, "pass", ["0", "0", "0", "1"], False),
        ("12.8", {}, BROKEN, ["", "", "", ""], False),
        (None, {}, "pass", ["", "", "", ""], False),
    ],
)
def test_cupti_is_let_go_of_and_the_environment_is_as_before(
    tmp_path: Path,
    cuda: str | None,
    environ: dict[str, str],
    happens: str,
    recordings: list[str],
    fails: bool,
) -> None:
    """The first two of the four are the recording that comes before, for which nothing may be torn down."""
    wait_ns = 10**12 if happens == FORKS else 30_000_000
    before = f"from _bdoc_agent import trace_window; trace_window.DETACH_NS = {wait_ns}"
    text = script(before=before).replace(
        "for place, batch in", KINETO.replace("CUDA", repr(cuda)).replace("FAILS", str(fails))
    )
    text = text.replace(
        "    time.sleep(0.003)",
        f"    time.sleep(0.003)\n    asked.append(found())\n    if place == 21:\n        {happens}",
    )
    told = watched(
        tmp_path, text + "say(recordings=recordings, asked=asked, environ=dict(os.environ))", **environ
    )
    assert (told.status, told.stderr) == (0, "")
    result = json.loads(told.stdout.splitlines()[-1])
    assert result["recordings"] == recordings
    mine = environ.get("TEARDOWN_CUPTI", "")
    assert (result["asked"][0], result["asked"][-1], result["environ"].get("TEARDOWN_CUPTI", "")) == (
        mine,
        mine,
        mine,
    )
    assert ("1" in result["asked"]) is ("1" in recordings), "kept until CUPTI has had time to let go"
