"""Reads what is known beside the fetches about how a loader's batches are made."""

from __future__ import annotations

from ..model.fetches import Making
from ..model.loops import Loader, Loop
from ..model.profile import Profile


def making_of(profile: Profile, loader: Loader | None) -> Making:
    """What hooks found about this loader; an empty one where nothing was."""
    key = loader.key if loader is not None else ""
    return next((one for one in profile.makings if one.loader == key), Making(key))


def epoch_draws_s(making: Making, loop: Loop | None) -> float:
    """Seconds that an epoch's beginning spends choosing indices, beyond as many usual draws."""
    epochs = len(loop.epochs.t) if loop is not None else 0
    return sum(making.first_draws_s) / epochs if epochs else 0.0
