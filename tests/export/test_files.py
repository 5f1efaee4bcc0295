"""What is written as files, read by others' own readers: Prometheus' text and TensorBoard's folder."""

import os
from pathlib import Path

import pytest

from tests.export import sent

needed = "needs the extras `prometheus` and `tensorboard`"
parser = pytest.importorskip("prometheus_client.parser", reason=needed)
events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason=needed)
tensors = pytest.importorskip("tensorboard.util.tensor_util", reason=needed)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What is written over a file that was there."""
    file = tmp_path / "cats.prom"
    file.write_text("of old")
    before = os.stat(file).st_ino
    sent.export(tmp_path, f"prometheus:{file}")
    assert os.stat(file).st_ino != before  # another file took its place: no reader sees half of one
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cats.prom", "profile.json", "r.md"]
    return file


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Names, labels and values of a text."""
    families = parser.text_string_to_metric_families(text)
    return [(one.name, one.labels, one.value) for family in families for one in family.samples]


def test_the_file_holds_each_number_of_the_report(file: Path) -> None:
    found = samples(file.read_text())
    assert {labels.pop("run") for _, labels, _ in found} == {"cats"}
    assert [labels for name, labels, _ in found if name == "bdoc_verdict_info"] == [sent.verdict()]
    assert sent.of_labels([one for one in found if one[0] != "bdoc_verdict_info"]) == sent.numbers()


def test_the_folder_holds_each_number_of_the_report_and_the_verdict(tmp_path: Path) -> None:
    sent.export(tmp_path, f"tensorboard:{tmp_path / 'logs'}")
    read = events.EventAccumulator(str(tmp_path / "logs"))
    read.Reload()
    found = {tag: read.Tensors(tag) for tag in read.Tags()["tensors"]}
    (said,) = tensors.make_ndarray(found.pop("bdoc/verdict")[0].tensor_proto).reshape(-1).tolist()
    for name, word in sent.verdict().items():
        assert f"| {name} | `{word}` |" in said.decode()
    values = {tag: float(tensors.make_ndarray(one[0].tensor_proto)) for tag, one in found.items()}
    assert values == pytest.approx(sent.named("bdoc/"), rel=1e-6)  # it keeps 32 bits
    assert found["bdoc/step_time_s"][0].step == 0
