"""Runs a script or module under cProfile: ``python under_cprofile.py OUTPUT [-m] TARGET [ARGS]…``.

Unlike ``python -m cProfile`` it passes the exit status on, and ``__main__`` is the user's, so that spawned
loader workers find their classes.
"""

from __future__ import annotations

import cProfile
import os
import runpy
import sys


def run(output: str, target: str, args: list[str], module: bool) -> None:
    """As Python would run it; the profile is written however that ends, save for ``os._exit`` and signals."""
    sys.argv[:] = [target, *args]
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(target))
    profiler, pid = cProfile.Profile(), os.getpid()
    try:
        if module:
            profiler.runcall(runpy.run_module, target, run_name="__main__", alter_sys=True)
        else:
            profiler.runcall(runpy.run_path, os.path.abspath(target), run_name="__main__")
    finally:
        if os.getpid() == pid:  # a forked child that leaves through here has nothing of its own to tell
            _save(profiler, output)


def _told(error: Exception) -> None:
    """Says it as Python would, without the frames that are ours and not the script's."""
    ours = (__file__, cProfile.__file__, runpy.__file__, "<frozen runpy>")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _save(profiler: cProfile.Profile, output: str) -> None:
    try:
        profiler.dump_stats(output)
    except OSError:  # the supervisor sees that there is no file, and says so
        pass


if __name__ == "__main__":
    _output, *_rest = sys.argv[1:]
    _module = _rest[0] == "-m"
    _target, *_args = _rest[_module:]
    try:
        run(_output, _target, _args, _module)
    except Exception as _error:
        _told(_error)
        sys.exit(1)
