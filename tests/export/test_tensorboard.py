"""TensorBoard: the folder as its own reader sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.export import sent

pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray


def test_the_folder_holds_each_number_of_the_report_and_the_verdict(tmp_path: Path) -> None:
    sent.export(tmp_path, f"tensorboard:{tmp_path / 'logs'}")
    read = EventAccumulator(str(tmp_path / "logs"))
    read.Reload()
    events = {tag: read.Tensors(tag) for tag in read.Tags()["tensors"]}
    (said,) = make_ndarray(events.pop("bdoc/verdict")[0].tensor_proto).reshape(-1).tolist()
    for name, word in sent.verdict().items():
        assert f"| {name} | `{word}` |" in said.decode()
    values = {tag: float(make_ndarray(found[0].tensor_proto)) for tag, found in events.items()}
    assert values == pytest.approx(sent.named("bdoc/"), rel=1e-6)  # it keeps 32 bits
    assert events["bdoc/step_time_s"][0].step == 0
