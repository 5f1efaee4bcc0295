"""What libraries leave in the folder that they are started in stays out of the repository."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
