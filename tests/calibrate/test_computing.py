"""What of a step's computing is timed after the training: the costliest shapes, under its own settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bottleneck_doctor.calibrate.subjects import ELEMENTS_AT_MOST, SHAPES_AT_MOST, computing_request
from bottleneck_doctor.model.computing import (
    AttentionShape,
    Computing,
    ConvolutionShape,
    Optimizer,
    ProductShape,
    ScriptSettings,
    Shapes,
)
from bottleneck_doctor.model.loops import Epochs, Loop, StepTable
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.calibrate.runs import run_over

LAYER = ProductShape(1, "cpu", "float32", 2, 0, 64, 128, 256)
IMAGES = ConvolutionShape(1, "cpu", "float32", 1, [8, 4, 16, 16], [6, 4, 3, 3], [1, 1], [1, 1], [1, 1])
SCORES = AttentionShape(1, "cpu", "float32", 6, 8, 64, 64, 32, 32, between=1)
ADAM = Optimizer(1, "Adam", "torch", 3, 300, device="cpu", dtype="float32", sizes=[(100, 3)])


def training(
    shapes: Shapes | None = None, optimizers: tuple[Optimizer, ...] = (), waits: float = 0.1, threads: int = 2
) -> Profile:
    """Two cores; process 1 trains for 10 s, of which it waits a share."""
    loop = Loop("1:1", 1, 0, "train", 100, 10.0, 10.0 * waits, Epochs(), StepTable())
    facts = Computing(
        switches=[ScriptSettings(1, matmul_precision="high", amx=True)], optimizers=list(optimizers),
        shapes=shapes or Shapes(),
    )  # fmt: skip
    trainer = Process(1, 0, "trainer", 0.0, torch_threads=threads)
    return replace(run_over([]), loops=[loop], computing=facts, processes=[trainer])


def asked(profile: Profile) -> dict[str, Any]:
    found = computing_request(profile)
    assert found is not None
    assert found[0] == 1
    return found[1]


def test_shapes_of_all_kinds_are_asked_for_with_their_share_of_the_work() -> None:
    small = replace(LAYER, n=128, calls=1)
    request = asked(training(Shapes([small, LAYER], [IMAGES], [SCORES]), (ADAM,)))
    assert {kind: len(some) for kind, some in request["subjects"].items()} == {
        "product": 2, "convolution": 1, "attention": 1, "optimizer": 1,
    }  # fmt: skip
    large = request["subjects"]["product"][0]
    assert (large["n"], large["share"]) == (256, 0.8)
    assert (request["device"], request["precision"], request["reduced"]) == ("cpu", "high", True)


def test_only_the_costliest_are_timed() -> None:
    many = [replace(LAYER, n=number) for number in range(1, 30)]
    chosen = asked(training(Shapes(many)))["subjects"]["product"]
    assert [one["n"] for one in chosen] == list(range(29, 29 - SHAPES_AT_MOST, -1))


def test_all_cores_are_tried_where_one_thread_computes_alone() -> None:
    assert asked(training(Shapes([LAYER]), threads=1))["wanted"] == 2
    assert asked(replace(training(Shapes([LAYER]), waits=0.0), loaders=[]))["wanted"] == 0
    second = Process(2, 0, "trainer", 0.0, torch_threads=1)
    ranks = training(Shapes([LAYER]), threads=1)
    assert asked(replace(ranks, processes=[*ranks.processes, second]))["wanted"] == 0


def test_one_thread_is_tried_where_workers_may_want_the_other_core() -> None:
    assert asked(training(Shapes([LAYER]), threads=2, waits=0.1))["wanted"] == 1


def test_nothing_is_timed_where_the_loop_waits_for_data_all_the_time() -> None:
    assert computing_request(training(Shapes([LAYER]), waits=0.9)) is None


def test_nothing_is_timed_where_nothing_is_known_or_the_device_has_no_clock_of_ours() -> None:
    assert computing_request(training()) is None
    assert computing_request(training(Shapes([replace(LAYER, device="mps")]))) is None
    assert computing_request(training(Shapes([replace(LAYER, dtype="int8")]))) is None


def test_optimizers_that_are_fused_or_not_torchs_or_run_the_model_are_left_alone() -> None:
    for other in ({"fused": True}, {"library": "apex"}, {"closure": True}, {"sizes": []}):
        assert computing_request(training(optimizers=(replace(ADAM, **other),))) is None  # type: ignore[arg-type]


def test_of_a_large_model_a_part_of_the_tensors_is_made() -> None:
    large = replace(ADAM, elements=10**9, sizes=[(5 * 10**7, 20)])
    (made,) = asked(training(optimizers=(large,)))["subjects"]["optimizer"]
    elements = sum(size * count for size, count in made["sizes"])
    assert elements <= 1.5 * ELEMENTS_AT_MOST
    assert abs(made["calls"] * elements / 10**9 - 1) < 0.01
