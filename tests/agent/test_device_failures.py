"""What a device can do to a process: the script must end as it does by itself. The failures are simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.meta_device import IN_SCRIPT
from tests.agent.watching import PRELUDE, plain, watched

pytestmark = [pytest.mark.slow, pytest.mark.long]

SCRIPT = (
    PRELUDE
    + IN_SCRIPT
    + """
import atexit
driver = torch_api.Driver()  # an event that is freed when it must not be ends the process by SIGABRT

def at_exit():
    print("at exit", driver.freed, driver.created > 20 or clock is None, flush=True)
    driver.error = "driver shutting down"

atexit.register(at_exit)
driver.passed = lambda mark: False  # steps are pending when it happens
clock = torch_api.adopt(driver)
for place, batch in enumerate(DataLoader(Rows(120), batch_size=4)):
    loss = train_on(batch)
    if place == 20:
        HAPPENS
    if place == 22:
        LATER
print("trained", round(loss.item(), 6))
"""
)
# What happens, and what the script's own next call of the device does about it.
FAILURES = {
    "nothing": ("", ""),
    "an error that the device keeps": (
        "driver.error = 'assert'",
        "raise RuntimeError('CUDA error: device-side assert triggered')",
    ),
    "the same, caught": ("driver.error = 'assert'", "print('caught')"),
    "marks are refused": ("driver.mark = lambda: 1 / 0", ""),
    "the loop forks": ("child = os.fork(); child and print(os.waitpid(child, 0)[1])", ""),
    "an evaluation's workers fork": ("[model(one) for one in DataLoader(Rows(8), num_workers=2)]", ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_the_script_ends_as_it_does_by_itself(name: str, tmp_path: Path) -> None:
    happens, later = FAILURES[name]
    text = SCRIPT.replace("HAPPENS", happens or "pass").replace("LATER", later or "pass")
    for folder in ("alone", "under_bdoc"):
        (tmp_path / folder).mkdir()
    alone, under_bdoc = plain(tmp_path / "alone", text), watched(tmp_path / "under_bdoc", text, fresh=True)
    assert (under_bdoc.status, under_bdoc.stdout) == (alone.status, alone.stdout)
    assert under_bdoc.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]
    assert "at exit 0 True" in under_bdoc.stdout, "none of the events was freed, and there were some"
