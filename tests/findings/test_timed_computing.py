"""What was timed of a step's computing replaces ranges, and only where it is what the training does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.findings import (
    attention_unfused,
    conv_layout,
    cpu_bf16_unused,
    cpu_threads_misset,
    cudnn_autotune_off,
    fp32_tensor_cores_idle,
    gemm_shape_misaligned,
    optimizer_step_slow,
)
from bottleneck_doctor.findings.parts.entry import Entry
from bottleneck_doctor.findings.parts.timed import times_as_fast
from bottleneck_doctor.model.diagnosis import Diagnosis, Finding, Proposal
from bottleneck_doctor.model.instruments import Calibration


def rows(subject: str, **seconds: float) -> list[Calibration]:
    """Seconds per step by way; words of a way are joined by underscores."""
    return [
        Calibration("", subject, way.replace("_", " ").strip(), one, 0.0, 9) for way, one in seconds.items()
    ]


def proposal_of(entry: Entry, timed: list[Calibration], remedy: str, case: int = 0) -> Proposal | None:
    """The remedy of one of the finding's cases (the first that fires), with these rows."""
    sick = entry_case(entry, case)
    found = entry.ask(replace(sick, profile=replace(sick.profile, calibrations=timed)))
    if found is None:
        return None
    assert isinstance(found, Finding)
    return next((proposal for proposal in found.proposals if proposal.id == remedy), None)


def entry_case(entry: Entry, number: int) -> Diagnosis:
    module = next(one for one in MODULES if entry is one.FINDING)
    return module.cases()[number].diagnosis


MODULES = (
    attention_unfused, conv_layout, cpu_bf16_unused, cpu_threads_misset, cudnn_autotune_off,
    fp32_tensor_cores_idle, gemm_shape_misaligned, optimizer_step_slow,
)  # fmt: skip


def test_a_ratio_needs_both_ways_and_the_trainings_own_cost() -> None:
    sick = entry_case(conv_layout.FINDING, 0)

    def ratio(timed: list[Calibration], measured_s: float) -> float | None:
        run = replace(sick, profile=replace(sick.profile, calibrations=timed))
        return times_as_fast(run, ("product", "convolution"), "bfloat16", measured_s)

    both = rows("product", now=0.01, bfloat16=0.004) + rows("convolution", now=0.02, bfloat16=0.006)
    assert ratio(both, 0.03) == pytest.approx(3.0)
    assert ratio(both, 0.016) == pytest.approx(3.0)
    assert ratio(both, 0.014) is None
    assert ratio(both, 0.061) is None
    assert ratio(both[:3], 0.03) is None
    assert ratio(rows("product", now=0.01, bfloat16=0.004), 0.01) == pytest.approx(2.5)
    assert ratio([], 0.01) is None
    assert ratio(both, 0.0) is None


def test_fused_attention_takes_what_it_was_timed_to_take() -> None:
    # Attention is 27 of 37 ms of operators: 37 ms of the 51 that the loop takes.
    proposal = proposal_of(
        attention_unfused.FINDING, rows("attention", now=0.04, fused=0.01), "sdpa-attention"
    )
    assert proposal is not None
    assert proposal.change is not None
    assert (proposal.basis, proposal.factor) == ("calibrated", None)
    attention_s = 0.051 * 27 / 50
    assert proposal.change.compute == pytest.approx(1 - (attention_s - 0.01) / 0.051, rel=0.01)


def test_attention_that_gains_nothing_here_is_not_offered() -> None:
    attention_s = 0.051 * 27 / 50
    timed = rows("attention", now=attention_s, fused=attention_s)
    assert proposal_of(attention_unfused.FINDING, timed, "sdpa-attention") is None


def test_what_was_timed_but_is_not_the_training_leaves_the_range() -> None:
    proposal = proposal_of(
        attention_unfused.FINDING, rows("attention", now=0.4, fused=0.01), "sdpa-attention"
    )
    assert proposal is not None
    assert (proposal.change, proposal.basis) == (None, "bound")


def test_of_the_optimizers_ways_the_quicker_is_offered() -> None:
    timed = rows("optimizer", now=0.004, fused=0.002, foreach=0.001)
    assert proposal_of(optimizer_step_slow.FINDING, timed, "optimizer-fused") is None
    proposal = proposal_of(optimizer_step_slow.FINDING, timed, "optimizer-foreach")
    assert proposal is not None
    assert proposal.change is not None
    assert proposal.change.compute == pytest.approx(1 - 0.4 * 0.75, rel=0.01)
    slower = rows("optimizer", now=0.004, fused=0.0039)
    assert proposal_of(optimizer_step_slow.FINDING, slower, "optimizer-fused") is None


def test_a_layout_promises_half_of_what_convolutions_gained_alone() -> None:
    wide = proposal_of(
        conv_layout.FINDING, rows("convolution", now=0.03, channels_last=0.01), "channels-last"
    )
    assert wide is not None
    assert wide.factor is not None
    assert (wide.basis, wide.factor[0]) == ("calibrated", 1.0)
    assert 1.2 < wide.factor[1] < wide.factor[2] < 3.0
    none = proposal_of(
        conv_layout.FINDING, rows("convolution", now=0.03, channels_last=0.03), "channels-last"
    )
    assert none is None


def test_fewer_bits_on_the_cpu_still_promise_nothing_and_may_bring_what_was_timed() -> None:
    timed = rows("product", now=0.017, bfloat16=0.0085, rounded=0.034)
    proposal = proposal_of(cpu_bf16_unused.FINDING, timed, "cpu-bf16")
    assert proposal is not None
    assert proposal.factor is not None
    assert proposal.factor[:2] == (1.0, 1.0)
    assert 1.4 < proposal.factor[2] < 2.0
    assert proposal_of(cpu_bf16_unused.FINDING, timed, "cpu-fp32-precision-medium") is None


def test_threads_bring_what_they_brought() -> None:
    timed = [*rows("product", now=0.02), Calibration("", "product", "4 threads", 0.005, 0.0, 9)]
    proposal = proposal_of(cpu_threads_misset.FINDING, timed, "set-threads")
    assert proposal is not None
    assert proposal.change is not None
    assert proposal.change.compute == pytest.approx(1 - 0.9 * 0.75)
    slower = [*rows("product", now=0.02), Calibration("", "product", "4 threads", 0.03, 0.0, 9)]
    assert proposal_of(cpu_threads_misset.FINDING, slower, "set-threads") is None


def test_one_thread_that_the_script_asks_for_is_promised_what_was_timed_too() -> None:
    timed = [*rows("product", now=0.02), Calibration("", "product", "4 threads", 0.005, 0.0, 9)]
    proposal = proposal_of(cpu_threads_misset.FINDING, timed, "set-threads", case=1)
    assert proposal == proposal_of(cpu_threads_misset.FINDING, timed, "set-threads")


def test_a_simulated_device_gains_what_was_timed_of_its_products() -> None:
    timed = rows("product", now=0.014, rounded=0.007, bfloat16=0.0035)
    tf32 = proposal_of(fp32_tensor_cores_idle.FINDING, timed, "tf32")
    assert tf32 is not None
    assert tf32.change is not None
    assert tf32.change.device == pytest.approx(1 - 0.7 / 2)
    amp = proposal_of(fp32_tensor_cores_idle.FINDING, timed, "amp")
    assert amp is not None
    assert amp.factor is not None
    assert amp.basis == "calibrated"
    plain = proposal_of(fp32_tensor_cores_idle.FINDING, [], "amp")
    assert plain is not None
    assert plain.factor is not None
    assert amp.factor[1] > plain.factor[1]


def test_simulated_padding_and_tuning_gain_what_was_timed() -> None:
    padded = proposal_of(gemm_shape_misaligned.FINDING, rows("product", now=0.014, padded=0.007), "pad-dims")
    assert padded is not None
    assert padded.change is not None
    assert padded.change.device == pytest.approx(1 - 0.014 / 0.0195 / 2)
    tuned = proposal_of(
        cudnn_autotune_off.FINDING, rows("convolution", now=0.016, tuned=0.008), "cudnn-benchmark"
    )
    assert tuned is not None
    assert tuned.change is not None
    assert tuned.change.device == pytest.approx(1 - 0.8 / 2)
