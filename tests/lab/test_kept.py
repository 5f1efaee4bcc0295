"""What is kept of a run names no machine, and a process that outlives its run is found."""

import json
import os
import platform
import subprocess
import sys
import uuid

from tests.lab.kept import placeless
from tests.lab.run import MARK, ROOT, left_running


def test_places_and_names_are_taken_out() -> None:
    files = [f"{ROOT}/tests/a.py", f"{sys.prefix}/bin/x.py", str(ROOT)]
    told = placeless(json.dumps([*files, platform.node(), "/data/a"]))
    assert str(ROOT) not in told
    assert sys.prefix + "/" not in told
    assert json.loads(told)[2:] == ["/home/ann/bdoc", "box", "/data/a"]


def test_a_process_that_outlives_its_run_is_found_by_its_environment() -> None:
    mark, other = uuid.uuid4().hex, uuid.uuid4().hex
    command = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(command, env={**os.environ, MARK: mark}, stdin=subprocess.PIPE) as left:
        assert len(left_running(mark)) == 1
        assert left_running(other) == []
        left.communicate(b"\n")
    assert left_running(mark) == []
