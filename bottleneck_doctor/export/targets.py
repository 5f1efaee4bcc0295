"""Where a report may be sent: ``KIND:ADDRESS``, checked before the training starts, shown without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ..model.errors import UsageError


@dataclass(frozen=True)
class Destination:
    """``kind`` is a key of ``KINDS``; ``address`` may hold a name and a password."""

    kind: str
    address: str

    @property
    def shown(self) -> str:
        """For people: without a name, a password and a query."""
        return without_secrets(f"{self.kind}:{self.address}", self.address) if self.address else self.kind


@dataclass(frozen=True)
class Kind:
    """How a kind of target is written, the extra that brings its library, and what its address must be."""

    written: str
    extra: str
    address: Callable[[str], object]


def _is_web(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


KINDS = {
    "otlp": Kind("otlp:http://HOST:4318", "otlp", _is_web),
    "prometheus": Kind("prometheus:FILE.prom", "prometheus", re.compile(r".+\.prom").fullmatch),
    "pushgateway": Kind("pushgateway:http://HOST:9091", "prometheus", _is_web),
    "mlflow": Kind("mlflow:[TRACKING-URI]", "mlflow", re.compile(r".*").fullmatch),
    "wandb": Kind("wandb:[[ENTITY/]PROJECT]", "wandb", re.compile(r"(([^/#?%:]+/)?[^/#?%:]+)?").fullmatch),
    "tensorboard": Kind("tensorboard:DIR", "tensorboard", re.compile(r".+").fullmatch),
}


def destinations(texts: list[str], origin: str) -> list[Destination]:
    """The targets, each once; empty texts, as of a variable that is unset, are none.

    Raises ``UsageError``, which names the kind alone: an address that is not understood may hold a password.
    """
    found = []
    for text in filter(None, texts):
        kind, _, address = text.partition(":")
        if kind not in KINDS:
            known = ", ".join(one.written for one in KINDS.values())
            raise UsageError(f"{origin}: no target {kind[:20]!r}, there are {known}")
        if not KINDS[kind].address(address):
            raise UsageError(f"{origin} {kind}:…: expected {KINDS[kind].written}")
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
