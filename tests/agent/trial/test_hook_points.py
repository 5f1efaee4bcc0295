"""Where treatments act: a checkpoint is met however its saving is called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent.trial.hook_points import at_saving


def test_a_checkpoint_is_met_by_place_and_by_name_and_a_wrong_call_is_the_scripts_own() -> None:
    saved: list[Any] = []
    met: list[Any] = []

    def around(save: Any, thing: Any, target: Any) -> Any:
        met.append(target)
        return save(thing)

    def save(obj: object, f: object, pickle_protocol: int = 2) -> None:
        saved.append((obj, f, pickle_protocol))

    module = SimpleNamespace(save=save)
    at_saving(around)["torch.serialization"](module)
    module.save("model", "a.pt", pickle_protocol=4)
    module.save(obj="model", f="b.pt")
    assert met == ["a.pt", "b.pt"]
    assert saved == [("model", "a.pt", 4), ("model", "b.pt", 2)]
    with pytest.raises(TypeError):
        module.save("model")
