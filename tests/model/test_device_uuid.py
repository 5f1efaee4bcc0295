"""Driver and torch mean the same device."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.device_uuid import bare_uuid

BARE = "f6dd2ecc-5e3c-1f4e-9a43-0a4ab0b2c7d1"


@pytest.mark.parametrize(
    "text", [BARE, f"GPU-{BARE}", f"MIG-{BARE}", f"MIG-GPU-{BARE}", BARE.upper(), f" GPU-{BARE}\n"]
)
def test_every_spelling_of_one_device_is_the_same(text: str) -> None:
    assert bare_uuid(text) == BARE


def test_slices_of_one_device_stay_apart() -> None:
    assert bare_uuid(f"MIG-GPU-{BARE}/1/0") != bare_uuid(f"MIG-GPU-{BARE}/2/0")
    assert bare_uuid("") == ""
