"""Explanations of a report's terms: bounds, causes, metrics and messages."""

from __future__ import annotations

APPLY = {
    "env": "an environment variable, set before the start; results stay what they are",
    "hook": "an argument or a call in the script; results are the same up to random streams and batch order",
    "hook~": "an argument or a call in the script that changes numerics, order or meaning: good for "
    "measuring, to be weighed for the real training",
    "convert": "the data is converted or moved once, before training",
    "manual": "an edit of the source at the line shown",
    "admin": "a change of hardware, driver, container or cluster: the administrator decides",
}

EFFORTS = {
    "minutes": "an argument, a variable, a few lines",
    "hours": "a class or a conversion to write, and its result to check",
    "days": "another tool, another layout of the data, another machine",
}

BOUND_PAGES = {
    "cpu": """\
The step would gain most if the CPU were infinitely fast: making batches, Python in the loop, or a model
that computes on the CPU. The cause says which.""",
    "io": """\
The step would gain most if storage and network were infinitely fast: data loading is blocked on reads.
Bytes that come from the page cache cost CPU, not I/O.""",
    "gpu": """\
The step would gain most if the accelerator were infinitely fast. A busy GPU is not always a well used one:
the cause says whether it computes, waits for copies, gets too little work or runs below its clock.""",
    "comm": """\
The step would gain most if the ranks exchanged gradients in no time, or if none of them were slower.""",
    "latency": """\
The loop waits for batches whose source sleeps: on a timer, a lock, a queue or a rate limit. A faster CPU,
disk or GPU does not help; more batches in flight do.""",
    "balanced": """\
No resource, made infinitely fast, would gain 5 %, and nothing else is waited for: the run is healthy.""",
    "inconclusive": """\
Too little was seen to judge: too few steady steps, or no training loop. Let it run for longer; the section
"not measured" lists what else was missing. Inconclusive does not mean healthy.""",
}

GAPS = {
    "hooks": """\
No process of the run loaded the agent, so that neither steps nor batches were seen. `python -I`, `-E` and
`-S` and launchers that scrub PYTHONPATH keep it out. Add to the script:
`import bottleneck_doctor.agent; bottleneck_doctor.agent.arm()`""",
    "rows": """\
The agent's file of rows was full, or the disk was: further rows were counted and dropped, so that the
training did not wait. Totals stay exact, details have gaps. Free space under TMPDIR.""",
    "watching": """\
The supervisor could not watch all of the run, for the reason given. The training itself was not touched.""",
    "limits": """\
--max-steps and --max-seconds end a training through the run folder, and there was none.""",
    "gpu-counters": """\
NVML, the driver's library, could not be read, or refused the query that is named: utilisation, memory,
clocks and power of the GPU are then not known. Install `nvidia-ml-py` where bdoc is installed, and check that
`nvidia-smi` works as this user; containers need the `utility` driver capability. NVML: NVIDIA only.""",
    "which-gpu-is-which": """\
CUDA and NVML number unlike GPUs differently unless CUDA_DEVICE_ORDER=PCI_BUS_ID, and CUDA_VISIBLE_DEVICES
may hide the training's GPU from bdoc. Where torch does not name its device, or the name is none of those that
NVML shows, the driver's numbers are not those of the GPU that was used.""",
    "python-stacks-py-spy": """\
py-spy took no stack samples: it is missing or not made for this machine, or may not read the training's
memory. The lines that take the time are not known then; verdict and predictions do not need them. The gap,
and `bdoc env`, name the remedy. In a container: start it with `--cap-add SYS_PTRACE`. Elsewhere the reason
is mostly kernel.yama.ptrace_scope: at 1 the training permits bdoc's py-spy by itself, at 2 only root may
attach, at 3 no user until a reboot with another setting. Processes whose memory is protected, and those of
other users, need a py-spy with the capability: `sudo setcap cap_sys_ptrace+ep PATH/py-spy`, or bdoc run by
the user who trains.""",
    "what-blocked-threads-wait-for": """\
/proc/PID/syscall may not be read, so that a sleeping worker's system call is not known. Storage, network
and locks are then hard to distinguish, and findings about them abstain.""",
    "bytes-read-by-the-job": """\
/proc/PID/io may not be read: how much came from the disk is not known. Run bdoc as the user who trains.""",
    "pressure-stall-information": """\
The kernel counts no pressure stalls (/proc/pressure): waits for memory are measured less exactly.""",
    "disk-counters": """\
/proc/diskstats shows no physical disk, as in many containers and with network file systems.""",
    "container-limits": """\
The control groups could not be read: limits on cores, memory and reads are not known.""",
}


BOUNDS = {
    "cpu": "CPU-bound",
    "gpu": "GPU-bound",
    "io": "I/O-bound",
    "comm": "communication-bound",
    "balanced": "balanced",
    "latency": "latency-bound",
    "inconclusive": "inconclusive",
}

RESOURCES = {"cpu": "CPU", "io": "I/O", "gpu": "GPU", "comm": "communication"}

BASES = {"replay": "by replay", "amdahl": "from the measured part", "bound": "an upper bound"}

SEVERITIES = {"primary": 0, "secondary": 1, "notice": 2}

METRICS = {
    "data_wait_fraction": """\
Share of the steady training time in which the loop's thread is blocked getting a batch:
`next(iterator)`, and building the iterator at an epoch's start. Warm-up steps, evaluation loops
and instrument windows are set aside. Below 5 % the loader is not worth your time; above 20 % it
is the first thing to look at.""",
    "exposed_data_wait_fraction": """\
The part of the data wait in which the accelerator had nothing queued, so the wait really cost
time. On a CPU-only run it is the same number as data_wait_fraction.""",
    "batch_release_fraction": """\
Share of the steady training time in which the line that asks for a batch releases the last one: the
shared memory of workers is unmapped there, behind `next(iterator)`. Known from stack samples, and only
where they found any. The budget counts it as data wait, data_wait_fraction does not.""",
    "step_time_s": """\
Wall time of a steady step: from one batch's arrival in the training loop to the next one's.""",
    "steps_per_s": """\
Steady training steps per second of wall time.""",
    "samples_per_s": """\
Samples that the steady training loop consumes per second; not measured when the batch size is
unknown.""",
    "cpu_busy_fraction": """\
CPU time of the job's whole process tree over wall time and the cores the job was given: the
smaller of its affinity and its cgroup quota, never the cores of the machine.""",
    "iowait_fraction": """\
Share of time in which cores were idle while the kernel waited for storage. Evidence, not proof:
network file systems and page faults in a cgroup do not always show here.""",
    "gpu_busy_fraction": """\
Share of time in which at least one kernel, however small, ran on the GPU that the training uses. A
busy GPU is not necessarily a well used one. Not measured where the training uses none.""",
    "gpu_memory_fraction": """\
Peak of the GPU memory in use over the memory there is.""",
    "mfu": """\
Model FLOPs utilisation: the time that a step's matrix products and convolutions take at the GPU's
peak rate in their precision, over the time that the step takes. Recomputed activations count. Not
measured where the peak or too much of the arithmetic is unknown (fused attention).""",
    "cores_per_gpu": """\
Cores that the making of batches must keep busy for one GPU never to wait for data: the CPU time of a
batch over the step that the replay gives without any data wait. Compare it with the cores per GPU of the
machine that you choose. Not measured where the training uses no accelerator.""",
    "worker_busy_fraction": """\
Share of the loader workers' time spent fetching batches. Near 1 while the loop waits: too few
or too slow workers. Near 0: the loader is not the bottleneck. Not measured when there are no
workers.""",
    "startup_s": """\
From the start of the script to the first batch of training: imports, building the model and the
dataset.""",
    "evaluation_fraction": """\
Share of the run's wall time spent in evaluation loops.""",
    "evaluation_data_wait_fraction": """\
The same as data_wait_fraction of the longest evaluation loop: all of its steps count.""",
    "evaluation_step_time_s": """\
Wall time of a step of the longest evaluation loop.""",
    "checkpoint_fraction": """\
Share of the run's wall time in which the training loop waited for checkpoints to be written.""",
}

MESSAGES = {
    "run-ledger": """\
"Where the run goes" divides the wall time of the training process, from the launch to its exit; the parts do
not overlap and sum to the run. `launching` is the time before its Python runs (a launcher such as torchrun
included), `start-up and imports` goes until the first batch of training is asked for, or the first step of a
loop without a loader. `starting workers` is what building iterators and each worker's first batch take beyond
a usual batch, of evaluation loops as well, `stopping workers` the wait until they have ended. `training
steps` and `evaluation` are the loops, `warm-up` the first steps that no verdict counts. `checkpoints` holds
all saving, within loops or between. `end of epochs` is everything else between the first batch and the end of
the last loop: whatever the script does there. Then come `after the last loop`, until the interpreter begins
to shut down, exit handlers included, and `shut-down`. `unexplained` is the remainder. A process that was
killed reports no end: the rest is then `after the last batch seen`.""",
    "predictions": """\
A predicted speedup is that of the whole steady step, as a likely value and a range.
by replay: the measured batches were run again through a model of the loader with the setting changed.
from the measured part: the part that the remedy removes was measured, the rest of the step stays.
not predicted (at most ×2.4): the speedup if what the remedy shortens took no time. How much of that can be
reached was not measured: `bdoc prove --remedy ID` measures it. Ranges on the findings' pages, which come from
elsewhere, then only order the list.
"Would hurt" lists changes that people try, and that are predicted to make this run slower.""",
    "hottest-lines": """\
"Where Python was seen" counts stack samples of the training thread and of the loader's workers, taken
for a few seconds after warm-up, asleep or not. `own` is the share in which a function was the innermost
one of yours: library code that it called counts for it. `total` adds what its own callees took.
"on CPU" and "blocked" say what the thread did in its own samples: in 80 % of them or more it was on a
core or ready for one; in 20 % or less: it slept, waited for a lock (the GIL included) or read. In between
the share is shown. The state is left out below 20 samples, and before Python 3.11, where py-spy does not
report it. `bdoc view` draws all call paths; `bdoc report --format speedscope -o FILE`
writes them for speedscope.app.
"Operators" lists torch's operators in one profiled step by the CPU time of each without those inside it.
`bdoc report --details` and `--format markdown` list library functions as well.""",
    "staircase": """\
"together: 1 ×2.3 → with 2 ×2.6" is the speedup of the first remedy, then of the first and second applied
together, replayed as one change. A remedy that "adds nothing to those above" is an alternative to one of
them. Remedies of which only an upper bound is known have no stair.""",
    "bad-profile": """\
The file is not a valid profile for this bdoc: it is truncated, from another tool, from a
newer bdoc, or holds impossible numbers. Profiles are validated before they are
analysed. Write a new one with `bdoc run SCRIPT`, or upgrade bdoc when the message
says that the file is newer.""",
    "usage": """\
The command line, or [tool.bdoc] in pyproject.toml, asks for something that cannot be done.
Nothing was run. The exit status is 2. `bdoc COMMAND --help` lists what a command takes.""",
    "cannot-say": """\
The gate could not decide (exit status 3): the metric was not measured in this run, or too few
steady steps were seen. That is not a pass. Let the run go on for longer, or see `bdoc env` for
what can be measured on this machine.""",
    "not-comparable": """\
`bdoc check --baseline` compares runs of one job on one kind of machine. These differ in something that
would make the comparison one of machines or versions (script, torch, python, cpu, cores, gpus, world-size),
or the runs of one side are not repeats of each other. The exit status is 3: that is no pass. Take the
baseline anew where the new runs are measured, or pass `--allow-different NAME` to ignore one difference.
Differences that an edit may cause (workers, batch-size, arguments, device) are reported, never refused.""",
    "not-measured": """\
A number that could not be measured stays empty; it is never counted as zero. The section "not
measured" of a report names the reason, and the command that would allow it.""",
    "nothing-to-run": """\
`bdoc run` was given nothing to run. It takes a script, `-m MODULE`, or `-- COMMAND` for torchrun,
accelerate launch or a shell script. Options of bdoc stand before it.""",
    "script-not-found": """\
The script does not exist, seen from the folder in which bdoc was started. Nothing was run.""",
    "script-is-directory": """\
The script is a directory without a `__main__.py`, which Python cannot run. Name the file in it.""",
    "script-unreadable": """\
The script exists, but this user may not read it. Check its permissions.""",
    "module-name-missing": """\
`-m` stands before the name of a module, as for Python itself: `bdoc run -m package.train --lr 0.1`.""",
    "launcher-missing": """\
After `--` stands the whole command to run: `bdoc run -- torchrun --nproc-per-node 2 train.py`.""",
    "launcher-not-found": """\
The command after `--` is not on PATH, or is not an executable file. Check the spelling, or give its path.""",
    "python-not-found": """\
No Python was found to run the training with. bdoc may be installed apart from torch: it takes its
own interpreter when that has torch, else the first `python` on PATH. `--python PATH` names another.""",
    "start-not-found": """\
The command vanished between being found and being started, or the interpreter named in its first
line is missing.""",
    "start-refused": """\
The system refused to start the command: no permission, not a program, or out of memory or processes.""",
}
