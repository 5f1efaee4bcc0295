"""Times products, convolutions, attention and optimizer in other ways; a script for the user's Python.

Each way takes turns with the present one, forward and backward, on random numbers in the training's shapes.
Rows are for a whole step: each shape's time, as often as the step has it.
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

LARGEST = 1 << 28  # numbers in all tensors of one shape: a GiB in float32
FREE_SHARE = 0.5  # of a device's free memory, at most
FIRST_SHARE = 0.5  # of a way's time, at most, that its first call may take for another to count instead
LEAST_ROUNDS, ROUNDS = 2, 25
SHORT_S = 0.5  # for timing, where nobody asked for it
SLOWER = 8.0  # than the present way: one call tells enough, and the time is for the others
BLOCK_S = 2e-3  # timed at a stretch: a clock's own cost, and a kernel's launch, are small beside it
COVERED = 0.5  # of a subject's work that must have been timed, or it is not told
DROPPED = 0.1  # by dropout, where the training drops some
PAD = 64  # the step of sizes that `pad-dims` advises [findings/gemm_shape_misaligned.py]

Work = Callable[[], object]
Way = tuple[str, Work, dict[str, Any]]  # its name, what it does once, and under which settings


def main(request: dict[str, Any], tell: Callable[..., None]) -> None:
    """``request``: device, threads, wanted (threads; 0 for none), precision, reduced (16 bits are worth
    timing), channels_last, seconds (``short``: fewer), ``subjects``: shapes by kind, and perhaps ``ways``:
    the only ones. One row for each subject and way."""
    torch = _module("torch")
    if request["device"] == "cuda" and not torch.cuda.is_available():
        return
    torch.manual_seed(0)
    _set(torch, request, {})
    _start(torch, request["device"])
    end = time.monotonic() + (SHORT_S if request.get("short") else request["seconds"])
    left = sum(len(shapes) for shapes in request["subjects"].values())
    for subject, shapes in request["subjects"].items():
        sums: dict[str, float] = {}
        rounds, covered = ROUNDS, 0.0
        for shape in shapes:
            found, made = _timed(torch, request, subject, shape, max(0.0, end - time.monotonic()) / left)
            left -= 1
            if found:
                rounds, covered = min(rounds, made), covered + shape["share"]
            for name, seconds in found.items():
                sums[name] = sums.get(name, 0.0) + shape["calls"] / shape["together"] * seconds
        if covered >= COVERED:
            for name, seconds in sums.items():
                tell(subject=subject, variant=name, seconds=seconds / covered, cpu_s=0.0, repeats=rounds)


def _start(torch: Any, device: str) -> None:
    """A library's very first call takes a quarter of a second, whatever it is."""
    x, weight = (torch.randn(64, 64, device=device, requires_grad=True) for _ in range(2))
    torch.nn.functional.linear(x, weight).sum().backward()


def _module(path: str) -> Any:
    """A module of the user's interpreter; without it this probe has nothing to say."""
    return importlib.import_module(path)


def _set(torch: Any, request: dict[str, Any], settings: dict[str, Any]) -> None:
    """The training's settings, but for these."""
    torch.set_num_threads(settings.get("threads", request["threads"]))
    torch.set_float32_matmul_precision(settings.get("precision", request["precision"]))
    if request["device"] == "cuda":
        torch.backends.cudnn.benchmark = settings.get("benchmark", request["benchmark"])


def _timed(
    torch: Any, request: dict[str, Any], subject: str, shape: dict[str, Any], seconds: float
) -> tuple[dict[str, float], int]:
    """Seconds of one call by way, and in how many rounds they were taken; nothing where that is not to be
    had: too large, or refused by this torch or this device."""
    if not _fits(torch, request["device"], shape["numbers"]):
        return {}, 0
    try:
        made = MAKERS[subject](torch, request, shape)
        ways = [
            way for way in made if "ways" not in request or way[0].lstrip("0123456789 ") in request["ways"]
        ]
        return _in_turns(torch, request, ways, seconds)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return {}, 0
    finally:
        _set(torch, request, {})


def _fits(torch: Any, device: str, numbers: float) -> bool:
    if device != "cuda":
        return bool(numbers <= LARGEST)
    return bool(4 * numbers <= FREE_SHARE * torch.cuda.mem_get_info()[0])


def _in_turns(
    torch: Any, request: dict[str, Any], ways: list[Way], seconds: float
) -> tuple[dict[str, float], int]:
    """Typical seconds over rounds, each of which does every way for a short stretch: the median by a thread's
    own clock, the least by the wall's, since others may use the cores."""
    end = time.monotonic() + seconds
    counts: dict[str, int] = {}
    times: dict[str, list[float]] = {}
    for name, work, settings in ways:
        _set(torch, request, settings)
        taken = _once(torch, work, 1)  # kernels are chosen and packed in it
        if taken < FIRST_SHARE * seconds / len(ways):
            taken = min(_once(torch, work, 1) for _ in range(2))
        counts[name] = max(1, int(BLOCK_S / max(taken, 1e-9)))
        times[name] = [taken]
    ways = [way for way in ways if times[way[0]][0] <= SLOWER * times["now"][0]]
    for made in range(1, ROUNDS + 1):
        for name, work, settings in ways:
            _set(torch, request, settings)
            times[name].append(_once(torch, work, counts[name]))
        if made >= LEAST_ROUNDS and time.monotonic() > end:
            break
    own = {name for name, _, settings in ways if _own_clock(torch, request["threads"], settings)}
    return {name: (median if name in own else min)(taken_s) for name, taken_s in times.items()}, made


def _own_clock(torch: Any, threads: int, settings: dict[str, Any]) -> bool:
    """Whether one thread does it all, so that its own clock leaves out what others take of the cores."""
    return settings.get("threads", threads) == 1 and not torch.cuda.is_initialized()


def _once(torch: Any, work: Work, count: int) -> float:
    """Seconds of one call, of so many. The training is over, so a device may be waited for; a single thread's
    own clock leaves out its waiting for a core."""
    on_device = torch.cuda.is_initialized()
    clock = time.thread_time if torch.get_num_threads() == 1 and not on_device else time.perf_counter
    if on_device:
        torch.cuda.synchronize()
    start = clock()
    for _ in range(count):
        work()
    if on_device:
        torch.cuda.synchronize()
    return (clock() - start) / count


def _layers(
    torch: Any, request: dict[str, Any], shape: dict[str, Any], call: Callable[..., Any],
    x: Any, weight: Any,
) -> Iterator[Way]:  # fmt: skip
    """``call(x, weight)`` and its backward pass: as it is, in other precisions, with other threads."""
    now = _both(torch, call, x, weight, shape["inputs"])
    yield "now", now, {}
    if request["wanted"]:
        yield f"{request['wanted']} threads", now, {"threads": request["wanted"]}
    if shape["dtype"] == "float32" and request["reduced"]:
        yield "rounded", now, {"precision": "high" if request["device"] == "cuda" else "medium"}
        for name in ("bfloat16", "float16") if request["device"] == "cuda" else ("bfloat16",):
            to = getattr(torch, name)
            yield (
                name,
                _both(torch, lambda a, w, to=to: call(a, w.to(to)), x.to(to), weight, shape["inputs"]),
                {},
            )


def _both(torch: Any, call: Callable[..., Any], x: Any, weight: Any, inputs: bool) -> Work:
    """Forward and backward once, for the gradients that the training needs; none are kept."""
    x, weight = x.detach().requires_grad_(inputs), weight.detach().requires_grad_()
    gradient = torch.randn_like(call(x, weight))
    wanted = (x, weight) if inputs else (weight,)
    return lambda: torch.autograd.grad(call(x, weight), wanted, gradient)


def _random(torch: Any, request: dict[str, Any], shape: dict[str, Any], *sizes: int) -> Any:
    return torch.randn(*sizes, device=request["device"], dtype=getattr(torch, shape["dtype"]))


def _products(torch: Any, request: dict[str, Any], shape: dict[str, Any]) -> Iterator[Way]:
    """Layers multiply by a transposed weight; batched products have two sides alike."""
    call, x, weight = _product(torch, request, shape, shape["k"], shape["n"])
    yield from _layers(torch, request, shape, call, x, weight)
    if request["device"] == "cuda":
        k, n = (-(-size // PAD) * PAD for size in (shape["k"], shape["n"]))
        call, x, weight = _product(torch, request, shape, k, n)
        yield "padded", _both(torch, call, x, weight, shape["inputs"]), {}


def _product(torch: Any, request: dict[str, Any], shape: dict[str, Any], k: int, n: int) -> Any:
    batch, m = shape["batch"], shape["m"]
    if not batch:
        sides = _random(torch, request, shape, m, k), _random(torch, request, shape, n, k)
        return torch.nn.functional.linear, *sides
    return torch.bmm, _random(torch, request, shape, batch, m, k), _random(torch, request, shape, batch, k, n)


def _convolutions(torch: Any, request: dict[str, Any], shape: dict[str, Any]) -> Iterator[Way]:
    x, weight = (_random(torch, request, shape, *shape[name]) for name in ("input", "weight"))
    plane = x.dim() == 4
    if plane and request["channels_last"]:
        x, weight = _last(torch, x), _last(torch, weight)
    convolve = getattr(torch.nn.functional, f"conv{x.dim() - 2}d")
    more = {name: shape[name] for name in ("stride", "padding", "dilation", "groups")}

    def call(a: Any, w: Any) -> Any:
        return convolve(a, w, **more)

    yield from _layers(torch, request, shape, call, x, weight)
    if not request["channels_last"]:
        sides = (_last(torch, x), _last(torch, weight)) if plane else (x, weight)
        yield "channels last", _both(torch, call, *sides, shape["inputs"]), {}
    if request["device"] == "cuda":
        yield "tuned", _both(torch, call, x, weight, shape["inputs"]), {"benchmark": True}


def _last(torch: Any, tensor: Any) -> Any:
    return tensor.to(memory_format=torch.channels_last)


def _attentions(torch: Any, request: dict[str, Any], shape: dict[str, Any]) -> Iterator[Way]:
    """Product, softmax, product as the training does it, and in torch's one operator; some calls before
    the backward pass, since scores that are alive together come from fresh memory."""
    functional = torch.nn.functional
    batch, queries, keys, width = (shape[name] for name in ("batch", "queries", "keys", "width"))
    sizes = ((queries, width), (keys, width), (keys, shape["value_width"]))
    calls = [
        [_random(torch, request, shape, batch, *size).requires_grad_() for size in sizes]
        for _ in range(shape["together"])
    ]
    gradient = _random(torch, request, shape, batch, queries, shape["value_width"])
    seen = torch.ones(queries, keys, dtype=torch.bool, device=request["device"]).tril()
    dropped = DROPPED if shape["dropout"] else 0.0

    def by_hand(q: Any, k: Any, v: Any) -> Any:
        scores = torch.bmm(q, k.transpose(1, 2))
        for _ in range(shape["between"] - shape["masked"]):
            scores = scores * 0.5
        scores = scores.masked_fill(~seen, -1e9) if shape["masked"] else scores
        weights = scores.softmax(-1)
        return torch.bmm(functional.dropout(weights, dropped) if dropped else weights, v)

    def fused(*sides: Any) -> Any:
        mask = seen if shape["masked"] else None
        heads = (one[None] for one in sides)
        return functional.scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=dropped)[0]

    leaves, gradients = [one for sides in calls for one in sides], [gradient] * len(calls)
    for name, attend in (("now", by_hand), ("fused", fused)):
        yield name, _backward(torch, attend, calls, leaves, gradients), {}


def _backward(torch: Any, call: Callable[..., Any], calls: Any, leaves: Any, gradients: Any) -> Work:
    return lambda: torch.autograd.grad([call(*sides) for sides in calls], leaves, gradients)


def _optimizers(torch: Any, request: dict[str, Any], shape: dict[str, Any]) -> Iterator[Way]:
    """Steps over tensors of the training's sizes, each way over some of its own."""
    kind = getattr(torch.optim, shape["name"])
    known = inspect.signature(kind).parameters
    options = {
        name: bool(value) if isinstance(known[name].default, bool) else value
        for name, value in shape["options"].items()
        if name in known
    }
    ways = {"now": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    for word, how in ways.items():
        if not how.keys() <= known.keys():
            continue
        tensors = [
            _random(torch, request, shape, size) for size, count in shape["sizes"] for _ in range(count)
        ]
        for one in tensors:
            one.requires_grad_().grad = torch.randn_like(one) * 0.01
        yield word, kind(tensors, lr=1e-4, **options, **how).step, {}


MAKERS: dict[str, Callable[..., Iterator[Way]]] = {
    "product": _products, "convolution": _convolutions, "attention": _attentions, "optimizer": _optimizers,
}  # fmt: skip
