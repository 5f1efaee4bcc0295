"""Plots hold what is measured alike, and everything in them has a name."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.picture import Curve, Timeline
from bottleneck_doctor.render.figures.timeline import curve_words, plot_words, plots_of, unit_of


@pytest.mark.parametrize(
    ("name", "unit"),
    [("job_read_bytes_per_s", "bytes_per_s"), ("job_rss_bytes", "bytes"), ("step_time_s", "s"), ("odd", "")],
)
def test_units_are_read_from_the_ends_of_names(name: str, unit: str) -> None:
    assert unit_of(name) == unit


def test_curves_that_a_later_version_may_have_get_plots_after_the_known_ones() -> None:
    later = Curve("fan_speed_share", "fans", [1.0], [0.5])
    known = Curve("step_time_s", "step", [1.0], [0.02])
    assert list(plots_of(Timeline(2.0, [later, known]))) == [("step", "s"), ("fans", "share")]
    assert plot_words(("fans", "share")) == "fans"
    assert curve_words(later) == "fan speed"


def test_what_was_never_measured_has_no_plot() -> None:
    assert plots_of(Timeline(2.0, [Curve("gpu_busy_share", "gpu", [1.0], [None])])) == {}
