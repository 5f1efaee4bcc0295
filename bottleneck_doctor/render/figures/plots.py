"""Which curves stand together in a plot of the timeline, and what plots and curves are called."""

from __future__ import annotations

from ...model.picture import Curve, Timeline
from .. import words

# Plots by the group of their curves and what these are measured in, in the order in which they are drawn.
PLOTS = {
    ("step", "s"): "step time",
    ("wait", "share"): "data wait",
    ("gpu", "share"): "GPU",
    ("cpu", "cores"): "cores busy",
    ("cpu", "share"): "workers busy",
    ("io", "bytes_per_s"): "reads",
    ("io", "share"): "processors idle for disks",
    ("pressure", "share"): "stalled for",
    ("memory", "bytes"): "memory",
}
UNITS = ("bytes_per_s", "per_s", "share", "fraction", "bytes", "cores", "s")
# What a curve is called in its plot, nothing where the plot says it all; others go by their names.
CURVES = {
    "step_time_s": "mean",
    "step_time_high_s": "slowest",
    "data_wait_share": "",
    "gpu_busy_share": "",
    "worker_busy_share": "",
    "iowait_share": "",
    "job_cores": "this job",
    "other_cores": "others",
    "job_read_bytes_per_s": "this job",
    "disk_read_bytes_per_s": "disks",
    "pressure_cpu_share": "CPU",
    "pressure_io_share": "I/O",
    "pressure_memory_share": "memory",
    "job_rss_bytes": "this job",
}
LONGEST_NAME = 60
Plot = tuple[str, str]  # the group of its curves, and what they are measured in


def plots_of(timeline: Timeline) -> dict[Plot, list[Curve]]:
    """Curves with a value, by plot: the known plots in their order, then others."""
    found: dict[Plot, list[Curve]] = {plot: [] for plot in PLOTS}
    for curve in timeline.curves:
        if any(words.drawn(value) is not None for value in curve.value):
            found.setdefault((curve.group, unit_of(curve.name)), []).append(curve)
    return {plot: some for plot, some in found.items() if some}


def flat(curves: list[Curve]) -> bool:
    """Whether the plot would be a line at zero: said in words, not drawn."""
    return not any(words.drawn(value) for curve in curves for value in curve.value)


def unit_of(name: str) -> str:
    """What the name's end says that a curve is measured in; "" if it says nothing."""
    return next((unit for unit in UNITS if name.endswith(f"_{unit}")), "")


def curve_words(curve: Curve) -> str:
    """What a curve is called beside others of its plot; "" where the plot's name says it."""
    if curve.name in CURVES:
        return CURVES[curve.name]
    name = curve.name.removesuffix(f"_{unit_of(curve.name)}").replace("_", " ")
    return words.short(words.plain(name), LONGEST_NAME)


def plot_words(plot: Plot) -> str:
    """What a plot is called."""
    return words.short(PLOTS.get(plot, words.plain(plot[0].replace("_", " "))), LONGEST_NAME)
