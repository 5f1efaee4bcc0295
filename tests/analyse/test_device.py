"""Accelerated runs: views of the device and verdicts. All devices are simulated."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from bottleneck_doctor.analyse.device import clock_loss, runs_ahead, view_device, view_driver
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.metrics import operations, utilisation
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.model.device import (
    Convolution,
    DeviceCopy,
    DeviceFacts,
    DeviceSync,
    DeviceView,
    DeviceWindow,
    DriverView,
    Kernels,
    Product,
)
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.profile import Profile
from tests.analyse.devices import device_run
from tests.analyse.runs import run_of

MS = 1e-3
ONCE = {"sm_clock_max_mhz": 2000.0, "pcie_gen_max": 5.0, "pcie_width_max": 16.0, "power_default_w": 700.0}


def driver_of(*readings: dict[str, float]):
    """The driver's view of readings half a second apart; what never changes is said at the first."""
    names = sorted({name for one in readings for name in one} | set(ONCE))
    rows = [dict(ONCE) | readings[0], *readings[1:]]
    values = {f"gpu0_{name}": [one.get(name) for one in rows] for name in names}
    return view_driver(Series([0.5 * place for place in range(len(rows))], values), "gpu0_", 0.0, 1e9)


def seen(profile: Profile):
    """All of the run."""
    return view_device(profile, 0.0, 1e9, profile.loops[0], steps_of(profile.loops[0].table))


def test_the_beat_is_a_mean_over_the_steady_window_alone():
    profile = device_run(busy_s=10 * MS, launch_s=5 * MS, host_s=12 * MS)
    table = profile.device.table
    table.wall_s[0] = 1000.0  # a warm-up row
    view = view_device(profile, table.t[1], table.t[-1], profile.loops[0], steps_of(profile.loops[0].table))
    assert view.clock.looks == sum(table.looks) - table.looks[0]
    assert view.beat.busy_s == pytest.approx(10 * MS)
    assert view.beat.launch_s == pytest.approx(5 * MS, rel=0.01)


@pytest.mark.parametrize(
    ("reading", "loss"),
    [
        ({"clocks_hw_thermal": 1.0}, 0.5),
        ({"clocks_power_cap": 1.0, "power_limit_w": 700.0}, None),  # as the card was built
        ({"clocks_power_cap": 1.0, "power_limit_w": 300.0}, 0.5),  # somebody lowered it
        ({"clocks_applications": 1.0}, None),  # the user's own choice
        ({}, None),
    ],
)
def test_a_low_clock_counts_only_where_something_holds_it_down(reading, loss):
    view = seen(device_run(busy_s=MS, host_s=MS))
    slow = {"busy_share": 0.9, "sm_clock_mhz": 1000.0, **reading}
    assert clock_loss(replace(view, driver=driver_of(*[slow] * 40))) == loss
    assert clock_loss(replace(view, driver=driver_of(*[slow] * 4))) is None


@pytest.mark.parametrize(
    ("beat", "facts", "ahead"),
    [
        ({"busy_s": 19 * MS}, DeviceFacts(), 1.0),
        ({"busy_s": 13 * MS, "sync_s": 6 * MS}, DeviceFacts(), 0.0),
        # a value of the step before last is read: it blocks, and nothing drains
        ({"busy_s": 19 * MS}, DeviceFacts(syncs=[DeviceSync("item", 1.0, MS, 0.0)]), 1.0),
        # blocked by copies, and the wait for data shows on the device
        (
            {"busy_s": 14 * MS, "input_s": 5 * MS},
            DeviceFacts(copies=[DeviceCopy(1e6, 2.0, MS, MS, False, True)]),
            0.0,
        ),
    ],
)
def test_the_loop_runs_ahead_unless_the_device_was_seen_idle_for_it(beat, facts, ahead):
    view = seen(device_run(facts, host_s=4 * MS, **beat))
    assert runs_ahead(view, wait_s=5 * MS) == ahead


def test_each_kind_of_call_answers_for_the_idleness_behind_it():
    copies, read = [DeviceCopy(4e7, 1.0, MS, MS, False, True)], DeviceSync("item", 1.0, MS, 3 * MS)
    beat = {"busy_s": 12 * MS, "sync_s": 5 * MS, "transfer_s": 3 * MS, "host_s": 9 * MS}
    both = seen(device_run(DeviceFacts(copies=copies, syncs=[read]), **beat))
    alone = seen(device_run(DeviceFacts(copies=copies, syncs=[]), **beat))
    assert runs_ahead(both, 0.0, copies=False) == runs_ahead(both, 0.0, syncs=False) == 0.0
    assert runs_ahead(both, 0.0, syncs=False, copies=False) == 1.0
    assert (runs_ahead(alone, 0.0), runs_ahead(alone, 0.0, copies=False)) == (0.0, 1.0)


def traced_run(slower: float, part: str = "wall_s", since: int = 110, device: str = "cuda") -> Profile:
    """A run of 300 steps of which a profiler saw ten, from the 100th on; from one on they are slower."""
    profile = device_run(busy_s=10 * MS, host_s=2 * MS, input_s=5 * MS)
    table = profile.loops[0].table
    for place in range(100, 110):
        table.set_aside[place] = "instrument"
    for place in range(since, 300):
        added = (slower - 1) * table.wall_s[place]
        table.wall_s[place] += added
        table.wait_s[place] += added if part == "wait_s" else 0.0
    return replace(profile, processes=[replace(profile.processes[0], device=device)])


@pytest.mark.parametrize(
    ("run", "reported"),
    [
        (traced_run(1.1), True),
        (traced_run(1.01), False),
        (traced_run(1.3, "wait_s"), False),  # the storage got slower
        (traced_run(1.1, since=220), False),  # whatever it is, the profiler is not
        (traced_run(1.1, device="cpu"), False),
    ],
)
def test_steps_that_are_slower_behind_a_profilers_window_are_reported_and_not_judged(run, reported):
    found = diagnose(run)
    gaps = [gap for gap in found.quality.gaps if gap.what == "steps after the profiler's window"]
    assert ["×1.1" in gap.why for gap in gaps] == [True] * reported
    assert max(step.t for step in found.steps) < run.loops[0].table.t[100] or not reported
    assert found.quality.set_aside.get("slowed", 0) == 190 * reported


def on(kind: str, **traits: float) -> Profile:
    """A run of which nothing is known but that it computes on such a device."""
    base = run_of(**{"workers": 2, "cpu": MS, "idle": 20 * MS} | traits)
    return replace(base, processes=[replace(base.processes[0], device=kind)])


@pytest.mark.parametrize("kind", ["mps", "xpu", "hpu"])
def test_nothing_of_the_drivers_gpus_is_taken_for_it(kind):
    run = on(kind)
    run.series.values["gpu0_busy_share"] = [0.9] * len(run.series.t)
    metrics = diagnose(run).metrics
    for name in ("gpu_busy_fraction", "gpu_memory_fraction", "exposed_data_wait_fraction"):
        assert metrics[name].value is None
        assert metrics[name].source, "it says why"


LARGE = Product(8192, 8192, 8192, "bfloat16", 10, 0.015)  # 11 TFLOP: 11.1 ms at 989 TFLOP/s


def view(*kernels: Kernels, name: str = "NVIDIA H200", product: Product = LARGE) -> DeviceView:
    facts = DeviceFacts(name=name, products=[product], kernels=[Kernels("matmul", 0.015, 10, 1e-3), *kernels])
    return DeviceView(facts, DriverView(), DeviceWindow(100, 0.0222, 0.0215))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("groups", "stride", "dilation"), [(1, 1, 1), (1, 2, 1), (1, 1, 2), (4, 1, 2)])
def test_convolutions_have_as_many_operations_as_torch_counts(
    backward: bool, groups: int, stride: int, dilation: int
) -> None:
    layer = nn.Conv2d(8, 16, 3, stride=stride, padding=1, dilation=dilation, groups=groups)
    batch = torch.randn(2, 8, 19, 23, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        out = layer(batch)
    with FlopCounterMode(display=False) as back:
        out.sum().backward()
    one = Convolution(
        list(batch.shape), list(layer.weight.shape), [stride] * 2, [1, 1], [dilation] * 2, groups, "tf32",
        1, 1e-3, backward,
    )  # fmt: skip
    if groups > 1 and backward:  # of which torch counts four times as many for the weights
        assert operations(one) == 2 * forward.get_total_flops()
    else:
        assert operations(one) == (back if backward else forward).get_total_flops()


def test_arithmetic_that_cannot_be_counted_widens_the_interval_until_there_is_no_value() -> None:
    little = utilisation(view(Kernels("attention", 0.001, 10, 1e-4)))
    assert little.value is not None
    assert little.low is not None
    assert little.high == pytest.approx(little.low + 0.001 / 0.0222)
    much = utilisation(view(Kernels("attention", 0.005, 10, 1e-4)))
    assert much.value is None
    assert much.low == pytest.approx(0.5, abs=0.01)
    beyond = utilisation(view(product=replace(LARGE, calls=100)))  # than its peak
    assert (beyond.value, beyond.low, beyond.high) == (None, None, None)
