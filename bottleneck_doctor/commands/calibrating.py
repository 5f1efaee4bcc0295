"""Adds to a profile what is timed after the training has ended, where ``--calibrate`` asks for it."""

from __future__ import annotations

from dataclasses import replace

from ..model.profile import Gap, Profile


def calibrated(profile: Profile, python: str) -> Profile:
    """The profile with calibrations; whatever fails of that is a gap, the training being over and well."""
    try:
        from ..calibrate.calibrate import calibrate
        from ..sense.mounts import is_network, mount_of, read_mounts

        mounts = read_mounts()

        def is_remote(path: str) -> bool:
            mount = mount_of(path, mounts)
            return mount is not None and is_network(mount.fstype)

        rows, gaps = calibrate(profile, python, is_remote)
    except KeyboardInterrupt:
        rows, gaps = [], [Gap("calibration", "it was interrupted")]
    except Exception as error:
        rows, gaps = [], [Gap("calibration", f"it failed: {type(error).__name__}: {error}")]
    return replace(profile, calibrations=rows, gaps=[*profile.gaps, *gaps])


def nameless(profile: Profile) -> Profile:
    """The profile as it is kept: the files' names were for calibrating, one example is enough."""
    return replace(profile, hot_files=[replace(one, paths=[]) for one in profile.hot_files])
