"""The supervisor is let in where it asked for that, in forked children too, and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.house.source import ROOT

# Kernels without Yama refuse the call: it is written down before it reaches them.
SCRIPT = """
import ctypes, json, os, sys
from bottleneck_doctor.agent import ptrace_permission

class Pretended:
    def __init__(self, name):
        self.name = name

    def prctl(self, *given):
        print(json.dumps([os.getpid(), *(getattr(one, "value", one) for one in given)]), flush=True)

if len(sys.argv) > 1:
    ctypes.CDLL = Pretended
else:
    sys.modules["ctypes"] = None
ptrace_permission.let_in()
print(json.dumps(os.getpid()), flush=True)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps(child), flush=True)
"""


def told(*arguments: str, **environ: str) -> list[object]:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT), **environ}, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_process_and_its_forked_children_name_the_supervisor() -> None:
    first, own, second, child = told("pretend", BDOC_TRACER="4711")
    assert first == [own, 0x59616D61, 4711, 0, 0, 0]
    assert second == [child, 0x59616D61, 4711, 0, 0, 0]


def test_where_nobody_asked_nothing_is_loaded_and_nothing_is_called() -> None:
    own, child = told()
    assert own != child
    assert len(told(BDOC_TRACER="4711; rm -rf")) == 2
