"""Where a report may be sent (``KIND:ADDRESS``, checked before the training starts), and the sending.

Each target is served by a process of its own, which may hang or fall without harm.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..model.errors import UsageError
from .data import ExportData


@dataclass(frozen=True)
class Destination:
    """``kind`` is a key of ``KINDS``; ``address`` may hold a name and a password."""

    kind: str
    address: str

    @property
    def shown(self) -> str:
        """For people: without a name, a password and a query."""
        return without_secrets(f"{self.kind}:{self.address}", self.address) if self.address else self.kind


def _is_web(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


# How a kind of target is written, and what its address must be; the extra of its name brings the library.
KINDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "otlp": ("otlp:http://HOST:4318", _is_web),
    "prometheus": ("prometheus:FILE.prom", re.compile(r".+\.prom").fullmatch),
    "mlflow": ("mlflow:[TRACKING-URI]", re.compile(r".*").fullmatch),
    "wandb": ("wandb:[[ENTITY/]PROJECT]", re.compile(r"(([^/#?%:]+/)?[^/#?%:]+)?").fullmatch),
    "tensorboard": ("tensorboard:DIR", re.compile(r".+").fullmatch),
}


def destinations(texts: list[str], origin: str) -> list[Destination]:
    """The targets, each once; empty texts, as of a variable that is unset, are none.

    Raises ``UsageError``, which names the kind alone: an address that is not understood may hold a password.
    """
    found = []
    for text in filter(None, texts):
        kind, _, address = text.partition(":")
        if kind not in KINDS:
            known = ", ".join(written for written, _ in KINDS.values())
            raise UsageError(f"{origin}: no target {kind[:20]!r}, there are {known}")
        written, fits = KINDS[kind]
        if not fits(address):
            raise UsageError(f"{origin} {kind}:…: expected {written}")
        found.append(Destination(kind, address))
    return list(dict.fromkeys(found))


def without_secrets(text: str, address: str) -> str:
    """A text about an address, without what stands in it before an @ or after a question mark."""
    address, _, query = address.partition("?")
    found = re.search(r"://(.*)@", address)
    user = found[1] if found else ""
    password = user.partition(":")[2]
    for secret in (f"?{query}", query, f"{user}@", unquote(password), password, user):
        if len(secret) > 1:
            text = text.replace(secret, "")
    return re.sub(r"://[^/\s]*@", "://", text)


LIMIT_S = 60.0  # for importing the library and all that it sends; a server has ANSWER_S to answer
TEXT_AT_MOST = 300  # characters of what a library says of its failure
HOME = str(Path(__file__).resolve().parents[2])  # of the package: sys.path may hold relative folders
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
    answer = without_secrets(done.stdout.decode(errors="replace"), to.address)
    text = " ".join(answer.split())[:TEXT_AT_MOST]
    if done.returncode == 0:
        return True, f"exported to {to.shown}{text and ': '}{text}"
    return False, f"not exported to {to.shown}: {text or f'its process ended with {done.returncode}'}"


def carry_out(to: Destination, data: ExportData) -> None:
    """In the process of its own: send, write to stdout what came of it, and end it. What libraries print goes
    to stderr."""
    from . import carriers

    answer = os.dup(1)
    os.dup2(2, 1)
    status = 1
    try:
        text = getattr(carriers, to.kind)(to.address, data)
        status = 0
    except ImportError as problem:
        text = f"{problem}; pip install 'bottleneck-doctor[{to.kind}]' brings the library"
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
    os.write(answer, text.encode(errors="replace"))
    sys.exit(status)
