"""Runs the pods of the PyTorchJob that docs/clusters.md shows, without Kubernetes.

Their commands, each in a network of its own with a volume, told what the training operator tells them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.nodes import TRAIN, Node, Start, environ, linked, together

MANIFEST = Path(__file__).with_suffix(".yaml")
MOUNTED = 'mount -t tmpfs none /mnt && mkdir "$1" && mount --bind "$0" "$1" && shift && exec "$@"'
IMAGE = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
PORT = "23456"  # the operator's, where the manifest names none


@contextmanager
def pytorchjob() -> Iterator[Start | str]:
    """Its two pods."""
    with linked() as nodes:
        yield nodes if isinstance(nodes, str) else lambda folder, cause: _pods(nodes, folder, cause)


def _pods(nodes: list[Node], folder: Path, cause: str) -> None:
    job, _ = yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
    (folder / "train.py").symlink_to(TRAIN)
    replicas, pods = job["spec"]["pytorchReplicaSpecs"], []
    for rank, (node, kind) in enumerate(zip(nodes, ("Master", "Worker"), strict=True)):
        [container] = replicas[kind]["template"]["spec"]["containers"]
        told = _told(rank, len(nodes), nodes[0].address, job["spec"]["nprocPerNode"])
        name = f"{job['metadata']['name']}-{kind.lower()}-0"
        line = [*node.inside, *_volume(container, folder), *container["command"], *container["args"]]
        told |= {"HOSTNAME": name, "LATE": cause, "GLOO_SOCKET_IFNAME": node.device, "PATH": IMAGE}
        pods.append((line, environ(**told)))
    together(folder, *pods)


def _volume(container: dict[str, Any], folder: Path) -> list[str]:
    [path] = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "profiles"]
    return ["unshare", "--mount", "sh", "-c", MOUNTED, str(folder), path]


def _told(rank: int, ranks: int, address: str, processes: str) -> dict[str, str]:
    """The operator's variables [training-operator 1.9, controller.v1/pytorch/envvar.go], with an address."""
    meeting = {"MASTER_ADDR": address, "MASTER_PORT": PORT}
    return {
        **meeting,
        **{f"PET_{name}": value for name, value in meeting.items()},
        "PYTHONUNBUFFERED": "1",
        "WORLD_SIZE": str(ranks * int(processes)),
        "RANK": str(rank),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": processes,
        "PET_NNODES": str(ranks),
    }
