"""What a loop writes, what is forced to the disk, and the collector's pauses, under the user's line."""

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent.saving import Written, named
from bottleneck_doctor.model.instruments import Operation
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import PRELUDE, both_ways, profile_of, said, watched

SCRIPT = (
    PRELUDE
    + """
import gc, logging, pickle
logging.basicConfig(filename="log.txt")
log = logging.getLogger("train")

class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(0.001)

log.addHandler(Slow())

def save(step):
    torch.save({"step": step, "model": torch.zeros(200_000)}, "model.pt")  # saved here

def flush():
    with open("sync.txt", "w") as file:
        file.write("x")
        time.sleep(0.0001)
        os.fsync(file.fileno())  # flushed here

def durable(step):
    with open("last.tmp", "wb") as file:
        torch.save({"step": step, "model": torch.zeros(200_000)}, file)
        file.flush()
        time.sleep(0.0001)
        os.fsync(file.fileno())  # made durable here
    os.replace("last.tmp", "last")

def index():
    with open("index.db", "wb") as file:
        file.write(bytes(1_000_000))
        os.fdatasync(file.fileno())  # data here

from lightning.fabric.utilities.cloud_io import _atomic_save

class Cell:
    pass

def litter():
    for _ in range(50_000):
        one, other = Cell(), Cell()
        one.other, other.other = other, one

for step, batch in enumerate(DataLoader(Rows(12), batch_size=2)):
    train_on(batch)
    save(step)
    log.warning("step %d", step)  # logged here
    flush()
    durable(step)
    index()
    _atomic_save({"step": step}, "last.ckpt")  # saved by Lightning
gc.disable()
litter()
gc.collect()
say(saved=torch.load("model.pt")["step"], logged=len(open("log.txt").readlines()), names=[
    torch.save.__module__, torch.save.__qualname__, torch.serialization.save is torch.save,
    pickle.loads(pickle.dumps(os.fsync)).__name__, os.rename in os.supports_dir_fd])
"""
)


# Laid out as in Lightning 2: the file is written after ``torch.save`` has returned.
LIGHTNING = """
import io, time
import torch

def _atomic_save(checkpoint, filepath):
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    time.sleep(0.005)
    with open(filepath, "wb") as file:
        file.write(buffer.getvalue())
"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder = tmp_path_factory.mktemp("saving")
    place = folder / "lightning" / "fabric" / "utilities"
    place.mkdir(parents=True)
    (place / "cloud_io.py").write_text(LIGHTNING)
    told = watched(folder, SCRIPT)
    assert said(told) == {
        "saved": 5,
        "logged": 6,
        "names": ["torch.serialization", "save", True, "fsync", True],
    }
    return profile_of(told)


def line_of(mark: str) -> int:
    (line,) = (number for number, text in enumerate(SCRIPT.splitlines(), 1) if text.endswith(f"# {mark}"))
    return line


def at(profile: Profile, mark: str) -> Operation:
    (found,) = (
        operation
        for operation in profile.operations
        if operation.location is not None and operation.location.line == line_of(mark)
    )
    return found


@pytest.mark.parametrize(
    ("mark", "kind", "function"),
    [("saved here", "checkpoint", "save"), ("logged here", "logging", "<module>")],
)
def test_each_call_is_noted_with_the_users_line(
    profile: Profile, mark: str, kind: str, function: str
) -> None:
    operation = at(profile, mark)
    assert (operation.kind, operation.name) == (kind, function)
    assert operation.location is not None
    assert operation.location.file.endswith("train.py")
    calls = 6 if kind == "checkpoint" else 12  # two handlers
    assert operation.count <= calls
    assert operation.count >= 6
    assert 0 < operation.max_s <= operation.total_s


def test_lightnings_checkpoint_holds_the_writing_of_its_file(profile: Profile) -> None:
    operation = at(profile, "saved by Lightning")
    assert operation.kind == "checkpoint"
    assert operation.total_s >= 5 * 0.005


def kinds_at(profile: Profile, mark: str) -> set[str]:
    at_mark = [one for one in profile.operations if one.location and one.location.line == line_of(mark)]
    return {one.kind for one in at_mark}


def test_a_forced_flush_belongs_to_its_file(profile: Profile) -> None:
    """On a fast disk a flush may be too short to note: then it is nothing, but never another kind."""
    assert kinds_at(profile, "made durable here") <= {"checkpoint"}
    assert kinds_at(profile, "data here") <= {"flush"}
    assert kinds_at(profile, "flushed here") <= {"logging"}


def test_long_collections_are_noted(profile: Profile) -> None:
    collections = [one for one in profile.operations if one.kind == "collection"]
    assert "full" in {one.name for one in collections}
    assert max(one.max_s for one in collections) >= 0.0002


def test_time_spent_saving_and_logging_is_part_of_the_steps(profile: Profile) -> None:
    (loop,) = profile.loops
    assert sum(loop.table.checkpoint_s) > 0
    assert sum(loop.table.logging_s) > 0.001 * (loop.steps - 2)
    assert all(
        saved + logged <= wall + 1e-9
        for saved, logged, wall in zip(
            loop.table.checkpoint_s, loop.table.logging_s, loop.table.wall_s, strict=True
        )
    )


ASIDE = (
    PRELUDE
    + """
import logging, threading

class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(0.002)

log = logging.getLogger("train")
log.addHandler(Slow())
begun, logged = threading.Event(), threading.Event()

class Large:
    def __reduce__(self):
        begun.set()
        logged.wait()
        return str, ()

saving = threading.Thread(target=torch.save, args=(Large(), "model.pt"))
for step, batch in enumerate(DataLoader(Rows(30))):
    train_on(batch)
    if step == 0:
        saving.start()
        begun.wait()
    log.warning("step %d", step)
logged.set()
saving.join()
say(done=True)
"""
)


def test_what_the_loop_logs_while_a_thread_saves_is_noted(tmp_path: Path) -> None:
    logs = [one for one in profile_of(watched(tmp_path, ASIDE)).operations if one.kind == "logging"]
    assert sum(one.count for one in logs) == 30


FROM_C = (
    PRELUDE
    + """
import atexit, logging
file = open("file.txt", "w")
loader = iter(DataLoader(Rows(4)))
loss = model(torch.ones(4)).sum()
for call, *args in (
    (torch.save, model.state_dict(), "last.pt"), (os.fsync, file.fileno()), (loader.__next__,),
    (logging.getLogger().warning, "bye"), (optimizer.step,), (loss.backward,), (DataLoader, Rows(4)),
    (torch.optim.SGD, list(model.parameters())),
):
    atexit.register(call, *args)
"""
)


def test_what_is_called_by_c_with_no_frame_of_pythons_above_works(tmp_path: Path) -> None:
    """A checkpoint by ``atexit.register(torch.save, ...)`` was lost: there was no line to name."""
    alone, seen = both_ways(tmp_path, FROM_C, fresh=True)
    assert (seen.status, seen.stderr) == (alone.status, alone.stderr)
    saved, saved_seen = (tmp_path / name / "last.pt" for name in ("alone", "seen"))
    assert saved_seen.stat().st_size == saved.stat().st_size


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/runs/last.pt", "checkpoint"),
        ("/runs/checkpoint-100/state", "checkpoint"),
        ("/runs/events.out.tfevents.17001.host", "logging"),
        ("/runs/tmp8x3a", "flush"),
    ],
)
def test_the_name_tells_most(path: str, kind: str) -> None:
    assert named(path) == kind


def test_what_was_saved_is_a_checkpoint_under_any_name_and_its_folder_too(tmp_path: Path) -> None:
    written = Written()
    handle, (reader, pipe) = os.open(tmp_path, os.O_RDONLY), os.pipe()
    try:
        with (tmp_path / "blob.7").open("wb") as file:
            assert [written.kind(one) for one in (file, handle, pipe)] == ["flush", "flush", "logging"]
            written.checkpoint(file)
            os.rename(tmp_path / "blob.7", tmp_path / "blob")
            assert [written.kind(one) for one in (file, file.fileno(), handle)] == ["checkpoint"] * 3
    finally:
        for one in (handle, reader, pipe):
            os.close(one)
    for number in range(300):
        (tmp_path / f"{number}").touch()
        written.checkpoint(tmp_path / f"{number}")
    assert len(written.saved) <= 256
