"""What is started by ``bdoc run``: the command with its interpreter and environment, and the run folder."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape, glob

from ..agent.wire import is_ours
from .signals import deferred, unwinding


def choose(requested: str | None = None) -> str:
    """The path of the interpreter: the one that was asked for, our own where it has torch, that of an
    environment that has, activated or in ./.venv, or what ``python`` is. ``bdoc`` may be installed apart from
    torch (uvx, pipx), so its own comes last."""
    if requested is not None:
        found = shutil.which(requested)
        why = f"--python {requested!r} is neither an executable file nor a command on PATH"
    else:
        spec = None
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec("torch")  # looked up only: importing costs seconds
        if sys.executable and spec is not None and spec.origin is not None:  # a stray folder has no origin
            return sys.executable
        usual = _usual()
        found = next(_with_torch(usual), None) or usual or sys.executable
        why = "no Python was found on PATH; name one with --python PATH"
    if not found:
        raise CannotStart("python-not-found", why)
    return found


def _with_torch(usual: str | None) -> Iterator[str]:
    """The Pythons that have torch: of an environment that is activated, the ``usual`` one, that of ./.venv,
    which no other user can have made or changed."""
    own, here = usual and os.path.dirname(os.path.dirname(usual)), ".venv"
    for place in filter(None, [os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"), own, here]):
        python = usual if place == own else os.path.join(place, "bin", "python")
        found = [*glob(f"{escape(place)}/lib/python3*/*-packages/torch/__init__.py")]
        found += glob(f"{escape(place)}/local/lib/python3*/*-packages/torch/__init__.py")
        with suppress(OSError):
            made = os.stat(place)
            trusted = place != here or (made.st_uid in (0, os.geteuid()) and not is_shared(made))
            if found and trusted and python and os.access(python, os.X_OK):
                yield python


def is_shared(found: os.stat_result) -> bool:
    """Whether users other than its owner may write to it. Where each user has a private group, files are
    group-writable by default (Ubuntu, Fedora: umask 002): the test of such a group is that of pam_umask."""
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others != stat.S_IWGRP:
        return bool(others)
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:  # containers often run as a number without a name
        return found.st_uid != found.st_gid
    own = (user.pw_gid, user.pw_name) == (group.gr_gid, group.gr_name)
    return not (own and {user.pw_name}.issuperset(group.gr_mem))


def _usual() -> str | None:
    """What ``python`` is, or python3. A tool's environment, which uvx puts first on PATH, is left out."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    tool = os.path.join(sys.prefix, "bin") if f"{os.sep}uv{os.sep}" in sys.prefix else None
    others = os.pathsep.join(entry for entry in path if entry != tool)
    return shutil.which("python", path=others) or shutil.which("python3", path=others)


def is_odd(python: str) -> bool:
    """Whether ``python SCRIPT`` in this shell would run another one."""
    usual = _usual()
    there = shutil.which(python)
    return bool(usual and there) and os.path.dirname(str(usual)) != os.path.dirname(str(there))


PREFIX = "BDOC_"
RUN = "BDOC_RUN"
AGENT = "BDOC_AGENT"


def instrumented(
    environ: Mapping[str, str],
    run_folder: str,
    inject_dir: str,
    agent_dir: str,
    settings: Mapping[str, object],
) -> dict[str, str]:
    """A copy of ``environ`` in which Python finds the agent; ``{"tracer": 9}`` becomes BDOC_TRACER=9.

    ``None`` leaves a setting out. Inside another ``bdoc run`` the inner one takes over completely: limits
    meant for the outer training must not end the inner one.
    """
    nested = RUN in environ
    result = {name: value for name, value in environ.items() if not (nested and name.startswith(PREFIX))}
    # An empty PYTHONPATH means none, yet an empty entry in a longer one means the working directory.
    first, path = os.path.abspath(inject_dir), environ.get("PYTHONPATH", "")
    others = [entry for entry in path.split(os.pathsep) if entry != first] if path else []
    result["PYTHONPATH"] = os.pathsep.join([first, *others])
    for name, value in settings.items():
        if value is not None:
            result[PREFIX + name.upper()] = str(value)
    result[RUN] = os.path.abspath(run_folder)
    result[AGENT] = os.path.abspath(agent_dir)
    return result


USAGE = 2


@dataclass(frozen=True)
class Command:
    """What to start. ``script`` is the path or module name as typed, None of a launcher's command."""

    argv: tuple[str, ...]
    script: str | None


class CannotStart(Exception):
    """The training was not started: which message this is, what to say, and the status to leave with."""

    def __init__(self, slug: str, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.slug = slug
        self.status = status


def plan(
    script: str | None, module: str | None, launcher: Sequence[str] | None, args: Sequence[str], python: str
) -> Command:
    """The command for exactly one of the three forms; ``args`` go through untouched.

    The script's path is checked, its text never read: Python reports a syntax error or a wrong encoding.
    """
    assert sum(form is not None for form in (script, module, launcher)) <= 1, "one form at a time"
    if launcher is not None:
        return _launcher([*launcher, *args], python)
    if module is not None:
        if not module or module.startswith("-"):
            raise CannotStart("module-name-missing", f"-m needs the name of a module, got {module!r}")
        return Command((python, "-m", module, *args), module)
    if script is None:
        raise CannotStart("nothing-to-run", "nothing to run: give a script, '-m MODULE' or '-- COMMAND'")
    if script != "-":  # as for Python itself, "-" reads the script from stdin
        _must_be_runnable(script)
    return Command((python, script, *args), script)


# Where programs that start trainings come from, by name.
ORIGINS = {
    "torchrun": "it comes with torch: activate the training's environment, or start "
    "`python -m torch.distributed.run`",
    "accelerate": "it comes with Hugging Face's Accelerate: activate the training's environment",
    "deepspeed": "it comes with DeepSpeed: activate the training's environment",
    "srun": "it comes with Slurm: start bdoc where `srun` is, or in the batch script",
    "mpirun": "it comes with MPI: on a cluster, `module load` it first",
    "mpiexec": "it comes with MPI: on a cluster, `module load` it first",
    "python": "activate the training's environment, or write python3",
}


def _launcher(argv: Sequence[str], python: str) -> Command:
    if not argv or not argv[0]:
        raise CannotStart("launcher-missing", "nothing to run: '--' must be followed by a command")
    name = argv[0]
    if shutil.which(name) is None:
        where = "is not an executable file" if os.sep in name else "was not found on PATH"
        near = os.path.join(os.path.dirname(python), name)  # of the training's environment
        there = os.sep not in name and os.path.isfile(near) and os.access(near, os.X_OK)
        do = f"write {near}" if there else ORIGINS.get(name, "check the spelling or give its path")
        message = f"cannot run {name!r}: it {where}; {do}"
        raise CannotStart("launcher-not-found", message)
    return Command(tuple(argv), None)


def _nearest(script: str) -> str:
    """The script of a similar name in the same folder; "" where there is none."""
    from difflib import get_close_matches  # a training need not wait for it

    folder, name = os.path.split(script)
    with suppress(OSError, ValueError):
        names = [one for one in os.listdir(folder or os.curdir) if one.endswith(".py")]
        near = get_close_matches(name, names, 1)
        return os.path.join(folder, near[0]) if near else ""
    return ""


def _must_be_runnable(script: str) -> None:
    if not os.path.exists(script):
        near = _nearest(script)
        advice = f"did you mean {near}?" if near else "check the path"
        if shutil.which(script):
            advice = f"a command follows '--': bdoc run -- {script} ..."
        message = f"script {script!r} does not exist, seen from {os.getcwd()!r}; {advice}"
        raise CannotStart("script-not-found", message)
    if os.path.isdir(script) and not os.path.isfile(os.path.join(script, "__main__.py")):
        message = f"script {script!r} is a directory without a __main__.py; name the file to run"
        raise CannotStart("script-is-directory", message)
    if not os.access(script, os.R_OK):
        message = f"script {script!r} cannot be read by this user; check its permissions"
        raise CannotStart("script-unreadable", message)


# What one process of the agent reserves at least; a place with less room is not used.
_PROBE_BYTES = 1 << 20
FOLDER_PREFIX = ".bdoc-run-"


@dataclass(frozen=True)
class RunFolder:
    """The folder where the agent writes; ``path`` is None when no folder could be made, for ``reason``."""

    path: str | None
    reason: str = ""


@contextmanager
def run_folder(places: Sequence[str] | None = None) -> Iterator[RunFolder]:
    """A run folder for the time of the block. Signals that would end us there unwind it first."""
    made = RunFolder(None)
    with unwinding():
        try:
            with deferred():
                made = create(places)
            yield made
        finally:
            with deferred():
                if made.path is not None:  # a process that outlives the run keeps what it has mapped
                    shutil.rmtree(made.path, ignore_errors=True)


def create(places: Sequence[str] | None = None) -> RunFolder:
    """A new folder (0700) in the first place that has room: TMPDIR, the system's, memory, here."""
    refusals = []
    for place in usual_places() if places is None else places:
        try:
            return RunFolder(_made_in(place))
        except OSError as error:
            refusals.append(f"{place}: {error.strerror or error}")
    tried = "; ".join(refusals)
    return RunFolder(None, f"no place for the run folder ({tried}); set TMPDIR to a writable folder")


def usual_places() -> list[str]:
    """Candidates in order of preference, each once."""
    asked = os.environ.get("TMPDIR")
    places = [asked] if asked else []
    return list(dict.fromkeys([*places, "/tmp", "/var/tmp", "/dev/shm", os.curdir]))


def _made_in(place: str) -> str:
    path = tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=os.path.abspath(place))
    try:
        if not is_ours(path) or os.lstat(path).st_mode & 0o077:
            raise OSError("its file system does not keep owners and modes")
        _reserve(os.path.join(path, "probe"))
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return path


def _reserve(path: str) -> None:
    """Take real blocks and give them back: a full disk still lets folders be made."""
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(file, 0, _PROBE_BYTES)
    finally:
        os.close(file)
        os.unlink(path)
