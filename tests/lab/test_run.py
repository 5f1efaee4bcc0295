"""What a run leaves behind is found."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

from tests.lab.run import MARK, left_running


def test_a_process_that_outlives_its_run_is_found_by_its_environment() -> None:
    mark, other = uuid.uuid4().hex, uuid.uuid4().hex
    command = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(command, env={**os.environ, MARK: mark}, stdin=subprocess.PIPE) as left:
        assert len(left_running(mark)) == 1
        assert left_running(other) == []
        left.communicate(b"\n")
    assert left_running(mark) == []
