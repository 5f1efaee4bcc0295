"""Sends to all targets at once, each by a process of its own that may hang or fall without harm."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from .data import ExportData
from .targets import KINDS, Destination, without_secrets

LIMIT_S = 60.0  # for importing the library and all that it sends; a server has ANSWER_S to answer
TEXT_AT_MOST = 300  # characters of what a library says of its failure
HOME = str(
    Path(__file__).resolve().parents[2]
)  # of the package, should the path be relative to another folder
# -I: nothing in the user's folder may take the place of a library. The path is this process's own.
CHILD = "import pickle, sys; job = sys.stdin.buffer; sys.path[:] = pickle.load(job); pickle.load(job)()"


def send(data: ExportData, destinations: list[Destination]) -> Iterator[tuple[bool, str]]:
    """Of each destination, in their order: whether all of the data is there, and a sentence about it."""
    with ThreadPoolExecutor(max(1, len(destinations))) as pool:
        yield from pool.map(partial(_send, data), destinations)


def _send(data: ExportData, to: Destination) -> tuple[bool, str]:
    job = pickle.dumps([*sys.path, HOME]) + pickle.dumps(partial(carry_out, to, data))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", CHILD], input=job, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"not exported to {to.shown}: it took longer than {LIMIT_S:.0f} s"
    said = " ".join(without_secrets(done.stdout.decode(errors="replace"), to.address).split())[:TEXT_AT_MOST]
    if done.returncode == 0:
        return True, f"exported to {to.shown}{said and ': '}{said}"
    return False, f"not exported to {to.shown}: {said or f'its process ended with {done.returncode}'}"


def carry_out(to: Destination, data: ExportData) -> None:
    """In the process of its own: send, tell on stdout what came of it, and end it. What libraries print there
    goes to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    status, said = 1, ""
    try:
        said = importlib.import_module(f".{to.kind}", __package__).carry(to.address, data)
        status = 0
    except ImportError as problem:
        said = f"{problem}; pip install 'bottleneck-doctor[{KINDS[to.kind].extra}]' brings the library"
    except Exception as problem:
        said = f"{type(problem).__name__}: {problem}"
    os.write(answer, said.encode(errors="replace"))
    sys.exit(status)
