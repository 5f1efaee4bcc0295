"""Weights & Biases: a run of its own, online or, by WANDB_MODE, offline."""

from __future__ import annotations

import os

from .data import ExportData

ANSWER_S = 10


def carry(address: str, data: ExportData) -> str:
    """Log to ``ENTITY/PROJECT``, else to W&B's usual ones; says where the run is.

    Never into the training's run, which a second process would write over; its id stands in the config.
    """
    names = ("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_SWEEP_ID")
    training, *_ = (os.environ.pop(name, "") for name in names)
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    entity, _, project = address.rpartition("/")
    # What W&B finds out itself (source, git, machine, console) is not of the report.
    settings = wandb.Settings(
        silent=True, console="off", save_code=False, disable_git=True, disable_code=True, x_disable_meta=True,
        x_disable_stats=True, x_disable_machine_info=True, x_save_requirements=False, init_timeout=ANSWER_S,
    )  # fmt: skip
    with wandb.init(
        entity=entity or None,
        project=project or None,
        job_type="bdoc",
        settings=settings,
        config={**data.run, **data.verdict, **({"training_run": training} if training else {})},
    ) as run:
        run.log({one.path.replace(".", "/", 1): one.value for one in data.values})
    return str(run.url or os.path.dirname(run.dir))
