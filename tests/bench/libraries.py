"""``python -m tests.bench.libraries``: what a run costs a training whose loop belongs to a library.

Each training takes some 10 s on torch's default threads. It runs plainly and under bdoc in turn; a training's
part is the library's own call, what comes after it until the process has ended is counted apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.options import tell
from tests.lab.run import BDOC, ours_first, report_on, succeed

Training = Callable[[], Callable[[], object]]  # prepares, and returns the call that trains


def sb3() -> Callable[[], object]:
    """Stable-Baselines3: PPO on CartPole."""
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    return lambda: model.learn(14_000)


def trainer() -> Callable[[], object]:
    """transformers' Trainer: a small BERT."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    config = BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256)
    rows = [{"input_ids": torch.randint(1000, (64,)), "labels": k % 2} for k in range(4_000)]
    arguments = TrainingArguments(
        tempfile.mkdtemp(), max_steps=160, per_device_train_batch_size=16, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    return Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows).train


def lightning() -> Callable[[], object]:
    """Lightning: an autoencoder of rows."""
    import lightning
    import torch
    from torch.utils.data import DataLoader

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            layers = (torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
            self.layers = torch.nn.Sequential(*layers)

        def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
            loss = (self.layers(batch) - batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters())

    loader = DataLoader(torch.randn(20_000, 256), batch_size=64, shuffle=True)
    fit = lightning.Trainer(
        max_epochs=6, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    ).fit
    return lambda: fit(Net(), loader)


TRAININGS: dict[str, Training] = {one.__name__: one for one in (sb3, trainer, lightning)}


@dataclass(frozen=True)
class Run:
    """Seconds of a run: of the training's part, from its end to that of the process, in all."""

    train_s: float
    after_s: float
    whole_s: float
    told_s: float | None = None  # what the report says that it has cost


def once(name: str, options: Sequence[str] | None = None) -> Run:
    """Run one of them, under bdoc where its options are given."""
    with tempfile.TemporaryDirectory(prefix="bdoc-bench-") as folder:
        profile = Path(folder) / "profile.json"
        script = ["-m", "tests.bench.libraries", "--train", name]
        command = [sys.executable, *script]
        if options is not None:
            command = [*BDOC, "run", *options, "-o", str(profile), *script]
        began_s = time.monotonic()
        out = succeed(command, PYTHONPATH=ours_first(), HF_HUB_OFFLINE="1")
        ended_s = time.monotonic()
        marks = json.loads(out.splitlines()[-1])
        cost = report_on(profile)["quality"]["overhead"] if options is not None else {}
        told = cost["within_s"] + cost["around_s"] if cost.get("around_s") else None
        return Run(marks["train_s"], ended_s - marks["ended_s"], ended_s - began_s, told)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure pairs, and print a line for each training and their median."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.libraries", description=__doc__)
    parser.add_argument("--train", choices=TRAININGS, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--option", action="append", default=[], help="an option of bdoc run's")
    given = parser.parse_args(argv)
    if given.train:
        call = TRAININGS[given.train]()
        began_s = time.monotonic()
        call()
        ended_s = time.monotonic()
        print("\n" + json.dumps({"train_s": ended_s - began_s, "ended_s": ended_s}))
        return 0
    rows = []
    print(f"{'library':12}{'plain, s':>10}{'training':>24}{'after, s':>10}{'whole, s':>10}{'it says':>10}")
    for name in given.only:
        pairs = []
        for number in range(given.pairs):
            tell(f"{name}: {number + 1}/{given.pairs}")
            first, second = (once(name), None) if number % 2 else (None, once(name, given.option))
            pairs.append((first or once(name), second or once(name, given.option)))
        ratios = [watched.train_s / plain.train_s for plain, watched in pairs]
        after = [watched.after_s - plain.after_s for plain, watched in pairs]
        whole = [watched.whole_s - plain.whole_s for plain, watched in pairs]
        told = [watched.told_s for _, watched in pairs if watched.told_s is not None]
        rows.append((statistics.median(ratios), statistics.median(after)))
        spread = f"×{rows[-1][0]:.3f} ({min(ratios):.2f}–{max(ratios):.2f})"
        said = f"{statistics.median(told):.2f}" if told else "–"
        plain_s = statistics.median(plain.train_s for plain, _ in pairs)
        print(
            f"{name:12}{plain_s:10.1f}{spread:>24}{rows[-1][1]:10.2f}{statistics.median(whole):10.2f}{said:>10}",
            flush=True,
        )
    ratio, after_s = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"{'median':12}{'':10}{f'×{ratio:.3f}':>24}{after_s:10.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
