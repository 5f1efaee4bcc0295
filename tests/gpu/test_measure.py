"""How a script ended decides what is said of it: right, not here, or failed with its last line."""

from __future__ import annotations

import sys

import pytest

from tests.gpu.measure import NOT_HERE, NotHere, output_of
from tests.lab.run import ROOT, Failed

LAST_WORDS = "import sys; print('first', file=sys.stderr); print('why', file=sys.stderr); sys.exit({})"


def test_what_it_prints_comes_back() -> None:
    assert output_of([sys.executable, "-c", "print('step 1')"]) == "step 1\n"


@pytest.mark.parametrize(("status", "error"), [(NOT_HERE, NotHere), (1, Failed), (134, Failed)])
def test_the_last_line_says_why(status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^why$"):
        output_of([sys.executable, "-c", LAST_WORDS.format(status)])


def test_our_bdoc_comes_first_and_what_was_brought_along_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/data/lib")
    said = output_of([sys.executable, "-c", "import os; print(os.environ['PYTHONPATH'])"])
    assert said.strip().split(":") == [str(ROOT), "/data/lib"]
