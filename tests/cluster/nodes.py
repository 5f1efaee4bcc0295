"""Two nodes on this machine, as root: each with a host name and, where asked for, a network of its own."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.run import ROOT

Start = Callable[[Path, str], None]  # trains in a folder, late for that cause
TRAIN = str(Path(__file__).with_name("train.py"))
PATIENCE_S = 180.0
NAMED = ("unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"')


@dataclass(frozen=True)
class Node:
    """``inside`` stands before what is to run there; ``device`` is its network's."""

    name: str
    address: str
    device: str
    inside: tuple[str, ...]


def environ(**more: str) -> dict[str, str]:
    """Ours, with this checkout's ``bdoc``."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@contextmanager
def named() -> Iterator[list[Node] | str]:
    """Two that share this machine's network; else why not."""
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode:
        yield "this user may not make host names (unshare --uts)"
        return
    yield [Node(name, "127.0.0.1", "lo", (*NAMED, name)) for name in ("node0", "node1")]


@contextmanager
def linked(slow: str = "") -> Iterator[list[Node] | str]:
    """Two network namespaces with a cable that go with the block, or why not; the last sends ``slow``."""
    spaces = [f"bdoc-{os.getpid()}-{place}" for place in range(2)]
    nodes = []
    for place, space in enumerate(spaces):
        inside = ("ip", "netns", "exec", space, *NAMED, f"node{place}")
        nodes.append(Node(f"node{place}", f"10.77.0.{place + 1}", "cable", inside))
    with ExitStack() as stack:
        try:
            for space in spaces:
                _do("ip", "netns", "add", space)
                stack.callback(_do, "ip", "netns", "delete", space)
            ends = [["name", "cable", "netns", space] for space in spaces]
            _do("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
            for space, node in zip(spaces, nodes, strict=True):
                _do("ip", "-n", space, "address", "add", f"{node.address}/24", "dev", node.device)
                for device in ("lo", node.device):
                    _do("ip", "-n", space, "link", "set", device, "up")
            if slow:
                shape = ("tbf", "rate", slow, "burst", "64kb", "latency", "50ms")
                _do("tc", "-n", spaces[-1], "qdisc", "add", "dev", nodes[-1].device, "root", *shape)
        except (OSError, subprocess.CalledProcessError) as error:
            told = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
            yield f"no network namespaces can be made here: {told}"
            return
        yield nodes


def together(folder: Path, *starts: tuple[Sequence[str], dict[str, str]]) -> None:
    """Run commands beside each other, each with its environment; raises what one reported that failed."""
    running = []
    try:
        for place, (line, variables) in enumerate(starts):
            with (folder / f"{place}.log").open("w") as log:
                running.append(subprocess.Popen(line, cwd=folder, env=variables, stderr=log))
        for place, one in enumerate(running):
            if one.wait(timeout=PATIENCE_S):
                raise RuntimeError((folder / f"{place}.log").read_text())
    finally:
        for one in running:
            one.kill()


def _do(*line: str) -> None:
    subprocess.run(line, capture_output=True, text=True, check=True)
