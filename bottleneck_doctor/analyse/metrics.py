"""The metrics of the report, each with its interval, sample count and source."""

from __future__ import annotations

from ..model.derived import DeviceView
from ..model.diagnosis import HostLoad, Inputs, Step
from ..model.loops import Loader, Loop
from ..model.profile import Profile
from ..model.report import Metric
from ..model.run import Process
from .device_metrics import exposed_wait, gpu_busy, gpu_memory, utilisation
from .intervals import mean_interval, ratio_interval
from .steps import seconds_in, steps_in


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


def measure(
    profile: Profile,
    loop: Loop | None,
    loader: Loader | None,
    steps: list[Step],
    inputs: Inputs,
    host: HostLoad,
    loose: tuple[float, float] | None,
    device: DeviceView | None = None,
) -> dict[str, Metric]:
    """All metrics that the contract promises; ``value`` is None where nothing was measured.

    ``loose`` widens the data wait's interval where a share of it was judged from stack samples.
    """
    count = steps_in(steps)
    weights = [float(step.steps) for step in steps]
    walls = [step.wall * step.steps for step in steps]
    waits = [step.wait * step.steps for step in steps]
    wait = (
        _metric(ratio_interval(waits, walls), "share", count, "hook on the loader's next")
        if steps
        else _none("share", "no training step was seen")
    )
    if loose is not None and wait.value is not None:
        wait = Metric(
            wait.value,
            "share",
            min(loose[0], wait.value),
            max(loose[1], wait.value),
            count,
            "optimizer step to next forward pass",
        )
    exposed = exposed_wait(device) if device is not None else wait
    step = (
        _metric(mean_interval([one.wall for one in steps], weights), "s", count, "time between batches")
        if steps
        else _none("s", "no training step was seen")
    )
    per_batch = inputs.samples or (loader.batch_size if loader is not None else None)
    return {
        "data_wait_fraction": wait,
        "exposed_data_wait_fraction": exposed,
        "step_time_s": step,
        "steps_per_s": _inverse(step, 1.0, "1/s"),
        "samples_per_s": _inverse(step, float(per_batch), "1/s")
        if per_batch
        else _none("1/s", "batch size unknown"),
        "cpu_busy_fraction": _share(
            host.job_cores, host.cores, "CPU seconds of the process tree over cores allowed"
        ),
        "iowait_fraction": Metric(host.iowait, "share", source="/proc/stat; corroborates only"),
        "gpu_busy_fraction": gpu_busy(device),
        "gpu_memory_fraction": gpu_memory(profile, device),
        **({"mfu": utilisation(device)} if device is not None else {}),
        "worker_busy_fraction": Metric(inputs.busy, "share", n=inputs.batches, source="time inside fetches"),
        "startup_s": _startup(profile, loop),
        **_apart(profile, loop, steps),
    }


def _metric(value: tuple[float, float, float], unit: str, n: int, source: str) -> Metric:
    return Metric(value[0], unit, value[1], value[2], n, source)


def _none(unit: str, why: str) -> Metric:
    return Metric(None, unit, source=why)


def _inverse(metric: Metric, times: float, unit: str) -> Metric:
    if not metric.value or not metric.low or not metric.high:
        return Metric(None, unit, source=metric.source)
    return Metric(
        times / metric.value, unit, times / metric.high, times / metric.low, metric.n, metric.source
    )


def _share(part: float | None, whole: float, source: str) -> Metric:
    return Metric(None if part is None else min(1.0, part / whole), "share", source=source)


def _startup(profile: Profile, loop: Loop | None) -> Metric:
    """From the run's start to the first batch in the training loop."""
    if loop is None or not loop.epochs.t:
        return _none("s", "no training loop was seen")
    first = loop.epochs.t[0] + loop.epochs.build_s[0] + loop.epochs.first_wait_s[0]
    return Metric(max(0.0, first), "s", n=1, source="run start to first batch")


def _apart(profile: Profile, loop: Loop | None, steps: list[Step]) -> dict[str, Metric]:
    """Evaluation as a share of training plus evaluation; checkpoints as a share of the steady window."""
    walls = seconds_in(steps)
    saving = seconds_in(steps, "checkpoint")
    evaluating = sum(
        one.wall_s for one in profile.loops if one.role == "evaluation" and loop and one.pid == loop.pid
    )
    whole = evaluating + (loop.wall_s if loop else 0.0)
    return {
        "evaluation_fraction": Metric(
            evaluating / whole if whole > 0 else None, "share", source="loops without backward passes"
        ),
        "checkpoint_fraction": Metric(
            saving / walls if walls > 0 else None, "share", source="torch.save and its like"
        ),
    }
