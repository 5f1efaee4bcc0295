"""Every remedy that can be applied without an edit says how, and what it names is there."""

from __future__ import annotations

import pytest

from bottleneck_doctor.agent.trial import TREATMENTS, treatment
from bottleneck_doctor.model.diagnosis import Finding, Proposal
from bottleneck_doctor.model.run import ENVIRONMENT
from bottleneck_doctor.prescribe.registry import cases_of, modules

APPLIED = {"env", "hook", "hook~"}

PROPOSALS = [
    pytest.param(proposal, id=f"{module.FINDING.id}: {proposal.id}: {case.name}")
    for module in modules()
    for case in cases_of(module)
    if case.outcome == "fires" and isinstance(found := module.FINDING.ask(case.diagnosis), Finding)
    for proposal in found.proposals
]


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_what_needs_no_edit_has_a_treatment_and_nothing_else_has_one(proposal: Proposal) -> None:
    assert bool(proposal.treatments) == (proposal.apply in APPLIED)


@pytest.mark.parametrize("proposal", [one for one in PROPOSALS if one.values[0].treatments])
def test_a_treatment_names_a_function_that_takes_its_options(proposal: Proposal) -> None:
    for one in proposal.treatments:
        if one.name == ENVIRONMENT:
            assert one.options
            continue
        said: list[str] = []
        table = treatment(one.name)(one.options, said.append)
        assert all(callable(act) for act in table.values())


def test_each_treatment_is_named_by_a_remedy_or_by_the_plan_of_a_proof() -> None:
    named = {one.name for param in PROPOSALS for one in param.values[0].treatments}
    assert set(TREATMENTS) - named == {"replay"}  # which proving itself orders
