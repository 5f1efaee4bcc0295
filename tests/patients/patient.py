"""What can be known about a patient before anyone measures it."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ReadLimit:
    """A disk slower than the one at hand, as a cloud volume is: enforced by the kernel, where it lets us."""

    bytes_per_s: int | None = None
    reads_per_s: int | None = None


@dataclass(frozen=True)
class Patient:
    """One script and its known illness.

    ``remedies`` are the acceptable first ones: empty means that none may promise more than 1.05, ``None``
    that the remedy is not judged. ``scope`` is what the twin makes faster: the training "step", or the "run".
    ``twin`` is the remedy that ``--cured`` applies.
    ``truth`` says how the illness is known without measuring it. ``never`` lists remedies that would not
    help.
    ``strangers`` spin on its cores; ``limit``, ``memory_bytes`` and ``quota_cores`` are what control groups
    hold it to, where the kernel lets us.
    """

    name: str
    group: str
    bounds: frozenset[str]
    causes: frozenset[str]
    truth: str
    remedies: frozenset[str] | None = None
    twin: str | None = None
    never: frozenset[str] = frozenset()
    wait_tolerance: float | None = 0.02
    strangers: int = 0
    memory_bytes: int | None = None
    quota_cores: float | None = None
    limit: ReadLimit | None = None
    bounds_without_limit: frozenset[str] = field(default_factory=frozenset)
    scope: str = "step"


def script(patient: Patient) -> Path:
    """The patient's training script."""
    return Path(__file__).with_name(patient.name.replace("-", "_") + ".py")


def ids(*words: str) -> frozenset[str]:
    """Several acceptable answers."""
    return frozenset(words)


NONE: frozenset[str] = frozenset()
