"""Hints fill the page cache: they are no advice to reads that go past it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.findings.storage import storage_latency_bound
from bottleneck_doctor.model.diagnosis import Finding
from bottleneck_doctor.model.fetches import HotFiles
from tests.findings.cases import cases_of


@pytest.mark.parametrize("direct", [False, True])
def test_reads_past_the_page_cache_are_not_hinted_at(direct: bool) -> None:
    case = next(one for one in cases_of("storage-latency-bound") if one.outcome == "fires")
    files = [HotFiles("1:1", 1, 0, direct=direct)]
    sick = replace(case.diagnosis, profile=replace(case.diagnosis.profile, hot_files=files))
    found = storage_latency_bound.ask(sick)
    assert isinstance(found, Finding)
    assert ("readahead-hints" in {proposal.id for proposal in found.proposals}) is not direct
