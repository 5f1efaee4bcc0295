"""``python -m tests.others``: diagnose trainings of another author, try each cure, say who was right.

A training is a folder below ``trainings``: ``train.py`` as its author wrote it, who had read neither the
analysis nor its thresholds; ``prepare.py``, which makes its data (``train.py --prepare`` does where there is
none). ``truth.json`` says what slows each of them and how each cure changes the script or its environment. A
script ends with the line ``trained SECONDS``. What ``--keep`` files is held against later versions by a test:
no training is started there.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house import quoted
from tests.lab import golden, table
from tests.lab.judge import Judgement, Taken, judge
from tests.lab.kept import PROFILE, TAKEN, placeless, report_of
from tests.lab.run import diagnose, in_turn, succeed
from tests.lab.sets import put as put_row
from tests.patients.patient import Patient

HERE = Path(__file__).parent / "trainings"
KEPT = golden.GOLDEN / "others"
TRUTH: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("truth.json").read_text("utf-8"))
NAMES = sorted(TRUTH)
LIMIT_S = 300.0
USUAL = "train"  # the name of the run without a cure


@dataclass(frozen=True)
class Training:
    """One of them; ``cures`` by name: what they are, bdoc's remedy if it has one, how they are applied."""

    name: str
    patient: Patient
    cures: dict[str, dict[str, Any]]

    def script(self, cure: str) -> str:
        """The script's text with a cure applied."""
        text = (HERE / self.name / "train.py").read_text()
        for old, new in self.cures.get(cure, {}).get("edits", ()):
            assert "\n".join(old) in text, f"{self.name}: {cure} does not fit the script"
            text = text.replace("\n".join(old), "\n".join(new))
        return text


def read(name: str) -> Training:
    """The training of that name."""
    told = TRUTH[name]
    bounds, causes, remedies = (frozenset(told[one]) for one in ("bounds", "causes", "remedies"))
    patient = Patient(name, "others", bounds, causes, told["truth"], remedies=remedies)
    return Training(name, patient, told["cures"])


def judged(training: Training, report: dict[str, Any], trained_s: dict[str, list[float]]) -> Judgement:
    """The report held against what its author says and against the runs with the cures that bdoc knows."""
    tried = {
        cure["remedy"]: trained_s[name]
        for name, cure in training.cures.items()
        if cure["remedy"] and name in trained_s
    }
    return judge(training.patient, report, Taken({}, trained_s[USUAL], tried_s=tried))


def again(training: Training, without: Sequence[str] = ()) -> Judgement:
    """Diagnose the kept profile anew."""
    return judged(training, report_of(KEPT, training.name, without), trained_of(training.name))


def trained_of(name: str) -> dict[str, list[float]]:
    """How long the recorded runs trained, as the script is and with each cure."""
    trained_s: dict[str, list[float]] = json.loads(golden.read(KEPT, name + TAKEN))["trained_s"]
    return trained_s


def examine(training: Training, rounds: int, data: Path, keep: bool) -> Judgement:
    """One watched run, then the script as it is and with each cure, in turn."""
    arguments = _prepared(training, data)
    with tempfile.TemporaryDirectory(prefix="bdoc-others-") as name:
        profile, copy = Path(name) / "profile.json", Path(name) / "train.py"
        command = [str(HERE / training.name / "train.py"), *arguments]
        report = diagnose(profile, command, limit_s=LIMIT_S)

        def seconds_with(cure: str) -> float:
            copy.write_text(training.script(cure))
            settings = training.cures.get(cure, {}).get("environment", {})
            said = succeed([sys.executable, str(copy), *arguments], limit_s=LIMIT_S, **settings)
            return float(re.findall(r"^trained ([0-9.]+)$", said, re.MULTILINE)[-1])

        trained_s = in_turn(rounds, (USUAL, *training.cures), seconds_with)
        if keep:
            taken = json.dumps({"trained_s": trained_s}, indent=1) + "\n"
            members = {PROFILE: placeless(profile.read_text()), TAKEN: taken}
            golden.write(KEPT, {training.name + ending: text for ending, text in members.items()})
    return judged(training, report, trained_s)


def _prepared(training: Training, data: Path) -> list[str]:
    """The script's arguments, once its data are there: some scripts make theirs themselves."""
    home, folder = HERE / training.name, data / training.name
    arguments = ["--data", str(folder)]
    if (home / "prepare.py").exists():
        prepare = [str(home / "prepare.py"), str(folder)]
    elif "--prepare" in training.script(USUAL):
        prepare = [str(home / "train.py"), *arguments, "--prepare"]
    else:
        return []
    if not (folder / ".ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        succeed([sys.executable, *prepare], limit_s=LIMIT_S)
        (folder / ".ready").touch()
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Examine the chosen trainings one after the other."""
    parser = argparse.ArgumentParser(description="Diagnose trainings of another author.")
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each cure (default 2)")
    parser.add_argument("--again", action="store_true", help="diagnose the kept profiles, start nothing")
    parser.add_argument("--without", nargs="+", default=(), metavar="FACTS", help="with --again")
    parser.add_argument("--keep", action="store_true", help="file profiles and measurements")
    parser.add_argument("--write", action="store_true", help="renew this set's row in the table of sets")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "bdoc-others")
    given = parser.parse_args(argv)
    print(table.HEADER, flush=True)
    judgements = []
    for training in map(read, given.only):
        if given.again:
            found = again(training, given.without)
        else:
            found = examine(training, given.rounds, given.data, given.keep)
        judgements.append(found)
        print(table.row(found), flush=True)
        for one in found.tried:
            promised = f"×{one.likely:.2f}" if one.likely else f"at most ×{one.most:.2f}" if one.most else "–"
            print(f"|   {one.remedy}: promised {promised}, measured ×{one.measured:.2f}", flush=True)
    print(*table.summary(judgements), sep="\n")
    if given.write:
        put_row("others22-now", judgements)
        quoted.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
