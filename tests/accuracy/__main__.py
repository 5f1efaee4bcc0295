"""``python -m tests.accuracy``: diagnose every patient, measure its cured twin, print how right bdoc was."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.accuracy import page
from tests.accuracy.settings import KEPT, SETTINGS, enter, placed, recorded
from tests.house import quoted
from tests.lab import table
from tests.lab.judge import Judgement, Taken, judge
from tests.lab.kept import again, put
from tests.lab.options import chosen, machine, tell
from tests.lab.patients import limited, plain, watched, workers_advised
from tests.lab.run import in_turn
from tests.lab.sets import put as put_row
from tests.patients.expected import PATIENTS, Patient

FAST = (
    "loader-in-main host-cpu-saturated per-sample-indexing sleeping-loader healthy-balanced too-short".split()
)


def main(argv: Sequence[str] | None = None) -> int:
    """Examine the chosen patients one after the other; status 1 when a bound or a cause was wrong."""
    given = _arguments(argv)
    enter(SETTINGS[given.setting])  # the patients are built for two cores; what they start inherits these
    length = [] if given.seconds is None else ["--seconds", str(given.seconds)]
    print(table.HEADER, flush=True)
    judgements = []
    for number, patient in enumerate((placed(one, SETTINGS[given.setting]) for one in given.only), 1):
        tell(f"{number}/{len(given.only)} {patient.name}")
        if given.again is not None:
            judgement = again(given.again, patient, given.without)
        else:
            judgement = examine(patient, given.repeats, length, given.keep)
        if judgement is not None:
            judgements.append(judgement)
            print(table.row(judgement), flush=True)
    print(*table.summary(judgements), sep="\n")
    if given.write is not None:
        put_row("own", judgements)
        given.write.write_text(page.page(judgements, machine(), given.repeats, elsewhere()))
        quoted.main()
    right = [judgement.bound_right and judgement.cause_right for judgement in judgements]
    return 0 if all(right) and len(right) == len(given.only) else 1


def examine(patient: Patient, repeats: int, length: list[str], keep: Path | None = None) -> Judgement | None:
    """One watched run, then sick and cured in turn; ``None`` when bdoc gave no report."""
    if patient.name == "too-short":
        length = []
    with tempfile.TemporaryDirectory(prefix="bdoc-accuracy-") as name:
        folder = Path(name)
        seen = watched(patient, folder, length)
        if seen.report is None:
            tell(f"{patient.name}: bdoc gave no report; the run ended with {seen.status}\n{seen.stderr}")
            return None
        ways: dict[str, list[str]] = {"sick": []}
        if patient.twin:
            ways["cured"] = ["--cured", *workers_advised(patient.twin, seen.report)]
        repeats = repeats if patient.twin else 1
        runs = in_turn(repeats, ways, lambda way: plain(patient, folder, length, cured=ways[way]))
        taken_s = {way: [run.truth[f"{patient.scope}_mean_s"] for run in some] for way, some in runs.items()}
        same = all((run.stdout, run.status) == (seen.stdout, seen.status) for run in runs["sick"])
        taken = Taken(seen.truth, taken_s["sick"], taken_s.get("cured", []), limited(patient), same)
        if keep is not None:
            put(keep, patient, folder / "profile.json", taken)
    return judge(patient, seen.report, taken)


def elsewhere() -> dict[str, list[Judgement]]:
    """What was recorded in other settings, diagnosed by this version."""
    found = {}
    for name, setting in SETTINGS.items():
        if patients := recorded(name):
            found[setting.title] = [one for patient in patients if (one := again(KEPT / name, patient))]
    return found


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__)
    parser.add_argument("--only", type=chosen, default=list(PATIENTS), help="names, separated by commas")
    parser.add_argument("--repeats", type=int, default=2, help="sick and cured runs of each (default 2)")
    parser.add_argument("--fast", action="store_true", help="few patients, short runs, one repeat")
    parser.add_argument("--seconds", type=float, help="rough length of a sick run")
    parser.add_argument("--setting", choices=SETTINGS, default="usual", help="the machine to be")
    parser.add_argument("--keep", type=Path, help="keep profiles and what was measured in this folder")
    parser.add_argument("--again", type=Path, help="run nothing: diagnose what was kept in this folder")
    parser.add_argument("--without", nargs="+", default=(), metavar="FACTS", help="with --again")
    parser.add_argument("--write", type=Path, help="write the page to this file")
    given = parser.parse_args(argv)
    if given.fast:
        given.seconds, given.repeats = given.seconds or 5.0, 1
        if len(given.only) == len(PATIENTS):
            given.only = chosen(",".join(FAST))
    if len(given.only) == len(PATIENTS) and (names := SETTINGS[given.setting].patients):
        given.only = chosen(",".join(names))
    return given


if __name__ == "__main__":
    raise SystemExit(main())
