"""Draws at the start of an epoch are means over epochs; a loader that nobody watched has an empty account."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.analyse.inputs import epoch_draws_s, making_of
from bottleneck_doctor.model.fetches import Making
from bottleneck_doctor.model.loops import Epochs, Loader
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.findings.builders import loop_of

WATCHED = Making("1:1", 10, first_draws_s=[0.2, 0.1, 0.2, 0.1])


def test_an_epochs_draws_are_a_mean_over_epochs() -> None:
    loop = replace(
        loop_of(4), epochs=Epochs(t=[0.0, 1.0], build_s=[0, 0], first_wait_s=[0, 0], batches=[2, 2])
    )
    assert round(epoch_draws_s(WATCHED, loop), 6) == 0.3
    assert epoch_draws_s(WATCHED, None) == 0.0


def test_the_account_of_a_loader() -> None:
    profile = Profile(Run([], None, "/", "", 1.0, 0), Machine("", "", "", 2, 2.0), makings=[WATCHED])
    assert making_of(profile, Loader("1:1", "dataloader", 1)) == WATCHED
    assert making_of(profile, Loader("1:2", "dataloader", 1)) == Making("1:2")
    assert making_of(profile, None) == Making("")
