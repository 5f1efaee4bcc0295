"""Where memory lies on a machine with two nodes; simulated, since few machines at hand have them."""

from __future__ import annotations

from bottleneck_doctor.sense.process_tree import AFTER_NS, Numa
from tests.sense.conftest import Plant

STAT = "7 (python) S 1 " + "0 " * 34 + "{core} 0 0"
MAPS = "7f00 default anon=30 dirty=30 N0=10 N1=20 kernelpagesize_kB=4\n7f99 default file=/x N1=10\n"


def files(core: int, nodes: int = 2) -> dict[str, str]:
    cpus = {f"sys/devices/system/node/node{n}/cpulist": f"{2 * n}-{2 * n + 1}\n" for n in range(nodes)}
    proc = {"proc/7/statm": "100 40 0", "proc/7/stat": STAT.format(core=core), "proc/7/numa_maps": MAPS}
    return cpus | proc


def test_the_share_of_pages_on_other_nodes_is_taken_once(plant: Plant) -> None:
    numa = Numa(0, plant(files(core=1)))
    assert numa.read(AFTER_NS - 1, [7]) == {}
    assert numa.read(AFTER_NS, [7]) == {"numa_remote_share": 0.75, "numa_pages": 40}
    assert numa.read(2 * AFTER_NS, [7]) == {}


def test_home_is_the_node_of_the_core_it_runs_on(plant: Plant) -> None:
    assert Numa(0, plant(files(core=3))).read(AFTER_NS, [7])["numa_remote_share"] == 0.25


def test_one_node_has_nothing_to_say(plant: Plant) -> None:
    assert Numa(0, plant(files(core=0, nodes=1))).read(AFTER_NS, [7]) == {}


def test_a_process_that_is_gone_says_nothing(plant: Plant) -> None:
    assert Numa(0, plant(files(core=0))).read(AFTER_NS, [8]) == {}
