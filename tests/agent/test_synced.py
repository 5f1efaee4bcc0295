"""What is forced to the disk is told apart by its file: checkpoints, logs, other files."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent.saving import Written, named


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/runs/last.pt", "checkpoint"),
        ("/runs/last.pt.tmp", "checkpoint"),
        ("/runs/model.safetensors", "checkpoint"),
        ("/runs/checkpoint-100/state", "checkpoint"),
        ("/runs/events.out.tfevents.17001.host", "logging"),
        ("/runs/metrics.jsonl", "logging"),
        ("/runs/loss.csv", "logging"),
        ("/runs/log", "logging"),
        ("/data/samples.db", "flush"),
        ("/data/index.npy", "flush"),
        ("/data/catalogue", ""),
        ("/runs/tmp8x3a", ""),
    ],
)
def test_the_name_tells_most(path: str, kind: str) -> None:
    assert named(path) == kind


def test_what_torch_saved_is_a_checkpoint_under_any_name(tmp_path: Path) -> None:
    written = Written()
    with (tmp_path / "blob.7").open("wb") as file:
        file.write(b"weights")
        file.flush()
        written.checkpoint(file)
        written.last = "logging"
        assert written.kind(file) == "checkpoint"
        os.rename(tmp_path / "blob.7", tmp_path / "blob")
        assert written.kind(file.fileno()) == "checkpoint"


def test_a_folder_is_what_was_saved_in_it(tmp_path: Path) -> None:
    written = Written()
    (tmp_path / "blob").write_bytes(b"weights")
    written.checkpoint(tmp_path / "blob")
    with (tmp_path / "log.txt").open("w") as file:
        assert written.kind(file) == "logging"
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        assert written.kind(handle) == "checkpoint"
        assert Written().kind(handle) == "flush", "nothing was seen to be written there"
    finally:
        os.close(handle)


def test_a_file_that_a_saved_buffer_goes_to_is_a_checkpoint(tmp_path: Path) -> None:
    written = Written()
    written.checkpoint(io.BytesIO())
    with (tmp_path / "blob").open("wb") as file:
        assert written.kind(file) == "checkpoint"


def test_a_file_without_a_telling_name_is_a_log_once_it_grows(tmp_path: Path) -> None:
    written = Written()
    with (tmp_path / "out").open("w") as log, (tmp_path / "rest").open("w") as other:
        kinds = []
        for _ in range(2):
            for file in (log, other):
                kinds.append(written.kind(file))
            print("a line", file=log, flush=True)
        assert kinds == ["flush", "flush", "logging", "flush"]
        assert written.kind(log) == "logging", "asked again without growth, it stays one"


def test_a_pipe_is_a_log() -> None:
    one, other = os.pipe()
    try:
        assert Written().kind(other) == "logging"
    finally:
        os.close(one)
        os.close(other)


def test_what_is_remembered_has_a_limit(tmp_path: Path) -> None:
    written = Written()
    for number in range(300):
        (tmp_path / f"{number}").touch()
        written.checkpoint(tmp_path / f"{number}")
    assert len(written.saved) <= 256
