"""What the suite goes through, one item after the other, and what is noted of each on the sheet."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.gpu import sheet, unharmed
from tests.gpu.examine import examine
from tests.gpu.expected import PATIENTS
from tests.gpu.measure import NotHere, Ward
from tests.gpu.sheet import Sheet
from tests.patients.patient import Patient

STEP_MS = (5.0, 1.0, 20.0)
PROMISED_AT_MS = 5.0
Item = tuple[str, Callable[["Rounds"], None]]


@dataclass(frozen=True)
class Rounds:
    """How thoroughly to look, where to put what is found, and whom to tell."""

    ward: Ward
    found: Sheet
    tell: Callable[[str], None]
    repeats: int = 1
    pairs: int = 3
    seconds: float = 6.0
    keep: Path | None = None


def waits(rounds: Rounds) -> None:
    """Calls that wait for the device, with and without bdoc."""
    seen = unharmed.waits(rounds.ward)
    rounds.found.lines["waits"], rounds.found.harm["waits"] = unharmed.waits_line(seen), not seen.same


def patient(one: Patient, rounds: Rounds) -> None:
    """One patient and its twin."""
    rounds.found.seen[one.name] = seen = examine(one, rounds.ward, rounds.repeats, rounds.keep)
    print(sheet.row(seen), flush=True)


def cost(step_ms: float, rounds: Rounds) -> None:
    """How much longer steps of this length are."""
    pairs = unharmed.cost(step_ms, rounds.pairs, rounds.seconds)
    name = f"cost-{step_ms:g}ms"
    rounds.found.lines[name] = unharmed.cost_line(step_ms, pairs)
    rounds.found.harm[name] = step_ms == PROMISED_AT_MS and unharmed.longer(pairs) > unharmed.MOST


# First what must do no harm, then the patients, then the cost.
ITEMS: tuple[Item, ...] = (
    ("waits", waits),
    *((one.name, partial(patient, one)) for one in PATIENTS),
    *((f"cost-{step_ms:g}ms", partial(cost, step_ms)) for step_ms in STEP_MS),
)


def go(rounds: Rounds, items: Iterable[Item], budget_s: float) -> None:
    """Do the items in turn, while there is time for one as long as the longest; none after Ctrl-C."""
    found, began, longest = rounds.found, time.monotonic(), 0.0
    for name, item in items:
        spent = time.monotonic() - began
        if spent + longest > budget_s:
            found.left_out.append(name)
            continue
        rounds.tell(f"{spent:4.0f} s: {name}")
        found.forget(name)
        try:
            item(rounds)
        except KeyboardInterrupt:
            budget_s = 0.0
            found.left_out.append(name)
        except NotHere as why:
            found.not_here[name] = str(why)
            rounds.tell(f"{name} not here: {why}")
        except Exception as why:
            found.failed[name] = f"{type(why).__name__}: {why}"
            rounds.tell(f"{name} failed: {found.failed[name]}")
        longest = max(longest, time.monotonic() - began - spent)
