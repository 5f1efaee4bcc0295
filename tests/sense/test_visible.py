"""The GPUs watched are those that CUDA_VISIBLE_DEVICES leaves to the job."""

from __future__ import annotations

import sys

import pytest

from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.sense.nvml import list_gpu_names, load_nvml, visible_gpus
from tests.sense.fake_nvml import FakeNvml, gpu

ORDERED = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def chosen(nvml: FakeNvml, wanted: str | None) -> list[int]:
    """NVML indices of the visible GPUs."""
    environment = ORDERED if wanted is None else {**ORDERED, "CUDA_VISIBLE_DEVICES": wanted}
    return [found.index for found in visible_gpus(nvml, environment)[0]]


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        (" 1 ", [1]),
        ("", []),
        ("-1", []),
        ("0,-1,2", [0]),
        ("0,9,2", [0]),
        ("GPU-cc", [2]),
        ("GPU-aa,1", [0, 1]),
        ("GPU-", []),
        ("GPU-zz", []),
        ("nonsense", []),
        ("MIG-b1", [1]),
        ("MIG-zz,0", []),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(wanted: str | None, indices: list[int]) -> None:
    sliced = gpu("GPU-bb", parts=[gpu("MIG-b1", "H100 MIG 3g.40gb", slices=3)])
    assert chosen(FakeNvml(gpu("GPU-aa1"), sliced, gpu("GPU-cc1")), wanted) == indices


def test_a_slice_keeps_its_own_name_and_handle() -> None:
    nvml = FakeNvml(gpu("GPU-bb", parts=[gpu("MIG-b1", "H100 MIG 3g.40gb", slices=3)]))
    found, _ = visible_gpus(nvml, {"CUDA_VISIBLE_DEVICES": "MIG-b1"})
    assert [(one.name, one.part["uuid"], one.handle["uuid"]) for one in found] == [
        ("H100 MIG 3g.40gb", "MIG-b1", "GPU-bb")
    ]


@pytest.mark.parametrize(
    ("environment", "warned"),
    [
        ({}, True),
        ({"CUDA_VISIBLE_DEVICES": "1"}, True),
        (ORDERED, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, False),
    ],
)
def test_numbers_of_unlike_gpus_are_doubted_unless_their_order_is_set(
    environment: dict[str, str], warned: bool
) -> None:
    _, gaps = visible_gpus(FakeNvml(gpu("GPU-a", "H100"), gpu("GPU-b", "T4")), environment)
    assert [gap.what for gap in gaps] == (["which gpu is which"] if warned else [])


def test_a_lost_gpu_is_a_gap_and_the_others_are_kept() -> None:
    nvml = FakeNvml(gpu("GPU-a"), gpu("GPU-b"))
    del nvml.gpus[1]["name"]
    found, gaps = visible_gpus(nvml, {})
    assert [one.index for one in found] == [0]
    assert "GPU 1" in gaps[0].why


@pytest.mark.parametrize(("expected", "count"), [(True, 1), (False, 0)])
def test_without_nvml_a_gap_is_named_only_where_a_driver_is(
    expected: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("bottleneck_doctor.sense.nvml.gpu_expected", lambda _: expected)
    names, gaps = list_gpu_names()
    assert (names, len(gaps)) == ([], count)


def test_a_missing_binding_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = load_nvml()
    assert isinstance(found, Gap)
    assert found.do == "pip install nvidia-ml-py"
