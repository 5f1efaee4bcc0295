"""Facts about computing are gathered whole, by process, and those of a later version are left out."""

from __future__ import annotations

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.computing import AT_MOST, COMPILATIONS_AT_MOST, read_computing
from bottleneck_doctor.assemble.fetches import Fetcher
from bottleneck_doctor.model.computing import Computing, Padding
from tests.assemble.logs import PID, log, row

SWITCHES = {"fact": "switches", "anomaly": False, "autocast": False, "invented_later": 3}


def test_a_run_of_an_older_agent_says_nothing() -> None:
    assert read_computing([log([])], {}, 0) == Computing()


def test_switches_noticed_later_join_those_read_at_first() -> None:
    facts = [SWITCHES, {"fact": "noticed", "switch": "anomaly"}, {"fact": "graph", "casts_weights": True}]
    (found,) = read_computing([log([], facts=facts)], {}, 0).switches
    assert (found.pid, found.anomaly, found.noticed, found.autocast) == (PID, False, ["anomaly"], True)


def test_without_a_graph_autocast_is_not_known_to_be_off() -> None:
    (found,) = read_computing([log([], facts=[SWITCHES])], {}, 0).switches
    assert found.autocast is None


def test_optimizers_and_steps_are_read_and_bounded() -> None:
    optimizer = {"fact": "optimizer", "name": "SGD", "tensors": 2, "invented_later": 1}
    found = read_computing([log([], facts=[optimizer] * (2 * AT_MOST))], {}, 0)
    assert len(found.optimizers) == AT_MOST
    assert (found.optimizers[0].name, found.optimizers[0].tensors) == ("SGD", 2)


def test_padding_is_summed_over_a_loaders_batches() -> None:
    rows = [row(wire.PADDING, t, 0, 100, 10 * t, thing=1) for t in (1, 2)]
    other = row(wire.PADDING, 3, 0, 100, 90, thing=2)
    fetcher = Fetcher(log([*rows, other]), -1, 1)
    assert read_computing([], {"1:1": [fetcher]}, 0).paddings == [Padding("1:1", 2, 200, 30)]


def test_compilation_is_a_short_table_of_running_totals() -> None:
    rows = [row(wire.COMPILED, t, 0, t, 0, 1_000_000 * t) for t in range(1, 3 * COMPILATIONS_AT_MOST)]
    (found,) = read_computing([log(rows)], {}, 0).compilations
    assert len(found.t) == len(found.frames) <= COMPILATIONS_AT_MOST
    assert (found.t[0], found.frames[0], found.seconds[0]) == (0.001, 1, 0.001)
