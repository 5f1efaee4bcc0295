"""What the words beside a remedy mean, what each bound means, and what a gap in the measurement costs."""

from __future__ import annotations

APPLY = {
    "env": "an environment variable, set before the start; results stay what they are",
    "hook": "an argument or a call in the script; results are the same up to random streams and batch order",
    "hook~": "an argument or a call in the script that changes numerics, order or meaning: good for "
    "measuring, to be weighed for the real training",
    "convert": "the data is converted or moved once, before training",
    "manual": "an edit of the source at the line shown",
    "admin": "a change of hardware, driver, container or cluster: whoever runs the machine decides",
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
The step would gain most if storage and network were infinitely fast: whoever makes the batches sleeps in
reads. Bytes that come from the page cache cost CPU, not I/O.""",
    "gpu": """\
The step would gain most if the accelerator were infinitely fast. A busy GPU is not always a well used one:
the cause says whether it computes, waits for copies, gets too little work or runs below its clock.""",
    "comm": """\
The step would gain most if the ranks exchanged gradients in no time, or if none of them were slower.""",
    "latency": """\
The loop waits for batches that nobody computes: whoever makes them sleeps on a timer, a lock, a queue or a
rate limit. No faster CPU, disk or GPU helps; more batches in flight do.""",
    "balanced": """\
No resource, made infinitely fast, would gain 5 %, and nothing else is waited for: the run is healthy.""",
    "inconclusive": """\
Too little was seen to judge: too few steady steps, or no training loop. Let it run for longer; the section
"not measured" says what else was missing. It is never a way of saying "healthy".""",
}

GAPS = {
    "hooks": """\
No process of the run loaded the agent, so that neither steps nor batches were seen. `python -I`, `-E` and
`-S` and launchers that scrub PYTHONPATH keep it out. Add to the script:
`import bottleneck_doctor.agent; bottleneck_doctor.agent.arm()`""",
    "rows": """\
The agent's file of rows was full, or the disk was: what found no room was counted and dropped, never
awaited. Totals stay exact, details have holes. Free space under TMPDIR.""",
    "watching": """\
The supervisor could not watch all of the run, for the reason given. The training itself was not touched.""",
    "limits": """\
--max-steps and --max-seconds end a training through the run folder, and there was none.""",
    "gpu-counters": """\
NVML, the driver's library, could not be asked, or refused what is named: utilisation, memory, clocks and
power of the GPU are then not known. Install `nvidia-ml-py` beside bdoc, and see that `nvidia-smi` works as
this user; containers need the `utility` driver capability. It knows NVIDIA's devices only.""",
    "which-gpu-is-which": """\
CUDA and NVML number unlike GPUs differently unless CUDA_DEVICE_ORDER=PCI_BUS_ID, and CUDA_VISIBLE_DEVICES
may hide the training's GPU from bdoc. Where torch does not name its device, or the name is none of those that
NVML shows, the driver's numbers are not those of the GPU that was used.""",
    "python-stacks-py-spy": """\
py-spy took no stack samples: it is missing or not made for this machine, or may not read the training's
memory. The lines in which the time goes are not known then; verdict and predictions do not need them. The
gap, and `bdoc env`, name the one thing to do. In a container: start it with `--cap-add SYS_PTRACE`.
Elsewhere it is mostly kernel.yama.ptrace_scope: at 1 the training lets bdoc's py-spy in by itself, at 2
root alone may look, at 3 nobody until the machine is booted with another setting. Processes that hide
their memory, and those of other users, need a py-spy with the capability: `sudo setcap cap_sys_ptrace+ep
PATH/py-spy`, or bdoc as the user who trains.""",
    "what-blocked-threads-wait-for": """\
/proc/PID/syscall may not be read, so that a sleeping worker's system call is not known. Storage, network
and locks can then not be told apart well, and findings about them abstain.""",
    "bytes-read-by-the-job": """\
/proc/PID/io may not be read: how much came from the disk is not known. Run bdoc as the user who trains.""",
    "pressure-stall-information": """\
The kernel counts no pressure stalls (/proc/pressure): waiting for memory is seen less well.""",
    "disk-counters": """\
/proc/diskstats shows no physical disk, as in many containers and with network file systems.""",
    "container-limits": """\
The control groups could not be read: quotas on cores, memory and reads may exist that are not known.""",
}
