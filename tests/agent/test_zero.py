"""DeepSpeed's engine says how a model is divided; the class is pretended, with what is read of it."""

from __future__ import annotations

from pathlib import Path

from tests.agent.watching import PRELUDE, profile_of, watched

ENGINE = """
class DeepSpeedEngine:
    def __init__(self, model, stage):
        self.module, self.stage = model, stage

    def zero_optimization_stage(self):
        return self.stage
"""
SCRIPT = (
    PRELUDE
    + f"""
import os, sys
sys.path.insert(0, os.getcwd())
os.makedirs("deepspeed/runtime")
open("deepspeed/runtime/engine.py", "w").write('''{ENGINE}''')
from deepspeed.runtime.engine import DeepSpeedEngine

divided = torch.nn.Linear(30, 2)
divided.weight.ds_numel = 1000  # stage 3 keeps the whole size here; the tensor itself is empty
engine = DeepSpeedEngine(divided, 3)
"""
)


def test_its_stage_and_the_size_of_the_whole_model_are_told(tmp_path: Path) -> None:
    (model,) = profile_of(watched(tmp_path, SCRIPT)).ranks.parallel
    assert (model.kind, model.arguments, model.parameters) == ("zero", {"stage": "3"}, 2)
    assert model.gradient_bytes == 4 * (1000 + 2)
    assert Path(model.file).name == "train.py"
