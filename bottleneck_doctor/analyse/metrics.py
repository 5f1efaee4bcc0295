"""The metrics of the report, each with its interval, sample count and source."""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Diagnosis, HostLoad, Step
from ..model.profile import Profile
from ..model.report import Metric
from ..model.run import Process
from .device_metrics import exposed_wait, gpu_busy, gpu_memory, utilisation
from .intervals import mean_interval
from .steps import share_in, share_interval, steps_in
from .whole_run import evaluation_share, life_of

UNSEEN = "no training step was seen"


def environment(profile: Profile) -> dict[str, str | float | None]:
    """Names and plain values, in the order of reading; None where nobody could tell."""
    machine = profile.machine
    trainers = [process for process in profile.processes if process.role == "trainer"]
    trainer = trainers[0] if trainers else Process(0, 0, "trainer", 0.0)
    keys = [loop.loader for loop in profile.loops if loop.role == "train"][:1]
    loader = next((one for one in profile.loaders if one.key in keys), None)
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


def data_wait(steps: list[Step], loose: tuple[float, float] | None = None) -> Metric:
    """The share of the steps' time in which the loop waits for data; ``loose`` are the ends of its interval
    where stack samples say which part of a step gets the batch."""
    if not steps:
        return Metric(None, "share", source=UNSEEN)
    share, low, high = share_interval(steps, "wait")
    source = "hook on the loader's next"
    if loose is not None:
        low, high, source = min(loose[0], share), max(loose[1], share), "optimizer step to next forward pass"
    return Metric(share, "share", low, high, steps_in(steps), source)


def measure(
    main: Diagnosis, stretches: list[list[Step]], loose: tuple[float, float] | None = None
) -> dict[str, Metric]:
    """All metrics that the contract promises; ``value`` is None where nothing was measured.

    The data wait is that of all ``stretches`` of the steady window: the verdict is about one phase of them.
    """
    steps, inputs, loader, device = main.steps, main.inputs, main.loader, main.device
    wait, step = data_wait(steps, loose), Metric(None, "s", source=UNSEEN)
    if len(stretches) > 1:
        every = data_wait([one for stretch in stretches for one in stretch])
        wait = replace(every, source=f"{wait.source}; all phases together")
    if steps:
        times = mean_interval([one.wall for one in steps], [float(one.steps) for one in steps])
        step = Metric(times[0], "s", times[1], times[2], steps_in(steps), "time between batches")
    per_batch = inputs.samples or (loader.batch_size if loader is not None else None)
    trained = main.whole.training_s + main.whole.evaluation_s > 0
    evaluating = evaluation_share(main.whole) if trained else None
    saving = share_in(steps, "checkpoint") if steps else None
    return {
        "data_wait_fraction": wait,
        "exposed_data_wait_fraction": exposed_wait(device) if device is not None else wait,
        "step_time_s": step,
        "steps_per_s": _per_s(step, 1.0),
        "samples_per_s": _per_s(step, float(per_batch))
        if per_batch
        else Metric(None, "1/s", source="batch size unknown"),
        "cpu_busy_fraction": cpu_busy(main.host),
        "iowait_fraction": Metric(main.host.iowait, "share", source="/proc/stat; corroborates only"),
        "gpu_busy_fraction": gpu_busy(device),
        "gpu_memory_fraction": gpu_memory(main.profile, device),
        **({"mfu": utilisation(device)} if device is not None else {}),
        "worker_busy_fraction": Metric(inputs.busy, "share", n=inputs.batches, source="time inside fetches"),
        "startup_s": _startup(main),
        "evaluation_fraction": Metric(evaluating, "share", source="loops without backward passes"),
        "checkpoint_fraction": Metric(saving, "share", source="torch.save and its like"),
    }


def cpu_busy(host: HostLoad) -> Metric:
    """The share of the allowed cores that the job keeps busy."""
    busy = None if host.job_cores is None else min(1.0, host.job_cores / host.cores)
    return Metric(busy, "share", source="CPU seconds of the process tree over cores allowed")


def _per_s(step: Metric, times: float) -> Metric:
    if not step.value or not step.low or not step.high:
        return Metric(None, "1/s", source=step.source)
    ends = (times / step.high, times / step.low)
    return Metric(times / step.value, "1/s", *ends, step.n, step.source)


def _startup(main: Diagnosis) -> Metric:
    """From the run's start to the first batch in the training loop; by its process's life where no loader
    tells of batches."""
    loop = main.loop
    life = life_of(main.profile, loop, main.outside) if main.outside is not None else None
    if life is not None:
        return Metric(life.first_s, "s", n=1, source="run start to first step")
    if loop is None or not loop.epochs.t:
        return Metric(None, "s", source="no training loop was seen")
    first = loop.epochs.t[0] + loop.epochs.build_s[0] + loop.epochs.first_wait_s[0]
    return Metric(max(0.0, first), "s", n=1, source="run start to first batch")
