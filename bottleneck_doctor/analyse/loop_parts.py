"""Divides the stack samples of the training loop's thread into what the loop was doing.

A sample belongs to the training if it passes through the lines of the loop around the backward pass. What is
called below that loop names its part; a function of the user's, or a line of the loop's own, is data if the
model's input comes from it and not the other way round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from ..model.code import Location
from ..model.instruments import Stack
from ..model.loops import LoopBody
from ..model.profile import Profile
from ..source.files import FRAMES, is_ours, parse_frame, users_path
from ..source.purpose import LOG, NO_PURPOSE, Purpose
from .shares import LITTLE

# By the first frame below the loop that matches: part, the name of its function, parts of its file.
KNOWN = (
    ("data", "", ("/torch/utils/data/",)),
    ("zero_grad", "zero_grad", ("/torch/",)),
    ("backward", "backward", ("/torch/_tensor.py", "/torch/autograd/")),
    ("backward", "grad", ("/torch/autograd/",)),
    ("optimizer", "", ("/torch/optim/", "/torch/amp/grad_scaler.py")),
    ("checkpoint", "", ("/torch/serialization.py", "/safetensors/")),
    ("logging", "", ("/logging/", "/tqdm/", "/tensorboard/", "/wandb/", "/mlflow/")),
    ("exchange", "", ("/torch/distributed/",)),
    ("loss", "", ("/torch/nn/modules/loss.py",)),
    ("forward", "_call_impl", ("/torch/nn/modules/module.py",)),
    ("", "", ("/torch/nn/modules/module.py",)),  # state_dict, train and the like
    ("forward", "", ("/torch/nn/modules/",)),
    ("loss", "", ("/torch/nn/functional.py",)),
    ("compiled", "", ("/torch/_dynamo/",)),  # a forward pass, where it is no wrapper of something known
)
FEWEST = 3  # samples of a line, below which they may be torn: the thread is not stopped (chosen)
OWN = ("user", "line")  # parts that only the user's source can name: a function, or the loop's line


@dataclass(frozen=True)
class LoopSample:
    """One call path of the loop's thread, within the training: its part, the loop's own line that it stands
    in (0 where the loop's source was not found), and the user's function that this line called, if any.
    ``depth`` is the place of the loop's own frame in the path. ``label`` and, of the loop's own work,
    ``purpose`` are set by ``attribute``."""

    part: str
    line: int
    called: Location | None
    stack: Stack
    depth: int = 0
    label: str = ""
    purpose: Purpose = NO_PURPOSE

    @property
    def logs(self) -> bool:
        """Whether what is done there is written out, the model's part included."""
        return self.purpose.what == LOG

    @property
    def call(self) -> tuple[int, str]:
        """The loop's line, and the user's function that it calls."""
        return self.line, self.called.function if self.called is not None else ""

    @property
    def own(self) -> bool:
        """Whether no hook times it."""
        return self.part in OWN


def training_samples(profile: Profile, pid: int, body: LoopBody | None) -> list[LoopSample]:
    """The samples of the process's main thread within the loop; all of them where the loop is not known."""
    stacks = [
        one for one in profile.stacks if one.pid == pid and one.role == "trainer" and "Main" in one.thread
    ]
    found = [one for one in (_sample(stack, body) for stack in stacks) if one is not None]
    lines = _data_lines(found, body)
    return [  # a function of the user's that gets a batch may call torch.nn.functional: that is no loss
        replace(one, part="user") if one.part == "loss" and one.called and _is_in(one.line, lines) else one
        for one in found
    ]


def data_samples(samples: Iterable[LoopSample], body: LoopBody | None) -> list[LoopSample]:
    """Those in which a loop without a loader got its batch."""
    seen = list(samples)
    lines = _data_lines(seen, body)
    return [one for one in seen if one.own and _is_in(one.line, lines)]


def _is_in(line: int, spans: list[tuple[int, int]]) -> bool:
    return any(first <= line <= last for first, last in spans)


def _data_lines(samples: list[LoopSample], body: LoopBody | None) -> list[tuple[int, int]]:
    """Lines that the model's input comes from: what calls the model needs them, directly or through others,
    and they need nothing that the model gave. Where no line was seen calling it, those that need no other."""
    feeds = body.feeds if body is not None else []
    if body is None or not feeds:
        return []
    needs = {place: set(feed.needs) for place, feed in enumerate(feeds)}
    needed_by = {place: {other for other in needs if place in needs[other]} for place in needs}
    models = _calling(samples, body)
    known = models | {len(feeds) - 1}  # not every call of a small model is sampled
    upstream, downstream = _closure(known, needs), _closure(models, needed_by)
    found = upstream - downstream - known
    # What is computed from a batch that the model also takes as it is belongs to the step, as with a loader.
    for given in [needs[model] & found for model in models]:
        found -= {place for place in given if (_closure({place}, needs) & given) - {place}}
    # So do targets that are computed from a batch for the loss alone, such as a detector's.
    asked = _closure(models, needs)
    found -= {place for place in found - asked if needs[place] & found & asked}
    if not models:
        found = {place for place in found if not feeds[place].needs or feeds[place].needs == [place]}
    return [(feeds[place].first, feeds[place].last) for place in found]


def _calling(samples: list[LoopSample], body: LoopBody) -> set[int]:
    """The feeds that were seen calling the model: a module, or functions where there is none."""
    seen: Counter[int] = Counter()
    calls = ("forward",) if any(one.part == "forward" for one in samples) else ("forward", "loss")
    for one in samples:
        for place, feed in enumerate(body.feeds):
            if one.part in calls and feed.first <= one.line <= feed.last:
                seen[place] += one.stack.count
    total = sum(seen.values())
    torn = max(LITTLE * total, 1 if total > len(seen) else 0)
    models = {place for place, count in seen.items() if count > torn}
    known = models or {len(body.feeds) - 1}
    return models | {place for place, feed in enumerate(body.feeds) if known & set(feed.calls_too)}


def _closure(begin: set[int], edges: dict[int, set[int]]) -> set[int]:
    """Everything that can be reached, the beginning itself only where a way leads back to it."""
    found: set[int] = set()
    todo = list(begin)
    while todo:
        for place in edges[todo.pop()] - found:
            found.add(place)
            todo.append(place)
    return found


def _sample(stack: Stack, body: LoopBody | None) -> LoopSample | None:
    frames, line, depth = stack.frames, 0, 0
    if body is not None:
        places = [(n, at) for n, frame in enumerate(frames) if (at := _line_in(frame, body)) is not None]
        if not places:
            return None
        depth, line = places[-1]  # a closure that the loop defines runs below its optimizer
        frames = frames[depth + 1 :]
    part, called = _below(tuple(frames))
    return LoopSample(part, line, called, stack, depth)


@lru_cache(maxsize=FRAMES)
def _below(frames: tuple[str, ...]) -> tuple[str, Location | None]:
    """The part of the loop that these frames below its line belong to, and the user's function among them
    that it called."""
    frames = tuple(frame for frame in frames if not is_ours(frame))
    stepping = max((depth for depth, frame in enumerate(frames) if _part(frame) == "optimizer"), default=-1)
    inside = users_path(frames[stepping + 1 :]) if stepping >= 0 else ()
    if inside and inside[0].function.rpartition(".")[2] != "step":  # a closure, not a step of the user's own
        return _below(frames[stepping + 1 :])
    parts = [part for frame in frames if (part := _part(frame))]
    part = next((one for one in parts if one != "compiled"), "forward" if parts else "")
    called = next(iter(users_path(frame for frame in frames if "<" not in frame)), None)
    return part or ("user" if called is not None else "line"), called


def _line_in(frame: str, body: LoopBody) -> int | None:
    """The line of the body that the frame is at, None where it is elsewhere."""
    place = parse_frame(frame) if f"({body.file}:" in frame else None
    return place.line if place is not None and body.first <= place.line <= body.last else None


def _part(frame: str) -> str:
    name = frame.partition(" (")[0].rpartition(".")[2]  # newer Pythons say which class a method is of
    for part, function, files in KNOWN:
        if function in ("", name) and any(one in frame for one in files):
            return part
    return ""


def samples_in(some: Iterable[LoopSample]) -> int:
    """How many samples some call paths stand for."""
    return sum(one.stack.count for one in some)
