"""What is sent equals the report, field by field; what was not measured is not sent."""

from __future__ import annotations

import json

from bottleneck_doctor.export.send import export_data
from bottleneck_doctor.model.codec import encode_report
from tests.render.reports import INCONCLUSIVE, TYPICAL


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
