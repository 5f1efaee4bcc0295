"""Fleets that never were: recorded reports under other names, on other nodes and other days."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import decode_profile, encode_report
from tests.lab.golden import GOLDEN, read

RECORDED = GOLDEN / "accuracy"
# Of each kind of judgement some: savings of several causes, only bounds, healthy, too short.
KINDS = (
    "logging-blocking embedding-dense checkpoint-each-epoch spawned-workers estimate-loss augment-bound"
    " healthy-balanced too-short"
).split()
ENDED = datetime(2026, 11, 26, tzinfo=timezone.utc)
DAYS, LAST_DAYS = 35, 7
NOISE = 0.02  # between runs of a job, as the gate believes


@dataclass(frozen=True)
class Plan:
    """A fleet: how many runs, jobs and nodes; one job that got slower by a share."""

    runs: int
    jobs: int
    nodes: int
    seed: int = 0
    slowed_job: float = 0.0
    noise: float = NOISE
    kinds: tuple[str, ...] = tuple(KINDS)


SLOWED_JOB = 2


@cache
def recorded(kind: str) -> bytes:
    """The report of one recorded run, as `bdoc report --format json` prints it."""
    profile = read(RECORDED, f"{kind}.profile.json")
    return encode_report(write_up(decode_profile(profile)))


def job_name(number: int) -> str:
    """As the table has it."""
    return f"train_{number}.py --lr 0.1"


def texts(plan: Plan) -> Iterator[str]:
    """Each run's report as JSON."""
    draw = random.Random(plan.seed)
    sheets = [_sheet(plan, number) for number in range(plan.jobs)]
    for place in range(plan.runs):
        number = draw.randrange(plan.jobs)
        sheet, step = sheets[number]
        node = draw.randrange(plan.nodes)
        days = draw.random() * DAYS
        factor = math.exp(draw.gauss(0, plan.noise))
        if number == SLOWED_JOB and days < LAST_DAYS:
            factor *= 1 + plan.slowed_job
        began = ENDED - timedelta(days=days)
        yield (
            sheet.replace("@HOST@", f"node{node:03}")
            .replace("@AT@", began.isoformat(timespec="seconds"))
            .replace('"@DURATION@"', repr(3600 * draw.uniform(0.1, 9) + place * 1e-6))
            .replace('"@STEP@"', repr(step * factor))
            .replace('"@LOW@"', repr(step * factor * 0.99))
            .replace('"@HIGH@"', repr(step * factor * 1.01))
        )


def put(folder: Path, plan: Plan) -> None:
    """Each into a file of its own."""
    folder.mkdir(exist_ok=True)
    for place, text in enumerate(texts(plan)):
        (folder / f"{place}.json").write_text(text)


def reports(plan: Plan) -> list[dict[str, Any]]:
    """The same as plain dictionaries."""
    return [json.loads(text) for text in texts(plan)]


def _sheet(plan: Plan, number: int) -> tuple[str, float]:
    """A job's report with holes for what each run changes, and its step time; every fourth job has GPUs."""
    report = json.loads(recorded(plan.kinds[number % len(plan.kinds)]))
    gpus = ["NVIDIA H100"] * 8 if number % 4 == 0 else []
    machine = {"cpu": "EPYC", "cores": float(8 + number % 3 * 8), "gpus": gpus, "hosts": 1}
    report["run"] |= {
        "command": ["/opt/venv/bin/python", f"/home/user/train_{number}.py", "--lr", "0.1"],
        "host": "@HOST@", "started_at": "@AT@", "duration_s": "@DURATION@",
        "machine": report["run"]["machine"] | machine,
    }  # fmt: skip
    step = 0.05 * (1 + number % 7)
    report["metrics"]["step_time_s"] |= {"value": "@STEP@", "low": "@LOW@", "high": "@HIGH@"}
    return json.dumps(report, indent=2), step
