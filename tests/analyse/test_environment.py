"""What the training ran on and with, as far as anybody could tell."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.analyse.metrics import environment
from bottleneck_doctor.model.loops import Loader
from tests.model.profiles import PROFILE


def test_the_environment_names_what_is_known() -> None:
    told = environment(PROFILE)
    assert (told["torch"], told["cores"], told["num_workers"], told["gpus"]) == ("2.13.0", 4.0, 0, None)


def test_the_loader_is_the_one_that_trains() -> None:
    other = Loader("L9", "dataloader", 10, num_workers=8, start_method="spawn")
    told = environment(replace(PROFILE, loaders=[other, *PROFILE.loaders]))
    assert (told["num_workers"], told["start_method"]) == (0, None)


def test_of_a_run_that_nobody_saw_the_machine_is_known() -> None:
    told = environment(replace(PROFILE, processes=[], loops=[]))
    assert (told["torch"], told["trainers"], told["cores_online"]) == (None, 0, 8)
