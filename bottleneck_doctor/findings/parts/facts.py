"""The rows of the profile that belong to the diagnosed loop and its loader."""

from __future__ import annotations

from ...analyse.shares import ALL_BUT_NOISE
from ...analyse.steps import share_in
from ...model.code import Location
from ...model.diagnosis import Diagnosis
from ...model.fetches import HotFiles, Payload, Repeats
from ...model.instruments import Operation, Series
from ...source.frames import is_users

TASK_IO = "io counters of the task"


def place_of(diagnosis: Diagnosis) -> Location | None:
    """Where the user defines the data set, else where its loader is built; a line of a library only where
    neither is in the user's code."""
    loader = diagnosis.loader
    if loader is None:
        return None
    known = [one for one in (loader.dataset_location, loader.location) if one is not None]
    return next((one for one in known if is_users(one.file)), known[-1] if known else None)


def place(file: str, line: int) -> Location | None:
    """A line of the user's code, where one is known."""
    return Location(file, line) if file else None


def one_epoch(diagnosis: Diagnosis) -> bool:
    """Whether the run went over its data once, and ended by itself: then nothing pays off in later epochs."""
    loop = diagnosis.loop
    return loop is not None and len(loop.epochs.batches) == 1 and diagnosis.profile.run.stopped_by is None


def key_of(diagnosis: Diagnosis) -> str:
    """The key of the training loader in the profile; "" if there is none."""
    return diagnosis.loader.key if diagnosis.loader is not None else ""


def hot_files_of(diagnosis: Diagnosis) -> HotFiles | None:
    """The files from which the training loader's batches come, where some were seen."""
    key = key_of(diagnosis)
    return next((one for one in diagnosis.profile.hot_files if key and one.loader == key), None)


def payload_of(diagnosis: Diagnosis) -> Payload | None:
    """What a batch of the training loader is made of, when batches were looked into."""
    key = key_of(diagnosis)
    return next((one for one in diagnosis.profile.payloads if one.loader == key and one.batches), None)


def repeats_of(diagnosis: Diagnosis) -> Repeats | None:
    """Whether the training loader's samples come out the same again, when some were followed."""
    return next((one for one in diagnosis.profile.repeats if one.loader == key_of(diagnosis)), None)


def comes_again(diagnosis: Diagnosis) -> bool:
    """Whether samples that were seen again came out the same: what makes them has no random part."""
    repeats = repeats_of(diagnosis)
    return repeats is not None and repeats.compared > 0 and repeats.equal >= ALL_BUT_NOISE * repeats.compared


def step_share(diagnosis: Diagnosis, part: str) -> float:
    """The share of the steady step that one of its parts takes, by the name of its field."""
    return share_in(diagnosis.steps, part)


def operations_of(diagnosis: Diagnosis, kind: str) -> list[Operation]:
    """Calls of one kind in the training loop's own thread, the costliest line first."""
    loop = diagnosis.loop
    calls = diagnosis.profile.operations
    mine = [one for one in calls if loop and (one.pid, one.thread) == (loop.pid, loop.thread)]
    return sorted((one for one in mine if one.kind == kind), key=lambda one: -one.total_s)


def readings(series: Series, name: str) -> list[tuple[float, float]]:
    """(instant, value) wherever the value was read."""
    return [(t, v) for t, v in zip(series.t, series.values.get(name, []), strict=False) if v is not None]
