"""Folders in which killed loader workers left the sockets that they had handed tensors over."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "pymp-"  # as multiprocessing names them, in TMPDIR
KNOCK_S = 0.2


def found() -> frozenset[str]:
    """The paths of this user's folders of that kind."""
    parents = {os.environ.get("TMPDIR") or tempfile.gettempdir(), tempfile.gettempdir()}
    with suppress(OSError):
        folders = [one for parent in parents for one in Path(parent).glob(PREFIX + "*")]
        return frozenset(str(one) for one in folders if _is_ours(one))
    return frozenset()


def sweep(before: frozenset[str]) -> list[str]:
    """Remove the folders that appeared since and hold nothing but sockets that nobody hears; their paths. An
    empty one is left: whoever made it may be about to put its socket there."""
    removed = []
    for folder in sorted(found() - before):
        with suppress(OSError):
            inside = list(Path(folder).iterdir())
            if inside and all(path.is_socket() and not _is_heard(path) for path in inside):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def _is_ours(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and os.lstat(folder).st_uid == os.getuid()


def _is_heard(path: Path) -> bool:
    """Whether a process listens: by the kernel's list, or, beyond our network's namespace, by a knock."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as lines:
        if any(line.rstrip("\n").endswith(f" {path}") for line in lines):
            return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocker:
        knocker.settimeout(KNOCK_S)
        try:
            knocker.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
