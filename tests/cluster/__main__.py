"""``python -m tests.cluster``: two nodes on this machine, by real engines; one is late, and must be named.

torchrun: two agents, each under ``bdoc run`` and with a host name of its own (``unshare --uts``). Slurm: two
``slurmd``, and ``srun bdoc run``. An engine that is not here or may not be started is skipped, with a reason.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.slurm import slurm
from tests.lab.run import BDOC, ROOT

TRAIN = str(Path(__file__).with_name("train.py"))
CAUSES = {"data": "waiting for data", "cores": "ready without a core", "work": "in work of its own"}
PATIENCE_S = 180.0
HOGS = 6  # processes on the late rank's core
Start = Callable[[Path, str], None]  # trains in a folder, late for that cause


def main(argv: Sequence[str] | None = None) -> int:
    """Each engine with each cause; the number of late ranks that were named."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--engine", choices=sorted(ENGINES), action="append")
    given = parser.parse_args(argv)
    named = tried = 0
    for engine in given.engine or ENGINES:
        with ExitStack() as stack:
            started = stack.enter_context(ENGINES[engine]())
            if isinstance(started, str):
                print(f"{engine}: skipped, {started}")
                continue
            for cause, words in CAUSES.items():
                said = merged(started, cause)
                right = "rank 1 on " in said and words in said
                named, tried = named + right, tried + 1
                print(f"{engine}, late for {cause}: {'named' if right else 'NOT NAMED'}\n{said}", flush=True)
    print(f"{named} of {tried} late ranks named with their cause")
    return int(named < tried)


def merged(start: Start, cause: str) -> str:
    """Train, merge, and what that says of the ranks."""
    with tempfile.TemporaryDirectory() as name, crowd(HOGS if cause == "cores" else 0):
        start(Path(name), cause)
        done = subprocess.run([*BDOC, "merge", "."], cwd=name, env=environ(), capture_output=True, text=True)
        return done.stdout + done.stderr


def environ(**more: str) -> dict[str, str]:
    """Ours, with this checkout's ``bdoc``."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@contextmanager
def crowd(count: int) -> Iterator[None]:
    """So many processes that compute on the last rank's core."""
    core = sorted(os.sched_getaffinity(0))[1]
    loop = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
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
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode:
        yield "this user may not make host names (unshare --uts)"
        return
    yield _two_agents


def _two_agents(folder: Path, cause: str) -> None:
    port = free_port()
    agents = []
    for node in range(2):
        line = [*BDOC, "run", "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node),
                "--master-addr", "127.0.0.1", "--master-port", str(port), TRAIN, cause]  # fmt: skip
        command = ["unshare", "--uts", "sh", "-c", f'hostname node{node}; exec "$@"', "sh", *line]
        agents.append(subprocess.Popen(command, cwd=folder, env=environ(), stderr=subprocess.PIPE, text=True))
    for one in agents:
        _, said = one.communicate(timeout=PATIENCE_S)
        if one.returncode:
            raise RuntimeError(said)


@contextmanager
def slurmd() -> Iterator[Start | str]:
    """Two daemons and their controller, in a folder that goes with them."""
    with slurm(("node0", "node1")) as conf:
        if conf.startswith("/"):
            yield lambda folder, cause: _srun(conf, folder, cause)
        else:
            yield conf


def _srun(conf: str, folder: Path, cause: str) -> None:
    line = ["srun", "--nodes", "2", "--ntasks-per-node", "1", *BDOC, "run", TRAIN, cause]
    variables = environ(SLURM_CONF=conf, MEETING=f"127.0.0.1:{free_port()}")
    done = subprocess.run(line, cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise RuntimeError(done.stderr)


ENGINES: dict[str, Callable[[], contextmanager[Start | str]]] = {"torchrun": torchrun, "slurm": slurmd}  # type: ignore[valid-type]

if __name__ == "__main__":
    sys.exit(main())
