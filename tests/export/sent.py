"""A recorded run, what of its report must arrive anywhere, and a server that notes what it is sent."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bottleneck_doctor.commands.app import main
from tests.lab.golden import GOLDEN, read
from tests.lab.kept import report_of

KEPT = GOLDEN / "quickstarts"


def profile(folder: Path) -> str:
    """The run's profile as a file."""
    file = folder / "profile.json"
    file.write_bytes(read(KEPT, "plain.profile.json"))
    return str(file)


def export(folder: Path, target: str, report: str = "r.md") -> None:
    """``bdoc report`` of it writes this file, and sends the report there."""
    assert main(["report", profile(folder), "-o", str(folder / report), "--export", target]) == 0


@cache
def report() -> dict[str, Any]:
    """Its report, as ``--format json`` prints it."""
    return report_of(KEPT, "plain")


def numbers() -> dict[tuple[str, str, str], float]:
    """Each number that must arrive, from the JSON: by its name, its label, and which end of its interval."""
    found: dict[tuple[str, str, str], float] = {}

    def measured(name: str, label: str, value: float | None, low: float | None, high: float | None) -> None:
        if value is not None:
            ends = {"": value, "low": low, "high": high}
            found.update({(name, label, end): one for end, one in ends.items() if one is not None})

    for name, one in report()["metrics"].items():
        measured(name, "", one["value"], one["low"], one["high"])
    for resource, gain in report()["verdict"]["gain"].items():
        measured("gain", resource, gain, None, None)
    for remedy in report()["remedies"]:
        told = remedy["predicted_speedup"]
        measured("remedy_speedup", remedy["id"], told["likely"], told["low"], told["high"])
    measured("run_duration_s", "", report()["run"]["duration_s"], None, None)
    measured("run_exit_status", "", report()["run"]["exit_status"], None, None)
    return found


def named(prefix: str) -> dict[str, float]:
    """The same by one name each, for targets without labels."""
    return {prefix + ".".join(filter(None, key)): value for key, value in numbers().items()}


def verdict() -> dict[str, str]:
    """The words that must arrive as labels or tags."""
    said = report()["verdict"]
    first = report()["remedies"][0]["id"]
    return {**{name: said[name] for name in ("bound", "cause", "confidence")}, "remedy": first}


@dataclass(frozen=True)
class Request:
    """What was asked of the server."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@contextmanager
def receiver(status: int = 200) -> Iterator[tuple[str, list[Request]]]:
    """``HOST:PORT`` of a server that answers everything with ``status``, and what it has been asked."""
    asked: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        """Notes and answers."""

        def note(self) -> None:
            """Any method."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(Request(self.command, self.path, dict(self.headers), body))
            self.send_response(status)
            self.end_headers()

        do_PUT = do_POST = do_GET = note

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()


def of_labels(samples: list[tuple[str, dict[str, str], float]]) -> dict[tuple[str, str, str], float]:
    """Samples with names as targets with labels write them, in the shape of ``numbers``."""
    found = {}
    for written, labels, value in samples:
        name = re.fullmatch(r"bdoc[._](\w+?)(?:[._](low|high))?", written)
        assert name is not None, written
        found[name[1], labels.get("resource", labels.get("remedy", "")), name[2] or ""] = value
    return found
