"""Puts back, after each trial, what the user had before it and the script has overwritten or deleted.

The agent (``agent/trial/backup.py``) puts each such file aside and lists it in the trial's folder before
it is touched. Here the list is read, last line first; whatever is put back twice is put back once.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIST = "kept.jsonl"  # the agent's, in the trial's folder, and a copy with the files
WHERE = "where"  # the machine and container that the pid in a folder's name belongs to
HIDDEN = ".bdoc-kept-"  # of the folders that hold the files during a trial


@dataclass
class Backups:
    """What one command knows of all its trials: the paths that they made, which need no keeping, those that
    were put back, and those that were not, with the reason."""

    made: dict[str, None] = field(default_factory=dict)
    back: dict[str, None] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)

    def prepare(self, folder: Path) -> None:
        """Before a trial in this folder: what earlier ones made is none of the user's."""
        if self.made and not (folder / LIST).exists():
            lines = [json.dumps({"what": "made", "path": path}) + "\n" for path in self.made]
            (folder / LIST).write_text("".join(lines), encoding="utf-8")

    def put_back(self, folder: Path) -> bool:
        """After a trial, and all of its processes: everything is as it was. False where something could not
        be put back, and its list is still needed."""
        lines = list(_lines(folder / LIST))
        self.made.update((line["path"], None) for line in lines if line["what"] == "made")
        self.lost.update((line["path"], line["why"]) for line in lines if line["what"] == "left")
        failed = {}
        for line in reversed(lines):
            try:
                if _undone(line):
                    self.back[line["path"]] = None
            except OSError as problem:
                reason = problem.strerror or str(problem)
                lies = line.get("kept", line.get("to"))
                failed[line["path"]] = f"what it was lies in {lies} ({reason})"
        self.lost.update(failed)
        _tidy({os.path.dirname(line["kept"]) for line in lines if "kept" in line})
        if not failed:
            (folder / LIST).unlink(missing_ok=True)
        return not failed

    def restored(self) -> list[str]:
        """One sentence on all that was put back; none where nothing was."""
        if not self.back:
            return []
        first, *more = sorted(self.back)
        if not more:
            return [f"put back after the trials: {_near(first)}, which the script had overwritten"]
        files = "file" if len(more) == 1 else "files"
        also = f"{_near(first)} and {len(more)} more {files} that the script had overwritten"
        return [f"put back after the trials: {also}"]

    def failures(self) -> list[str]:
        """A sentence on each that was not put back."""
        return [f"not put back: {_near(path)}; {why}" for path, why in self.lost.items()]


def _undone(line: dict[str, Any]) -> bool:
    """Undo what one line tells of; whether a file of the user's was changed and is back."""
    what, path = line["what"], line["path"]
    if what == "folder":
        with suppress(OSError):
            os.makedirs(path)
            os.chmod(path, line["mode"])
    elif what == "renamed" and os.path.lexists(line["to"]):
        os.rename(line["to"], path)
    elif what == "alias" and _is(path, line["file"]) and os.lstat(path).st_nlink > 1:
        os.unlink(path)  # the file goes on under the name in the hidden folder
    elif what == "draft":
        _gone(line["kept"])
    elif what == "copied":
        _gone(line["kept"] + ".part")
        return os.path.lexists(line["kept"]) and _copied_back(line["kept"], path, line["file"])
    elif what in ("linked", "moved") and os.path.lexists(line["kept"]):
        return _moved_back(line["kept"], path)
    return False


def _moved_back(kept: str, path: str) -> bool:
    if os.path.lexists(path) and os.path.samestat(os.lstat(kept), os.lstat(path)):
        os.unlink(kept)  # one file with two names: what was about to happen to it did not
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.replace(kept, path)
    return True


def _copied_back(kept: str, path: str, file: list[int]) -> bool:
    """Into the file itself where it is still there: others may hold it open, or know it by another name."""
    if not _is(path, file):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.move(kept, path)
        return True
    changed = not filecmp.cmp(kept, path, shallow=False)
    if changed:
        with open(kept, "rb") as source, open(path, "r+b") as target:
            shutil.copyfileobj(source, target)
            target.truncate()
    shutil.copystat(kept, path)
    os.unlink(kept)
    return changed


def _is(path: str, file: list[int]) -> bool:
    """Whether it is the file that was noted, by file system and inode."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return [found.st_dev, found.st_ino] == file


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """The list's lines; one that was cut off when its writer was killed names nothing that was done."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    for line in text.splitlines():
        with suppress(ValueError):
            yield json.loads(line)


def _tidy(folders: set[str]) -> None:
    """Remove the hidden folders that hold no file any more."""
    for folder in folders:
        with suppress(OSError):
            if os.path.basename(folder).startswith(HIDDEN) and {LIST, WHERE}.issuperset(os.listdir(folder)):
                shutil.rmtree(folder)


def _gone(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _near(path: str) -> str:
    """As the user would write it from here."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
