"""Descriptors of another process lead to files, sockets and pipes, and answers are remembered briefly."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from bottleneck_doctor.sense import files as module
from bottleneck_doctor.sense.files import KEEP_LINK_NS, KEEP_SOCKETS_NS, Descriptors, Mount, read_mounts

ME = os.getpid()


def kind(descriptors: Descriptors, number: int) -> str | None:
    """What our own descriptor ``number`` is seen as."""
    found = descriptors.resolve(ME, number, 0)
    return found and found.kind


def test_each_kind_is_told_apart(tmp_path: Path) -> None:
    descriptors = Descriptors(read_mounts())
    reader, writer = os.pipe()
    with (
        (tmp_path / "x").open("w") as file,
        socket.socket() as inet,
        socket.socket(socket.AF_UNIX) as unix,
        open("/dev/null") as null,
    ):
        seen = [
            kind(descriptors, one if isinstance(one, int) else one.fileno())
            for one in (file, inet, unix, reader, writer, null)
        ]
        assert descriptors.resolve(ME, file.fileno(), 0) == module.Descriptor("file", str(tmp_path / "x"))
    os.close(reader)
    os.close(writer)
    assert seen == ["file", "inet", "unix", "pipe", "pipe", "other"]


def test_a_file_on_a_network_mount_is_elsewhere(tmp_path: Path) -> None:
    descriptors = Descriptors([Mount("/", "ext4", "/dev/sda1"), Mount(str(tmp_path), "nfs4", "filer:/x")])
    with (tmp_path / "x").open("w") as file:
        assert kind(descriptors, file.fileno()) == "network"


def test_what_is_gone_or_hidden_is_none() -> None:
    descriptors = Descriptors([])
    assert descriptors.resolve(ME, 10_000, 0) is None
    assert descriptors.resolve(2**22 + 1, 0, 0) is None
    assert not descriptors.has_inet(2**22 + 1, 0)


def test_an_answer_is_remembered_briefly(tmp_path: Path) -> None:
    descriptors = Descriptors([])
    with (tmp_path / "x").open("w") as file:
        number = file.fileno()
        descriptors.resolve(ME, number, 0)
    remembered = descriptors.resolve(ME, number, KEEP_LINK_NS - 1)
    assert remembered is not None
    assert remembered.path == str(tmp_path / "x")
    assert descriptors.resolve(ME, number, KEEP_LINK_NS) != remembered


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_only_a_connected_socket_makes_a_process_connected(
    family: socket.AddressFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        server = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)
    except OSError as error:
        pytest.skip(f"no loopback of {family.name} here: {error}")
    mine = {server.fileno()}
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [n for n in listed(path) if int(n) in mine])
    descriptors = Descriptors([])
    with server:
        assert not descriptors.has_inet(ME, 0)
        with socket.create_connection(server.getsockname()[:2]) as client:
            mine.add(client.fileno())
            assert not descriptors.has_inet(ME, KEEP_SOCKETS_NS - 1), "looked up more than once a second"
            assert descriptors.has_inet(ME, 2 * KEEP_SOCKETS_NS)


def test_a_pair_of_local_sockets_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = socket.socketpair()
    monkeypatch.setattr(os, "listdir", lambda _: [str(left.fileno()), str(right.fileno())])
    with left, right:
        assert not Descriptors([]).has_inet(ME, 0)
