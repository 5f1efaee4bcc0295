"""Decoders inside a fetch are timed."""

from __future__ import annotations

from types import ModuleType

from bottleneck_doctor.agent import input_ops
from bottleneck_doctor.agent.state import state


def test_only_decoding_inside_fetches_counts() -> None:
    decoder = ModuleType("quickjpeg")
    decoder.decode = lambda data: sum(range(20_000)) and data  # type: ignore[attr-defined]
    input_ops._decoder_patcher(("decode",))(decoder)
    state.in_fetch, state.decode_ns = False, 0
    assert decoder.decode(b"x") == b"x"
    assert state.decode_ns == 0
    state.in_fetch = True
    assert decoder.decode(b"x") == b"x"
    state.in_fetch = False
    assert state.decode_ns > 0
