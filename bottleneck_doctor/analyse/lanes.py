"""What is drawn of a run: some steps of the loop and its workers, and all else that a page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from ..model.diagnosis import Diagnosis
from ..model.picture import LOOP_PIECES, CallPath, CallPaths, Excerpt, Fetches, Lanes, Picture, Pieces
from ..model.profile import Profile
from ..source.files import is_ours, parse_frame
from .hot_lines import role_of
from .inputs import UNSEEN, BlockedSplit, fetches_of, rows_within, split_blocked
from .ranks import rank_map
from .timeline import course_of

SHORTEST_S = 1e-8  # nothing shorter can be seen, and rounding leaves such


class LanePiece(NamedTuple):
    """A stretch of a lane, in seconds from the run's start."""

    begin: float
    end: float
    what: str
    batch: int | None = None


def layered(spans: Iterable[LanePiece]) -> list[LanePiece]:
    """The same time without overlaps: what lies inside another is cut out of it."""
    found: list[LanePiece] = []
    around: list[LanePiece] = []
    reached = float("-inf")

    def pass_over(until: float) -> None:
        nonlocal reached
        if around and min(until, around[-1].end) > reached:
            end = min(until, around[-1].end)
            found.append(around[-1]._replace(begin=reached, end=end))
            reached = end

    for span in sorted(spans, key=lambda one: (one.begin, -one.end)):
        while around and around[-1].end <= span.begin:
            pass_over(around[-1].end)
            around.pop()
        pass_over(span.begin)
        reached = max(reached, span.begin)
        around.append(span)
    while around:
        pass_over(around[-1].end)
        around.pop()
    return _visible(found)


def clipped(pieces: Iterable[LanePiece], begin: float, end: float) -> list[LanePiece]:
    """What of the pieces lies between two instants."""
    cut = (one._replace(begin=max(begin, one.begin), end=min(end, one.end)) for one in pieces)
    return _visible(list(cut))


def _visible(pieces: list[LanePiece]) -> list[LanePiece]:
    return [one for one in pieces if one.end - one.begin > SHORTEST_S]


Waits = Mapping[int, LanePiece]  # the loop's wait for each batch


def fetch_pieces(table: Fetches, place: int, split: BlockedSplit, batch: int | None) -> list[LanePiece]:
    """A fetch in parts that sum to its length: collating comes last, the rest stands in a fixed order. Other
    threads of the process computed while this one slept: that is CPU, not waiting."""
    wall = table.wall_s[place]
    collate = min(wall, table.collate_s[place])
    left = wall - collate
    cpu = min(left, max(0.0, table.cpu_s[place] - min(table.collate_cpu_s[place], collate)))
    left -= cpu
    queue = min(left, table.runq_s[place] or 0.0)
    left -= queue
    pooled = min(left, table.other_cpu_s[place])
    left -= pooled
    storage, network = left * split.storage, left * split.network
    lengths = (
        ("cpu", cpu + pooled), ("storage", storage), ("network", network),
        ("blocked", max(0.0, left - storage - network)), ("queue", queue), ("collate", collate),
    )  # fmt: skip
    found, begin = [], table.t[place]
    for what, length in lengths:
        found.append(LanePiece(begin, begin + length, what, batch))
        begin += length
    return _visible(found)


def worker_lanes(
    table: Fetches, split: BlockedSplit, waits: Waits, begin: float, end: float
) -> dict[int, list[LanePiece]]:
    """The pieces of each worker's lane, by its number; a fetch under way at either end is whole."""
    lanes: dict[int, list[int]] = {}
    for place, worker in enumerate(table.worker):
        if worker >= 0:
            lanes.setdefault(worker, []).append(place)
    found: dict[int, list[LanePiece]] = {worker: [] for worker in sorted(lanes)}
    for worker, lane in found.items():
        for place, later in zip(lanes[worker], [*lanes[worker][1:], None], strict=True):
            until = table.t[place] + table.wall_s[place]
            if until > begin and table.t[place] < end:
                lane += fetch_pieces(table, place, split, table.batch[place])
            lane += clipped(_after(table, place, later, waits), max(begin, until), end)
        # A process that ends may overlap its successor: each piece is cut where the next begins.
        lane.sort(key=lambda one: one.begin)
        cut = [one._replace(end=min(one.end, later.begin)) for one, later in pairwise(lane)]
        found[worker] = _visible([*cut, *lane[-1:]])
    return found


def _after(table: Fetches, place: int, later: int | None, waits: Waits) -> list[LanePiece]:
    """What a worker did between two fetches. It takes the next task as soon as there is one, so time that is
    not handing over is idle. Of the time before a new process in its place, nothing is known."""
    end, batch = table.t[place] + table.wall_s[place], table.batch[place]
    skipped = table.number[later] - table.number[place] - 1 if later is not None else None
    free = table.t[later] if later is not None else float("inf")
    if skipped is not None and skipped > 0:
        return [LanePiece(end, free, "unseen")]
    awaited = waits.get(batch) if batch is not None else None
    given = min(awaited.end, free) if awaited is not None and awaited.begin <= end < awaited.end else end
    idle = [LanePiece(given, free, "idle")] if skipped == 0 else []
    return [LanePiece(end, given, "hand over", batch), *idle]


SPANS_AT_MOST, FETCHES_AT_MOST = 400, 600  # more are not drawn; a profile may come from anywhere
PIECES_AT_MOST = 8000  # that these can come to
HEARD = ("backward", "optimizer", "exchange", "copy", "sync")  # seen only in sampled steps


def lanes_of(diagnosis: Diagnosis) -> Lanes | None:
    """The lanes of the loop that the report is about; None where none of its steps were kept."""
    loop = diagnosis.loop
    if loop is None:
        return None
    mine = (loop.loader, loop.pid, loop.thread)
    kept = (one for one in diagnosis.profile.excerpts if (one.loader, one.pid, one.thread) == mine)
    excerpt = next((one for one in kept if one.end_s > one.start_s and one.steps > 0), None)
    if excerpt is None or len(excerpt.spans.t) > SPANS_AT_MOST or len(excerpt.fetches.t) > FETCHES_AT_MOST:
        return None
    split, spans = _split(diagnosis, excerpt), _spans(excerpt)
    begin, end = excerpt.start_s, excerpt.end_s
    waits = {one.batch: one for one in spans if one.what == "wait" and one.batch is not None}
    workers = worker_lanes(excerpt.fetches, split, waits, begin, end)
    own: list[LanePiece] = []  # the fetches that the loop made itself, inside its waits
    fetches = excerpt.fetches
    for place, (worker, t, wall) in enumerate(zip(fetches.worker, fetches.t, fetches.wall_s, strict=True)):
        wait = next((one for one in waits.values() if one.begin <= t and t + wall <= one.end), None)
        if worker < 0 and wait is not None:
            own += fetch_pieces(fetches, place, split, wait.batch)
    lanes = [_loop_lane(excerpt, spans, own), *workers.values()]
    ordered = (sorted(lane, key=lambda one: one.begin) for lane in lanes)
    rows = [(number, one) for number, lane in enumerate(ordered) for one in lane][:PIECES_AT_MOST]
    return Lanes(
        begin_s=begin,
        end_s=end,
        workers=list(workers),
        steps=excerpt.steps,
        wait_share=min(1.0, excerpt.wait_s / (end - begin)),
        pieces=Pieces(
            lane=[number for number, _ in rows],
            begin_s=[piece.begin for _, piece in rows],
            length_s=[piece.end - piece.begin for _, piece in rows],
            what=[piece.what for _, piece in rows],
            batch=[piece.batch for _, piece in rows],
        ),
    )


def _split(diagnosis: Diagnosis, excerpt: Excerpt) -> BlockedSplit:
    """How blocked time divides: as it was seen in these steps, else as in the whole steady window."""
    table = fetches_of(diagnosis.profile, excerpt.loader)
    if table is not None and table.t:
        rows = rows_within(table, excerpt.start_s, excerpt.end_s)
        split = split_blocked(diagnosis.profile, table, rows, excerpt.start_s, excerpt.end_s)
        if split.samples or not diagnosis.inputs.blocked_samples:
            return split
    inputs = diagnosis.inputs
    blocked = inputs.storage + inputs.network + inputs.wait
    if blocked <= 0:
        return UNSEEN
    waits = {name: value / blocked for name, value in inputs.waits.items()}
    return BlockedSplit(inputs.storage / blocked, inputs.network / blocked, waits, inputs.blocked_samples)


def _spans(excerpt: Excerpt) -> list[LanePiece]:
    """The excerpt's spans in order; opening an iterator is waiting for data. Kinds that only a newer version
    knows are left out."""
    columns = (excerpt.spans.t, excerpt.spans.length_s, excerpt.spans.what, excerpt.spans.batch)
    pieces = (
        LanePiece(t, t + length, "wait" if what == "opening" else what, batch)
        for t, length, what, batch in zip(*columns, strict=True)
        if what == "opening" or what in LOOP_PIECES
    )
    return sorted(pieces, key=lambda one: (one.begin, -one.end))


def _loop_lane(excerpt: Excerpt, spans: list[LanePiece], inside: list[LanePiece]) -> list[LanePiece]:
    """The loop's time without gaps. Time of a step that no hook saw is computing; where steps followed that
    were not sampled, the step ends with its last event, and the rest is unseen."""
    numbered = [one for one in spans if one.what == "wait" and one.batch is not None]
    known = [_with_batch(one, numbered) for one in layered([*spans, *inside])]
    found: list[LanePiece] = []
    for one, later in pairwise([*numbered, LanePiece(excerpt.end_s, excerpt.end_s, "wait", None)]):
        skipped = one.batch is not None and later.batch is not None and later.batch > one.batch + 1
        within = [piece for piece in spans if one.end <= piece.begin < later.begin]
        heard = (piece.end for piece in within if piece.what in HEARD)
        until = max(heard, default=one.end) if skipped else later.begin
        pieces = [piece for piece in known if one.end <= piece.begin < later.begin]
        found += _filled(pieces, one.end, until, "compute", one.batch)
        found += _filled(pieces, until, later.begin, "unseen", None)
    return clipped([*known, *found], excerpt.start_s, excerpt.end_s)


def _with_batch(piece: LanePiece, waits: list[LanePiece]) -> LanePiece:
    """A piece of a step is about the batch that came last; evaluation and other loaders' waits are not."""
    if piece.batch is not None or piece.what in ("wait", "evaluation"):
        return piece
    last = next((one for one in reversed(waits) if one.end <= piece.begin + 1e-9), None)
    return piece._replace(batch=last.batch if last is not None else None)


def _filled(
    pieces: list[LanePiece], begin: float, end: float, what: str, batch: int | None
) -> list[LanePiece]:
    """What the pieces leave free between two instants."""
    found, reached = [], begin
    for one in pieces:
        if one.begin > reached:
            found.append(LanePiece(reached, min(one.begin, end), what, batch))
        reached = max(reached, one.end)
    found.append(LanePiece(reached, end, what, batch))
    return clipped(found, begin, end)


ROLES = ("trainer", "worker", "other")
MOST_PATHS = 600  # of all roles together, the heaviest: more boxes than a screen has room for
MOST_FRAMES = 128  # of one path: deeper recursion is a wall of equal boxes

Frames = tuple[str, ...]


def call_paths(profile: Profile) -> list[CallPaths]:
    """Equal paths of several processes are one; roles that were not seen are left out."""
    seen: Counter[tuple[str, Frames]] = Counter()
    awake: Counter[tuple[str, Frames]] = Counter()
    samples: Counter[str] = Counter()
    unknown = set()
    for stack in profile.stacks:
        # Without our own hooks, and without what is no frame.
        frames = [frame for frame in stack.frames if parse_frame(frame) is not None and not is_ours(frame)]
        if (cut := len(frames) - MOST_FRAMES) > 0:
            half = MOST_FRAMES // 2
            frames = [*frames[:half], f"{cut} frames left out (<recursion>:0)", *frames[-half:]]
        key = (role_of(profile, stack), tuple(frames))
        samples[key[0]] += stack.count
        seen[key] += stack.count
        awake[key] += stack.running or 0
        if stack.running is None:
            unknown.add(key)
    kept = sorted((key for key in seen if key[1]), key=lambda key: (-seen[key], -awake[key], key))
    paths = {
        key: CallPath(list(key[1]), seen[key], None if key in unknown else awake[key])
        for key in kept[:MOST_PATHS]
    }
    return [
        CallPaths(role, samples[role], [path for (whose, _), path in paths.items() if whose == role])
        for role in ROLES
        if samples[role]
    ]


def picture_of(diagnosis: Diagnosis) -> Picture:
    """Total: any diagnosis has a picture, which may be empty."""
    profile = diagnosis.profile
    return Picture(course_of(diagnosis), lanes_of(diagnosis), call_paths(profile), rank_map(profile))
