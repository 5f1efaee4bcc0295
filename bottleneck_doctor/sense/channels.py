"""Names what a thread sleeps in, from its system call, its wait channel, its state and its descriptor.

Wait channels are kernel functions and change their names between releases: they are matched by beginnings and
parts of names, and what matches nothing is ``other`` and is reported by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .calls import SOCKET_CALLS

# ``made`` is waiting for a thread of the same process, which runs.
CLASSES = (
    "running", "storage", "fault", "network", "remote", "sleep", "lock", "pipe", "poll", "other", "made"
)  # fmt: skip

# Beginnings of wait channels. Order matters: a FUSE or NFS wait is remote whatever the call.
TABLE = {
    "remote": """
        nfs rpc_ xprt_ fuse_ request_wait_answer cifs smb wait_for_response p9_ v9fs netfs_ ceph ll_ cl_sync
        cl_lock ptlrpc osc_ ldlm_ gpfs virtio_fs""",
    "sleep": "hrtimer_nanosleep do_nanosleep schedule_hrtimeout msleep",
    "lock": """
        futex rwsem down_read down_write rtmutex rt_mutex mutex __mutex __down flock locks_lock do_semtimedop
        pcpu_rwsem percpu_rwsem eventfd""",
    "network": "wait_woken sk_wait_data sk_stream_wait tcp_ inet_ __skb_wait udp_ unix_dgram",
    "pipe": "pipe_ anon_pipe fifo_ unix_stream wait_for_partner wait_for_space",
    "poll": "poll_schedule do_sys_poll do_poll do_select ep_poll do_epoll core_sys_select",
    "storage": """
        folio_ __folio wait_on_page __wait_on_page wait_on_buffer __wait_on_buffer __sync_dirty io_schedule
        bit_wait_io iomap_dio __iomap_dio blkdev_ __blkdev submit_bio bio_ blk_ rq_qos wbt_ rwb_ ioc_
        get_request jbd2 ext4 xfs xlog btrfs f2fs zfs cv_wait dm_ nvme read_extent filemap_ do_get_write
        balance_dirty dio_ __blockdev throtl read_events io_cqring wb_wait sync_""",
}
CHANNELS = tuple((name, tuple(beginnings.split())) for name, beginnings in TABLE.items())


@dataclass(frozen=True)
class Descriptor:
    """What a file descriptor leads to: file, block, inet, unix, pipe, network (a file elsewhere) or other."""

    kind: str
    path: str = ""


@dataclass(frozen=True)
class Wait:
    """One look at a waiting thread. ``call_kind``: as in calls.py, else fault, other, or "" if unreadable."""

    state: str
    channel: str
    call_kind: str
    call: str = ""


@lru_cache(maxsize=1024)
def class_of_channel(channel: str) -> str | None:
    """The class whose list holds the beginning of this wait channel, None when it is unknown."""
    for name, beginnings in CHANNELS:
        if channel.startswith(beginnings):
            return name
    return None


def classify(wait: Wait, descriptor: Descriptor | None, has_inet: bool) -> str:
    """One of CLASSES. ``has_inet``: whether the process has a connected internet socket (for polls)."""
    by_channel = class_of_channel(wait.channel)
    if by_channel == "remote":
        return "remote"
    if wait.call_kind in ("sleep", "lock"):
        return wait.call_kind
    if wait.call_kind == "poll" or (by_channel == "poll" and wait.call_kind != "descriptor"):
        return "network" if has_inet else "poll"
    if wait.call_kind == "fault":
        if by_channel in ("lock", "storage"):
            return "lock" if by_channel == "lock" else "fault"
        return "other" if wait.state == "S" else "fault"
    if wait.call_kind == "descriptor" and descriptor is not None:
        return _by_descriptor(wait, descriptor, by_channel)
    if by_channel is not None:
        return by_channel
    # Local file systems sleep uninterruptibly; a thread that has woken since (R) shows no channel any more.
    if wait.call_kind == "path":
        return "other" if wait.state == "S" else "storage"
    return "storage" if wait.state == "D" and wait.call_kind in ("descriptor", "") else "other"


def _by_descriptor(wait: Wait, descriptor: Descriptor, by_channel: str | None) -> str:
    if descriptor.kind == "network":
        return "remote"
    if descriptor.kind in ("inet", "unix", "pipe"):
        return {"inet": "network", "unix": "pipe", "pipe": "pipe"}[descriptor.kind]
    if wait.call in SOCKET_CALLS and by_channel is None:
        return "network"
    if by_channel is not None:
        return by_channel
    return "storage" if wait.state != "S" and descriptor.kind in ("file", "block") else "other"
