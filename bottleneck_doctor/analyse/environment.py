"""What the training ran on and with: versions, threads, cores, memory, devices, how workers start."""

from __future__ import annotations

from ..model.loops import Loader
from ..model.profile import Profile
from ..model.run import Process


def environment(profile: Profile) -> dict[str, str | float | None]:
    """Names and plain values, in the order of reading; None where nobody could tell."""
    machine = profile.machine
    trainers = [process for process in profile.processes if process.role == "trainer"]
    trainer = trainers[0] if trainers else Process(0, 0, "trainer", 0.0)
    loader = _training_loader(profile)
    return {
        "python": trainer.python or None,
        "torch": trainer.torch,
        "device": trainer.device,
        "torch_threads": trainer.torch_threads,
        "trainers": len(trainers),
        "world_size": trainer.world_size,
        "cores": machine.cores,
        "cores_online": machine.cores_online,
        "affinity_cores": machine.affinity_cores,
        "quota_cores": machine.quota_cores,
        "cpu": machine.cpu or None,
        "gpus": ", ".join(machine.gpus) or None,
        "memory_bytes": machine.memory_bytes,
        "memory_limit_bytes": machine.memory_limit_bytes,
        "shm_free_bytes": machine.shm_free_bytes,
        "num_workers": loader.num_workers if loader else None,
        "start_method": loader.start_method if loader else None,
        "kernel": machine.kernel or None,
        "bdoc": profile.run.bdoc or None,
    }


def _training_loader(profile: Profile) -> Loader | None:
    keys = [loop.loader for loop in profile.loops if loop.role == "train"]
    return next((loader for loader in profile.loaders if loader.key in keys[:1]), None)
