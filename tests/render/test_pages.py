"""The pages of bdoc explain, what bdoc env shows, and the progress line."""

import re
from dataclasses import replace
from pathlib import Path

from bottleneck_doctor import launch
from bottleneck_doctor.analyse.compare import METRIC_NAMES
from bottleneck_doctor.findings.ranking import EASE, EFFORT
from bottleneck_doctor.model.diagnosis import Proposal
from bottleneck_doctor.model.errors import BadProfile, Refused, UsageError
from bottleneck_doctor.model.instruments import Capability
from bottleneck_doctor.model.report import Fix
from bottleneck_doctor.render.glossary import APPLY, BOUND_PAGES, BOUNDS, EFFORTS, GAPS, MESSAGES, METRICS
from bottleneck_doctor.render.terminal import capabilities_text, index_of, list_pages, remedy_page, slug
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked

LAUNCH = Path(launch.__file__).parent
PACKAGE = LAUNCH.parent
FINDINGS = {
    "loader-in-main": "Every batch is made by the training process itself.\n\nGive it workers: workers-auto.",
    "workers-too-few": "Too few workers. `workers-auto` finds how many.",
    "decode-bound": "Decoding takes the time; not about workers-auto-tune.",
}


REMEDY = Proposal(
    "workers-auto", "make batches in 2 processes", Fix("give it workers", "DataLoader(ds, num_workers=2)"),
    apply="env", risk="memory",
)  # fmt: skip


def test_lists_and_pages_of_remedies_are_as_accepted() -> None:
    """Each id with its first sentence; each way once."""
    again = replace(REMEDY, fix=Fix("give it workers", "DataLoader(ds, num_workers=5)"))
    other = replace(REMEDY, fix=Fix("give it a thread", "Ahead(loader)"), risk="none")
    said = [list_pages(FINDINGS, 60), index_of({"input": [*FINDINGS]}, {"findings": FINDINGS}, 60)]
    said.append(remedy_page("workers-auto", {"a-b": REMEDY, "c-d": again, "e-f": other}))
    require_golden("pages.txt", "".join(said))


def test_levels_efforts_and_bounds_are_all_explained() -> None:
    assert list(APPLY) == list(EASE)
    assert list(EFFORTS) == list(EFFORT)
    assert set(BOUND_PAGES) == set(BOUNDS)


def test_every_gap_explained_is_one_that_there_is() -> None:
    files = [*PACKAGE.glob("sense/*.py"), *PACKAGE.glob("assemble/*.py"), *PACKAGE.glob("commands/*.py")]
    said = {slug(text) for file in files for text in re.findall(r'"([^"\n]{3,40})"', file.read_text())}
    assert set(GAPS) - said == set()


def test_every_metric_of_the_contract_has_a_page() -> None:
    assert list(METRICS) == list(METRIC_NAMES)


def test_every_slug_of_an_error_has_a_page() -> None:
    slugs = {error.slug for error in (Refused, UsageError, BadProfile)} | {"cannot-say"}
    for file in LAUNCH.glob("*.py"):
        slugs.update(re.findall(r'CannotStart\(\s*"([a-z-]+)"', file.read_text()))
    assert len(slugs) > 5
    assert slugs <= set(MESSAGES)


TABLE = [
    Capability("python and torch", True, "python 3.11.7 at /usr/bin/python, torch 2.13.0"),
    Capability("gpu counters", False, "no NVIDIA driver on this machine"),
    Capability(
        "what blocked threads wait for",
        False,
        "/proc/<pid>/syscall cannot be read: Operation not permitted",
        "sudo sysctl kernel.yama.ptrace_scope=0",
    ),
]


def test_what_can_be_measured_is_drawn_as_accepted_and_harmless() -> None:
    require_golden("env-80.txt", capabilities_text(TABLE, 80, False, "utf-8"))
    for attack in ATTACKS.values():
        drawn = capabilities_text(attacked(TABLE, attack), 80, False, "ascii")
        assert "\x1b" not in drawn
        assert drawn.isascii()
