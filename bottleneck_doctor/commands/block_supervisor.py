"""The process that supervises a block of another process, and writes its profile.

It reads and answers lines of JSON on its standard streams: a request to watch, answered with the
environment variables to set; then the end of the block, answered with the profile's path. It is orphaned at
once: no ``wait`` of the script's returns it, and its CPU time is not counted as the training's.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from ..launch.start import Command, run_folder, usual_places
from ..launch.supervise import Ended, accompany
from ..model.errors import UsageError
from ..sense.files import local_first
from .options import DATA_FN, NO_PATHS, NO_PROFILER, NO_PY_SPY, OUTPUT, QUIET, read_settings
from .output import with_folder, write
from .run import finished, of_its_ranks, with_agent
from .run_options import Form, Options, words_typed
from .session import Session

OPTIONS = (OUTPUT, NO_PROFILER, NO_PY_SPY, NO_PATHS, DATA_FN)


def main() -> None:
    """Serve the process at the other end of the standard streams, to its block's end or its own."""
    if os.fork():
        os._exit(0)
    asks, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    asked = json.loads(asks.readline())
    try:
        options = checked(asked["options"])
    except UsageError as problem:
        _answer(answers, refused=str(problem))
        return
    try:
        _watch(options, asked, asks, answers)
    except Exception as problem:
        _answer(answers, problem=f"{type(problem).__name__}: {problem}")


def checked(typed: Mapping[str, Any]) -> Options:
    """The options by their keys, else what pyproject.toml has; ``line`` is words as on a command line."""
    known = {one.key for one in OPTIONS}
    given = {**typed, **words_typed(typed.get("line", ()), OPTIONS)}
    given.pop("line", None)
    if strange := sorted(set(given) - known):
        raise UsageError(f"no option {strange[0]!r} here, there are {', '.join(sorted(known))}")
    settings = read_settings()
    values = {one: settings.of(one, given.get(one.key)) for one in OPTIONS}
    options = Options(Form(None), {**values, QUIET: True}, settings)
    with_folder(options[OUTPUT], "output")
    return options


def _watch(options: Options, asked: Mapping[str, Any], asks: TextIO, answers: TextIO) -> None:
    """Watch the block to its end, then write the profile and answer where it is."""
    from ..model.codec import encode_profile
    from ..source.files import unsaved

    command = Command(tuple(asked["argv"]), asked["script"])
    with run_folder(local_first(usual_places())) as folder:
        place = Path(folder.path) if folder.path else None
        session = Session(options, place, command=command.argv, script=command.script)
        session.prepare()
        began_ns = time.monotonic_ns()
        before = {"PYTHONPATH": asked["path"]} if asked["path"] else {}
        _answer(answers, environ=with_agent(before, folder.path, options) if folder.path is not None else {})
        notes = accompany(asked["pid"], session.tick, asks.fileno())
        # Nothing can be read where the process has ended within the block.
        end = json.loads(asks.readline() or "{}") if select.select([asks], [], [], 0)[0] else {}
        ended_ns = end.get("ended_ns", time.monotonic_ns())
        ended = Ended(asked["pid"], int(end.get("failed", False)), None, began_ns, ended_ns, notes)
        session.ended(ended)
        missing = [("hooks", folder.reason)] if folder.reason else []
        missing += [("settings", sentence) for sentence in options.settings.ignored]
        if not end:
            missing.append(("the end", "the process ended within the block that was watched"))
        cells = end.get("cells", {})
        unsaved.update({path: text for path, (_, text) in cells.items()})
        profile, problem = finished(
            session, ended, missing, {path: name for path, (name, _) in cells.items()}
        )
        if profile is None:
            _answer(answers, problem=problem)
            return
        output = os.path.abspath(of_its_ranks(options, profile)[OUTPUT])
        write(output, encode_profile(profile), "output", private=True)
        _answer(answers, path=output)


def _answer(stream: TextIO, **answer: Any) -> None:
    with suppress(OSError):  # the process that asked is gone
        print(json.dumps(answer), file=stream, flush=True)
