"""Remedies are what the findings' pages and cases say they are."""

from __future__ import annotations

from bottleneck_doctor.prescribe.shelf import entries, offered, show


def test_remedies_are_offered_by_findings_on_the_shelf() -> None:
    offering = {name for names in offered().values() for name in names}
    assert offering
    assert offering <= {entry.id for entry in entries()}


def test_a_remedy_comes_with_a_cure_of_each_finding_that_shows_one() -> None:
    shown = show("workers-auto")
    assert "loader-in-main" in shown.findings
    assert shown.proposals["loader-in-main"].fix.snippet.startswith("DataLoader(")
    assert set(shown.proposals) <= set(shown.findings)


def test_an_id_that_no_finding_offers_has_nothing() -> None:
    assert show("no-such-remedy").findings == []
