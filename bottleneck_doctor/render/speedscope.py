"""The sampled call paths as a file for speedscope.app: one profile per role, weighed in samples."""

from __future__ import annotations

import json

from ..model.picture import CallPaths, Picture
from ..model.report import Report
from . import words
from .frames import read_frame
from .hottest import ROLES

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
Value = dict[str, object]


def speedscope_file(report: Report, picture: Picture) -> str:
    """JSON of speedscope's own format, valid even where nothing was sampled; time it cannot tell, as samples
    are few and stand for no certain length."""
    frames: dict[str, int] = {}
    profiles = [profile for paths in picture.stacks for profile in _profiles(paths, frames)]
    name = words.plain(report.run.script or " ".join(report.run.command[:1]) or "bdoc")
    whole = {
        "$schema": SCHEMA,
        "name": name,
        "exporter": "bdoc",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(text, report.run.cwd) for text in frames]},
        "profiles": profiles,
    }
    return json.dumps(whole, separators=(",", ":")) + "\n"


def _profiles(paths: CallPaths, frames: dict[str, int]) -> list[Value]:
    """All samples of a role; and those found on or ready for a core, where that was looked at."""
    role = ROLES.get(paths.role, words.plain(paths.role))
    found = [_profile(role, [(path.frames, path.count) for path in paths.paths], frames)]
    if any(path.running for path in paths.paths):
        awake = [(path.frames, path.running or 0) for path in paths.paths]
        found.append(_profile(f"{role}, on CPU alone", awake, frames))
    return found


def _profile(name: str, weighed: list[tuple[list[str], int]], frames: dict[str, int]) -> Value:
    there = [(path, weight) for path, weight in weighed if weight > 0]
    return {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weight for _, weight in there),
        "samples": [[frames.setdefault(text, len(frames)) for text in path] for path, _ in there],
        "weights": [weight for _, weight in there],
    }


def _frame(text: str, cwd: str) -> Value:
    frame = read_frame(text, cwd)
    return {"name": frame.function, **({"file": frame.file, "line": frame.line} if frame.file else {})}
