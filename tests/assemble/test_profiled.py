"""The profiler's window counts as a step of the training, or not at all."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.assemble.computing import hold_up
from bottleneck_doctor.model.computing import DispatchBreakdown
from bottleneck_doctor.model.instruments import Operator
from bottleneck_doctor.model.loops import Epochs, Loop, StepTable

TABLE = StepTable(t=[1.0, 2.0], steps=[50, 50], wall_s=[0.6, 0.6], wait_s=[0.1, 0.1])
LOOP = Loop("1:1", 1, 0, "train", 100, 1.2, 0.2, Epochs(), TABLE, backwards=100)
WINDOW = DispatchBreakdown(1, 40, 0.01, 0.01, 0.008, 0.007, 0.006, 0.002, 0.001, [0.004], backwards=1)
OPERATORS = {1: [Operator("aten::mm", 6.0, 0.006)]}


def test_a_training_step_is_taken_as_it_is() -> None:
    assert hold_up([WINDOW], OPERATORS, [LOOP], []) == ([WINDOW], OPERATORS[1], [])


def test_a_window_without_a_backward_pass_is_no_training_step() -> None:
    anatomies, operators, gaps = hold_up([replace(WINDOW, backwards=0)], OPERATORS, [LOOP], [])
    assert (anatomies, operators) == ([], [])
    assert [one.what for one in gaps] == ["one profiled step"]


def test_it_is_all_there_is_where_nothing_is_trained() -> None:
    window = replace(WINDOW, backwards=0)
    inference = replace(LOOP, role="evaluation", backwards=0)
    assert hold_up([window], OPERATORS, [inference], []) == ([window], OPERATORS[1], [])


def test_another_process_that_only_tests_is_not_shown() -> None:
    parent = replace(WINDOW, pid=2, backwards=0)
    tables = {**OPERATORS, 2: [Operator("aten::mm", 900.0, 9.0)]}
    anatomies, operators, _ = hold_up([WINDOW, parent], tables, [LOOP], [])
    assert anatomies == [WINDOW]
    assert operators == OPERATORS[1]


def test_a_window_much_shorter_than_a_step_is_none() -> None:
    anatomies, operators, gaps = hold_up([replace(WINDOW, wall_s=0.001)], OPERATORS, [LOOP], [])
    assert (anatomies, operators, len(gaps)) == ([], [], 1)


def test_batches_that_were_fetched_ahead_are_counted() -> None:
    """Two micro-batches are fetched, and then computed: the window of one arrival saw both."""
    (anatomy,), (operator,), gaps = hold_up([replace(WINDOW, backwards=2, batches=2)], OPERATORS, [LOOP], [])
    assert (anatomy.operators, anatomy.cpu_s, anatomy.longest_operators_s) == (20, 0.005, [0.002])
    assert (operator.calls, operator.self_cpu_s) == (3.0, 0.003)
    assert gaps == []
