"""A step's computing is timed by real calls, in the training's shapes, in another process."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.calibrate.calibrate import PROBES, ask

pytest.importorskip("torch")

USUAL = {
    "device": "cpu", "threads": 1, "wanted": 0, "precision": "highest", "benchmark": False, "reduced": True,
    "channels_last": False, "seconds": 1.0,
}  # fmt: skip
ONE = {"calls": 1, "share": 1.0, "numbers": 1e6, "together": 1, "dtype": "float32", "inputs": True}
PRODUCT = {**ONE, "batch": 0, "m": 32, "k": 64, "n": 48}
IMAGES = {
    **ONE, "input": [2, 8, 12, 12], "weight": [8, 4, 3, 3], "stride": [1, 1], "padding": [1, 1],
    "dilation": [1, 1], "groups": 2,
}  # fmt: skip
SCORES = {
    **ONE, "batch": 8, "queries": 256, "keys": 256, "width": 32, "value_width": 32, "between": 2,
    "masked": True, "dropout": False, "together": 2, "calls": 2,
}  # fmt: skip
ADAM = {
    **ONE, "name": "Adam", "sizes": [[200, 300]],
    "options": {"weight_decay": 0.01, "amsgrad": 0.0, "invented": 1.0},
}  # fmt: skip


def told(folder: Path, subjects: dict[str, Any], **more: Any) -> dict[tuple[str, str], float]:
    request = {**USUAL, **more, "subjects": subjects}
    answer = ask(sys.executable, "computing", request, str(folder), 120.0)
    assert answer.problem == ""
    return {(row["subject"], row["variant"]): row["seconds"] for row in answer.rows}


def test_layers_are_timed_as_they_are_rounded_and_with_more_threads(tmp_path: Path) -> None:
    batched = {**PRODUCT, "batch": 3, "inputs": False}
    rows = told(tmp_path, {"product": [PRODUCT, batched], "convolution": [IMAGES]}, wanted=2)
    ways = {"now", "2 threads", "rounded", "bfloat16"}
    assert {way for subject, way in rows if subject == "product"} == ways
    assert {way for subject, way in rows if subject == "convolution"} == {*ways, "channels last"}
    assert all(seconds > 0 for seconds in rows.values())


def test_of_ways_only_those_that_were_asked_for_are_timed(tmp_path: Path) -> None:
    rows = told(tmp_path, {"product": [PRODUCT]}, wanted=2, ways=["now", "threads"], short=True)
    assert set(rows) == {("product", "now"), ("product", "2 threads")}


def test_lower_precision_is_not_timed_where_it_is_not_asked_for(tmp_path: Path) -> None:
    assert set(told(tmp_path, {"product": [PRODUCT]}, reduced=False)) == {("product", "now")}
    half = {**PRODUCT, "dtype": "bfloat16"}
    assert set(told(tmp_path, {"product": [half]})) == {("product", "now")}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.alone
def test_one_operator_is_faster_than_attention_by_hand(tmp_path: Path) -> None:
    rows = told(tmp_path, {"attention": [SCORES]})
    assert set(rows) == {("attention", "now"), ("attention", "fused")}
    assert rows["attention", "fused"] < rows["attention", "now"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.alone
def test_one_fused_call_is_faster_than_three_hundred_updates(tmp_path: Path) -> None:
    rows = told(tmp_path, {"optimizer": [ADAM]})
    assert set(rows) == {("optimizer", way) for way in ("now", "foreach", "fused")}
    assert rows["optimizer", "fused"] < 0.5 * rows["optimizer", "now"]


def test_times_are_a_steps_and_stand_for_what_was_left_out(tmp_path: Path) -> None:
    once = {**PRODUCT, "m": 256, "k": 256, "n": 256}
    often = {**once, "calls": 50, "share": 0.5}
    too_large = {**PRODUCT, "share": 0.5, "numbers": 1e12}
    single = told(tmp_path, {"product": [once]}, reduced=False)["product", "now"]
    whole = told(tmp_path, {"product": [often, too_large]}, reduced=False)["product", "now"]
    assert 30 < whole / single < 300


def test_too_little_of_the_work_is_told_by_nobody(tmp_path: Path) -> None:
    small = {**PRODUCT, "share": 0.1}
    too_large = {**PRODUCT, "share": 0.9, "numbers": 1e12}
    assert told(tmp_path, {"product": [small, too_large], "optimizer": [{**ADAM, "name": "None"}]}) == {}


def test_without_the_device_nothing_is_timed(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    assert told(tmp_path, {"product": [PRODUCT]}, device="cuda") == {}


class Pretended:
    """torch with a device that is the CPU in truth: simulated, no number here is from hardware."""

    def __init__(self, free: int) -> None:
        self.cuda, self.free, self.waits = self, free, 0
        self.backends = self.cudnn = self
        self.benchmark = False

    def __getattr__(self, name: str) -> Any:
        return getattr(pytest.importorskip("torch"), name)

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def mem_get_info(self) -> tuple[int, int]:
        return self.free, self.free

    def synchronize(self) -> None:
        self.waits += 1

    def randn(self, *sizes: int, **more: Any) -> Any:
        return pytest.importorskip("torch").randn(*sizes, **{**more, "device": "cpu"})


def on_device(free: int, shape: dict[str, Any], subject: str) -> tuple[set[str], Pretended]:
    """The ways that were timed on the pretended device."""
    torch = Pretended(free)
    timed = runpy.run_path(str(PROBES / "computing.py"))["_timed"]
    request = {**USUAL, "device": "cuda", "threads": pytest.importorskip("torch").get_num_threads()}
    return set(timed(torch, request, subject, shape, 0.01)[0]), torch


def test_a_pretended_device_is_asked_in_all_precisions_and_waited_for() -> None:
    ways, torch = on_device(1 << 30, PRODUCT, "product")
    assert ways == {"now", "rounded", "bfloat16", "float16", "padded"}
    assert torch.waits >= 2 * len(ways)
    assert on_device(1 << 30, IMAGES, "convolution")[0] >= {"now", "tuned", "channels last"}


def test_a_pretended_device_without_free_memory_is_left_alone() -> None:
    ways, torch = on_device(1 << 20, PRODUCT, "product")
    assert (ways, torch.waits) == (set(), 0)
