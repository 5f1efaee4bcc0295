"""Prometheus: a text file for node-exporter's textfile collector, replaced at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import GaugeMetricFamily

from .data import ExportData


class Gauges:
    """The values as Prometheus names them; ``labels`` stand at each."""

    def __init__(self, data: ExportData, labels: dict[str, str]) -> None:
        self.data = data
        self.labels = labels

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Families of values, and the verdict as the labels of a 1."""
        families: dict[str, GaugeMetricFamily] = {}
        for one in self.data.values:
            labels = {**self.labels, **one.labels}
            name = one.family.replace(".", "_")
            family = families.setdefault(name, GaugeMetricFamily(name, one.about, labels=list(labels)))
            family.add_metric(list(labels.values()), one.value)
        labels = {**self.labels, **self.data.verdict}
        info = GaugeMetricFamily("bdoc_verdict_info", "verdict of bdoc's report", labels=list(labels))
        info.add_metric(list(labels.values()), 1)
        return [*families.values(), info]


def registry(data: ExportData, labels: dict[str, str]) -> CollectorRegistry:
    """The same as the client's functions want it."""
    found = CollectorRegistry()
    found.register(Gauges(data, labels))
    return found


def carry(address: str, data: ExportData) -> str:
    """Replace the file. Its name's stem is the label ``run``: two files of one folder may not hold the same
    series, or the collector refuses both."""
    write_to_textfile(address, registry(data, {"run": Path(address).stem}))
    return ""
