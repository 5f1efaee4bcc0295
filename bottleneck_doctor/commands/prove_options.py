"""The options of ``bdoc prove`` that no other command has; ``commands/proving.py`` acts on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .options import DATA_FN, FORMAT, MAX_STEPS, MODULE, PYTHON, QUIET, Option
from .output import writable
from .run_options import length

BUDGET_S = Option[float | None](
    "budget", str, None, "All that it may take, like 30s or 1h.", "TIME",
    shown_default="5m, at most 10 times the first run", read=length,
)  # fmt: skip
PROFILE = Option[str | None]("profile", str, None, "Start from this profile of the same training.", "PROFILE")
REMEDIES = Option[list[str]]("remedy", list, [], "Try this remedy, and no other. Repeatable.", "ID")
ALLOW_NUMERICS = Option(
    "allow-numerics", bool, False, "Also try what changes numerics or the order of samples."
)
DRY_RUN = Option("dry-run", bool, False, "Say what would be tried and what it would cost.")
EXPECT = Option[list[str]](
    "expect", list, [], "Fail unless the measured speedup is so. Repeatable.", "'ID OP NUMBER'"
)
PROOF = Option[str | None](
    "output", str, None, "Also write the proof, as JSON.", "FILE", ("-o", "--output"), read=writable
)
WRITE_PATCH = Option[str | None](
    "write-patch", str, None, "Write the winner as a diff of your script.", "FILE", read=writable
)
# The table's is for whole trainings.
LONGEST = replace(MAX_STEPS, help="No run trains more than N steps.", in_table=())
PROVE: tuple[Option[Any], ...] = (
    MODULE, BUDGET_S, PROFILE, REMEDIES, ALLOW_NUMERICS, DRY_RUN, EXPECT, FORMAT, PROOF, WRITE_PATCH,
    LONGEST, PYTHON, DATA_FN, QUIET,
)  # fmt: skip
