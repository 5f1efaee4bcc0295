"""Decoders inside a fetch are timed, and which ones ran is written down once."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from bottleneck_doctor.agent import input_ops
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.assemble.rows import read_logs


@pytest.fixture
def decoder(tmp_path: Path) -> ModuleType:
    """A module with a decoder, watched; this process writes its book into ``tmp_path``."""
    state.begin(str(tmp_path))
    module = ModuleType("quickjpeg")
    module.decode = lambda data: sum(range(20_000)) and data  # type: ignore[attr-defined]
    input_ops._decoder_patcher(("decode",))(module)
    return module


def test_only_decoding_inside_fetches_counts(decoder: ModuleType) -> None:
    state.in_fetch, state.decode_ns = False, 0
    assert decoder.decode(b"x") == b"x"
    assert state.decode_ns == 0
    state.in_fetch = True
    assert decoder.decode(b"x") == b"x"
    state.in_fetch = False
    assert state.decode_ns > 0


def test_the_decoder_that_ran_is_named_once_in_each_process(decoder: ModuleType, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "forked"):
        folder.mkdir(exist_ok=True)
        if folder != tmp_path:
            state.begin(str(folder))  # as after a fork
        state.in_fetch = True
        decoder.decode(b"x")
        decoder.decode(b"y")
        state.in_fetch = False
        facts = [fact for log in read_logs(folder) for fact in log.facts]
        assert [fact["module"] for fact in facts if fact.get("fact") == "decoder"] == ["quickjpeg"]
