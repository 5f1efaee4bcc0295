"""What the labs' command lines have in common: a choice by names, the machine, and how far they are."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from tests.lab.run import succeed
from tests.patients.expected import PATIENTS

T = TypeVar("T")


def among(known: Mapping[str, T], kind: str) -> Callable[[str], list[T]]:
    """The type of an option that takes names of these, separated by commas."""

    def pick(names: str) -> list[T]:
        wanted = [name.strip().replace("_", "-") for name in names.split(",")]
        if unknown := [name for name in wanted if name not in known]:
            raise argparse.ArgumentTypeError(f"no {kind} {unknown[0]!r}; there are {', '.join(known)}")
        return [known[name] for name in wanted]

    return pick


chosen = among({patient.name: patient for patient in PATIENTS}, "patient")


def machine() -> str:
    """What the numbers were taken on."""
    torch = succeed([sys.executable, "-c", "import torch; print(torch.__version__)"]).strip()
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, Linux {platform.release()}, Python {platform.python_version()}, torch {torch}"


def tell(text: str) -> None:
    """How far it is, on stderr: the table goes to stdout."""
    print(text, file=sys.stderr, flush=True)
