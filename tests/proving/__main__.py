"""``python -m tests.proving``: bdoc proves its remedies on patients, twins are measured by hand."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.lab.options import chosen, machine, tell
from tests.lab.patients import plain
from tests.lab.run import in_turn
from tests.patients.expected import Patient
from tests.proving import table
from tests.proving.judge import Evidence, ProofJudgement, judge
from tests.proving.proofs import again, as_long, as_told, proven, put, shortened

# For each remedy that bdoc can apply and that some twin applies, too, a patient or two. Not those whose disk
# or cores are held to a limit, which not every machine allows.
CHOSEN = """loader-in-main sleeping-loader storage-latency-bound per-sample-indexing ipc-overhead
    worker-respawn worker-threads workers-too-many repeated-deterministic-preprocess gc-pauses
    logging-blocking optimizer-for-loop anomaly-mode one-thread ddp-accum-sync""".split()


def main(argv: Sequence[str] | None = None) -> int:
    """Prove on the chosen patients one after the other; status 1 when a proof was wrong or failed."""
    given = _arguments(argv)
    # The patients are built for two cores; what they start inherits these.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    print(table.HEADER, flush=True)
    judgements = []
    for number, patient in enumerate(given.only, 1):
        tell(f"{number}/{len(given.only)} {patient.name}")
        taken = again(given.again, patient) if given.again else examine(patient, given)
        if taken is not None:
            judgements.append(judge(patient, taken))
            print(table.row(judgements[-1]), flush=True)
            if given.keep is not None:
                put(given.keep, patient, taken)
    print(*table.summary(judgements), sep="\n")
    if given.write is not None:
        given.write.write_text(table.page(judgements, machine(), given.repeats))
    return 0 if len(judgements) == len(given.only) and all(map(_is_right, judgements)) else 1


def examine(patient: Patient, given: argparse.Namespace) -> Evidence | None:
    """The proof, then slow and cured runs by hand in turn; ``None`` when bdoc gave no proof."""
    how = ["--allow-numerics", *(["--budget", given.budget] if given.budget else [])]
    with tempfile.TemporaryDirectory(prefix="bdoc-proving-") as name:
        folder = Path(name)
        seen = proven(patient, folder, how)
        if seen is None:
            return None
        ways, length = {"sick": [], "cured": as_told(patient, seen.proof)}, as_long(seen.told)
        runs = in_turn(given.repeats, ways, lambda way: plain(patient, folder, length, cured=ways[way]))
    sick_s, cured_s = ([run.truth[f"{patient.scope}_mean_s"] for run in some] for some in runs.values())
    return shortened(replace(seen, sick_s=sick_s, cured_s=cured_s))


def _is_right(judgement: ProofJudgement) -> bool:
    verdicts = (judgement.near, judgement.winner_right, judgement.parity_right)
    return False not in verdicts and not judgement.left and not judgement.crossing


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proving", description=__doc__)
    parser.add_argument("--only", type=chosen, default=chosen(",".join(CHOSEN)), help="names, with commas")
    parser.add_argument("--repeats", type=int, default=4, help="sick and cured runs by hand (default 4)")
    parser.add_argument("--budget", help="what each proof may take, like 90s (default: bdoc's own)")
    parser.add_argument("--keep", type=Path, help="keep what is judged in this folder")
    parser.add_argument("--again", type=Path, help="run nothing: judge what was kept in this folder")
    parser.add_argument("--write", type=Path, help="write the page to this file")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
