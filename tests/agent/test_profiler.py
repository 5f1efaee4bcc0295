"""The profiler's window of one step opens in the loop that trains."""

from __future__ import annotations

from pathlib import Path

from tests.agent.watching import PRELUDE, watched

SCRIPT = (
    PRELUDE
    + """
agent = sys.modules["_bdoc_agent.pulse"].state
training = DataLoader(Rows(20), batch_size=1)
for batch in training:
    train_on(batch)
for held in DataLoader(Rows(20), batch_size=1):
    agent.control.on_profile()  # no training loop is open now
    print("evaluating", agent.window is not None)
    break
for batch in training:
    agent.control.on_profile()
    print("training", agent.window is not None)
    agent.window.leave()
    break
"""
)


def test_no_window_opens_in_an_evaluation_between_two_epochs(tmp_path: Path) -> None:
    assert watched(tmp_path, SCRIPT).stdout == "evaluating False\ntraining True\n"
