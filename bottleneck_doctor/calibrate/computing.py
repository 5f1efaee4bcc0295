"""Chooses which of the training's products, convolutions, attention and optimizer are worth timing anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import ceil, prod
from typing import Any

from ..model.computing import AttentionShape, ConvolutionShape, Optimizer, ProductShape, ScriptSettings
from ..model.profile import Profile
from ..model.run import Process
from .subjects import Request

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
