"""What a run writes for its watchers comes back whole, or not at all."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.codec import decode_live as decode
from bottleneck_doctor.model.codec import encode_live as encode
from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.model.run import Announcement, Ending, Lifetime, Machine, Run, Snapshot

RUN = Run(["python", "a.py"], "a.py", "/", "now", 1.5, 0)
MACHINE = Machine("host", "6.1", "cpu", 2, 2.0)
SNAPSHOT = Snapshot(
    RUN, MACHINE, 7, samples=[Sample(5, "system", {"cpu_busy_s": 1.5, "pressure_scope": "cgroup"})]
)


def test_an_announcement_comes_back_as_it_was() -> None:
    said = Announcement(Lifetime(7, 9), "here", ["python", "a.py"], "a.py", "/", "now", 5, "/p.json")
    assert decode(encode(said), Announcement) == said


def test_samples_come_back_with_their_numbers_and_words() -> None:
    assert decode(encode(SNAPSHOT), Snapshot) == SNAPSHOT


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'{"exit_status": "none"}', b"\xff\xfe"])
def test_what_is_torn_or_foreign_is_nothing(data: bytes) -> None:
    assert decode(data, Ending) is None
    assert decode(data, Announcement) is None
    assert decode(data, Snapshot) is None


def test_every_cut_of_a_snapshot_is_nothing_rather_than_an_error() -> None:
    data = encode(SNAPSHOT)
    assert [decode(data[:length], Snapshot) for length in range(len(data))] == [None] * len(data)


def test_a_path_that_is_no_unicode_is_escaped() -> None:
    said = Announcement(Lifetime(7, 9), "here", ["a\udcff.py"], None, "/", "now", 5, "/p.json")
    found = decode(encode(said), Announcement)
    assert found is not None
    assert found.command == ["a\\udcff.py"]
