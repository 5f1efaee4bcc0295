"""Where a framework builds the loader: what the script hands it, that a changed argument can go into."""

from __future__ import annotations

from collections.abc import Iterable

from ...model.loops import Loader
from ...model.profile import Profile
from .source import Unsafe

ARGUMENTS = "TrainingArguments"
OWN_ARGUMENTS = frozenset({f"transformers.{ARGUMENTS}", f"transformers.training_args.{ARGUMENTS}"})
# TrainingArguments has these with `dataloader_` before them [transformers.TrainingArguments]
HUGGING_FACE = frozenset("num_workers prefetch_factor persistent_workers pin_memory drop_last".split())


def is_trainers(loader: Loader) -> bool:
    """Whether the Trainer of transformers builds it."""
    return loader.call is None and "transformers" in loader.through


def trainers(names: Iterable[str], loaders: list[Loader], profile: Profile) -> dict[str, str]:
    """What TrainingArguments calls these arguments of a loader; raises ``Unsafe`` where it has none such."""
    unknown = [name for name in names if name not in HUGGING_FACE]
    if unknown:
        raise Unsafe(f"{ARGUMENTS} has no argument for {', '.join(unknown)}")
    keys = {loader.key for loader in loaders}
    if any(loop.loader in keys and loop.role == "evaluation" for loop in profile.loops):
        raise Unsafe(f"{ARGUMENTS} sets the loaders of training and of evaluation alike")
    return {name: f"dataloader_{name}" for name in names}


def handed_over(loader: Loader, profile: Profile) -> Loader:
    """The script's own loader that a framework has built anew, as Accelerate does, where it is surely one."""
    alike = [one for one in profile.loaders
             if one.call is not None and one.location is not None and not one.through
             and (one.pid, one.dataset, one.dataset_length)
             == (loader.pid, loader.dataset, loader.dataset_length)]  # fmt: skip
    if "accelerate" not in loader.through or len({one.location for one in alike}) != 1:
        raise Unsafe(f"{loader.through[-1]} builds the loader, not the script")
    return alike[0]
