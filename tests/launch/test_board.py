"""The supervisor's view of the agents: progress from their headers, orders through the control file."""

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.launch import board as boards
from bottleneck_doctor.launch.board import Board


def writer(folder: Path, **words: int) -> EventWriter:
    """What an agent would write: a file of rows whose header holds these words."""
    made = EventWriter(str(folder))
    for name, value in words.items():
        made.post(getattr(wire, name), value)
    return made


def header(folder: Path, name: str, magic: bytes = wire.MAGIC, version: int = wire.VERSION) -> None:
    """A file that pretends to be an agent's."""
    identity = wire.IDENTITY.pack(magic, version, wire.ROW.size, 7, 1, 1)
    words = bytearray(identity.ljust(wire.HEADER_BYTES, b"\0"))
    wire.WORD.pack_into(words, wire.STEPS, 5)
    wire.WORD.pack_into(words, wire.FIRST, 1)
    (folder / name).write_bytes(bytes(words))


def test_a_process_is_seen_from_the_refresh_after_its_birth(tmp_path: Path) -> None:
    board = Board(tmp_path)
    assert board.progress() == []
    agent = writer(tmp_path, STEPS=9, TRAINED=8, WAIT=7, FIRST=6, LAST=5, WINDOW=4, EPOCH_AT=3, FETCHING=4321)
    assert board.progress() == []
    board.refresh()
    (one,) = board.progress()
    assert (one.steps, one.trained, one.wait_ns, one.first_ns, one.last_ns, one.windows) == (9, 8, 7, 6, 5, 4)
    assert (one.epoch_at, one.profiled, board.fetching()) == (3, False, [(os.getpid(), 4321)])
    agent.post(wire.WINDOW_OPEN, 1)
    agent.post(wire.STEPS, 10)
    assert [(one.steps, one.profiled) for one in board.progress()] == [(10, True)]


def test_ranks_that_train_nothing_are_here_and_those_of_other_runs_are_not(tmp_path: Path) -> None:
    writer(tmp_path, STEPS=9, WORLD=4)
    writer(tmp_path, WORLD=4)  # it plays, and another one learns
    writer(tmp_path)  # a worker
    board = Board(tmp_path)
    board.refresh()
    assert [one.elsewhere for one in board.progress()] == [2]


@pytest.mark.parametrize("text", [b"", b"half a header", b"\0" * wire.HEADER_BYTES])
def test_a_file_that_is_not_whole_yet_is_taken_up_later(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "7-1.rows").write_bytes(text)
    board = Board(tmp_path)
    board.refresh()
    assert board.progress() == []
    header(tmp_path, "7-1.rows")
    board.refresh()
    assert [one.pid for one in board.progress()] == [7]


def test_an_order_stands_where_the_agents_look(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.stop_at(40)
    board.ask_for_profile(2)
    control = (tmp_path / "control").read_bytes()
    assert len(control) == wire.CONTROL_BYTES
    assert wire.WORD.unpack_from(control, wire.STOP_AT)[0] == 40
    assert wire.WORD.unpack_from(control, wire.PROFILE)[0] == 2


def test_an_agent_that_ended_its_training_has_said_so(tmp_path: Path) -> None:
    board = Board(tmp_path)
    agent = writer(tmp_path)
    agent.fact(fact="process", note='{"fact": "stopped"')
    assert not board.stopped()
    agent.fact(fact="stopped", trained=9)
    assert board.stopped()


def test_a_folder_that_is_gone_raises_nothing(tmp_path: Path) -> None:
    board = Board(tmp_path / "gone")
    board.refresh()
    board.stop_at(3)
    assert (board.progress(), board.fetching(), board.stopped()) == ([], [], False)


def test_of_processes_that_ended_the_first_and_the_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that are started anew for each epoch would fill the disk, and hide who comes later."""
    monkeypatch.setattr(boards, "PROCESSES_AT_MOST", 8)
    monkeypatch.setattr(boards, "KEPT_OF_ENDED", 3)
    writer(tmp_path, STEPS=5, FIRST=1)
    board, looker = Board(tmp_path), Board(tmp_path, in_command=False)
    ended = []
    for place in range(20):
        pid = os.fork()
        if pid == 0:
            writer(tmp_path).fact(fact="worker")
            os._exit(0)
        os.waitpid(pid, 0)
        ended.append(pid)
        looker.refresh()
        board.refresh()
        if place == 3:
            assert len(list(tmp_path.glob("*.rows"))) == 5, "there is room yet"
    left = {int(path.name.partition("-")[0]) for path in tmp_path.glob("*.rows")}
    assert left == {os.getpid(), *ended[:3], *ended[-3:]}
    assert len(list(tmp_path.glob("*.facts"))) == 6
    assert [gap.what for gap in board.gaps()] == ["14 worker processes"]
    writer(tmp_path, STEPS=7, FIRST=1)
    board.refresh()
    assert len(board.progress()) == 2, "who begins now is watched"
