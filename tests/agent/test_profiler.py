"""The profiler's window of one step opens in the loop that trains."""

from __future__ import annotations

from pathlib import Path

from tests.agent.watching import PRELUDE, profile_of, watched

SCRIPT = (
    PRELUDE
    + """
agent = sys.modules["_bdoc_agent.state"].state
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


AHEAD = (
    PRELUDE
    + """
agent = sys.modules["_bdoc_agent.state"].state
loader = DataLoader(Rows(40), batch_size=1)
large = torch.ones(1_000_000)
asked, look = [], agent.control.look

def look_and_ask():
    look()
    if epoch == 1 and not asked:
        asked.append(agent.control.on_profile())

agent.control.look = look_and_ask
for epoch in range(3):
    with torch.no_grad():
        for batch in loader:
            model(batch)
    iterator = iter(loader)
    for step in range(20):
        for batch in [next(iterator), next(iterator)]:
            (model(batch) * large).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
)


def test_a_window_without_a_backward_pass_is_taken_again(tmp_path: Path) -> None:
    """Micro-batches are fetched ahead: nothing is computed between one arrival and the next."""
    (anatomy,) = profile_of(watched(tmp_path, AHEAD)).computing.anatomies
    assert (anatomy.backwards, anatomy.batches) == (2, 2)
    assert anatomy.operators > 5


ASIDE = (
    PRELUDE
    + """
import threading
agent = sys.modules["_bdoc_agent.state"].state

def fetch():
    for batch in DataLoader(Rows(4), batch_size=1):
        pass

for step in range(20):
    if step == 15:
        agent.control.on_profile()
        aside = threading.Thread(target=fetch)
        aside.start()
        aside.join()
        print("while others fetch", torch.autograd._profiler_enabled())
    train_on(torch.ones(2, 4))
print("at the end", torch.autograd._profiler_enabled())
"""
)


def test_a_window_is_not_ended_by_a_thread_that_fetches_ahead(tmp_path: Path) -> None:
    """torch cannot end it there: it would record for ever, and look like a profiler of the script's own."""
    told = watched(tmp_path, ASIDE)
    assert told.stdout == "while others fetch True\nat the end False\n"
    computing = profile_of(told).computing
    assert [one.noticed for one in computing.switches] == [[]]
    assert [one.backwards for one in computing.anatomies] == [1]
