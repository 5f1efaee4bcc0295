"""System call numbers of the two architectures that train models, grouped by what a thread waits for."""

from __future__ import annotations

import platform

ARCHITECTURES = ("x86_64", "aarch64")

# name, number on x86_64, number on aarch64; "-" where the architecture has no such call.
TABLE = {
    "descriptor": """
        read 0 63, write 1 64, fstat 5 80, lseek 8 62, pread64 17 67, pwrite64 18 68, readv 19 65,
        writev 20 66, sendfile 40 71, connect 42 203, accept 43 202, sendto 44 206, recvfrom 45 207,
        sendmsg 46 211, recvmsg 47 212, fsync 74 82, fdatasync 75 83, getdents 78 -, readahead 187 213,
        getdents64 217 61, fadvise64 221 223, splice 275 76, sync_file_range 277 84, accept4 288 242,
        preadv 295 69, pwritev 296 70, recvmmsg 299 243, sendmmsg 307 269, copy_file_range 326 285,
        preadv2 327 286, pwritev2 328 287""",
    "path": """
        open 2 -, stat 4 -, lstat 6 -, access 21 -, msync 26 227, madvise 28 233, execve 59 221, rename 82 -,
        mkdir 83 -, unlink 87 -, readlink 89 -, statfs 137 43, sync 162 81, io_getevents 208 4, openat 257 56,
        newfstatat 262 79, unlinkat 263 35, readlinkat 267 78, faccessat 269 48, statx 332 291,
        io_pgetevents 333 292, io_uring_enter 426 426, openat2 437 437, faccessat2 439 439""",
    "sleep": "nanosleep 35 101, clock_nanosleep 230 115",
    "lock": """
        semop 65 193, flock 73 32, futex 202 98, semtimedop 220 192, futex_waitv 449 449,
        futex_wait 455 455""",
    "poll": """
        poll 7 -, select 23 -, epoll_wait 232 -, pselect6 270 72, ppoll 271 73, epoll_pwait 281 22,
        epoll_pwait2 441 441""",
}
SOCKET_CALLS = frozenset("connect accept sendto recvfrom sendmsg recvmsg accept4 recvmmsg sendmmsg".split())


def call_numbers(machine: str | None = None) -> dict[int, tuple[str, str]]:
    """Number to (kind, name); empty on an architecture whose numbers we do not know."""
    machine = platform.machine() if machine is None else machine
    if machine not in ARCHITECTURES:
        return {}
    column = 1 + ARCHITECTURES.index(machine)
    rows = [(kind, entry.split()) for kind, text in TABLE.items() for entry in text.split(",")]
    return {int(words[column]): (kind, words[0]) for kind, words in rows if words[column] != "-"}
