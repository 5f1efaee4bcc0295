"""A process that has imported torch and forks for each script, which then starts in a tenth of a second.

For scripts that need a process of their own but not torch's import (3 s with the first optimizer): the agent
then finds torch already there, as it does where a script calls ``arm()`` itself.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any


class TorchServer:
    """The client's side of it: one server for each process that runs tests, begun when first needed."""

    def __init__(self) -> None:
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("BDOC_", "PYTHON"))
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True
        )
        atexit.register(self.process.terminate)

    def run(self, script: Path, environ: dict[str, str], patience_s: float) -> tuple[int, str, str]:
        """(exit status, stdout, stderr) of a script in its own folder; raises subprocess.TimeoutExpired."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        out, err = script.with_name("stdout.txt"), script.with_name("stderr.txt")
        order = {"script": str(script), "environ": environ, "out": str(out), "err": str(err)}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], patience_s)[0]:
            self.process.kill()
            server.cache_clear()
            raise subprocess.TimeoutExpired(str(script), patience_s, out.read_bytes(), err.read_bytes())
        status = int(self.process.stdout.readline())
        return status, out.read_text(), err.read_text()


@cache
def server() -> TorchServer:
    """The server of this process."""
    return TorchServer()


def serve() -> dict[str, Any] | None:
    """Forks for each order; in the child returns that order, in the server None when there are no more."""
    import torch

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)  # brings in torch._dynamo
    for line in sys.stdin:
        child = os.fork()
        if not child:
            order: dict[str, Any] = json.loads(line)
            return order
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def become(order: dict[str, Any]) -> str:
    """Make this process one that has just been started for the script, door included; the script's text."""
    files = [(os.devnull, os.O_RDONLY)] + [
        (order[end], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for end in ("out", "err")
    ]
    for number, (name, flags) in enumerate(files):
        os.dup2(os.open(name, flags, 0o600), number)
    os.environ.clear()
    os.environ.update(order["environ"])
    script = Path(order["script"])
    os.chdir(script.parent)
    sys.argv, sys.path[0] = [str(script)], str(script.parent)
    if path := os.environ.get("PYTHONPATH"):
        sys.path[1:1] = path.split(os.pathsep)
        sys.modules.pop("sitecustomize", None)
        import sitecustomize  # noqa: F401
    return script.read_text()


if __name__ == "__main__":
    if (_order := serve()) is not None:
        __file__ = _order["script"]
        exec(compile(become(_order), __file__, "exec"))
