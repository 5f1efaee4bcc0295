"""A device that a process uses is found among those that the driver was asked about."""

from __future__ import annotations

import pytest

from bottleneck_doctor.assemble.device import DOUBT, HIDDEN, plain, read_drivers, settle
from bottleneck_doctor.model.device import DeviceFacts
from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.model.run import Gap, Process

BARE = "f6dd2ecc-5e3c-1f4e-9a43-0a4ab0b2c7d1"
TWO = {"gpu0_name": "H100", "gpu0_uuid": "GPU-AA", "gpu1_name": "H100", "gpu1_uuid": "GPU-bb"}
CUT = {"gpu0_name": "1g", "gpu0_uuid": "MIG-51", "gpu0_whole_uuid": "GPU-aa"}
BOTH = {**CUT, "gpu1_name": "1g", "gpu1_uuid": "MIG-52", "gpu1_whole_uuid": "GPU-aa"}


@pytest.mark.parametrize("text", [BARE, f"GPU-{BARE}", f"MIG-{BARE}", f"MIG-GPU-{BARE}", BARE.upper()])
def test_every_spelling_of_one_device_is_the_same(text: str) -> None:
    assert plain(text) == BARE.replace("-", "")


@pytest.mark.parametrize(
    ("static", "uuid", "index", "place"),
    [
        (TWO, "bb", 0, 1),  # the rank's own CUDA_VISIBLE_DEVICES leaves it one device, its cuda:0
        (TWO, "GPU-aa", 0, 0),
        (TWO, "cc", 0, None),  # hidden from bdoc
        (TWO, "", 1, 1),
        ({"gpu0_name": "H100"}, "bb", 0, 0),
        (CUT, "51", 0, 0),
        (CUT, "aa", 0, 0),  # torch may say a slice's name or its GPU's
        (BOTH, "52", 0, 1),
        (BOTH, "aa", 0, None),  # which of the two slices?
    ],
)
def test_names_are_believed_before_numbers(
    static: dict[str, str], uuid: str, index: int, place: int | None
) -> None:
    samples = [Sample(0, "gpu_static", static), Sample(1, "gpu", {"gpu0_busy_share": 0.5})]
    assert read_drivers(samples, []).find("cuda", uuid, index) == place


DOUBTED = [Gap(DOUBT, "numbers"), Gap("disk counters", "none")]


@pytest.mark.parametrize(
    ("device", "uuid", "driver", "left"),
    [
        ("cuda", "aa", 0, DOUBTED[1:]),
        ("cuda", "", 0, DOUBTED),
        ("cuda", "cc", None, [DOUBTED[1], HIDDEN]),
        ("cpu", None, None, DOUBTED[1:]),
        ("cuda", None, None, DOUBTED),  # its device could not be asked
    ],
)
def test_names_settle_the_doubt_about_numbers(
    device: str, uuid: str | None, driver: int | None, left: list[Gap]
) -> None:
    drivers = read_drivers([Sample(0, "gpu_static", TWO)], [])
    devices = [] if uuid is None else [DeviceFacts(uuid=uuid, driver=driver)]
    assert settle(DOUBTED, drivers, devices, [Process(1, 0, "trainer", 0.0, device=device)]) == left
