"""Slurm on this machine: a controller and several ``slurmd``, as root, ended with their folder."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
CONFIGURATION = """\
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ReturnToService=2
PartitionName=all Nodes={nodes} Default=YES State=UP MaxTime=INFINITE
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores}\n"
PATIENCE_S = 60.0


@contextmanager
def slurm(nodes: Sequence[str]) -> Iterator[str]:
    """The configuration's path once all nodes are idle; else why not, which does not begin with a slash."""
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if absent or os.geteuid():
        yield f"{absent[0]} is not installed" if absent else "its daemons want root"
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # tasks read the configuration
        (folder / "state").mkdir()
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(host=host, folder=folder, nodes=",".join(nodes))
        for place, node in enumerate(nodes):
            text += NODE.format(name=node, host=host, port=17001 + place, cores=os.cpu_count())
        conf = folder / "slurm.conf"
        conf.write_text(text)
        daemons = [["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in nodes)]
        environ = {**os.environ, "SLURM_CONF": str(conf)}
        daemons.insert(0, _munged(folder))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environ}
        running = [subprocess.Popen(line, **quiet) for line in daemons]  # type: ignore[call-overload]
        try:
            yield str(conf) if _idle(environ, len(nodes)) else "its nodes did not come up"
        finally:
            for one in reversed(running):
                one.terminate()
                one.wait()


def _munged(folder: Path) -> list[str]:
    """One of our own, whether or not the machine runs another."""
    key = folder / "munge.key"
    key.touch(mode=0o400)
    key.write_bytes(os.urandom(128))
    files = {
        "key": key,
        "socket": "munge.socket",
        "pid": "munge.pid",
        "log": "munge.log",
        "seed": "munge.seed",
    }
    options = [
        f"--{name}{'' if name == 'socket' else '-file'}={folder / file}" for name, file in files.items()
    ]
    return ["munged", "--force", "--foreground", *options]


def _idle(environ: dict[str, str], nodes: int) -> bool:
    """Whether all nodes are, before patience ends."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        line = ["sinfo", "--noheader", "--Node", "--format", "%T"]
        done = subprocess.run(line, env=environ, capture_output=True, text=True, check=False)
        if done.stdout.split() == ["idle"] * nodes:
            return True
        time.sleep(0.5)
    return False
