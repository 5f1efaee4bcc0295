"""The table of ``bdoc env``, as drawn."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.instruments import Capability
from bottleneck_doctor.render.pages import capabilities_text
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked

TABLE = [
    Capability("python and torch", True, "python 3.11.7 at /usr/bin/python, torch 2.13.0"),
    Capability("gpu counters", False, "no NVIDIA driver on this machine"),
    Capability(
        "what blocked threads wait for",
        False,
        "/proc/<pid>/syscall cannot be read: Operation not permitted",
        "sudo sysctl kernel.yama.ptrace_scope=0",
    ),
]


@pytest.mark.parametrize("width", [80, 40])
def test_the_table_is_drawn_as_accepted(width: int) -> None:
    require_golden(f"env-{width}.txt", capabilities_text(TABLE, width, False, "utf-8"))


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_foreign_reaches_the_terminal_as_a_command(attack: str) -> None:
    drawn = capabilities_text(attacked(TABLE, ATTACKS[attack]), 80, False, "ascii")
    assert "\x1b" not in drawn
    assert drawn.isascii()
