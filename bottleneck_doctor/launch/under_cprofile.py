"""Runs a script or module under cProfile: ``python under_cprofile.py OUTPUT [-m] TARGET [ARGS]…``.

Unlike ``python -m cProfile`` it passes the exit status on, and ``__main__`` is the user's, so that spawned
loader workers find their classes. ``sys.argv`` and ``__file__`` are what Python makes them.
"""

from __future__ import annotations

import builtins
import cProfile
import io
import os
import pkgutil
import runpy
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType


def run(output: str, target: str, args: list[str], module: bool) -> None:
    """As Python would run it; the profile is written however that ends, save for ``os._exit`` and signals."""
    sys.argv[:] = [target, *args]
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(target))
    profiler, pid = cProfile.Profile(), os.getpid()
    try:
        if module:
            profiler.runcall(runpy.run_module, target, run_name="__main__", alter_sys=True)
        else:
            profiler.runcall(_run_file, target)
    finally:
        if os.getpid() == pid:  # a forked child that leaves through here has nothing of its own to tell
            with suppress(OSError):  # the supervisor sees that there is no file, and says so
                profiler.dump_stats(output)


def _run_file(target: str) -> None:
    """A script, in a ``__main__`` that stays until Python ends, as threads and exit handlers expect. runpy
    would put the absolute path into ``sys.argv``; folders, archives and compiled files are left to it."""
    path = os.path.abspath(target)
    if pkgutil.get_importer(path) is not None or path.endswith(".pyc"):
        runpy.run_path(path, run_name="__main__")
        return
    main = ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    vars(main).update(__file__=path, __cached__=None, __loader__=loader, __builtins__=builtins)
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _hide_ours() -> None:
    """A traceback shows the script's frames only, as it would without us."""
    show, hidden = sys.excepthook, (__file__, cProfile.__file__, runpy.__file__, "<frozen runpy>")

    def show_users(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename in hidden:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = show_users


if __name__ == "__main__":
    _output, *_rest = sys.argv[1:]
    _module = _rest[0] == "-m"
    _target, *_args = _rest[_module:]
    try:
        run(_output, _target, _args, _module)
    except BaseException:
        _hide_ours()
        raise
