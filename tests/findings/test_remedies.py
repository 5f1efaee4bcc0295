"""Remedies are what the findings declare."""

from __future__ import annotations

from bottleneck_doctor.findings.registry import entries, offered


def test_a_remedy_is_offered_by_each_finding_that_declares_it() -> None:
    for entry in entries():
        assert all(offered()[remedy.id][entry.id].id == remedy.id for remedy in entry.remedies)


def test_a_remedy_of_several_findings_shows_what_each_declares() -> None:
    shown = offered()["workers-auto"]
    assert "loader-in-main" in shown
    assert shown["loader-in-main"].fix.snippet.startswith("DataLoader(")
