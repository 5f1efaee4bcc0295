"""A script while it is being written: its sections, in the names of an author who is drawn by chance."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from string import Template

# What authors call things. The first of each is what the fragments are written in, after a dollar sign.
NAMES = {
    "x": "x xb inputs features data".split(),
    "y": "y yb targets labels target".split(),
    "model": "model net network module".split(),
    "opt": "opt optimizer optim solver".split(),
    "loss": "loss total_loss objective cost".split(),
    "step": "step it iteration n_iter i".split(),
    "source": "source loader batches train_loader stream".split(),
    "mark": "mark tick stamp lap".split(),
    "read": "read load fetch read_record get_raw".split(),
    "prepare": "prepare transform augment preprocess decode".split(),
    "sample": "sample to_tensors encode make_example as_pair".split(),
    "Records": "Records MyDataset TrainSet Samples Corpus".split(),
    "get_batch": "get_batch next_batch sample_batch make_batch".split(),
    "generate": "generate batch_iterator iterate data_generator epoch_of".split(),
    "collate": "collate pad_batch merge my_collate".split(),
    "loop": "fit train run_epoch train_one_epoch loop train_model optimise".split(),
    "main": "main main run cli".split(),
    "Net": "Net Model Classifier Backbone".split(),
    "train_step": "train_step update one_step optimise_batch".split(),
    "evaluate": "evaluate validate test run_eval".split(),
    "save": "save save_checkpoint dump_state snapshot".split(),
    "Trainer": "Trainer Experiment Runner Engine".split(),
}


@dataclass
class Draft:
    """The sections of a script, and ``state``: the names that the setup hands to the loop."""

    imports: set[str] = field(default_factory=set)
    constants: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    after_epoch: list[str] = field(default_factory=list)

    def needs(self, *lines: str) -> None:
        """Import statements."""
        self.imports.update(lines)

    def constant(self, name: str, value: object, part: str = "", without: object = 0) -> None:
        """A constant; that of a part has another value in runs without the part."""
        switched = f'{without} if "{part}" in SKIP else {value}' if part else str(value)
        self.constants.append(f"{name} = {switched}")

    def define(self, text: str) -> None:
        """A function or class of the script."""
        self.definitions.append(tidy(text))

    def prepare(self, text: str, *state: str) -> None:
        """Lines before the loop, and the names in them that the loop uses."""
        self.setup.append(tidy(text))
        self.state += [name for name in state if name not in self.state]

    def each_step(self, text: str) -> None:
        """Lines of the loop's body."""
        self.body.append(tidy(text))


def tidy(text: str) -> str:
    """A fragment without the indentation that it has in our source."""
    return textwrap.dedent(text).strip("\n")


def indent(text: str, levels: int = 1) -> str:
    """Some lines further in."""
    return textwrap.indent(text, "    " * levels)


def joined(blocks: Iterable[str]) -> str:
    """Blocks of lines one below the other."""
    return "\n".join(block for block in blocks if block)


def names(choice: random.Random) -> dict[str, str]:
    """One author's names; none is used for two things."""
    chosen: dict[str, str] = {}
    for name, known in NAMES.items():
        free = [word for word in known if word not in chosen.values()]
        chosen[name] = choice.choice(free)
    return chosen


def written(text: str, choice: random.Random, names: dict[str, str]) -> str:
    """The text in an author's names, indentation and love of comments."""
    text = Template(text).substitute(names)
    if choice.random() < 0.4:
        text = re.sub(r"^ *# (?!!).*\n", "", text, flags=re.MULTILINE)
    if choice.random() < 0.2:
        text = re.sub(r"^( +)", lambda found: found[1][: len(found[1]) // 2], text, flags=re.MULTILINE)
    return re.sub(r"\n{4,}", "\n\n\n", text).strip() + "\n"
