"""The stretches of a start follow each other, and a start that was not seen is not invented."""

from __future__ import annotations

from bottleneck_doctor.assemble.elapsed import read_startups
from tests.assemble.logs import Script, loader_fact, log, trains

S = 1_000_000_000
TOLD = {"fact": "startup", "torch_begin_ns": 2 * S, "torch_end_ns": 5 * S, "first_batch_ns": 11 * S,
        "imports_ns": S // 2}  # fmt: skip


def test_a_start_is_divided_at_torch_the_loader_and_the_first_batch() -> None:
    (start,) = read_startups([log([], facts=[TOLD, loader_fact(at_ns=9 * S)])], 0)
    spans = (start.before_torch_s, start.torch_s, start.before_loader_s, start.first_batch_s)
    assert [round(span, 3) for span in spans] == [2.0, 3.0, 4.0, 2.0]
    assert start.imports_s == 0.5


def test_without_a_loader_everything_leads_to_the_first_batch() -> None:
    (start,) = read_startups([log([], facts=[TOLD])], 0)
    assert (start.before_loader_s, start.first_batch_s) == (6.0, 0.0)


def test_torch_that_was_imported_unseen_leaves_no_start() -> None:
    assert read_startups([log([], facts=[{**TOLD, "torch_begin_ns": 0}]), log([])], 0) == []


def test_a_loop_without_a_loader_begins_at_its_first_backward_pass() -> None:
    script = Script()
    trains(script, 10_500.0)
    (start,) = read_startups([log(script.rows, facts=[{**TOLD, "first_batch_ns": 0}])], 0)
    assert round(start.before_loader_s, 3) == 5.5
