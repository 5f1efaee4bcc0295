"""What is sent equals the report, field by field; what was not measured is not sent."""

from __future__ import annotations

import json

import pytest

from bottleneck_doctor.commands.output import report_of
from bottleneck_doctor.export.send import ExportData, export_data
from bottleneck_doctor.model.codec import encode_report
from tests.export import sent
from tests.render.reports import INCONCLUSIVE, TYPICAL


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> ExportData:
    """What is sent of a real run."""
    return export_data(report_of(sent.profile(tmp_path_factory.mktemp("recorded"))))


def test_each_number_of_a_recorded_report_is_there_and_no_other(recorded: ExportData) -> None:
    assert {one.path: one.value for one in recorded.values} == sent.named("bdoc.")
    assert len(recorded.values) == len(sent.numbers()) > 20
    assert recorded.verdict == sent.verdict()


def test_each_value_names_the_field_that_it_comes_from() -> None:
    report = json.loads(encode_report(TYPICAL))
    for one in export_data(TYPICAL).values:
        field, _, unit = one.about.removesuffix(f", {one.unit}").partition(" of bdoc's report")
        found = report
        for name in field.split("."):
            if isinstance(found, list):
                found = next(remedy for remedy in found if remedy["id"] == one.labels["remedy"])
            found = found[name]
        found = found[one.labels["resource"]] if field == "verdict.gain" else found
        assert (found, unit) == (one.value, ""), one


def test_what_was_not_measured_and_bounds_are_not_sent() -> None:
    paths = {one.path for one in export_data(TYPICAL).values}
    assert "bdoc.gpu_busy_fraction" not in paths
    assert "bdoc.gain.gpu" not in paths
    assert "bdoc.startup_s" in paths
    assert "bdoc.startup_s.low" not in paths
    assert not [path for path in paths if "decode-turbo" in path]
    assert {"bdoc.remedy_speedup.workers-auto", "bdoc.remedy_speedup.workers-auto.high"} <= paths
    nothing = export_data(INCONCLUSIVE)
    assert [one.name for one in nothing.values] == ["bdoc.run_duration_s", "bdoc.run_exit_status"]
    assert nothing.verdict["remedy"] == ""
