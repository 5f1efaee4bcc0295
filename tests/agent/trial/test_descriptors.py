"""The limit of open files is raised as far as that may be."""

from __future__ import annotations

import resource

from bottleneck_doctor.agent.trial.settings import descriptors


def test_the_soft_limit_becomes_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    said: list[str] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        descriptors({}, lambda why="": said.append(why))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == hard
        descriptors({}, lambda why="": said.append(why))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert said[0] == ""
    assert said[1].endswith("can only be raised by an administrator")
