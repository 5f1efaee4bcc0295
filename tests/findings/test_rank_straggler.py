"""The rank that comes last for its data is told to share samples out, unless its own machine may be why."""

from __future__ import annotations

from bottleneck_doctor.findings.ranks import rank_straggler
from bottleneck_doctor.model.diagnosis import Finding
from tests.findings.cases import cases_of


def test_a_machine_of_its_own_may_be_why_a_rank_is_late() -> None:
    cases = {one.name: one.diagnosis for one in cases_of("rank-straggler")}
    shared = rank_straggler.ask(cases["this rank's data takes longer"])
    apart = rank_straggler.ask(cases["it does, on a machine of its own"])
    assert isinstance(shared, Finding)
    assert isinstance(apart, Finding)
    assert [one.id for one in shared.proposals] == ["balance-ranks"]
    assert apart.proposals == []
