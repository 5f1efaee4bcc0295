"""``python -m tests.cluster``: two nodes on this machine, by real engines; one is late, and must be named.

torchrun: two agents, each under ``bdoc run`` and with a host name of its own (``unshare --uts``); slow-link:
each in a network of its own, and the link is slow. slurm: two ``slurmd``, and ``srun bdoc run``. ray: two
nodes by ``bdoc run -- ray start``. pytorchjob: the pods of our manifest, without Kubernetes. An engine that
is not here or may not be started is skipped, with a reason.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.nodes import TRAIN, Node, Start, environ, linked, named, together
from tests.cluster.pytorchjob import pytorchjob
from tests.cluster.ray_nodes import ray
from tests.cluster.slurm import slurm
from tests.lab.run import BDOC, report_on

WORDS = {"data": "waiting for data", "cores": "ready without a core", "work": "in work of its own"}
HOGS = 3  # processes on the late rank's core: with six, Ray of that node does not come to train
LINK = "100mbit"  # the gradients are 1.2 MB a step
CLOSE = 0.05  # of a step, between what bdoc and a stopwatch in the loop say of the data wait


def main(argv: Sequence[str] | None = None) -> int:
    """Each engine with each cause; how many were named."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--engine", choices=sorted(ENGINES), action="append")
    parser.add_argument("--cause", action="append", help="only these")
    given = parser.parse_args(argv)
    right = tried = 0
    for engine in given.engine or ENGINES:
        start, causes = ENGINES[engine]
        with ExitStack() as stack:
            started = stack.enter_context(start())
            if isinstance(started, str):
                print(f"{engine}: skipped, {started}")
                continue
            for cause in causes:
                if given.cause and cause not in given.cause:
                    continue
                found, said = tell(started, cause)
                right, tried = right + found, tried + 1
                print(f"{engine}, {cause}: {'named' if found else 'NOT NAMED'}\n{said}", flush=True)
    print(f"{right} of {tried} named with their cause")
    return int(right < tried)


def tell(start: Start, cause: str) -> tuple[bool, str]:
    """Train and merge; whether that names the cause, and what it says."""
    with tempfile.TemporaryDirectory() as name, crowd(HOGS if cause == "cores" else 0):
        folder = Path(name)
        try:
            start(folder, cause)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return False, f"it did not train: {error}\n{_logs(folder)}"
        left = sorted(file.name for file in folder.glob("profile*"))
        done = subprocess.run([*BDOC, "merge", "."], cwd=name, env=environ(), capture_output=True, text=True)
        said = done.stdout + done.stderr
        if cause in WORDS:
            named = "rank 1 on " in said and WORDS[cause] in said
            return named, said if named else f"{said}{left}\n{_logs(folder)}"
        if cause == "link":
            verdict = report_on(folder / "profile.json")["verdict"]
            told = verdict["cause"] == "comm.allreduce" and "rank 1 on" not in said
            return told, f"{said}{verdict['bound']}, {verdict['cause']}: {verdict['summary']}\n"
        return as_by_stopwatch(folder)


def _logs(folder: Path) -> str:
    return "".join(file.read_text(errors="replace") for file in sorted(folder.glob("*.log")))


def as_by_stopwatch(folder: Path) -> tuple[bool, str]:
    """Whether each rank's data wait is what its loop has timed."""
    lines, close = [], True
    for file in sorted(folder.glob("profile.*.json")):
        told = report_on(file)
        share = told["metrics"]["data_wait_fraction"]["value"]
        timed = json.loads((folder / f"stopwatch.{file.name.split('.')[-2]}.json").read_text())["share"]
        close = close and share is not None and abs(share - timed) < CLOSE
        lines.append(
            f"{file.name}: data wait {share}, by the stopwatch {timed:.3f}; {told['verdict']['cause']}"
        )
    return close and len(lines) == 2, "\n".join(lines) + "\n"


@contextmanager
def crowd(count: int) -> Iterator[None]:
    """So many processes that compute on the last rank's core."""
    core = sorted(os.sched_getaffinity(0))[1]
    # Until we are gone, however we end: a hog that stays spoils whatever is timed next.
    pinned = f"import os\nos.sched_setaffinity(0, {{{core}}})\n"
    loop = f"{pinned}while os.getppid() == {os.getpid()}: sum(range(9999))"
    # In sessions of their own: the kernel shares cores out to sessions first (autogroup); Slurm makes some.
    line = [sys.executable, "-c", loop]
    hogs = [subprocess.Popen(line, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for one in hogs:
            one.kill()
            one.wait()


def free_port() -> int:
    """One on which nobody listens."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


@contextmanager
def torchrun() -> Iterator[Start | str]:
    """Two agents that meet on this machine."""
    with named() as nodes:
        yield nodes if isinstance(nodes, str) else lambda folder, cause: _two_agents(nodes, folder, cause)


@contextmanager
def slow_link() -> Iterator[Start | str]:
    """Two agents with a network between them, to which the last one sends slowly."""
    with linked(LINK) as nodes:
        yield nodes if isinstance(nodes, str) else lambda folder, cause: _two_agents(nodes, folder, cause)


def _two_agents(nodes: list[Node], folder: Path, cause: str) -> None:
    variables = environ(LATE=cause, GLOO_SOCKET_IFNAME=nodes[0].device)
    meeting = ["--master-addr", nodes[0].address, "--master-port", str(free_port())]
    line = [*BDOC, "run", "-m", "torch.distributed.run", "--nnodes", "2", *meeting, "--node-rank"]
    together(folder, *(([*one.inside, *line, str(rank), TRAIN], variables) for rank, one in enumerate(nodes)))


@contextmanager
def slurmd() -> Iterator[Start | str]:
    """Two daemons and their controller, in a folder that goes with them."""
    with slurm(("node0", "node1")) as conf:
        if conf.startswith("/"):
            yield lambda folder, cause: _srun(conf, folder, cause)
        else:
            yield conf


def _srun(conf: str, folder: Path, cause: str) -> None:
    line = ["srun", "--nodes", "2", "--ntasks-per-node", "1", *BDOC, "run", TRAIN]
    variables = environ(SLURM_CONF=conf, MEETING=f"127.0.0.1:{free_port()}", LATE=cause)
    together(folder, (line, variables))


Engine = tuple[Any, tuple[str, ...]]
ENGINES: dict[str, Engine] = {
    "torchrun": (torchrun, tuple(WORDS)),
    "slow-link": (slow_link, ("link",)),
    "slurm": (slurmd, tuple(WORDS)),
    "pytorchjob": (pytorchjob, tuple(WORDS)),
    "ray": (ray, (*WORDS, "ray-data")),
}

if __name__ == "__main__":
    sys.exit(main())
