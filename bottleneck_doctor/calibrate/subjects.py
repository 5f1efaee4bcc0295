"""Chooses what is worth timing: files, reads, batches of the costliest loader, and computing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import ceil, prod, sqrt
from pathlib import PurePosixPath
from statistics import fmean
from typing import Any

from ..model.computing import AttentionShape, ConvolutionShape, Optimizer, ProductShape, ScriptSettings
from ..model.fetches import FetchTable, HotFiles, Payload
from ..model.loops import Loader
from ..model.profile import Profile
from ..model.run import Process

NO_DATA = frozenset((".py", ".pyc", ".so", ".pth", ".toml", ".cfg"))  # opened by imports inside a fetch
NO_DISK = ("/proc/", "/sys/", "/dev/")
PICTURES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"))
COLD_BYTES = 4096  # per batch from storage, below which nothing was read to speak of
WHOLE_OPENS = 0.9  # opens per sample from which samples are files of their own [findings/small_files.py]
WHOLE_BYTES = 256 << 10  # a larger file costs what its bytes cost, not what opening it costs (ours)
DEPTHS = (1, 2, 4, 8)
TENSORS = 32  # per batch, or bytes through the pipe: less is moved for next to nothing [catalogue F12]
PIPE_BYTES = 1e6
WORKERS_AT_MOST = 4  # of the probe's own loader
# the module whose decoder ran -> what the probe calls it
DECODERS = {
    "PIL.ImageFile": "PIL", "cv2": "OpenCV", "simplejpeg": "simplejpeg", "turbojpeg": "TurboJPEG",
    "torchvision.io.image": "torchvision",
}  # fmt: skip

CHANNELS = 3

Request = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """A loader and what its fetches did; means per batch."""

    loader: Loader
    table: FetchTable
    hot: HotFiles | None
    payload: Payload | None

    def mean(self, column: str) -> float:
        """Mean of a column of the fetch table over the batches in which it was measured."""
        known = [value for value in getattr(self.table, column) if value is not None]
        return fmean(known) if known else 0.0


def choose(profile: Profile) -> Subject | None:
    """The loader whose batches cost most time to make."""
    tables = [table for table in profile.fetches if table.t]
    if not tables:
        return None
    table = max(tables, key=lambda one: fmean(one.wall_s) * one.seen)
    loader = next((one for one in profile.loaders if one.key == table.loader), None)
    if loader is None:
        return None
    hot = next((one for one in profile.hot_files if one.loader == loader.key), None)
    payload = next((one for one in profile.payloads if one.loader == loader.key), None)
    return Subject(loader, table, hot, payload)


def files_of(subject: Subject, cwd: str, is_remote: Callable[[str], bool]) -> list[str]:
    """Plain local files that its fetches opened. Servers are never asked for anything."""
    named = subject.hot.paths if subject.hot is not None else []
    paths = [os.path.join(cwd, path) for path in named]
    return [path for path in paths if _is_data(path) and not is_remote(path) and _is_plain(path)]


def _is_data(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() not in NO_DATA and not path.startswith(NO_DISK)


def _is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def reads_request(subject: Subject, paths: list[str], folder: str) -> Request | None:
    """Which reads to time; ``None`` where fetches read nothing from storage."""
    opens, samples = subject.mean("opens"), max(1.0, subject.mean("samples"))
    calls, delivered = subject.mean("reads"), subject.mean("read_bytes")
    if not paths or not calls or subject.mean("storage_bytes") < COLD_BYTES:
        return None
    sizes = [os.path.getsize(path) for path in paths]
    whole = opens >= WHOLE_OPENS * samples and fmean(sizes) <= WHOLE_BYTES
    now = min(DEPTHS[-1], max(1, subject.loader.num_workers))
    return {
        "paths": paths, "whole": whole, "direct": bool(subject.hot and subject.hot.direct), "now": now,
        "size": round(delivered / calls), "depths": sorted({*DEPTHS, now}),
        "chunk": round(samples * fmean(sizes)), "folder": folder,
    }  # fmt: skip


def pictures_request(subject: Subject, paths: list[str]) -> Request | None:
    """Pictures to decode; ``None`` where no decoder that we know took time."""
    pictures = [path for path in paths if PurePosixPath(path).suffix.lower() in PICTURES]
    used = [DECODERS[name] for name in (subject.hot.decoders if subject.hot else []) if name in DECODERS]
    if not pictures or not used or not subject.mean("decode_s"):
        return None
    return {"paths": pictures, "used": used[0], "side": _side(subject)}


def _side(subject: Subject) -> int:
    """Pixels along a finished sample, three elements each; 0 where not known."""
    payload, samples = subject.payload, subject.mean("samples")
    if payload is None or not samples:
        return 0
    return round(sqrt(payload.tensor_bytes / samples / CHANNELS / max(1.0, payload.element_bytes)))


def moving_request(subject: Subject) -> Request | None:
    """The batch to move; ``None`` where moving it is cheap, or nobody moves it."""
    payload = subject.payload
    if payload is None or not subject.loader.num_workers:
        return None
    if payload.tensors <= TENSORS and payload.pipe_bytes <= PIPE_BYTES:
        return None
    return {
        "tensors": payload.tensors, "tensor_bytes": payload.tensor_bytes, "other_bytes": payload.other_bytes,
        "workers": min(WORKERS_AT_MOST, subject.loader.num_workers),
    }  # fmt: skip


Shape = ProductShape | ConvolutionShape | AttentionShape

SECONDS = 4.0  # for timing, of which most runs need half; importing torch comes before
WAITING = 0.8  # of the loop's time waited for data, from which computing faster brings next to nothing (ours)
LITTLE = 0.05  # of it, below which nobody gives the loader workers [findings/loader_in_main.py]
SHAPES_AT_MOST = 8  # of a kind, the costliest
DEVICES = ("cpu", "cuda")  # whose clocks the probe knows
DTYPES = ("float32", "float64", "bfloat16", "float16")
# remedy -> the kinds of work that decide it, and the way in which they are then done
WAYS = {
    "set-threads": (("convolution", "product"), "threads"),
    "reserve-cores": (("convolution", "product"), "threads"),
    "cpu-bf16": (("convolution", "product"), "bfloat16"),
    "cpu-fp32-precision-medium": (("convolution", "product"), "rounded"),
    "channels-last": (("convolution",), "channels last"),
    "sdpa-attention": (("attention",), "fused"),
    "optimizer-fused": (("optimizer",), "fused"),
    "optimizer-foreach": (("optimizer",), "foreach"),
}
TOGETHER = 4  # calls of attention before their backward passes; and numbers in all of them, at most
ROOM = 1 << 26
PIECE = 1 << 20  # elements: larger tensors are updated in the same time in pieces (ours: no cache holds them)
ELEMENTS_AT_MOST = 1 << 23  # of the optimizer's tensors are made; of more, a part


def computing_request(profile: Profile) -> tuple[int, Request] | None:
    """(the training process, what to time of its step); ``None`` if nothing is known or the loop waits."""
    shapes = profile.computing.shapes
    found: list[Shape] = [*shapes.products, *shapes.convolutions, *shapes.attentions]
    slow = [one for one in profile.computing.optimizers if _is_slow(one)]
    pid = _trainer(profile, [one.pid for one in [*found, *slow]])
    mine = [one for one in found if one.pid == pid and one.device in DEVICES and one.dtype in DTYPES]
    devices = {one.device for one in mine} or {one.device for one in slow if one.pid == pid}
    if pid is None or len(devices) != 1 or _waits(profile, pid):
        return None
    device = devices.pop()
    slow = [one for one in slow if (one.pid, one.device) == (pid, device)]
    subjects = {  # what gains most first: the time may end
        "attention": _chosen([one for one in mine if isinstance(one, AttentionShape)]),
        "optimizer": [_tensors(one) for one in sorted(slow, key=lambda one: -one.elements)[:1]],
        "convolution": _chosen([one for one in mine if isinstance(one, ConvolutionShape)]),
        "product": _chosen([one for one in mine if isinstance(one, ProductShape)]),
    }
    return pid, {
        **_settings(profile, pid, device), "device": device, "seconds": SECONDS,
        "subjects": {kind: shapes for kind, shapes in subjects.items() if shapes},
    }  # fmt: skip


def only(request: Request, remedies: Sequence[str]) -> Request:
    """The request for what decides these remedies alone."""
    decided = [WAYS[one] for one in remedies if one in WAYS]
    if "subjects" not in request:
        return request
    kinds = {kind for kinds, _ in decided for kind in kinds}
    subjects = {kind: shapes for kind, shapes in request["subjects"].items() if kind in kinds}
    return {**request, "subjects": subjects, "ways": ["now", *(way for _, way in decided)]}


def _is_slow(one: Optimizer) -> bool:
    plain = one.library == "torch" and one.dtype in DTYPES and not one.closure
    return plain and bool(one.sizes) and not one.fused and not one.foreach and one.device == "cpu"


def _trainer(profile: Profile, known: list[int]) -> int | None:
    """The process with the longest training loop, of those whose graph or optimizer was seen."""
    loops = {one.pid: one.wall_s for one in profile.loops if one.role == "train" and one.pid in known}
    return max(loops, key=lambda pid: loops[pid]) if loops else next(iter(known), None)


def _waits(profile: Profile, pid: int) -> bool:
    loops = [one for one in profile.loops if one.pid == pid and one.role == "train"]
    return sum(one.wait_s for one in loops) > WAITING * sum(one.wall_s for one in loops)


def _settings(profile: Profile, pid: int, device: str) -> Request:
    """What holds in the training: threads, precision, layout; and what this processor could do."""
    unknown = ScriptSettings(pid), Process(pid, 0, "trainer", 0.0)
    switches = next((one for one in profile.computing.switches if one.pid == pid), unknown[0])
    trainer = next((one for one in profile.processes if one.pid == pid), unknown[1])
    cores, threads = int(profile.machine.cores), trainer.torch_threads or 1
    alone = sum(one.role == "trainer" and bool(one.torch_threads) for one in profile.processes) <= 1
    optimizers = [one for one in profile.computing.optimizers if one.pid == pid]
    return {
        "threads": threads,
        "wanted": _wanted(profile, cores, threads) if alone and device == "cpu" else 0,
        "precision": switches.matmul_precision or "highest",
        "benchmark": bool(switches.cudnn_benchmark),
        "reduced": device == "cuda" or bool(switches.amx or switches.avx512_bf16),
        "channels_last": any(one.kernels_channels_last for one in optimizers),
    }


def _wanted(profile: Profile, cores: int, threads: int) -> int:
    """The other number of threads that is worth timing, 0 for none: all cores, or one beside workers."""
    if threads == 1 < cores or threads > cores:
        return cores
    waits = sum(one.wait_s for one in profile.loops) > LITTLE * sum(one.wall_s for one in profile.loops)
    return 1 if threads > 1 and (waits or any(one.num_workers for one in profile.loaders)) else 0


def _chosen(shapes: list[Any]) -> list[Request]:
    """The costliest, each with its share of all multiplications of its kind."""
    whole = sum(one.calls * _work(one) for one in shapes)
    dear = sorted(shapes, key=lambda one: -one.calls * _work(one))[:SHAPES_AT_MOST]
    return [
        {
            **asdict(one), "share": one.calls * _work(one) / whole,
            "numbers": _numbers(one) * _together(one), "together": _together(one),
        }
        for one in dear
        if _work(one) > 0
    ]  # fmt: skip


def _together(one: Shape) -> int:
    """Calls whose tensors are alive at once: of attention, as many as the model has, within reason."""
    return (
        min(one.calls, TOGETHER, max(1, int(ROOM / _numbers(one)))) if isinstance(one, AttentionShape) else 1
    )


def _work(one: Shape) -> float:
    """Multiplications of one call, forward."""
    if isinstance(one, ProductShape):
        return float(max(1, one.batch) * one.m * one.k * one.n)
    if isinstance(one, AttentionShape):
        return float(one.batch * one.queries * one.keys * (one.width + one.value_width))
    places = prod(one.input[2:]) / max(1, prod(one.stride))
    return float(one.input[0] * places * prod(one.weight))


def _numbers(one: Shape) -> float:
    """Numbers in all tensors that the probe makes of it, roughly: sides, result, and their gradients."""
    if isinstance(one, ProductShape):
        return 4.0 * max(1, one.batch) * (one.m * one.k + one.k * one.n + one.m * one.n)
    if isinstance(one, AttentionShape):
        return float(one.batch * one.queries * one.keys * (6 + one.between))
    results = prod(one.input[2:]) / max(1, prod(one.stride)) * one.input[0] * one.weight[0]
    return 4.0 * (prod(one.input) + prod(one.weight) + results)


def _tensors(one: Optimizer) -> Request:
    """As many tensors of each size as may be made; ``calls`` makes up for those that were left out."""
    pieces = [
        (ceil(size / ceil(size / PIECE)), count * ceil(size / PIECE)) for size, count in one.sizes if size
    ]
    whole = sum(size * count for size, count in pieces)
    times = max(1.0, whole / ELEMENTS_AT_MOST)
    fewer = [(size, max(1, round(count / times))) for size, count in pieces]
    made = sum(size * count for size, count in fewer)
    return {
        "name": one.name, "options": one.options, "dtype": one.dtype, "sizes": fewer, "share": 1.0,
        "calls": whole / max(1, made), "numbers": 12.0 * made, "together": 1,
    }  # fmt: skip
