"""A device that a process uses is found among those that the driver was asked about."""

from __future__ import annotations

import pytest

from bottleneck_doctor.assemble.driver_place import find_place
from bottleneck_doctor.model.sample import Sample

TWO = {"gpu0_name": "H100", "gpu0_uuid": "GPU-AA", "gpu1_name": "H100", "gpu1_uuid": "GPU-bb"}
CUT = {"gpu0_name": "1g", "gpu0_uuid": "MIG-s1", "gpu0_whole_uuid": "GPU-aa"}
BOTH = {**CUT, "gpu1_name": "1g", "gpu1_uuid": "MIG-s2", "gpu1_whole_uuid": "GPU-aa"}
NAMELESS = {"gpu0_name": "H100", "gpu1_name": "H100"}


@pytest.mark.parametrize(
    ("static", "uuid", "index", "place"),
    [
        (TWO, "bb", 0, 1),  # the rank's own CUDA_VISIBLE_DEVICES leaves it one device, its cuda:0
        (TWO, "GPU-aa", 0, 0),
        (TWO, "cc", 0, None),  # hidden from bdoc
        (TWO, "", 1, 1),
        (TWO, "", 2, None),
        (NAMELESS, "bb", 1, 1),
        (CUT, "s1", 0, 0),
        (CUT, "aa", 0, 0),  # torch may say a slice's identifier or its GPU's
        (BOTH, "s2", 0, 1),
        (BOTH, "aa", 0, None),  # which of the two slices?
        ({}, "aa", 0, None),
    ],
)
def test_identifiers_are_believed_before_numbers(
    static: dict[str, str], uuid: str, index: int, place: int | None
) -> None:
    samples = [Sample(0, "gpu_static", static), Sample(1, "gpu", {"gpu0_busy_share": 0.5})]
    assert find_place(samples, uuid, index) == place
