"""Recorded proofs, judged again: what `docs/accuracy-prove.md` publishes may not get worse."""

from tests.house.source import ROOT
from tests.lab.golden import GOLDEN
from tests.patients.expected import PATIENTS
from tests.proving import table
from tests.proving.judge import judge
from tests.proving.proofs import again


def test_the_page_holds_the_recorded_proofs_and_what_they_add_up_to() -> None:
    page = (ROOT / "docs" / "accuracy-prove.md").read_text(encoding="utf-8")
    kept = [(one, again(GOLDEN / "proving", one)) for one in PATIENTS]
    judgements = [judge(one, taken) for one, taken in kept if taken is not None]
    rows = {line for line in page.splitlines() if line.startswith("| ")} - set(table.HEADER.splitlines())
    assert rows == set(map(table.row, judgements))
    assert [line for line in table.summary(judgements) if line not in page] == []
