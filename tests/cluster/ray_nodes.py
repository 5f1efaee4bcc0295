"""Ray on two nodes of this machine: ``bdoc run -- ray start --block`` on each, ended after the training."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.nodes import PATIENCE_S, Node, Start, environ, linked
from tests.lab.run import BDOC

SCRIPT = str(Path(__file__).with_name("train_on_ray.py"))
RAY = str(Path(sys.executable).with_name("ray"))
PORT = 6379
START_S = 180.0  # what a dozen processes of Ray may take to start beside processes that hog a core
VARIABLES = {
    "RAY_AUTH_MODE": "disabled",  # what runs here is reached from here alone
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
}


@contextmanager
def ray() -> Iterator[Start | str]:
    """A cluster for each training, and a network for all."""
    if importlib.util.find_spec("ray") is None:
        yield "ray is not installed (pip install 'ray[train,data]')"
        return
    with linked() as nodes:
        yield nodes if isinstance(nodes, str) else lambda folder, cause: _train(nodes, folder, cause)


def _train(nodes: list[Node], folder: Path, cause: str) -> None:
    head = f"{nodes[0].address}:{PORT}"
    variables = environ(**VARIABLES, GLOO_SOCKET_IFNAME=nodes[0].device)
    running = []
    try:
        for place, node in enumerate(nodes):
            joined = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
            joined = ["--address", head] if place else [*joined, "--temp-dir", str(folder / "ray")]
            start = [RAY, "start", "--block", "--node-ip-address", node.address, "--num-cpus", "2", *joined]
            with (folder / f"{node.name}.log").open("w") as log:
                line = [*node.inside, *BDOC, "run", "--", *start]
                running.append(subprocess.Popen(line, cwd=folder, env=variables, stdout=log, stderr=log))
        driver = [*nodes[0].inside, sys.executable, SCRIPT, head, cause]
        done = subprocess.run(
            driver, cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE_S + START_S
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
    finally:
        for one in reversed(running):
            one.terminate()
            one.wait()
