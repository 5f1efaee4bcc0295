"""Matrix products and convolutions of a trace, by the shapes that their operators were given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..model.device import Convolution, Product
from .timeline import Range

SHAPES_AT_MOST = 64

# Operator -> where its two factors stand among the arguments.
PRODUCTS = {
    "aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::bmm": (0, 1), "aten::baddbmm": (1, 2),
    "aten::_addmm_activation": (1, 2), "aten::addmm_": (1, 2), "aten::baddbmm_": (1, 2),
    "aten::_scaled_mm": (0, 1), "aten::_int_mm": (0, 1),
}  # fmt: skip

# Operator -> where input, weight, stride, padding, dilation and groups stand (native_functions.yaml).
CONVOLUTIONS = {
    "aten::cudnn_convolution": (0, 1, 3, 2, 4, 5),
    "aten::cudnn_convolution_relu": (0, 1, 3, 4, 5, 6),
    "aten::miopen_convolution": (0, 1, 4, 3, 5, 6),
    "aten::convolution_overrideable": (0, 1, 3, 4, 5, 8),
    "aten::convolution_backward": (1, 2, 4, 5, 6, 9),
}


class Timed(NamedTuple):
    """An operator and the device's time for its products, in microseconds and in one precision."""

    operator: Range
    precision: str
    device_us: float


def read_products(timed: Iterable[Timed], steps: int) -> list[Product]:
    """Products by shape and precision, costliest first; those of a batch count one by one."""
    sums: dict[tuple[int, int, int, str], list[float]] = {}
    for one in timed:
        shape = product_shape(one.operator)
        if shape is not None:
            m, n, k, batch = shape
            total = sums.setdefault((m, n, k, one.precision), [0.0, 0.0])
            total[0] += batch
            total[1] += one.device_us
    found = [
        Product(m, n, k, precision, calls / steps, taken * 1e-6 / steps)
        for (m, n, k, precision), (calls, taken) in sums.items()
    ]
    return sorted(found, key=lambda product: -product.device_s)[:SHAPES_AT_MOST]


def product_shape(operator: Range) -> tuple[int, int, int, int] | None:
    """(m, n, k, how many) of a product; None for what is none."""
    places = PRODUCTS.get(operator.name)
    if places is None:
        return None
    left, right = (_dimensions(operator, place) for place in places)
    if len(left) != len(right) or len(left) not in (2, 3) or left[-1] != right[-2]:
        return None
    return left[-2], right[-1], left[-1], left[0] if len(left) == 3 else 1


def read_convolutions(timed: Iterable[Timed], steps: int) -> list[Convolution]:
    """Convolutions by all that decides which kernel runs, costliest first."""
    sums: dict[tuple[Any, ...], list[float]] = {}
    for one in timed:
        shape = _convolution_shape(one.operator)
        if shape is not None:
            total = sums.setdefault((*shape, one.precision), [0.0, 0.0])
            total[0] += 1
            total[1] += one.device_us
    found = [
        Convolution(
            list(taken_in), list(weight), list(stride), list(padding), list(dilation), groups, precision,
            calls / steps, us * 1e-6 / steps, backward,
        )
        for (
            (taken_in, weight, stride, padding, dilation, groups, backward, precision), (calls, us)
        ) in sums.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: -one.device_s)[:SHAPES_AT_MOST]


def _convolution_shape(operator: Range) -> tuple[Any, ...] | None:
    places = CONVOLUTIONS.get(operator.name)
    if places is None:
        return None
    sizes = [tuple(_dimensions(operator, place)) for place in places[:2]]
    settings = [tuple(_numbers(operator, place)) for place in places[2:5]]
    groups = _numbers(operator, places[5])
    if len(sizes[0]) < 3 or len(sizes[0]) != len(sizes[1]) or not all(settings) or len(groups) != 1:
        return None
    return (*sizes, *settings, groups[0], operator.name.endswith("backward"))


def passing_shapes(convolutions: list[Convolution], steps: int) -> float:
    """Shapes of inputs that some of the recorded steps had and others not, per hundred steps: what does not
    change comes in every one."""
    calls: dict[tuple[int, ...], float] = {}
    for one in convolutions:
        if not one.backward:
            key = (*one.input, *one.weight)
            calls[key] = calls.get(key, 0.0) + one.calls
    return 100 * sum(each < 1 for each in calls.values()) / steps


def types_of(operator: Range | None) -> str:
    """The first tensor's type, as the dispatcher calls it."""
    given = operator.given.get("Input type") if operator is not None else None
    return str(given[0])[:64] if isinstance(given, list) and given else ""


def _dimensions(operator: Range, place: int) -> list[int]:
    """The sizes of an argument; empty where it is no tensor."""
    given = operator.given.get("Input Dims", operator.given.get("Input dims"))
    found = given[place] if isinstance(given, list) and len(given) > place else None
    sound = isinstance(found, list) and len(found) <= 8 and all(type(one) is int and one > 0 for one in found)
    return found if sound and found is not None else []


def _numbers(operator: Range, place: int) -> list[int]:
    """The whole numbers of an argument that is no tensor."""
    given = operator.given.get("Concrete Inputs")
    text = given[place] if isinstance(given, list) and len(given) > place else ""
    return [int(one) for one in re.findall(r"\d{1,9}", text)][:8] if isinstance(text, str) else []
