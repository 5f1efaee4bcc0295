"""Processes that fork, die, stop, leave or start others: never because of the agent."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.model.loops import FetchTable
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import AGENT, PRELUDE, Told, first, loader_of, plain, profile_of, said, watched

# One parent that forks a child for each fate, after importing torch once.
SCRIPT = (
    PRELUDE
    + """
import signal

def batches(length=12, **more):
    return DataLoader(Rows(length), batch_size=2, **more)

def trains():
    for batch in batches():
        train_on(batch)

def leaves_at_once():
    for place, batch in enumerate(batches()):
        train_on(batch)
        if place == 3:
            os._exit(7)

def is_killed():
    for place, batch in enumerate(batches(400, num_workers=1)):
        train_on(batch)
        if place == 5:
            os.kill(os.getpid(), signal.SIGKILL)

def closes_all():
    loader = iter(batches(400))
    for place in range(3):
        train_on(next(loader))
    os.closerange(3, 256)
    for batch in loader:
        train_on(batch)
    for batch in batches():
        train_on(batch)

def fails():
    for place, batch in enumerate(batches()):
        train_on(batch)
        if place == 2:
            raise RuntimeError("my own mistake")

def pool():
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(1) as workers:
        assert workers.map(abs, [-1, -2]) == [1, 2]

trains()
for fate in (trains, leaves_at_once, is_killed, closes_all, fails, pool):
    pid = os.fork()
    if pid == 0:
        sys.stderr = open(fate.__name__ + ".err", "w")
        try:
            fate()
        except Exception:
            import traceback
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    say(**{fate.__name__: [pid, os.waitpid(pid, 0)[1]]})
say(parent=os.getpid())
"""
)
FATES = {"trains": 0, "leaves_at_once": 7 << 8, "is_killed": 9, "closes_all": 0, "fails": 1 << 8, "pool": 0}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("watched"), SCRIPT)


@pytest.fixture(scope="module")
def seen(told: Told) -> dict[str, Any]:
    return said(told)


@pytest.fixture(scope="module")
def profile(told: Told) -> Profile:
    return profile_of(told)


@pytest.mark.parametrize("fate", FATES)
def test_each_ends_as_it_would_without_us(fate: str, seen: dict[str, Any], told: Told) -> None:
    errors = (told.folder.parent / f"{fate}.err").read_text()
    assert seen[fate][1] == FATES[fate], errors
    assert errors == "" or fate == "fails"


@pytest.mark.parametrize(("fate", "steps"), [("trains", 6), ("leaves_at_once", 4), ("is_killed", 6)])
def test_the_rows_of_a_child_are_its_own_and_whole(
    fate: str, steps: int, seen: dict[str, Any], profile: Profile
) -> None:
    pid = seen[fate][0]
    (process,) = (one for one in profile.processes if one.pid == pid)
    assert (process.role, process.ppid) == ("trainer", seen["parent"])
    (loop,) = (one for one in profile.loops if one.pid == pid)
    assert (loop.role, loop.steps) == ("train", steps)
    (parents,) = (one for one in profile.loops if one.pid == seen["parent"])
    assert parents.steps == 6
    closed = [one.steps for one in profile.loops if one.pid == seen["closes_all"][0]]
    assert sorted(closed) == [6, 200], "a script that closes all descriptors is still seen"


def test_a_process_that_trains_nothing_is_no_trainer(
    told: Told, seen: dict[str, Any], profile: Profile
) -> None:
    (pool,) = (one for one in profile.processes if one.ppid == seen["pool"][0])
    assert pool.role == "other"
    assert all(log.parent for log in read_logs(told.folder))


def test_the_users_error_keeps_its_traceback(told: Told) -> None:
    text = (told.folder.parent / "fails.err").read_text()
    assert text.endswith("RuntimeError: my own mistake\n")
    assert str(AGENT) not in text
    assert "During handling" not in text


SCRIPT_WORKER = (
    PRELUDE
    + """
class Forked(Rows):
    def __getitem__(self, index):
        with open(__file__, "rb") as file:
            file.read(64)
        time.sleep(0.0015)
        return super().__getitem__(index)

class Spawned(Rows):
    def __getitem__(self, index):
        time.sleep(0.0015)  # a batch takes long enough for each to be looked at closely
        return super().__getitem__(index)

class Served(Spawned):
    pass

class Fragile(Rows):
    def __getitem__(self, index):
        if index == 9:
            raise LookupError("no row 9")
        return super().__getitem__(index)

def main():
    each = (Forked(), "fork", 2), (Spawned(), "spawn", 1), (Served(), "forkserver", 1)
    for data, method, workers in each:
        if "PLAIN" in os.environ:
            break
        loader = DataLoader(data, batch_size=2, num_workers=workers, multiprocessing_context=method)
        say(**{method: [batch.tolist() for batch in loader]})
    try:
        list(DataLoader(Fragile(), batch_size=2, num_workers=1, multiprocessing_context="fork"))
    except Exception as error:
        say(kind=type(error).__name__, message=str(error))

if __name__ == "__main__":
    main()
"""
)
METHODS = {"Forked": ("fork", 2), "Spawned": ("spawn", 1), "Served": ("forkserver", 1)}


@pytest.fixture(scope="module")
def told_worker(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("watched"), SCRIPT_WORKER)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return said(plain(tmp_path_factory.mktemp("plain"), SCRIPT_WORKER, PLAIN="1"))


@pytest.fixture(scope="module")
def profile_worker(told_worker: Told) -> Profile:
    return profile_of(told_worker)


@pytest.fixture
def fetches(profile_worker: Profile) -> dict[str, FetchTable]:
    names = {loader.key: loader.dataset for loader in profile_worker.loaders}
    return {names[table.loader]: table for table in profile_worker.fetches}


@pytest.mark.parametrize("dataset", METHODS)
def test_workers_are_known_by_their_loader(dataset: str, profile_worker: Profile) -> None:
    method, count = METHODS[dataset]
    loader = loader_of(profile_worker, dataset)
    workers = [process for process in profile_worker.processes if process.loader == loader.key]
    assert [process.role for process in workers] == ["worker"] * count
    assert (loader.start_method, loader.num_workers) == (method, count)
    others = [process for process in profile_worker.processes if process.role == "other"]
    assert all(process.loader is None for process in others), "the fork server itself is no worker"


@pytest.mark.parametrize("dataset", METHODS)
def test_all_their_fetches_are_counted_and_come_in_order(
    dataset: str, fetches: dict[str, FetchTable], told_worker: Told
) -> None:
    rows = [[[float(row)] * 4 for row in (place, place + 1)] for place in range(0, 16, 2)]
    assert said(told_worker)[METHODS[dataset][0]] == rows
    table = fetches[dataset]
    assert table.seen == 8
    assert set(table.worker) == set(range(METHODS[dataset][1]))
    assert set(table.samples) == {2}
    assert all(
        cpu <= wall and collate <= wall
        for cpu, collate, wall in zip(table.cpu_s, table.collate_s, table.wall_s, strict=True)
    )


def test_files_opened_in_a_fetch_are_counted_and_named(
    fetches: dict[str, FetchTable], profile_worker: Profile
) -> None:
    (files,) = (one for one in profile_worker.hot_files if one.loader == fetches["Forked"].loader)
    assert set(fetches["Forked"].opens) == {2}, files.example
    assert (files.files, files.suffixes, files.direct) == (1, {".py": 1}, False)


def test_what_a_batch_is_made_of_and_costs_to_send_is_known(profile_worker: Profile) -> None:
    key = loader_of(profile_worker, "Forked").key
    (payload,) = (one for one in profile_worker.payloads if one.loader == key)
    assert (payload.tensors, payload.tensor_bytes, payload.other_bytes) == (1, 2 * 4 * 4, 0)
    assert payload.pipe_bytes > 0


def test_a_failing_worker_raises_the_same_with_our_frames_added_at_most(
    told_worker: Told, alone: dict[str, Any]
) -> None:
    seen = said(told_worker)
    assert seen["kind"] == alone["kind"] == "LookupError"
    ours = rf'  File "{re.escape(str(AGENT))}/.*\n.*\n(?:.*\^.*\n)?'
    messages = [re.sub(ours, "", one["message"]) for one in (seen, alone)]
    assert len({re.sub(r"(plain|watched)\d+", "", one) for one in messages}) == 1


# The script writes its own stop order, where the supervisor would: after a few steps, "stop at 20".
SCRIPT_STOP = (
    PRELUDE
    + """
import atexit, struct
atexit.register(lambda: print(json.dumps({"atexit": True}), flush=True))

def order(steps):
    with open(os.path.join(os.environ["BDOC_RUN"], "control"), "r+b") as file:
        file.write(struct.pack("<q", steps))

def main():
    steps = 0
    try:
        while True:
            for batch in DataLoader(Rows(200), batch_size=2, num_workers=1):
                train_on(batch)
                time.sleep(0.004)  # so that each step is looked at closely
                steps += 1
                if steps == 5:
                    order(20)
                assert steps < 1000, "never stopped"
    finally:
        say(steps=steps, cleaned=True)

if __name__ == "__main__":
    main()
"""
)


def test_it_ends_after_that_many_steps_as_by_sys_exit(tmp_path: Path) -> None:
    told = watched(tmp_path, SCRIPT_STOP)
    seen = said(told)
    assert told.stderr == ""
    assert seen["steps"] == pytest.approx(20, abs=4)
    assert (seen["cleaned"], seen["atexit"]) == (True, True)
    logs = [log for log in read_logs(told.folder) if first(log, "stopped")]
    assert len(logs) == 1, "workers do not stop themselves"
    assert first(logs[0], "stopped")["trained"] >= 20


LEFT = (
    PRELUDE
    + f"""
with open(os.path.join(os.environ["BDOC_RUN"], "control"), "r+b") as control:
    control.seek({wire.PROFILE})
    control.write((1).to_bytes(8, "little"))
state = sys.modules["_bdoc_agent.state"].state
for batch in DataLoader(Rows(400)):
    train_on(batch)
    if state.window is not None:
        recording = torch.autograd._profiler_enabled()
        break
say(before=recording, after=torch.autograd._profiler_enabled(), closed=state.window is None)
"""
)


def test_a_profiled_loop_that_is_left_by_break_is_recorded_no_longer(tmp_path: Path) -> None:
    """Whatever the script did after that was recorded in memory, until the process ended."""
    seen = said(watched(tmp_path, LEFT))
    assert (seen["before"], seen["after"], seen["closed"]) == (True, False, True)


def test_an_order_given_before_the_start_is_obeyed(tmp_path: Path) -> None:
    early = SCRIPT_STOP.replace("if steps == 5:", "if steps == 0:").replace(
        "def main():", "order(7)\n\ndef main():"
    )
    assert struct.calcsize("<q") == wire.WORD.size
    seen = said(watched(tmp_path, early.replace("num_workers=1", "num_workers=0")))
    assert seen["steps"] == pytest.approx(7, abs=2)


SCRIPT_LEAVING = """
import gc, importlib, logging, threading, zipfile
sys.path.insert(0, {root!r})
from bottleneck_doctor.inject.sitecustomize import admit

WATCHED = [sys.modules[one] for one in
    ("torch torch.autograd torch.autograd.profiler torch.serialization torch.optim.optimizer os logging "
     "zipfile threading torch.utils.data.dataloader torch.utils.data._utils.worker "
     "torch.utils.data._utils.fetch").split()]

def found():
    every = {{}}
    for module in WATCHED:
        for name, value in vars(module).items():
            if callable(value):
                every[module.__name__, name] = value
            if isinstance(value, type) and value.__module__ == module.__name__:
                every.update({{(module.__name__, name, one): part for one, part in vars(value).items()
                              if callable(part)}})
    hooks = sys.modules["torch.optim.optimizer"]
    return every, list(gc.callbacks), list(sys.meta_path), dict(hooks._global_optimizer_pre_hooks), \\
        dict(hooks._global_optimizer_post_hooks), sorted(os.listdir("/proc/self/fd")), set(sys.modules)

loader = DataLoader(Rows(), 4, num_workers=1, persistent_workers=True)

def epoch():
    for batch in loader:
        loss = train_on(batch)
    torch.save(model.state_dict(), os.devnull)

def changed(before, after):
    return sorted(str(name) for name, value in before[0].items() if after[0].get(name) is not value)

def come_and_go(number):
    folder = "run%d" % number
    os.mkdir(folder)
    open(folder + "/control", "wb").write(bytes(64))
    admit(os.path.abspath(folder), {agent!r})
    epoch()
    during = found()
    importlib.import_module("_bdoc_agent.leaving").take_off()
    return during

epoch()  # what torch does at its first step is done
one = come_and_go(0)  # as is what stays: one audit hook, one pair of calls at forks
before = found()
during = come_and_go(1)
after = found()
pid = os.fork()
if not pid:
    os._exit(bool(changed(before, found())))
say(hooked=changed(before, during), left=changed(before, after),
    equal=[a == b for a, b in zip(before[1:], after[1:])], forked=os.waitpid(pid, 0)[1],
    ours=[name for thing in (loader, loader._iterator) for name in vars(thing) if "bdoc" in name],
    facts=[sorted(one.rpartition(".")[2] for one in os.listdir("run%d" % number)) for number in (0, 1)],
    told=sum('"fact": "loader"' in line for name in os.listdir("run1") if name.endswith("facts")
             for line in open("run1/" + name)))
"""


@pytest.mark.slow
def test_after_leaving_all_is_as_it_was_and_it_may_come_again(tmp_path: Path) -> None:
    told = said(
        plain(tmp_path, PRELUDE + SCRIPT_LEAVING.format(root=str(AGENT.parents[1]), agent=str(AGENT)))
    )
    for hooked in ("backward", "__next__", "save", "fsync", "handle"):
        assert any(hooked in one for one in told["hooked"]), told["hooked"]
    assert told["left"] == []
    assert told["equal"] == [True] * 6
    assert told["forked"] == 0, "a forked child has hooks again"
    assert told["ours"] == []
    assert told["facts"] == [["control", "facts", "rows"]] * 2
    assert told["told"] == 1, "the loader is told of anew, though its iterator is older"
