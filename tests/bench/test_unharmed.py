"""The comparison sees a script that ends, prints or leaves something else under ``bdoc``, and no other."""

from pathlib import Path

import pytest

from tests.bench.unharmed import main

pytestmark = [pytest.mark.slow, pytest.mark.long]

SEES = "import os, sys\nseen = 'BDOC_AGENT' in os.environ\n"


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("print('loss 0.5')", 0),
        (SEES + "print(seen)", 1),
        (SEES + "seen and open('left', 'w')", 1),
        ("import time; print(time.time_ns())", 0),
    ],
)
def test_what_bdoc_changes_is_seen(script: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script)
    assert main([str(tmp_path), "train.py"]) == status
