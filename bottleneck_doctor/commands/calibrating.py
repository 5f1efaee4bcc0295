"""Adds to a profile what is timed after the training has ended."""

from __future__ import annotations

from dataclasses import replace

from ..model.profile import Profile
from ..model.run import Gap


def calibrated(profile: Profile, python: str, asked: bool) -> Profile:
    """The profile with calibrations; whatever fails of that is a gap, the training being over and well.
    Where nobody ``asked``, what decides the first remedies is timed shortly, and nothing is missed."""
    try:
        from ..calibrate.calibrate import calibrate, unasked_s
        from ..prescribe import write_up
        from ..sense.files import is_network, mount_of, read_mounts

        if not asked and not unasked_s(profile):
            return profile
        mounts = read_mounts()

        def is_remote(path: str) -> bool:
            mount = mount_of(path, mounts)
            return mount is not None and is_network(mount.fstype)

        remedies = None if asked else [one.id for one in write_up(profile).remedies]
        rows, gaps = calibrate(profile, python, is_remote, remedies)
    except KeyboardInterrupt:
        rows, gaps = [], [Gap("calibration", "it was interrupted")]
    except Exception as error:
        rows, gaps = [], [Gap("calibration", f"it failed: {type(error).__name__}: {error}")]
    return replace(profile, calibrations=rows, gaps=[*profile.gaps, *(gaps if asked else [])])


def nameless(profile: Profile) -> Profile:
    """The profile as it is kept: the files' names were for calibrating, one example is enough."""
    return replace(profile, hot_files=[replace(one, paths=[]) for one in profile.hot_files])
