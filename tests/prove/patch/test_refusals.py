"""What a patch leaves alone: other matters, changed files, classes of another make, files it cannot name."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.proof import Patch
from bottleneck_doctor.model.run import ENVIRONMENT, Treatment
from bottleneck_doctor.prove.patch import patch_of
from tests.prove.patch.scripts import HEAD, loader_with, profile_of, remedy

FOUR = Treatment("threads", {"count": 4})


@pytest.mark.parametrize(
    ("text", "wanted", "why"),
    [
        (f"{HEAD}x = DataLoader(d)\n", Treatment(ENVIRONMENT, {"A": "2"}), "before the start: A=2"),
        (f"{HEAD}x = DataLoader(d)\n", Treatment("compiled"), "more than an argument or a setting"),
        (f"{HEAD}x = DataLoader(d)\n", Treatment("threads", {"many": 1}), "more than an argument"),
        ("def f(): pass\n", Treatment("threads", {"count": 1}), "no imports at its top"),
        ("import torch\ntorch.set_num_threads(1)\ntorch.set_num_threads(2)\n", FOUR, "in several places"),
        ("import torch\n", Treatment("debug", {"drop": "anomaly"}), "is not called in the file"),
    ],
)  # fmt: skip
def test_what_is_no_matter_of_the_script_is_said(text: str, wanted: Treatment, why: str) -> None:
    found = patch_of([remedy(wanted)], profile_of(text), lambda path: text)
    assert found.diff == ""
    assert why in found.why


def test_a_file_that_changed_since_the_run_is_left_alone() -> None:
    before = f"{HEAD}x = DataLoader(d)\n"
    for after in (f"{HEAD}\nx = DataLoader(d)\n", f"{HEAD}x = DataLoader(d, pin_memory=True)\n", "def f(:\n"):
        found = patch_of([loader_with(2, num_workers=2)], profile_of(before), lambda path, text=after: text)
        assert found.diff == ""
        assert found.why


def test_a_loader_of_another_make_is_left_alone() -> None:
    text = "from torch_geometric.loader import DataLoader\nx = DataLoader(d, 8)\n"
    found = patch_of([loader_with(2, num_workers=2)], profile_of(text), lambda path: text)
    assert found == Patch("", "DataLoader may not take num_workers")


def test_files_that_a_patch_cannot_name_or_nobody_can_read_are_left_alone() -> None:
    text = f"{HEAD}x = DataLoader(d)\n"

    def refuse(path: str) -> str:
        raise OSError(2, "No such file or directory")

    found = patch_of([loader_with(2, num_workers=2)], profile_of(text), refuse)
    assert found.why == "train.py cannot be read: No such file or directory"
    for file in ("/elsewhere/train.py", "/home/ann/cats/lib/site-packages/x/y.py"):
        wanted = remedy(Treatment("ddp", {"arguments": {"static_graph": True}}), line=2)
        place = wanted.fix.location
        assert place is not None
        object.__setattr__(place, "file", file)
        assert patch_of([wanted], profile_of(text), lambda path: text).diff == ""
