"""The line that is drawn over while remedies are tried: on a terminal only, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from bottleneck_doctor.commands.proving import Proving, ProvingLine
from bottleneck_doctor.commands.run_options import Form, Options
from bottleneck_doctor.model.proof import ComparedSteps, Plan
from bottleneck_doctor.prove.trials import Target
from tests.prove.simulated_runs import BASE, measured, remedy

PLAN = Plan([BASE, remedy("workers-auto")], [], ComparedSteps(10, 100), 0.02, 5.0, 15.0, 60.0)


class Terminal(io.TextIOWrapper):
    """Bytes that a person looks at."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def isatty(self) -> bool:
        """It is one."""
        return True

    def shown(self) -> str:
        """All that was written."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


def looked_at(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stderr is one, and wide. Not a fixture: pytest puts its own in place when those are made."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("COLUMNS", "120")
    return found


def proving(line: ProvingLine) -> Proving:
    """A command that has tried the remedy once."""
    found = Proving(Options(Form("train.py"), {}), [], Target("train.py"), line, budget_s=100.0)
    found.attempts += [measured("baseline", 0.2), measured("workers-auto", 0.1), measured("baseline", 0.2)]
    return found


def test_the_line_says_what_runs_what_is_left_and_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = looked_at(monkeypatch)
    line = ProvingLine(quiet=False)
    line.follow(PLAN.arms[0], proving(line), PLAN)
    assert "without a remedy" in terminal.shown()
    assert "left" in terminal.shown()
    assert "workers-auto ×2.0" in terminal.shown()
    line.clear()
    assert terminal.shown().endswith("\r\x1b[2K")


def test_what_stays_is_written_on_a_clean_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = looked_at(monkeypatch)
    line = ProvingLine(quiet=False)
    line.show("the first run", 0.0, None)
    line.note("profile in profile.json")
    assert terminal.shown().endswith("\r\x1b[2Kbdoc: profile in profile.json\n")


def test_a_quiet_one_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = looked_at(monkeypatch)
    line = ProvingLine(quiet=True)
    line.show("the first run", 0.0, None)
    line.tell(measured("baseline", 0.2))
    line.note("profile in profile.json")
    assert terminal.shown() == ""
