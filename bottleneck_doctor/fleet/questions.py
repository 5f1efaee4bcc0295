"""What is asked of a fleet: waste by cause and by job, savings by remedy, jobs that got slower."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import duckdb

from ..model.errors import UsageError
from ..model.report import Fleet, Hours, RefusedFile, Saving, Slowed, Totals, Wasted
from .reading import reason

SHOWN = 20  # rows of an answer, and files that were refused
DAYS = 7  # of "last week", which is held against all that was before (chosen)
BETWEEN_RUNS = 0.02  # between runs of an unchanged job, as the gate and `bdoc compare` have it (docs/ci.md)
BELIEVED_WORTH = 4  # runs that BETWEEN_RUNS counts for, in addition to those seen, as in the gate
FEWEST_RUNS = 3  # a side: BELIEVED_WORTH + 2 x (3 - 1) = 8 degrees, from which `_low` knows Student's t
WRONG = 0.05  # the chance that a fleet in which nothing changed names any job


def ask(store: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows that a query of the user's own returns; raises ``UsageError``."""
    try:
        done = store.execute(sql)
        return [name for name, *_ in done.description or []], done.fetchall()
    except duckdb.Error as problem:
        raise UsageError(f"--sql: {reason(problem)}") from None


def answer(
    store: duckdb.DuckDBPyConnection,
    refused: list[RefusedFile],
    since: str | None = None,
    ignored: tuple[str, ...] = (),
) -> Fleet:
    """All answers over what the store holds. ``since`` (UTC) begins "last week", by default seven days before
    the latest run; arguments that are ``ignored`` do not tell jobs apart."""
    names = "|".join(map(_literal, ignored))
    store.execute(VIEW, [since, DAYS, rf" --?(?:{names})(?:[= ][^ ]+|$)" if names else "^$"])
    (began,) = _rows(store, "SELECT any_value(since)::VARCHAR FROM jobs")[0]
    jobs_compared, slowed = _slowed(store)
    return Fleet(
        _totals(store),
        _wasted(store, "NULL"),
        _wasted(store, "job"),
        _savings(store),
        began,
        jobs_compared,
        slowed[:SHOWN],
        len(refused),
        refused[:SHOWN],
    )


# A row for each run, which all questions are asked of.
VIEW = """
CREATE OR REPLACE TEMP TABLE jobs AS
WITH limits AS (
    SELECT coalesce(?::TIMESTAMP, max(started_at) - to_days(?)) AS since, sum(core_hours) AS cores,
        sum(gpu_hours) AS gpus FROM runs
)
SELECT run, regexp_replace(coalesce(job, '?'), ?, '', 'g') AS job, host, started_at, since, judged,
    wasted_cause, core_hours, gpu_hours, coalesce(wasted_share, 0) AS share,
    core_hours / nullif(limits.cores, 0) AS of_cores,
    gpu_hours / nullif(limits.gpus, 0) AS of_gpus, bound,
    CASE WHEN step_s BETWEEN 1e-9 AND 1e9 THEN ln(step_s) END AS step,
    least(1, ((step_high_s - step_low_s) / (3.29 * step_s)) ** 2) AS own,
    concat_ws(' · ', cpu, format('{:g} cores', runs.cores),
        CASE WHEN runs.gpus > 0 THEN runs.gpus || ' × ' || gpu END) AS hardware
FROM runs, limits"""


def _literal(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "_-" else f"[{sign}]" for sign in name.lstrip("-"))


def _totals(store: duckdb.DuckDBPyConnection) -> Totals:
    ((runs, jobs, nodes, first, last, core, gpu, wasted_core, wasted_gpu, *judged),) = _rows(
        store,
        """SELECT count(*), count(DISTINCT job), count(DISTINCT host), min(started_at)::VARCHAR,
        max(started_at)::VARCHAR, coalesce(sum(core_hours), 0), coalesce(sum(gpu_hours), 0),
        coalesce(sum(core_hours * share), 0), coalesce(sum(gpu_hours * share), 0),
        count(*) FILTER (judged = 'saving'), count(*) FILTER (judged = 'healthy'),
        count(*) FILTER (judged = 'unknown'), count(*) FILTER (judged = 'inconclusive') FROM jobs""",
    )
    ((reports,),) = _rows(store, "SELECT coalesce(sum(runs), 0) FROM files")
    taken, wasted = Hours(core, gpu), Hours(wasted_core, wasted_gpu)
    repeated = max(0, int(reports) - runs)
    return Totals(runs, jobs, nodes, first, last, taken, wasted, *[*judged, repeated])


def _wasted(store: duckdb.DuckDBPyConnection, by: str) -> list[Wasted]:
    """Most first, by the share of all core-hours or of all GPU-hours, whichever is larger."""
    found = _rows(
        store,
        f"""SELECT wasted_cause, count(*), sum(core_hours), sum(gpu_hours), sum(core_hours * share) AS core,
        sum(gpu_hours * share) AS gpu, {by} AS name FROM jobs WHERE judged = 'saving'
        GROUP BY wasted_cause, name
        ORDER BY greatest(coalesce(sum(of_cores * share), 0), coalesce(sum(of_gpus * share), 0)) DESC,
        wasted_cause, name LIMIT {SHOWN}""",
    )
    return [
        Wasted(cause or "?", runs, Hours(cores, gpus), Hours(core, gpu), job)
        for cause, runs, cores, gpus, core, gpu, job in found
    ]


def _savings(store: duckdb.DuckDBPyConnection) -> list[Saving]:
    found = _rows(
        store,
        f"""SELECT remedy, mode(finding ORDER BY finding), count(*) FILTER (saved_share > 0) AS counted,
        coalesce(sum(core_hours * saved_share) FILTER (saved_share > 0), 0),
        coalesce(sum(gpu_hours * saved_share) FILTER (saved_share > 0), 0),
        count(*) FILTER (likely IS NULL) FROM remedies JOIN jobs USING (run)
        GROUP BY remedy HAVING counted > 0
        ORDER BY greatest(coalesce(sum(of_cores * saved_share) FILTER (saved_share > 0), 0),
        coalesce(sum(of_gpus * saved_share) FILTER (saved_share > 0), 0)) DESC, remedy LIMIT {SHOWN}""",
    )
    return [
        Saving(remedy, finding, runs, Hours(core, gpu), bound)
        for remedy, finding, runs, core, gpu, bound in found
    ]


def _slowed(store: duckdb.DuckDBPyConnection) -> tuple[int, list[Slowed]]:
    """How many jobs were compared, and those that got slower, by the logarithms of their steps. The noise
    between a job's runs is what they show, and what is believed of any job."""
    found = _rows(
        store,
        f"""WITH sides AS (SELECT job, hardware, started_at >= since AS late, step, coalesce(own, 0) AS own
            FROM jobs WHERE step IS NOT NULL AND bound <> 'inconclusive')
        SELECT job, hardware, avg(step) FILTER (NOT late), avg(step) FILTER (late),
            count(*) FILTER (NOT late) AS before, count(*) FILTER (late) AS after,
            coalesce(var_samp(step) FILTER (NOT late), 0) * (before - 1)
            + coalesce(var_samp(step) FILTER (late), 0) * (after - 1), avg(own)
        FROM sides GROUP BY ALL HAVING before >= {FEWEST_RUNS} AND after >= {FEWEST_RUNS}
        ORDER BY job, hardware""",
    )
    slowed = []
    for job, hardware, old, new, before, after, squares, own in found:
        low = _low(new - old, squares, before + after - 2, own, 1 / before + 1 / after, len(found))
        if low > BETWEEN_RUNS:
            change = math.expm1(new - old)
            slowed.append(Slowed(job, hardware, math.exp(old), math.exp(new), change, low, before, after))
    return len(found), sorted(slowed, key=lambda one: -one.low)


def _low(mean: float, squares: float, freedom: int, own: float, weight: float, compared: int) -> float:
    """The lower end of a mean change of logarithms, as a share, that holds for all ``compared`` at once.

    ``squares`` about the mean with their degrees of ``freedom`` say what runs differ by, and cannot say less
    than ``own``, the variance within a run; ``weight`` is the variance of the mean over that of one run.
    """
    total = BELIEVED_WORTH + freedom
    variance = max(own, (BELIEVED_WORTH * BETWEEN_RUNS**2 + squares) / total)
    z = NormalDist().inv_cdf(1 - WRONG / max(1, compared))
    # Student's t by its expansion about the normal (Abramowitz and Stegun 26.7.5); from 8 degrees on.
    t = z + (z**3 + z) / (4 * total) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * total**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * total**3)
    return math.expm1(mean - t * math.sqrt(variance * weight))


def _rows(store: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = store.execute(query).fetchall()
    return found
