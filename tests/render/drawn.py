"""Compares what was drawn with the golden of that name; ``ACCEPT_GOLDENS=1 pytest tests/render`` accepts."""

import os
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def require_golden(name: str, drawn: str, folder: Path = GOLDEN) -> None:
    """The whole output, as drawn."""
    file = folder / name
    if os.environ.get("ACCEPT_GOLDENS"):
        file.write_text(drawn, encoding="utf-8")
    assert file.exists(), f"no golden {file}: run `ACCEPT_GOLDENS=1 pytest` of this test, read the diff"
    assert drawn == file.read_text(encoding="utf-8")
