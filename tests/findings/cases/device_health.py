"""Cases of the findings in device_health.py."""

from __future__ import annotations

from bottleneck_doctor.model.derived import DriverView
from bottleneck_doctor.model.device import DeviceWindow
from bottleneck_doctor.model.diagnosis import Diagnosis
from tests.findings.builders import COPYING, SATURATED, Case, abstains, accelerator_run, fires, silent

# gpu-hw-degraded
HOT = DriverView(100, 0.99, 0.5, {"sw_thermal": 0.8}, link_share=1.0)
AS_BUILT = DriverView(100, 0.99, 0.75, {"power_cap": 1.0}, power_limit_w=700.0, power_default_w=700.0)
NARROW = DriverView(100, 0.7, 0.95, link_share=0.25, link_gen=3.0, link_gen_max=4.0, link_width=8.0,
                    link_width_max=16.0)  # fmt: skip
BRIEF = DriverView(4, 0.99, 0.5, {"sw_thermal": 1.0})


def gpu_hw_degraded() -> tuple[Case, ...]:
    return (
        fires("hot, at half its clock", accelerator_run(SATURATED, driver=HOT), "cooling-or-power"),
        fires("hot, by the driver's word alone", accelerator_run(None, driver=HOT), "cooling-or-power"),
        fires("eight lanes of an older generation", accelerator_run(COPYING, driver=NARROW), "reseat-pcie"),
        silent("at its power limit as designed", accelerator_run(SATURATED, driver=AS_BUILT)),
        abstains("two seconds of readings", accelerator_run(SATURATED, driver=BRIEF)),
    )


# gpu-shared
GIB = 2.0**30  # bytes, for the cases


def _shared_case(
    beat: DeviceWindow | None, ours: float | None, processes: float | None, held: float = 0.0
) -> Diagnosis:
    driver = DriverView(100, 0.99, foreign_processes=processes, foreign_bytes=held, memory_bytes=80 * GIB,
                        our_share=ours)  # fmt: skip
    return accelerator_run(beat, driver=driver)


def gpu_shared() -> tuple[Case, ...]:
    return (
        fires("a neighbour takes half of it", _shared_case(SATURATED, 0.5, 1.0, 9 * GIB), "exclusive-gpu"),
        fires("known from the driver alone", _shared_case(None, 0.5, 1.0, 9 * GIB), "exclusive-gpu"),
        fires("an open notebook holds memory", _shared_case(SATURATED, None, 1.0, 20 * GIB)),
        silent("no other process", _shared_case(SATURATED, 1.0, 0.0)),
        silent("a display", _shared_case(SATURATED, 0.99, 1.0, GIB)),
        abstains("process numbers of the host", _shared_case(SATURATED, None, None)),
    )
