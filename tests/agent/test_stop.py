"""A stop order ends the script as the end of its last line would: cleanly, and with status 0."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.rows import read_logs
from tests.agent.watching import PRELUDE, first, said, watched

# The script writes its own stop order, where the supervisor would: after a few steps, "stop at 20".
SCRIPT = (
    PRELUDE
    + """
import atexit, struct
atexit.register(lambda: print(json.dumps({"atexit": True}), flush=True))

def order(steps):
    with open(os.path.join(os.environ["BDOC_RUN"], "control"), "r+b") as file:
        file.write(struct.pack("<q", steps))

def main():
    steps = 0
    try:
        while True:
            for batch in DataLoader(Rows(200), batch_size=2, num_workers=1):
                train_on(batch)
                time.sleep(0.004)  # so that each step is looked at closely
                steps += 1
                if steps == 5:
                    order(20)
                assert steps < 1000, "never stopped"
    finally:
        say(steps=steps, cleaned=True)

if __name__ == "__main__":
    main()
"""
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    told = watched(tmp_path_factory.mktemp("stop"), SCRIPT)
    return said(told), told


def test_it_ends_after_that_many_steps_with_status_0(run: Any) -> None:
    seen, told = run
    assert (told.status, told.stderr) == (0, "")
    assert seen["steps"] == pytest.approx(20, abs=4)


def test_finally_blocks_and_exit_functions_run(run: Any) -> None:
    assert (run[0]["cleaned"], run[0]["atexit"]) == (True, True)


def test_the_agent_says_that_it_was_the_agent(run: Any) -> None:
    logs = [log for log in read_logs(run[1].folder) if first(log, "stopped")]
    assert len(logs) == 1, "workers do not stop themselves"
    assert first(logs[0], "stopped")["trained"] >= 20


def test_an_order_given_before_the_start_is_obeyed(tmp_path: Path) -> None:
    early = SCRIPT.replace("if steps == 5:", "if steps == 0:").replace(
        "def main():", "order(7)\n\ndef main():"
    )
    assert struct.calcsize("<q") == wire.WORD.size
    seen = said(watched(tmp_path, early.replace("num_workers=1", "num_workers=0")))
    assert seen["steps"] == pytest.approx(7, abs=2)
