"""What a user sees of a loader is what it is without the agent, and where it was built is known."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.assemble.rows import ProcessLog, read_logs
from bottleneck_doctor.launch.masking import mask
from bottleneck_doctor.model.loops import Loader
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.agent.watching import AGENT, PRELUDE, Told, loader_of, loops_over, plain, profile_of, said, watched

SCRIPT = (
    PRELUDE
    + """
import traceback
for name in "Simple Broken Unfinished Streamed Kept Patched Twice".split():
    globals()[name] = type(name, (Rows,), {})

class Fragile(Rows):
    def __getitem__(self, index):
        if index == 9:
            raise KeyError("no row 9")
        return super().__getitem__(index)

class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(40.0).reshape(10, 4))

class Batches(DataLoader):
    def __init__(self, data, extra):
        super().__init__(data, batch_size=4)
        self.extra = extra

    def __iter__(self):
        for batch in super().__iter__():
            yield batch + self.extra

def names(kind):
    return [kind.__module__, kind.__qualname__]

def how_it_ends(loader):
    seen = 0
    try:
        for batch in loader:
            seen += 1
    except Exception as error:
        return [seen, names(type(error)), str(error), traceback.format_exc()]
    return [seen, None, None, ""]

def main():
    simple = DataLoader(Simple(), batch_size=4)
    iterator = iter(simple)
    say(
        iterators=[names(type(iterator)), names(type(iter(DataLoader(Rows(), num_workers=1))))],
        attributes=sorted(name for name in vars(simple) if not name.startswith("_bdoc")),
    )
    say(
        exhausted=[len(list(iterator)), next(iterator, "nothing"), next(iterator, "nothing")],
        broken=how_it_ends(DataLoader(Fragile(), batch_size=4)),
        streamed=how_it_ends(DataLoader(Stream(), batch_size=4))[0],
        subclass=[batch.sum().item() for batch in Batches(Patched(8), 1.0)],
    )
    for place, batch in enumerate(DataLoader(Unfinished(40), batch_size=4)):
        train_on(batch)
        if place == 4:
            break
    kept = DataLoader(Kept(), batch_size=4, num_workers=1, persistent_workers=True)
    for epoch in range(3):
        for batch in kept:
            train_on(batch)
    del kept
    for epoch in range(2):
        for batch in DataLoader(Twice(), batch_size=4):
            train_on(batch)
    say(refused=refused())

def refused():
    try:
        DataLoader(Rows(), batch_size=0)
    except ValueError as error:
        return str(error)

if __name__ == "__main__":
    main()
"""
)


@pytest.fixture(scope="module")
def watched_run(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("watched"), SCRIPT)


@pytest.fixture(scope="module")
def seen(watched_run: Told) -> dict[str, Any]:
    return said(watched_run)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return said(plain(tmp_path_factory.mktemp("plain"), SCRIPT))


@pytest.fixture(scope="module")
def profile(watched_run: Told) -> Profile:
    return profile_of(watched_run)


@pytest.fixture(scope="module")
def log(watched_run: Told) -> ProcessLog:
    return read_logs(watched_run.folder)[0]


def test_it_is_what_it_is_without_us(seen: dict[str, Any], alone: dict[str, Any]) -> None:
    assert {**seen, "broken": None} == {**alone, "broken": None}
    assert seen["iterators"][0][1] == "_SingleProcessDataLoaderIter"
    assert seen["exhausted"] == [4, "nothing", "nothing"]


def test_a_failing_data_set_raises_the_same_with_our_frames_added_at_most(
    seen: dict[str, Any], alone: dict[str, Any]
) -> None:
    assert seen["broken"][:3] == alone["broken"][:3] == [2, ["builtins", "KeyError"], "'no row 9'"]
    ours = rf'  File "{re.escape(str(AGENT))}/.*\n.*\n(?:.*\^.*\n)?'
    texts = [re.sub(r'"[^"]*/train.py"', '"train.py"', run["broken"][3]) for run in (seen, alone)]
    assert re.sub(ours, "", texts[0]) == texts[1]


def test_exhaustion_failure_and_neither_are_told_apart(log: ProcessLog, profile: Profile) -> None:
    number = {fact["dataset"]: fact["thing"] for fact in log.facts if fact["fact"] == "loader"}
    ends = {name: [row.how for row in log.of(wire.END) if row.loader == number[name]] for name in number}
    assert ends["Simple"][0] == 1
    assert ends["Fragile"] == [2]
    assert ends["Unfinished"] == []
    (unfinished,) = loops_over(profile, "Unfinished")
    assert unfinished.steps == 5


def test_a_subclass_with_its_own_init_and_iter_is_one_loader_on_the_users_line(profile: Profile) -> None:
    loader = loader_of(profile, "Patched")
    assert loader.location is not None
    assert (Path(loader.location.file).name, loader.batch_size) == ("train.py", 4)
    (loop,) = loops_over(profile, "Patched")
    assert loop.steps == 2


def test_an_epoch_is_one_whether_workers_persist_or_the_loader_is_built_anew(profile: Profile) -> None:
    (anew,) = loops_over(profile, "Twice")
    assert anew.epochs.batches == [4, 4]
    (loop,) = loops_over(profile, "Kept")
    assert loop.epochs.batches == [4, 4, 4]
    key = loader_of(profile, "Kept").key
    assert len([one for one in profile.processes if one.loader == key]) == 1, "the worker is started once"


def test_the_board_says_how_much_was_trained_before_the_newest_epoch(log: ProcessLog) -> None:
    """Of a loader that had been trained on before: those made anew each epoch come after it, untold."""
    assert 5 + 4 + 4 - 1 <= log.board["epoch_at"] <= 5 + 4 + 4


ELSEWHERE = (
    PRELUDE
    + """
import torch.multiprocessing as multiprocessing
Forked = type("Forked", (Rows,), {"__module__": __name__})

def train(loader):
    for batch in loader:
        train_on(batch)

if __name__ == "__main__":
    held_out = DataLoader(Rows(8), batch_size=2)
    loader = DataLoader(  # built
        Forked(32), batch_size=4
    )
    child = multiprocessing.get_context("fork").Process(target=train, args=(loader,))
    child.start()
    child.join()
"""
)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    told = watched(tmp_path_factory.mktemp("elsewhere"), ELSEWHERE)
    assert told.status == 0, told.stderr
    return profile_of(told)


def test_a_loader_from_another_process_is_known_by_who_built_it(elsewhere: Profile) -> None:
    built = [number for number, line in enumerate(ELSEWHERE.splitlines(), 1) if "# built" in line]
    asked = [loop.loader for loop in elsewhere.loops if loop.steps == 8]
    (here,) = (one for one in elsewhere.loaders if one.dataset == "Forked" and one.key in asked)
    assert here.location is not None
    assert here.location.line == built[0]


SCRIPT_LOADER_FACTS = (
    PRELUDE
    + """
import sys, types
from functools import partial
from torch.utils.data import DataLoader as Aliased

class Own(DataLoader):
    def __init__(self, data, **more):
        super().__init__(data, batch_size=4, **more)

library = types.ModuleType("library.inner")
exec(compile('''
def build(data, kind):
    return kind(data, batch_size=8)
''', LIBRARY, "exec"), vars(library))

def main():
    data, options = Rows(), {"shuffle": False}
    pair = Aliased(data, 2, num_workers=0), DataLoader(data, 3)
    more = DataLoader(
        data,  # a comment
        batch_size=5,
        **options,
    )
    Own(data, num_workers=0)
    library.build(data, DataLoader)
    partial(DataLoader, num_workers=0)(data, batch_size=6)
main()
"""
)


@pytest.fixture(scope="module")
def loaders(tmp_path_factory: pytest.TempPathFactory) -> dict[int | None, Loader]:
    """By batch size, which no two of them share."""
    folder = tmp_path_factory.mktemp("built")
    library = folder / "site-packages" / "library.py"
    told = watched(folder, SCRIPT_LOADER_FACTS.replace("LIBRARY", repr(str(library))))
    assert told.status == 0, told.stderr
    run = Run(["train.py"], "train.py", str(folder), "", 1.0, 0)
    machine = Machine("box", "6", "cpu", 2, 2.0)
    left = Remains(run, machine, told.origin_ns, folder=told.folder, mask=mask)
    return {loader.batch_size: loader for loader in assemble(left).loaders}


def said_loader_facts(loader: Loader) -> str:
    """The call in short."""
    if loader.call is None:
        return ""
    shown = [f"{one.name}={one.text}" if one.name else one.text for one in loader.call.arguments]
    return f"{loader.call.function}({', '.join(shown)})"


@pytest.mark.parametrize(
    ("size", "call", "old"),
    [
        (2, "Aliased(data, 2, num_workers=0)", ""),  # two on one line: only the bracket tells them apart
        (3, "DataLoader(data, 3)", "DataLoader(data, 3)"),
        (4, "super().__init__(data, batch_size=4, **=more)", ""),
        (5, "DataLoader(data, batch_size=5, **=options)", "DataLoader(data, batch_size=5, **=options)"),
        (6, "partial(DataLoader, num_workers=0)(data, batch_size=6)", ""),
        (8, "", ""),
    ],
)
def test_the_users_own_call_is_found(
    size: int, call: str, old: str, loaders: dict[int | None, Loader]
) -> None:
    assert said_loader_facts(loaders[size]) == (call if sys.version_info >= (3, 11) else old)


def test_a_loader_names_the_libraries_that_built_it(loaders: dict[int | None, Loader]) -> None:
    assert {size: one.through for size, one in loaders.items() if one.through} == {8: ["library"]}
    location = loaders[8].location
    assert location is not None
    assert location.function == "main"


SCRIPT_DATA_FN = (
    PRELUDE
    + """
def get_batch(split, *, size=4):
    \"\"\"Rows of our own.\"\"\"
    if split == "broken":
        raise OSError("no such split")
    time.sleep(0.002)
    return torch.randn(size, 4)

def broken():
    try:
        get_batch("broken")
    except OSError as error:
        return str(error)

for step in range(60):
    train_on(get_batch("train", size=8))
say(name=get_batch.__name__, doc=get_batch.__doc__, failed=broken(), shape=list(get_batch("train").shape))
"""
)


def test_a_named_function_is_a_loader_and_the_users_still(tmp_path: Path) -> None:
    told = watched(tmp_path, SCRIPT_DATA_FN, BDOC_DATA_FN="__main__:get_batch")
    assert said(told) == {
        "name": "get_batch", "doc": "Rows of our own.", "failed": "no such split", "shape": [4, 4],
    }  # fmt: skip
    profile = profile_of(told)
    found = loader_of(profile, "get_batch")
    assert (found.kind, found.num_workers) == ("function", 0)
    assert found.location is not None
    line = SCRIPT_DATA_FN.splitlines().index("def get_batch(split, *, size=4):") + 1
    assert (found.location.line, found.location.function) == (line, "get_batch")
    (loop,) = loops_over(profile, "get_batch")
    assert loop.role == "train"
    assert loop.steps == pytest.approx(59, abs=3), "wrapped when the training begins to move"
    assert 0.002 * sum(loop.table.steps) <= sum(loop.table.wait_s) <= sum(loop.table.wall_s)
