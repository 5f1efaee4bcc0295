"""A process that has imported torch, and bdoc where that is asked for, and forks for each order.

For what needs a process of its own, but neither torch's import (3 s with the first optimizer) nor bdoc's
(half a second): a script, or ``bdoc run`` of one. The agent then finds torch already there, as it does where
a script calls ``arm()`` itself.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OF_BDOC = "cli run".split()  # commands; and what they import once a training has ended:
LATER = "assemble.profile render.terminal findings.registry findings.report".split()

Answer = tuple[int, bytes, bytes]  # exit status, stdout, stderr


class TorchServer:
    """The client's side of it; ``with_bdoc`` it can be ``bdoc run``."""

    def __init__(self, with_bdoc: bool) -> None:
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("BDOC_", "PYTHON"))
        }
        command = [sys.executable, __file__, *(["bdoc"] if with_bdoc else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True
        )
        atexit.register(self.process.terminate)

    def run(self, argv: Sequence[str], folder: Path, environ: dict[str, str], patience_s: float) -> Answer:
        """A script, or ``-m`` and a module, with its arguments; raises subprocess.TimeoutExpired."""
        return self._ask(patience_s, argv=list(argv), folder=str(folder), environ=environ)

    def watch(
        self,
        line: Iterable[str | bytes],
        folder: Path,
        environ: dict[str, str],
        patience_s: float,
        torch: bool = True,
        first: str = "",
    ) -> Answer:
        """The same of ``bdoc run``; ``torch``: imported already; ``first``: done in the supervisor."""
        argv = [os.fsdecode(one) for one in line]
        how = {"bdoc": True, "torch": torch, "first": first}
        return self._ask(patience_s, argv=argv, folder=str(folder), environ=environ, **how)

    def _ask(self, patience_s: float, **order: Any) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory(prefix="told-") as place:
            out, err = Path(place, "out"), Path(place, "err")
            self.process.stdin.write(json.dumps({**order, "out": str(out), "err": str(err)}) + "\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], patience_s)[0]:
                self.process.kill()
                server.cache_clear()
                raise subprocess.TimeoutExpired(order["argv"], patience_s, out.read_bytes(), err.read_bytes())
            return int(self.process.stdout.readline()), out.read_bytes(), err.read_bytes()


@cache
def server(with_bdoc: bool = False) -> TorchServer:
    """The server of this process, begun when first needed."""
    return TorchServer(with_bdoc)


def serve(with_bdoc: bool) -> dict[str, Any] | None:
    """Forks for each order; in the child returns that order, in the server None when there are no more."""
    import torch

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)  # brings in torch._dynamo
    if with_bdoc:
        sys.path.insert(1, str(ROOT))
        for name in [*(f"commands.{one}" for one in OF_BDOC), *LATER]:
            importlib.import_module(f"bottleneck_doctor.{name}")
        sys.modules["bottleneck_doctor.findings.registry"].families()
        del sys.path[1]
        gc.freeze()  # what bdoc has imported is no part of what a training collects
    for line in sys.stdin:
        child = os.fork()
        if not child:
            order: dict[str, Any] = json.loads(line)
            return order
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def begin(order: dict[str, Any]) -> None:
    """Make this process one that has just been started for the order."""
    files = [(os.devnull, os.O_RDONLY)] + [
        (order[end], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for end in ("out", "err")
    ]
    for number, (name, flags) in enumerate(files):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(order["folder"])
    tempfile.tempdir = None  # it is remembered of the server's environment
    if order.get("bdoc"):
        supervise(order)
    become(order["argv"], order["environ"])


def supervise(order: dict[str, Any]) -> None:
    """Be ``bdoc run``. Its training is forked now, while there is one thread, no handler and no file."""
    training = prepared() if order["torch"] else None
    os.environ.clear()
    os.environ.update(order["environ"])
    sys.argv = ["bdoc", "run", *order["argv"]]
    from bottleneck_doctor.commands.app import main
    from bottleneck_doctor.launch import supervise

    if training is not None:
        pid, writer = training

        def spawn(command: Any, environ: Mapping[str, str], mask: object) -> int:
            assert command.argv[0] == sys.executable, command.argv
            os.write(writer, json.dumps([command.argv[1:], dict(environ)]).encode())
            os.close(writer)
            return pid

        supervise.spawn = spawn
    exec(order["first"], {})
    raise SystemExit(main())


def prepared() -> tuple[int, int]:
    """The pid of a child that waits for its command and environment, and where to write these once."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(reader)
        return pid, writer
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read()
    if not told:  # bdoc refused
        os._exit(0)
    become(*json.loads(told))
    raise SystemExit  # not into what the supervisor does


def become(argv: list[str], environ: dict[str, str]) -> None:
    """Run a script, or ``-m`` and a module, as Python does, door included."""
    os.environ.clear()
    os.environ.update(environ)
    main = sys.modules["__main__"] = ModuleType("__main__")
    path = os.environ.get("PYTHONPATH")
    sys.path[1:1] = path.split(os.pathsep) if path else []
    sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        pass
    if argv[0] == "-m":
        sys.argv, sys.path[0] = argv[1:], os.getcwd()
        runpy._run_module_as_main(argv[1])  # type: ignore[attr-defined]
    else:
        file = os.path.abspath(argv[0])
        sys.argv, sys.path[0] = argv, os.path.dirname(file)
        vars(main).update(__file__=file, __builtins__=__builtins__, __cached__=None)
        with open(file, "rb") as script:
            exec(compile(script.read(), file, "exec"), vars(main))


def end(status: int) -> None:
    """Leave as Python does, but for taking torch's modules apart, which takes two thirds of a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    if (_order := serve("bdoc" in sys.argv)) is not None:
        try:
            begin(_order)
        except SystemExit as _end:
            if _end.code is not None and not isinstance(_end.code, int):
                raise
            end(_end.code or 0)
        end(0)
