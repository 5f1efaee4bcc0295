"""What a thread sleeps in is named from call, channel, state and descriptor together."""

from __future__ import annotations

import pytest

from bottleneck_doctor.sense.wait_channels import (
    _CHANNELS,
    CLASSES,
    Descriptor,
    Wait,
    class_of_channel,
    classify,
)

FILE, INET, UNIX = Descriptor("file", "/data/x"), Descriptor("inet"), Descriptor("unix")
PIPE, TTY, MOUNTED = Descriptor("pipe"), Descriptor("other", "/dev/pts/1"), Descriptor("network", "/nfs/x")


@pytest.mark.parametrize(
    ("wait", "descriptor", "name"),
    [
        (Wait("D", "folio_wait_bit_common", "descriptor", "pread64"), FILE, "storage"),
        (Wait("D", "wait_on_page_bit_common", "descriptor", "read"), FILE, "storage"),
        (Wait("D", "__iomap_dio_rw", "descriptor", "preadv"), FILE, "storage"),
        (Wait("R", "", "descriptor", "read"), FILE, "storage"),
        (Wait("D", "a_new_kernel_function", "descriptor", "read"), FILE, "storage"),
        (Wait("D", "jbd2_log_wait_commit", "descriptor", "fsync"), None, "storage"),
        (Wait("D", "", "path", "openat"), None, "storage"),
        (Wait("D", "folio_wait_bit_common", "fault"), None, "fault"),
        (Wait("R", "", "fault"), None, "fault"),
        (Wait("D", "rwsem_down_read_slowpath", "fault"), None, "lock"),
        (Wait("S", "handle_userfault", "fault"), None, "other"),
        (Wait("S", "wait_woken", "descriptor", "recvfrom"), INET, "network"),
        (Wait("S", "wait_woken", "descriptor", "read"), None, "network"),
        (Wait("S", "sk_wait_data", "descriptor", "read"), INET, "network"),
        (Wait("S", "a_new_kernel_function", "descriptor", "recvmsg"), TTY, "network"),
        (Wait("S", "unix_stream_read_generic", "descriptor", "recvfrom"), UNIX, "pipe"),
        (Wait("S", "anon_pipe_read", "descriptor", "read"), PIPE, "pipe"),
        (Wait("S", "pipe_write", "descriptor", "write"), None, "pipe"),
        (Wait("S", "rpc_wait_bit_killable", "descriptor", "read"), FILE, "remote"),
        (Wait("D", "folio_wait_bit_common", "descriptor", "read"), MOUNTED, "remote"),
        (Wait("D", "nfs_wait_bit_killable", "path", "newfstatat"), None, "remote"),
        (Wait("S", "request_wait_answer", "path", "openat"), None, "remote"),
        (Wait("S", "ll_file_read", "", ""), None, "remote"),
        (Wait("S", "hrtimer_nanosleep", "sleep", "clock_nanosleep"), None, "sleep"),
        (Wait("S", "poll_schedule_timeout.constprop.0", "sleep", "select"), None, "sleep"),
        (Wait("S", "futex_wait_queue", "lock", "futex"), None, "lock"),
        (Wait("S", "", "lock", "futex"), None, "lock"),
        (Wait("S", "poll_schedule_timeout.constprop.0", "poll", "poll"), None, "poll"),
        (Wait("S", "schedule_hrtimeout_range_clock", "poll", "epoll_wait"), None, "poll"),
        (Wait("S", "n_tty_read", "descriptor", "read"), TTY, "other"),
        (Wait("S", "do_wait", "other", ""), None, "other"),
        (Wait("D", "io_schedule", "other", ""), None, "storage"),
        (Wait("D", "a_graphics_drivers_function", "other", ""), None, "other"),
        (Wait("S", "", "path", "openat"), None, "other"),
    ],
)
def test_a_wait_has_a_class(wait: Wait, descriptor: Descriptor | None, name: str) -> None:
    assert classify(wait, descriptor, has_inet=False) == name


@pytest.mark.parametrize("channel", ["poll_schedule_timeout", "do_epoll_wait", "ep_poll", ""])
def test_a_poll_is_network_when_the_process_is_connected(channel: str) -> None:
    assert classify(Wait("S", channel, "poll", "poll"), None, has_inet=True) == "network"


def test_a_connection_does_not_turn_other_waits_into_network() -> None:
    assert classify(Wait("S", "futex_do_wait", "lock", "futex"), None, has_inet=True) == "lock"
    assert classify(Wait("D", "folio_wait_bit", "descriptor", "read"), FILE, has_inet=True) == "storage"


@pytest.mark.parametrize(("state", "name"), [("D", "storage"), ("S", "other")])
def test_without_permission_only_the_state_speaks(state: str, name: str) -> None:
    assert classify(Wait(state, "", ""), None, has_inet=True) == name


def test_polling_is_not_taken_for_lustre() -> None:
    assert class_of_channel("poll_schedule_timeout") == "poll"


def test_every_table_names_a_class() -> None:
    assert set(_CHANNELS) <= set(CLASSES)
